//! Which options does an EXPLAIN statement set?
//!
//! Options that only add figures which this EXPLAIN does not show (BUFFERS, COSTS, …) are accepted
//! and ignored.

use datafusion::sql::sqlparser::ast::{Expr, Statement, UtilityOption, Value};

use crate::failure::Failure;

/// The options of an EXPLAIN that matter here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    analyze: bool,
    verbose: bool,
}

/// Puts the words ANALYZE and VERBOSE in the place of options in parentheses, which DataFusion does
/// not plan.
pub(super) fn in_words(statement: &mut Statement) -> Result<(), Failure> {
    if let Statement::Explain {
        options,
        analyze,
        verbose,
        format,
        ..
    } = statement
        && let Some(given) = options.take()
    {
        let wanted = wanted(&given)?;
        (*analyze, *verbose, *format) = (wanted.analyze, wanted.verbose, None);
    }
    Ok(())
}

/// Reads the options in parentheses.
fn wanted(options: &[UtilityOption]) -> Result<Wanted, Failure> {
    let mut wanted = Wanted::default();
    let mut needs_analyze = None;
    for option in options {
        let name = option.name.value.to_lowercase();
        match name.as_str() {
            "analyze" | "analyse" => wanted.analyze = boolean(option)?,
            "verbose" => wanted.verbose = boolean(option)?,
            "costs" | "settings" | "buffers" | "summary" => drop(boolean(option)?),
            "wal" | "timing" => {
                if boolean(option)? {
                    needs_analyze = Some(name.to_uppercase());
                }
            }
            "format" => match text(option).as_deref() {
                Some("text") => {}
                Some(other @ ("json" | "xml" | "yaml")) => {
                    let other = other.to_uppercase();
                    return Err(Failure::unsupported(format!(
                        "EXPLAIN with FORMAT {other} is not supported"
                    )));
                }
                other => {
                    let other = other.unwrap_or_default();
                    return Err(Failure::new(
                        "22023",
                        format!("unrecognized value for EXPLAIN option \"format\": \"{other}\""),
                    ));
                }
            },
            other => {
                let text = format!("unrecognized EXPLAIN option \"{other}\"");
                return Err(Failure::syntax(text));
            }
        }
    }
    match needs_analyze {
        Some(name) if !wanted.analyze => {
            let text = format!("EXPLAIN option {name} requires ANALYZE");
            Err(Failure::new("22023", text))
        }
        _ => Ok(wanted),
    }
}

fn boolean(option: &UtilityOption) -> Result<bool, Failure> {
    if option.arg.is_none() {
        return Ok(true);
    }
    match text(option).as_deref() {
        Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        _ => {
            let name = option.name.value.to_lowercase();
            Err(Failure::syntax(format!("{name} requires a Boolean value")))
        }
    }
}

fn text(option: &UtilityOption) -> Option<String> {
    Some(match option.arg.as_ref()? {
        Expr::Identifier(name) => name.value.to_lowercase(),
        Expr::Value(value) => match &value.value {
            Value::Boolean(value) => value.to_string(),
            Value::Number(digits, _) => digits.clone(),
            Value::SingleQuotedString(text) => text.to_lowercase(),
            _ => return None,
        },
        other => other.to_string().to_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn read(options: &str) -> Result<Wanted, Failure> {
        let sql = format!("EXPLAIN ({options}) SELECT 1");
        let statement = Parser::parse_sql(&PostgreSqlDialect {}, &sql)
            .unwrap()
            .remove(0);
        let Statement::Explain {
            options: Some(options),
            ..
        } = statement
        else {
            panic!("{statement:?}");
        };
        wanted(&options)
    }

    #[test]
    fn options_are_accepted_or_refused() {
        for (options, analyze, verbose) in [
            ("ANALYZE", true, false),
            ("analyze on, verbose", true, true),
            ("ANALYZE false, VERBOSE 1", false, true),
            ("COSTS off, BUFFERS, FORMAT text", false, false),
            ("ANALYZE, TIMING off, SUMMARY", true, false),
        ] {
            assert_eq!(
                read(options).unwrap(),
                Wanted { analyze, verbose },
                "{options}"
            );
        }
        for (options, message) in [
            ("FOO", "42601: unrecognized EXPLAIN option \"foo\""),
            ("ANALYZE 2", "42601: analyze requires a Boolean value"),
            ("TIMING", "22023: EXPLAIN option TIMING requires ANALYZE"),
            (
                "FORMAT json",
                "0A000: EXPLAIN with FORMAT JSON is not supported",
            ),
            (
                "FORMAT c",
                "22023: unrecognized value for EXPLAIN option \"format\": \"c\"",
            ),
        ] {
            let failure = read(options).unwrap_err().to_string();
            assert!(failure.ends_with(message), "{failure}");
        }
    }
}
