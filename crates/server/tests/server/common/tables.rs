//! Tables with columns of all types, for the tests of clients (`tests/clients`).

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, RecordBatch,
    StringArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use datafusion::arrow::array::{ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{Int32Type, IntervalMonthDayNano};
use datafusion::datasource::ViewTable;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};
use datafusion::prelude::SessionContext;

/// A row with a value of each type, and a row of NULLs.
pub(crate) fn kinds() -> RecordBatch {
    let mut words = ListBuilder::new(StringBuilder::new());
    words.append_value([Some("a"), Some("b c")]);
    words.append_null();
    // 2024-02-29 12:34:56.789.
    let at = 1_709_210_096_789_000;
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("k", Arc::new(Int32Array::from(vec![1, 2])), false),
        (
            "flag",
            Arc::new(BooleanArray::from(vec![Some(true), None])),
            true,
        ),
        (
            "small",
            Arc::new(Int16Array::from(vec![Some(2), None])),
            true,
        ),
        ("big", Arc::new(Int64Array::from(vec![Some(3), None])), true),
        (
            "r",
            Arc::new(Float32Array::from(vec![Some(0.5), None])),
            true,
        ),
        (
            "d",
            Arc::new(Float64Array::from(vec![Some(0.25), None])),
            true,
        ),
        (
            "price",
            Arc::new(
                Decimal128Array::from(vec![Some(1250), None])
                    .with_precision_and_scale(12, 2)
                    .unwrap(),
            ),
            true,
        ),
        (
            "word",
            Arc::new(StringArray::from(vec![Some("word"), None])),
            true,
        ),
        (
            "day",
            Arc::new(Date32Array::from(vec![Some(19_782), None])),
            true,
        ),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(at), None])),
            true,
        ),
        (
            "atz",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(at), None]).with_timezone("UTC")),
            true,
        ),
        (
            "tod",
            Arc::new(Time64MicrosecondArray::from(vec![
                Some(3_723_000_000),
                None,
            ])),
            true,
        ),
        (
            "raw",
            Arc::new(BinaryArray::from(vec![Some(b"ab".as_slice()), None])),
            true,
        ),
        (
            "numbers",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
                Some(vec![Some(1), None, Some(3)]),
                None,
            ])),
            true,
        ),
        ("words", Arc::new(words.finish()), true),
        (
            "span",
            Arc::new(IntervalMonthDayNanoArray::from(vec![
                Some(IntervalMonthDayNano::new(1, 2, 0)),
                None,
            ])),
            true,
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The view `grown`: all people but the first.
pub(crate) fn register_view(context: &SessionContext) -> Result<(), DataFusionError> {
    let schema = context
        .catalog("datafusion")
        .and_then(|catalog| catalog.schema("public"))
        .unwrap();
    let people = futures::executor::block_on(schema.table("people"))?.unwrap();
    let source = datafusion::datasource::provider_as_source(people);
    let plan = LogicalPlanBuilder::scan("people", source, None)?
        .filter(col("id").gt(lit(1)))?
        .build()?;
    let text = "CREATE VIEW grown AS SELECT id, name FROM people WHERE id > 1";
    let view = ViewTable::new(plan, Some(text.to_owned()));
    context.register_table("grown", Arc::new(view))?;
    Ok(())
}
