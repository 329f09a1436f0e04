//! `only_value(x)`: the value of the only row (`dialect/subqueries.rs`).

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::dialect::ONLY_VALUE;

pub(super) fn udaf() -> AggregateUDF {
    AggregateUDF::new_from_impl(OnlyValue {
        signature: Signature::any(1, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyValue {
    signature: Signature,
}

impl AggregateUDFImpl for OnlyValue {
    fn name(&self) -> &str {
        ONLY_VALUE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        given
            .first()
            .cloned()
            .ok_or_else(|| DataFusionError::Plan(format!("{ONLY_VALUE} takes a value")))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Only {
            value: ScalarValue::try_from(args.return_field.data_type())?,
            rows: 0,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = Field::new("value", args.return_field.data_type().clone(), true);
        let rows = Field::new("rows", DataType::UInt64, false);
        Ok(vec![value.into(), rows.into()])
    }
}

#[derive(Debug)]
struct Only {
    value: ScalarValue,
    rows: u64,
}

impl Only {
    fn check(&self) -> Result<()> {
        if self.rows > 1 {
            let message = "more than one row returned by a subquery used as an expression";
            return Err(DataFusionError::Execution(message.to_owned()));
        }
        Ok(())
    }
}

impl Accumulator for Only {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else {
            return Ok(());
        };
        self.rows += values.len() as u64;
        self.check()?;
        if values.len() == 1 {
            self.value = ScalarValue::try_from_array(values, 0)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, rows] = states else {
            return Err(DataFusionError::Internal("a state of two parts".to_owned()));
        };
        let rows = rows.as_primitive::<UInt64Type>();
        for index in 0..values.len() {
            self.rows += rows.value(index);
            self.check()?;
            if rows.value(index) == 1 {
                self.value = ScalarValue::try_from_array(values, index)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::from(self.rows)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}
