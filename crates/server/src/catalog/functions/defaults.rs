//! Which default does an argument of a function have? Parses `pg_proc.proargdefaults`,
//! PostgreSQL's text of expression trees.
//!
//! The defaults of PostgreSQL's own functions are all constants, some inside an implicit cast. A
//! constant of an unknown type becomes an empty text; a test fails if there is one.

/// The text after DEFAULT.
pub(super) type Default = String;

/// The constants of a tree `({CONST …} {FUNCEXPR … :args ({CONST …}) …})`, in SQL.
pub(super) fn read(tree: &str) -> Vec<Default> {
    tree.split("{CONST ")
        .skip(1)
        .map(|constant| written(constant.split('}').next().unwrap_or_default()))
        .collect()
}

fn written(constant: &str) -> Default {
    let field = |name: &str| {
        let (_, rest) = constant.split_once(name)?;
        rest.split_whitespace().next()
    };
    let Some(of_type) = field(":consttype ") else {
        return Default::new();
    };
    let is_null = field(":constisnull ") == Some("true");
    let bytes: Vec<u8> = constant
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(bytes, _)| bytes.split_whitespace())
        .into_iter()
        .flatten()
        // The text shows bytes as signed numbers.
        .filter_map(|byte| byte.parse::<i16>().ok())
        .map(|byte| byte.to_le_bytes()[0])
        .collect();
    let shown = |value: &str, name: &str| format!("'{}'::{name}", value.replace('\'', "''"));
    match of_type {
        TEXT if is_null => "NULL::text".to_owned(),
        BOOL => (bytes.first() == Some(&1)).to_string(),
        INT4 => match bytes.first_chunk() {
            Some(bytes) => i32::from_le_bytes(*bytes).to_string(),
            None => Default::new(),
        },
        TEXT => match bytes.get(LENGTH_BYTES..).map(std::str::from_utf8) {
            Some(Ok(value)) => shown(value, "text"),
            _ => Default::new(),
        },
        // These types occur with empty values only: no element, no digit.
        JSONB if bytes.len() == 8 => shown("{}", "jsonb"),
        TEXTS if bytes.get(4..8) == Some(&[0; 4]) => shown("{}", "text[]"),
        NUMERIC if bytes.len() == 6 => match bytes.get(LENGTH_BYTES..) {
            Some([low, high]) => zero(u16::from_le_bytes([*low, *high])),
            _ => Default::new(),
        },
        _ => Default::new(),
    }
}

/// A numeric without digits: zero, with the scale from its header.
fn zero(header: u16) -> Default {
    let scale = usize::from((header & 0x1f80) >> 7);
    if scale == 0 {
        return "0".to_owned();
    }
    format!("0.{}", "0".repeat(scale))
}

/// A value of variable length begins with its length.
const LENGTH_BYTES: usize = 4;
const BOOL: &str = "16";
const INT4: &str = "23";
const TEXT: &str = "25";
const TEXTS: &str = "1009";
const NUMERIC: &str = "1700";
const JSONB: &str = "3802";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_print_as_in_postgres() {
        let constant = |of_type: &str, bytes: &str| {
            format!(
                "{{CONST :consttype {of_type} :consttypmod -1 :constcollid 0 :constlen 4 \
                 :constbyval true :constisnull false :location -1 :constvalue 4 [ {bytes} ]}}"
            )
        };
        for (of_type, bytes, expected) in [
            ("16", "0 0 0 0 0 0 0 0", "false"),
            ("16", "1 0 0 0 0 0 0 0", "true"),
            ("23", "60 0 0 0 0 0 0 0", "60"),
            ("23", "-1 -1 -1 -1 0 0 0 0", "-1"),
            ("25", "28 0 0 0 78 70 67", "'NFC'::text"),
            ("3802", "32 0 0 0 0 0 0 32", "'{}'::jsonb"),
            ("1009", "64 0 0 0 0 0 0 0 0 0 0 0 25 0 0 0", "'{}'::text[]"),
            ("1700", "24 0 0 0 -128 -128", "0.0"),
            ("9999", "0", ""),
        ] {
            let tree = format!("({} {})", constant(of_type, bytes), constant("16", "1"));
            assert_eq!(read(&tree), [expected, "true"], "{of_type}");
        }
        let cast = format!(
            "({{FUNCEXPR :funcid 481 :args ({}) :location -1}})",
            constant("23", "7 0 0 0")
        );
        assert_eq!(read(&cast), ["7"]);
        assert!(read("").is_empty());
    }
}
