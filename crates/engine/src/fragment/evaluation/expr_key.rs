//! When do two queries compute the same expression?
//!
//! A key is a text that two expressions share only if they have the same values over the same
//! file. A column is written with its type, a function with the address of its implementation. The
//! key keeps the implementation alive, so an address identifies one function as long as a key
//! holds it. Time zones are part of the keys of whole fragments (`work.rs`).
//! Not here: finding expressions that are equal but written differently (`a < b`, `b > a`).
//! Bounds: keys of more than `KEY_BYTES_MAX` bytes are refused: comparing them would cost more
//! than sharing saves.
//! I9: only expressions on the allow-list below have a key; volatile and unknown expressions are
//! never shared.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::logical_expr::Volatility;
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr,
    IsNullExpr, LikeExpr, Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_plan::udaf::AggregateFunctionExpr;

use crate::memory::unbounded;
use crate::operators::{Function, KeptFunctions};

/// Longer keys come from IN lists that programs generated.
const KEY_BYTES_MAX: usize = 64 << 10;

/// A key under construction.
#[derive(Default)]
pub(crate) struct KeyWriter {
    text: String,
    functions: Vec<Function>,
    /// Whether columns are identified by position rather than by name.
    by_position: bool,
    /// The inputs of expressions from other nodes of the plan. `None`: such expressions have no
    /// key.
    from_elsewhere: Option<Vec<Elsewhere>>,
}

/// An input that an expression gets from another node of its plan at run time.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// A dynamic filter, by its id.
    Filter(u64),
    /// The results of scalar subqueries.
    Subqueries(ScalarSubqueryResults),
}

/// A finished key. Equal keys mean equal values.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    text: Arc<str>,
    /// Kept alive, so that no other function gets the address of one named in `text`.
    functions: Arc<[Function]>,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text) || self.text == other.text
    }
}

impl Eq for Key {}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Key {
    /// The key of a list of keys.
    pub(crate) fn of_list<'a>(keys: impl Iterator<Item = &'a Self>) -> Self {
        let mut writer = KeyWriter::default();
        for key in keys {
            writer.word(&key.text);
            writer.functions.extend(key.functions.iter().cloned());
        }
        writer.finish()
    }

    /// The key of a set of keys: order and repetitions do not matter.
    pub(crate) fn of_set(mut keys: Vec<Self>) -> Self {
        keys.sort_unstable_by(|a, b| a.text.cmp(&b.text));
        keys.dedup();
        Self::of_list(keys.iter())
    }

    /// The approximate bytes that the key takes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + size_of::<Self>()
    }
}

impl KeyWriter {
    /// The key of one expression over `schema`; `None` if it is not on the allow-list.
    pub(crate) fn key_of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Key> {
        let mut writer = Self::default();
        writer.expr(expr, schema)?;
        Some(writer.finish())
    }

    /// A key of an operator over other operators. Column names may repeat there, so columns are
    /// identified by position. Inputs from other nodes must be made below the operator of the key.
    pub(crate) fn of_operator() -> Self {
        Self {
            by_position: true,
            ..Self::of_scan()
        }
    }

    /// A key of a scan in the plan of an operator.
    pub(crate) fn of_scan() -> Self {
        Self {
            from_elsewhere: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// The text so far, the functions that it names, which must live as long as it is compared,
    /// and the inputs from other nodes of the plan.
    pub(crate) fn into_parts(self) -> (String, KeptFunctions, Vec<Elsewhere>) {
        let from_elsewhere = self.from_elsewhere.unwrap_or_default();
        (
            self.text,
            KeptFunctions::new(self.functions),
            from_elsewhere,
        )
    }

    /// The key of the text so far.
    pub(crate) fn finish(self) -> Key {
        Key {
            text: self.text.into(),
            functions: self.functions.into(),
        }
    }

    /// Appends a word of the caller's choice.
    pub(crate) fn word(&mut self, word: &str) {
        // The length comes first, so that one word cannot be read as two.
        let _infallible = write!(self.text, "{}:{word};", word.len());
    }

    /// Appends an aggregate function with its arguments, given over `schema`.
    pub(crate) fn aggregate(
        &mut self,
        function: &AggregateFunctionExpr,
        args: &[Arc<dyn PhysicalExpr>],
        filter: Option<&Arc<dyn PhysicalExpr>>,
        schema: &Schema,
    ) -> Option<()> {
        let udaf = function.fun();
        if udaf.signature().volatility != Volatility::Immutable {
            return None;
        }
        self.word("aggregate");
        self.word(udaf.name());
        let address = Arc::as_ptr(udaf.inner()).cast::<()>().addr();
        self.word(&format!(
            "{address:x} {} {} {} {:?}",
            function.is_distinct(),
            function.ignore_nulls(),
            function.is_reversed(),
            function.field().data_type(),
        ));
        self.functions.push(Function::Aggregate {
            _keeps: udaf.clone(),
        });
        self.list(args, schema)?;
        self.order(function.order_bys(), schema)?;
        match filter {
            Some(filter) => self.expr(filter, schema),
            None => {
                self.word("all");
                Some(())
            }
        }
    }

    /// Appends sort keys over `schema`.
    pub(crate) fn order(&mut self, order: &[PhysicalSortExpr], schema: &Schema) -> Option<()> {
        self.word(&order.len().to_string());
        order.iter().try_for_each(|key| {
            self.word(&format!("{:?}", key.options));
            self.expr(&key.expr, schema)
        })
    }

    /// Appends expressions over `schema`.
    pub(crate) fn list(&mut self, exprs: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> Option<()> {
        self.word(&exprs.len().to_string());
        exprs.iter().try_for_each(|expr| self.expr(expr, schema))
    }

    /// Appends an expression over `schema`; `None` if it is not on the allow-list or the key grows
    /// too long.
    pub(crate) fn expr(&mut self, expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<()> {
        if self.text.len() > KEY_BYTES_MAX {
            return None;
        }
        if let Some(column) = expr.downcast_ref::<Column>() {
            return self.column(column, schema);
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return self.literal(literal);
        }
        if self.is_of_elsewhere(expr, schema)? {
            return Some(());
        }
        self.operation(expr, schema)?;
        let children = expr.children();
        self.word(&children.len().to_string());
        children
            .into_iter()
            .try_for_each(|child| self.expr(child, schema))
    }

    fn column(&mut self, column: &Column, schema: &Schema) -> Option<()> {
        let field = schema.fields().get(column.index())?;
        self.word("column");
        if self.by_position {
            self.word(&column.index().to_string());
        } else {
            self.word(field.name());
        }
        self.word(&format!("{:?}", field.data_type()));
        Some(())
    }

    fn literal(&mut self, literal: &Literal) -> Option<()> {
        if literal.value().data_type().is_nested() {
            // Lists are displayed without quotes: ['a', 'b'] and ['a, b'] have the same text.
            return None;
        }
        self.word("literal");
        self.word(&format!("{:?}", literal.value().data_type()));
        self.word(&format!("{:?}", literal.value()));
        Some(())
    }

    /// Appends an expression whose value comes from elsewhere in the plan; false for another one.
    fn is_of_elsewhere(&mut self, expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<bool> {
        let Some(from_elsewhere) = &mut self.from_elsewhere else {
            return Some(false);
        };
        if expr.is::<DynamicFilterPhysicalExpr>() {
            // Whatever a dynamic filter contains, it does not change the rows of a plan that
            // produces it.
            from_elsewhere.push(Elsewhere::Filter(expr.expression_id()?));
            self.word("dynamic");
            return Some(true);
        }
        let Some(subquery) = expr.downcast_ref::<ScalarSubqueryExpr>() else {
            return Some(false);
        };
        from_elsewhere.push(Elsewhere::Subqueries(subquery.results().clone()));
        #[expect(deprecated, reason = "nothing else says which of the results it is")]
        let index = subquery.index().as_usize();
        let of = subquery.return_field(schema).ok()?;
        self.word(&format!("subquery {index} {:?}", of.data_type()));
        Some(true)
    }

    /// Appends what an expression does with its operands; `None` if it is not on the allow-list.
    fn operation(&mut self, expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<()> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary);
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return self.call(call, schema);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            self.word("cast");
            self.word(&format!("{:?}", cast.target_field()));
            self.word(&format!("{:?}", cast.cast_options()));
        } else if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            self.word("try_cast");
            self.word(&format!("{:?}", cast.target_field()));
        } else if let Some(list) = expr.downcast_ref::<InListExpr>() {
            self.word(if list.negated() { "not in" } else { "in" });
        } else if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            self.word(&format!(
                "like {} {}",
                like.negated(),
                like.case_insensitive()
            ));
        } else if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            self.word(&format!(
                "case {} {} {}",
                case.expr().is_some(),
                case.when_then_expr().len(),
                case.else_expr().is_some(),
            ));
        } else if expr.is::<NotExpr>() {
            self.word("not");
        } else if expr.is::<IsNullExpr>() {
            self.word("is null");
        } else if expr.is::<IsNotNullExpr>() {
            self.word("is not null");
        } else if expr.is::<NegativeExpr>() {
            self.word("negative");
        } else {
            return None;
        }
        Some(())
    }

    fn binary(&mut self, binary: &BinaryExpr) -> Option<()> {
        let plain = BinaryExpr::new(
            Arc::clone(binary.left()),
            *binary.op(),
            Arc::clone(binary.right()),
        );
        // No accessor tells whether an expression checks for overflow, so it is compared with one
        // that does not.
        if plain != *binary {
            return None;
        }
        self.word(&format!("{:?}", binary.op()));
        Some(())
    }

    fn call(&mut self, call: &ScalarFunctionExpr, schema: &Schema) -> Option<()> {
        if !is_pure(call, schema) {
            return None;
        }
        // Bounds are those of the engine, whose queries alone are compared.
        let udf = coscan_pg::canonical(unbounded(call.fun()));
        let address = Arc::as_ptr(udf.inner()).cast::<()>().addr();
        self.word("function");
        self.word(udf.name());
        self.word(&format!("{address:x} {:?}", call.return_type()));
        self.functions.push(Function::Scalar { _keeps: udf });
        Some(())
    }
}

/// Whether equal arguments give equal values, in whatever transaction.
fn is_pure(call: &ScalarFunctionExpr, schema: &Schema) -> bool {
    let from = call.args().first();
    let from = from.and_then(|arg| arg.data_type(schema).ok());
    call.fun().signature().volatility == Volatility::Immutable
        && !coscan_pg::may_read_the_clock(call.fun(), from.as_ref(), call.return_type())
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{cast, col, lit};

    use super::*;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Int64, true),
        ])
    }

    fn binary(left: Arc<dyn PhysicalExpr>, op: Operator, right: Arc<dyn PhysicalExpr>) -> Key {
        let expr: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(left, op, right));
        KeyWriter::key_of(&expr, &schema()).unwrap()
    }

    #[test]
    fn equal_keys_mean_equal_expressions() {
        let schema = schema();
        let (a, b) = (col("a", &schema).unwrap(), col("b", &schema).unwrap());
        let plus = || binary(Arc::clone(&a), Operator::Plus, lit(1i64));
        assert_eq!(plus(), plus());
        assert_ne!(plus(), binary(Arc::clone(&a), Operator::Plus, lit(2i64)));
        assert_ne!(plus(), binary(Arc::clone(&a), Operator::Minus, lit(1i64)));
        assert_ne!(plus(), binary(b, Operator::Plus, lit(1i64)));
        assert_ne!(plus(), binary(Arc::clone(&a), Operator::Plus, lit(1i32)));
        let wide = cast(a, &schema, DataType::Float64).unwrap();
        assert!(KeyWriter::key_of(&wide, &schema).is_some());
    }

    #[test]
    fn lists_have_no_key() {
        let list = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| ScalarValue::from(*word)).collect();
            let list = ScalarValue::new_list_nullable(&words, &DataType::Utf8);
            lit(ScalarValue::List(list))
        };
        let written = |list: &Arc<dyn PhysicalExpr>| {
            let literal = list.downcast_ref::<Literal>().unwrap();
            format!("{:?}", literal.value())
        };
        let (two, one) = (list(&["a", "b"]), list(&["a, b"]));
        assert_eq!(
            written(&two),
            written(&one),
            "the text does not tell them apart"
        );
        assert!(KeyWriter::key_of(&two, &schema()).is_none());
    }

    #[test]
    fn an_expression_that_checks_for_overflow_has_no_key() {
        let schema = schema();
        let a = col("a", &schema).unwrap();
        let checked =
            BinaryExpr::new(Arc::clone(&a), Operator::Plus, a).with_fail_on_overflow(true);
        let checked: Arc<dyn PhysicalExpr> = Arc::new(checked);
        assert!(KeyWriter::key_of(&checked, &schema).is_none());
    }
}
