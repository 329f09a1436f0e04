//! What do a scan's expressions see of a file's columns?
//!
//! DataFusion's adapter casts a column that the file stores in another type than the table's. Two
//! things are added here:
//!
//! - DataFusion 55.2 then takes the cast off a column that is compared, and puts it on the
//!   constant. A constant of microseconds loses digits if the file has milliseconds, so such a cast
//!   is hidden from the simplifier.
//! - DataFusion's reader returns values as the file has them. Columns in which several of them may
//!   mean the same (coscan-storage, `one_form.rs`) are read in one form, so that no bound or filter
//!   of the file is compared with them, either: Parquet's bounds ignore NaN, and bloom filters know
//!   no zeros that are equal. Our own reader decodes to one form.
//!
//! Not here: the casts of a statement (`coscan-pg`, `comparisons/`).

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, SchemaRef, TimeUnit};
use coscan_storage::{has_other_forms, in_one_form};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};

/// Makes the adapters of a scan's files.
#[derive(Debug)]
pub(crate) struct Adapters {
    inner: Arc<dyn PhysicalExprAdapterFactory>,
    /// The columns that are decoded as the file has them, of which some value may have another
    /// form.
    raw: Arc<BTreeSet<String>>,
}

impl Adapters {
    /// The adapters for our own reader.
    pub(crate) fn of(scan: &FileScanConfig) -> Self {
        let default = || Arc::new(DefaultPhysicalExprAdapterFactory) as _;
        Self {
            inner: scan.expr_adapter_factory.clone().unwrap_or_else(default),
            raw: Arc::default(),
        }
    }
}

/// The scan with the adapters that DataFusion's reader needs.
pub(crate) fn for_datafusion(scan: &FileScanConfig) -> FileScanConfig {
    let fields = scan.file_source().table_schema().file_schema().fields();
    let statistics = scan.statistics();
    let raw = fields.iter().enumerate().filter(|(at, field)| {
        let known = statistics.column_statistics.get(*at);
        let low = known.and_then(|column| column.min_value.get_value());
        // Of floats no bound is known (`plan/float_bounds.rs`).
        has_other_forms(field.data_type()) && !low.is_some_and(is_finite)
    });
    let raw = raw.map(|(_, field)| field.name().clone()).collect();
    let adapters = Adapters {
        raw: Arc::new(raw),
        ..Adapters::of(scan)
    };
    FileScanConfigBuilder::from(scan.clone())
        .with_expr_adapter(Some(Arc::new(adapters)))
        .build()
}

/// Whether a date or timestamp is certainly above -infinity, as any file has it.
fn is_finite(low: &ScalarValue) -> bool {
    match low {
        ScalarValue::Date32(Some(day)) => *day > i32::MIN + 1,
        ScalarValue::TimestampMicrosecond(Some(moment), _) => *moment > i64::MIN + 1,
        _ => false,
    }
}

impl PhysicalExprAdapterFactory for Adapters {
    fn create(&self, table: SchemaRef, file: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        Ok(Arc::new(Adapter {
            inner: self.inner.create(table, Arc::clone(&file))?,
            raw: Arc::clone(&self.raw),
            file,
        }))
    }
}

#[derive(Debug)]
struct Adapter {
    inner: Arc<dyn PhysicalExprAdapter>,
    raw: Arc<BTreeSet<String>>,
    file: SchemaRef,
}

impl PhysicalExprAdapter for Adapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let expr = self.inner.rewrite(expr)?;
        let adapted = expr.transform_up(|expr| {
            if let Some(column) = expr.downcast_ref::<Column>() {
                if self.raw.contains(column.name()) {
                    return Ok(Transformed::yes(self.one_form(expr)?));
                }
            } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>()
                && self.loses_digits(binary)?
            {
                let sides = [binary.left(), binary.right()].map(|side| {
                    if side.is::<Literal>() {
                        Ok(Arc::clone(side))
                    } else {
                        self.one_form(Arc::clone(side))
                    }
                });
                let [left, right] = sides;
                let exact = Arc::clone(&expr).with_new_children(vec![left?, right?])?;
                return Ok(Transformed::yes(exact));
            }
            Ok(Transformed::no(expr))
        });
        adapted.data()
    }
}

impl Adapter {
    /// Whether a comparison casts a timestamp to a finer unit, and its constant is no whole number
    /// of the coarser one.
    fn loses_digits(&self, binary: &BinaryExpr) -> Result<bool> {
        let sides = (binary.left(), binary.right());
        let (side, constant) = match sides {
            (side, constant) if constant.is::<Literal>() => (side, constant),
            (constant, side) => (side, constant),
        };
        let (Some(cast), Some(constant)) = (
            side.downcast_ref::<CastExpr>(),
            constant.downcast_ref::<Literal>(),
        ) else {
            return Ok(false);
        };
        let DataType::Timestamp(unit, _) = cast.expr().data_type(&self.file)? else {
            return Ok(false);
        };
        Ok(match constant.value() {
            ScalarValue::TimestampMillisecond(Some(count), _) => {
                is_cut(*count, TimeUnit::Millisecond, unit)
            }
            ScalarValue::TimestampMicrosecond(Some(count), _) => {
                is_cut(*count, TimeUnit::Microsecond, unit)
            }
            ScalarValue::TimestampNanosecond(Some(count), _) => {
                is_cut(*count, TimeUnit::Nanosecond, unit)
            }
            _ => false,
        })
    }

    fn one_form(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let field: FieldRef = expr.return_field(&self.file)?;
        let function = Arc::new(ScalarUDF::from(InOneForm::new()));
        let options = Arc::new(ConfigOptions::default());
        let call = ScalarFunctionExpr::new(InOneForm::NAME, function, vec![expr], field, options);
        Ok(Arc::new(call))
    }
}

/// Whether a number of one unit is no whole number of another.
fn is_cut(count: i64, unit: TimeUnit, of: TimeUnit) -> bool {
    let per_second = |unit| match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    count % (per_second(unit) / per_second(of)).max(1) != 0
}

/// `in_one_form(x)`: values that mean the same are the same. Optimizers know nothing of it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InOneForm {
    signature: Signature,
}

impl InOneForm {
    const NAME: &str = "in_one_form";

    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for InOneForm {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match args.args.swap_remove(0) {
            ColumnarValue::Array(array) => ColumnarValue::Array(in_one_form(array)?),
            value @ ColumnarValue::Scalar(_) => {
                let array = in_one_form(value.into_array(1)?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }
}
