//! `like_pattern(pattern, escape)`: the pattern with a backslash as its escape character, the only
//! one that DataFusion's LIKE knows (`dialect/spelling.rs`).

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::dialect::LIKE_PATTERN;

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(LikePattern {
        signature: Signature::exact(vec![DataType::Utf8, DataType::Utf8], Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LikePattern {
    signature: Signature,
}

impl ScalarUDFImpl for LikePattern {
    fn name(&self) -> &str {
        LIKE_PATTERN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let (patterns, escapes) = (arrays[0].as_string::<i32>(), arrays[1].as_string::<i32>());
        let rewritten: StringArray = patterns
            .iter()
            .zip(escapes)
            .map(|(pattern, escape)| Some(like_pattern(pattern?, escape?.chars().next())))
            .collect();
        if constant {
            let value = datafusion::scalar::ScalarValue::try_from_array(&rewritten, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        Ok(ColumnarValue::Array(Arc::new(rewritten)))
    }
}

/// The LIKE pattern, with a backslash as its escape character in place of `escape`. `None`: the
/// pattern escapes nothing.
fn like_pattern(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        if Some(character) == escape {
            let escaped = rest.next().unwrap_or(character);
            if matches!(escaped, '%' | '_' | '\\') {
                out.push('\\');
            }
            out.push(escaped);
        } else {
            if character == '\\' {
                out.push('\\');
            }
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert_eq!(like_pattern("a/%b%//", Some('/')), "a\\%b%/");
        assert_eq!(like_pattern("a\\%", Some('/')), "a\\\\%");
        assert_eq!(like_pattern("a/\\_", Some('/')), "a\\\\_");
        assert_eq!(like_pattern("/%", None), "/%");
    }
}
