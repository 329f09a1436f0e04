//! What does a session without the right to files learn of the server's files? Their names, but
//! not the folders around them.
//!
//! R3: a session without the right to files learns nothing of the server's folders: not from
//! system tables, settings, definitions of tables, plans that EXPLAIN shows, or errors (which the
//! server rewrites with [`without_folders`]).
//! Not here: the value of `coscan.index_folder` (`settings/`), definitions of shared tables
//! (`session_names/catalogs.rs`).

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TableScan, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, expressions};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::prelude::SessionConfig;

use crate::right::{Right, Rights};

/// Whether a session may see the server's folders.
pub(crate) fn may_see(config: &SessionConfig) -> bool {
    Rights::of(config).is_none_or(|rights| rights.has(Right::Files))
}

/// The text with each path or URL replaced by its last word. A word that merely contains a slash
/// stays as it is.
#[must_use]
pub fn without_folders(text: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || "'\"`,;()[]{}<>=".contains(c);
    let mut shown = String::with_capacity(text.len());
    for piece in text.split_inclusive(is_end) {
        let end = piece.trim_end_matches(is_end);
        let word = end.trim_end_matches([':', '.']);
        let name = word
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or(word);
        let slashes = word.matches('/').count();
        let is_path = word.contains("://")
            || (slashes > 1 && (word.starts_with('/') || name.contains('.')))
            || (slashes == 1 && word.starts_with('/') && name.contains('.'));
        if is_path {
            shown.push_str(name);
            shown.push_str(&piece[word.len()..]);
        } else {
            shown.push_str(piece);
        }
    }
    shown
}

/// The rows, with paths in the texts of these columns shortened to names.
pub(crate) fn hide(rows: &RecordBatch, columns: &[&str]) -> Result<RecordBatch> {
    let schema = rows.schema();
    let arrays = schema.fields().iter().zip(rows.columns());
    let arrays = arrays.map(|(field, array)| {
        if columns.contains(&field.name().as_str()) {
            cut(array)
        } else {
            Arc::clone(array)
        }
    });
    Ok(RecordBatch::try_new(Arc::clone(&schema), arrays.collect())?)
}

fn cut(array: &ArrayRef) -> ArrayRef {
    match array.as_string_opt::<i32>() {
        Some(texts) => Arc::new(
            texts
                .iter()
                .map(|text| text.map(cut_text))
                .collect::<StringArray>(),
        ),
        None => Arc::clone(array),
    }
}

/// The text with its paths shortened. A text of nothing but paths has even the shortest ones
/// shortened.
fn cut_text(text: &str) -> String {
    let is_path = text.starts_with('/') || text.contains("://");
    if !is_path || text.contains(char::is_whitespace) {
        return without_folders(text);
    }
    let names = text.split(',').map(|path| {
        let path = path.trim_end_matches('/');
        path.rsplit('/').next().unwrap_or(path)
    });
    names.collect::<Vec<_>>().join(",")
}

/// The plan with paths in the values of `information_schema.df_settings` shortened: DataFusion
/// lists the folder for spill files there.
pub(crate) fn settings_hidden(plan: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>> {
    let mut lists_settings = false;
    plan.apply_with_subqueries(|node| {
        lists_settings |= matches!(node, LogicalPlan::TableScan(scan) if is_of_settings(scan));
        Ok(if lists_settings {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    if !lists_settings {
        return Ok(Cow::Borrowed(plan));
    }
    let hidden = plan
        .clone()
        .transform_up_with_subqueries(|node| match &node {
            LogicalPlan::TableScan(scan) if is_of_settings(scan) => {
                Ok(Transformed::yes(cut_down(scan)?))
            }
            _ => Ok(Transformed::no(node)),
        })?;
    Ok(Cow::Owned(hidden.data))
}

fn is_of_settings(scan: &TableScan) -> bool {
    scan.table_name.schema() == Some(INFORMATION_SCHEMA) && scan.table_name.table() == DF_SETTINGS
}

fn cut_down(scan: &TableScan) -> Result<LogicalPlan> {
    let columns = scan.projected_schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column((qualifier, field).into());
        if field.name() != "value" {
            return column;
        }
        let cut = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&CUT), vec![column]));
        cut.alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<_> = columns.collect();
    LogicalPlanBuilder::from(LogicalPlan::TableScan(scan.clone()))
        .project(columns)?
        .build()
}

/// The plan of an EXPLAIN, with paths in its texts shortened; any other plan as it is.
pub(crate) fn explained(
    logical: &LogicalPlan,
    physical: Arc<dyn ExecutionPlan>,
    options: &Arc<ConfigOptions>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !matches!(logical, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)) {
        return Ok(physical);
    }
    let schema = physical.schema();
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(expressions::Column::new(field.name(), index));
        let shown = if *field.data_type() == DataType::Utf8 {
            Arc::new(ScalarFunctionExpr::new(
                NAME,
                Arc::clone(&CUT),
                vec![column],
                Arc::new(Field::new(field.name(), DataType::Utf8, true)),
                Arc::clone(options),
            ))
        } else {
            column
        };
        (shown, field.name().clone())
    });
    let columns: Vec<_> = columns.collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, physical)?))
}

/// [`without_folders`] as a function in plans. No statement can call it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Cut(Signature);

impl ScalarUDFImpl for Cut {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let cut = arrays.first().map(cut);
        Ok(ColumnarValue::Array(cut.unwrap_or_else(|| {
            Arc::new(StringArray::new_null(args.number_rows))
        })))
    }
}

/// DataFusion's name of that table, which it does not export.
const DF_SETTINGS: &str = "df_settings";
const NAME: &str = "without_folders";

static CUT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![DataType::Utf8], Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Cut(signature)))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_not_for_everyone() {
        for (said, shown) in [
            (
                "/srv/data/t/part-0.parquet: row group 3, column name: bad page",
                "part-0.parquet: row group 3, column name: bad page",
            ),
            (
                "Object at location srv/data/x.parquet not found: No such file",
                "Object at location x.parquet not found: No such file",
            ),
            (
                "'s3://bucket/deep/x.parquet' is gone.",
                "'x.parquet' is gone.",
            ),
            ("/srv/data/t/: no such folder", "t: no such folder"),
            (
                "cannot compute a/b + 1 / 0 or x/y",
                "cannot compute a/b + 1 / 0 or x/y",
            ),
        ] {
            assert_eq!(without_folders(said), shown);
        }
    }

    #[test]
    fn paths_alone_are_cut_however_short() {
        for (path, shown) in [
            ("/srv", "srv"),
            ("/tmp/datafusion-1,/mnt/", "datafusion-1,mnt"),
            ("s3://bucket/", "bucket"),
            ("512M", "512M"),
            ("/dev/vda1 (pread, O_DIRECT)", "vda1 (pread, O_DIRECT)"),
        ] {
            assert_eq!(cut_text(path), shown);
        }
    }
}
