//! PostgreSQL's names for types as Arrow displays them.

/// PostgreSQL's name of a type in a list of arguments.
pub(super) fn said_type(arrow: &str) -> String {
    let arrow = arrow.trim();
    let arrow = arrow.strip_prefix("non-null ").unwrap_or(arrow);
    if let Some(element) = inside(arrow, "List") {
        return format!("{}[]", said_type(element));
    }
    if let Some(pair) = inside(arrow, "Dictionary") {
        return said_type(pair.split_once(',').map_or(pair, |(_, value)| value));
    }
    match arrow {
        "Null" => "unknown",
        "Utf8" | "LargeUtf8" | "Utf8View" => "text",
        "Binary" | "LargeBinary" | "BinaryView" => "bytea",
        name if name.starts_with("Struct") => "record",
        name if name.starts_with("Timestamp") && name.contains('"') => "timestamp with time zone",
        name if name.starts_with("Timestamp") => "timestamp without time zone",
        name if name.starts_with("Time") => "time without time zone",
        name => said_cast(name),
    }
    .to_owned()
}

/// PostgreSQL's names of several types.
pub(super) fn said_types(arrow: &str) -> String {
    let (mut all, mut depth, mut begin) = (vec![], 0_i32, 0);
    for (at, character) in arrow.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                all.push(said_type(&arrow[begin..at]));
                begin = at + 1;
            }
            _ => {}
        }
    }
    if begin < arrow.len() {
        all.push(said_type(&arrow[begin..]));
    }
    all.join(", ")
}

/// PostgreSQL's name of a type in a cast error.
pub(super) fn said_cast(arrow: &str) -> &str {
    match arrow {
        "Int8" | "Int16" => "smallint",
        "Int32" => "integer",
        "Int64" => "bigint",
        "Float32" => "real",
        "Float64" => "double precision",
        "Boolean" => "boolean",
        "Date32" | "Date64" => "date",
        name if name.starts_with("Decimal") => "numeric",
        name if name.starts_with("Time") && !name.starts_with("Timestamp") => "time",
        name if name.starts_with("Timestamp") => "timestamp",
        name if name.starts_with("Interval") => "interval",
        other => other,
    }
}

fn inside<'a>(arrow: &'a str, of: &str) -> Option<&'a str> {
    let rest = arrow.strip_prefix("Large").unwrap_or(arrow);
    rest.strip_prefix(of)?.strip_prefix('(')?.strip_suffix(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_arguments() {
        let given = "Int32, List(Utf8), Timestamp(µs, \"UTC\"), Decimal128(10, 2), Null";
        let expected = "integer, text[], timestamp with time zone, numeric, unknown";
        assert_eq!(said_types(given), expected);
        assert_eq!(said_types(""), "");
    }
}
