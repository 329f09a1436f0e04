//! `joined_texts(array)`: joins the texts of an array of rows, each a text and the delimiter
//! before it, which `rules/distinct.rs` collects for `string_agg(x, d)`. The first delimiter and
//! NULL delimiters are left out.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, StringBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub(crate) fn joined_texts() -> ScalarUDF {
    ScalarUDF::new_from_impl(JoinedTexts {
        signature: Signature::any(1, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JoinedTexts {
    signature: Signature,
}

impl ScalarUDFImpl for JoinedTexts {
    fn name(&self) -> &'static str {
        "joined_texts"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [array] = args.args.as_slice() else {
            return internal_err!("{} takes an array", self.name());
        };
        let array = array.to_array(args.number_rows)?;
        let lists = array.as_list::<i32>();
        let rows = lists.values().as_struct();
        let [texts, delimiters] = rows.columns() else {
            return internal_err!("{} takes rows of two texts", self.name());
        };
        let texts = cast(texts, &DataType::Utf8)?;
        let delimiters = cast(delimiters, &DataType::Utf8)?;
        let (texts, delimiters) = (texts.as_string::<i32>(), delimiters.as_string::<i32>());
        let mut joined = StringBuilder::new();
        for (at, bounds) in lists.value_offsets().windows(2).enumerate() {
            let [start, end] = [bounds[0], bounds[1]].map(ArrowNativeType::as_usize);
            if lists.is_null(at) || start == end {
                joined.append_null();
                continue;
            }
            let mut text = String::new();
            for place in start..end {
                if place > start && delimiters.is_valid(place) {
                    text.push_str(delimiters.value(place));
                }
                text.push_str(texts.value(place));
            }
            joined.append_value(text);
        }
        Ok(ColumnarValue::Array(Arc::new(joined.finish())))
    }
}
