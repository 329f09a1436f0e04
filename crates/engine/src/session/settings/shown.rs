//! What does SHOW show?
//!
//! Not here: where a query reads settings (`board/`).

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use super::SessionSettings;
use super::custom::is_custom;
use super::described::described;
use super::known::{KNOWN, find};
use super::options::{entries, entry, is_of_environment};

/// The name that stands for all settings.
const ALL: &str = "all";

/// A row of SHOW.
struct Shown {
    name: String,
    value: Option<String>,
    description: &'static str,
}

impl SessionSettings {
    /// The rows of SHOW, which have the columns of its
    /// [statement](super::SettingStatement::schema): one setting, or all of them for `all`.
    ///
    /// # Errors
    /// 42704 if there is no such setting.
    pub fn shown(&self, context: &SessionContext, name: &str) -> Result<RecordBatch> {
        let rows = self.rows(context, name)?;
        let values = rows.iter().map(|row| row.value.as_deref());
        let values: ArrayRef = Arc::new(values.collect::<StringArray>());
        let arrays = if name == ALL {
            let names = rows.iter().map(|row| Some(row.name.as_str()));
            let notes = rows.iter().map(|row| Some(row.description));
            let names: ArrayRef = Arc::new(names.collect::<StringArray>());
            let notes: ArrayRef = Arc::new(notes.collect::<StringArray>());
            vec![names, values, notes]
        } else {
            vec![values]
        };
        Ok(RecordBatch::try_new(show_schema(name), arrays)?)
    }

    fn rows(&self, context: &SessionContext, name: &str) -> Result<Vec<Shown>> {
        if name == ALL {
            return Ok(self.all(context));
        }
        let value = if is_custom(context, name) {
            Some(self.custom(name)?)
        } else if is_of_environment(name) {
            self.environment_entry(context, name)?
        } else if name.contains('.') {
            entry(context.state_ref().read().config_options(), name)?
        } else {
            Some(self.value(context, find(name)?))
        };
        Ok(vec![Shown {
            name: name.to_owned(),
            value,
            description: "",
        }])
    }

    /// All settings but the client's own.
    fn all(&self, context: &SessionContext) -> Vec<Shown> {
        let options = Arc::clone(context.state_ref().read().config_options());
        let ours = KNOWN.iter().map(|known| Shown {
            name: known.name.to_owned(),
            value: Some(self.value(context, known)),
            description: described(known.name).map_or("", |described| described.short),
        });
        let mut theirs = entries(&options);
        theirs.extend(self.of_environment(context));
        let theirs = theirs.into_iter().map(|entry| Shown {
            name: entry.key,
            value: entry.value,
            description: entry.description,
        });
        ours.chain(theirs).collect()
    }
}

/// The columns of SHOW. The setting may not exist.
pub(super) fn show_schema(name: &str) -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    Arc::new(if name == ALL {
        Schema::new(vec![text("name"), text("setting"), text("description")])
    } else {
        Schema::new(vec![text(find(name).map_or(name, |known| known.name))])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_postgresqls_spelling() {
        assert_eq!(show_schema("timezone").field(0).name(), "TimeZone");
        assert_eq!(show_schema("my.x").field(0).name(), "my.x");
        assert_eq!(show_schema(ALL).fields().len(), 3);
    }
}
