//! What does `pg_settings` say about a setting, beside its value?
//!
//! `described.tsv` has PostgreSQL's descriptions of the settings in `known.rs`. As in PostgreSQL,
//! `is_superuser` and `session_authorization` have none, and are not listed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// PostgreSQL's description of a setting; texts that it lacks are empty.
#[derive(Debug)]
pub struct Described {
    /// The unit of the numbers in `pg_settings`.
    pub unit: &'static str,
    /// The group of settings to which it belongs.
    pub category: &'static str,
    /// One sentence, which SHOW ALL shows, too.
    pub short: &'static str,
    /// What there is to add to it.
    pub extra: &'static str,
    /// `bool`, `enum`, `integer`, `real` or `string`.
    pub vartype: &'static str,
    /// The least number.
    pub least: &'static str,
    /// The largest number.
    pub most: &'static str,
    /// The values of an `enum`, separated by commas.
    pub values: &'static str,
}

/// The description of a setting in PostgreSQL's spelling.
#[must_use]
pub fn described(name: &str) -> Option<&'static Described> {
    static ALL: LazyLock<BTreeMap<&str, Described>> = LazyLock::new(|| {
        let lines = include_str!("described.tsv").lines();
        lines.filter_map(read).collect()
    });
    ALL.get(name)
}

fn read(line: &'static str) -> Option<(&'static str, Described)> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [
        name,
        unit,
        category,
        short,
        extra,
        vartype,
        least,
        most,
        values,
    ] = cells[..]
    else {
        return None;
    };
    let described = Described {
        unit,
        category,
        short,
        extra,
        vartype,
        least,
        most,
        values,
    };
    (!name.starts_with('#')).then_some((name, described))
}

impl Described {
    /// A value as a number of the setting's unit: `4MB` is `4096`, if the unit is kB.
    #[must_use]
    pub fn in_unit(&self, value: &str) -> String {
        let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
        let given = factor(value[digits.len()..].trim());
        match (given, factor(self.unit), digits.parse::<f64>()) {
            (Some(given), Some(unit), Ok(number)) => format!("{:.0}", number * given / unit),
            _ => value.to_owned(),
        }
    }
}

/// A unit in bytes or milliseconds.
fn factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "us" => 0.001,
        "ms" | "B" => 1.0,
        "s" => 1000.0,
        "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        "kB" => 1024.0,
        "8kB" => 8192.0,
        "MB" => 1_048_576.0,
        "GB" => 1_073_741_824.0,
        "TB" => 1_099_511_627_776.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::settings::known::KNOWN;

    #[test]
    fn all_settings_are_described() {
        let hidden = ["is_superuser", "session_authorization"];
        for known in KNOWN {
            let is_hidden = hidden.contains(&known.name);
            assert_eq!(described(known.name).is_none(), is_hidden, "{}", known.name);
        }
    }

    #[test]
    fn values_have_the_settings_unit() {
        for (name, value, expected) in [
            ("work_mem", "4MB", "4096"),
            ("work_mem", "1 GB", "1048576"),
            ("work_mem", "64", "64"),
            ("effective_cache_size", "4GB", "524288"),
            ("statement_timeout", "2min", "120000"),
            ("statement_timeout", "0", "0"),
            ("temp_file_limit", "-1", "-1"),
            ("DateStyle", "ISO, MDY", "ISO, MDY"),
        ] {
            let described = described(name).unwrap();
            assert_eq!(described.in_unit(value), expected, "{name} {value}");
        }
    }
}
