//! The distinct expressions of all members of a chunk job, as one graph: each node is evaluated
//! once per batch.
//!
//! Idea: an expression is split into nodes wherever another expression may contain the same part.
//! Lazily evaluated expressions (CASE, AND, OR, and functions that may skip arguments) stay whole:
//! a part might fail for rows for which the whole never evaluates it. Decimals are computed in 64
//! or 32 bits where these are proved to suffice (`narrow.rs`). A [`Frame`] holds the values for a
//! batch, or for those rows of the batch that a class wants.
//! Not here: which rows (`query_sets.rs`), aggregates (`program.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use coscan_storage::pool::ColumnRequest;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr,
};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::expr_key::{Key, KeyWriter};
use super::narrow::{Narrow, Narrowed, NodeId, Operand, narrowed};
use crate::read::widen;

/// The graph of a chunk job.
#[derive(Default)]
pub(crate) struct Graph {
    /// The columns that are read, without repetition.
    inputs: Vec<ColumnRequest>,
    nodes: Vec<Node>,
    known: HashMap<Key, NodeId>,
}

struct Node {
    /// The type that expressions expect of the node's values.
    data_type: DataType,
    source: Source,
}

enum Source {
    /// The position in [`Graph::inputs`].
    Input(usize),
    Compute {
        /// The 64-bit form, if the expression has one.
        narrowed: Option<Narrowed>,
        /// The expression over `schema`.
        expr: Arc<dyn PhysicalExpr>,
        /// The nodes of the columns of `schema`.
        children: Vec<NodeId>,
        schema: SchemaRef,
    },
}

/// Whether a node's values are known in 64 bits.
#[derive(Clone)]
enum Known {
    /// Not computed yet.
    Nothing,
    TheyDoNotFit,
    Values(Narrow),
}

/// The values of nodes for some rows.
pub(crate) struct Frame {
    rows: usize,
    values: Vec<Option<ArrayRef>>,
    narrow: Vec<Known>,
}

/// The columns of a file by position, with the types to which they are decoded.
#[derive(Clone, Copy)]
pub(crate) struct FileColumns<'a> {
    pub(crate) schema: &'a Schema,
    /// The types of `schema`, or narrower ones (`read/compact.rs`).
    pub(crate) reads: &'a [ColumnRequest],
}

impl Graph {
    /// The columns that the nodes read.
    pub(crate) fn inputs(&self) -> &[ColumnRequest] {
        &self.inputs
    }

    /// The node of an expression over a file's columns. `None` if it has no key.
    ///
    /// # Errors
    /// If the expression does not fit the columns: a bug.
    pub(crate) fn add(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        file: FileColumns<'_>,
    ) -> Result<Option<NodeId>> {
        let schema = file.schema;
        let Some(key) = KeyWriter::key_of(expr, schema) else {
            return Ok(None);
        };
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(*known));
        }
        let node = if let Some(column) = expr.downcast_ref::<Column>() {
            self.inputs.push(file.reads[column.index()].clone());
            Source::Input(self.inputs.len() - 1)
        } else {
            self.compute(expr, file)?
        };
        self.nodes.push(Node {
            data_type: expr.data_type(schema)?,
            source: node,
        });
        self.known.insert(key, self.nodes.len() - 1);
        Ok(Some(self.nodes.len() - 1))
    }

    fn compute(&mut self, expr: &Arc<dyn PhysicalExpr>, file: FileColumns<'_>) -> Result<Source> {
        let schema = file.schema;
        let mut fields: Vec<Arc<Field>> = Vec::new();
        let mut children = Vec::new();
        if !is_divisible(expr) {
            let mut columns: Vec<Column> = collect_columns(expr).into_iter().collect();
            columns.sort_by_key(Column::index);
            for column in columns {
                fields.push(Arc::clone(&schema.fields()[column.index()]));
                let column: Arc<dyn PhysicalExpr> = Arc::new(column);
                children.extend(self.add(&column, file)?);
            }
            let schema = Arc::new(Schema::new(fields));
            let expr = reassign_expr_columns(Arc::clone(expr), &schema)?;
            return Ok(Source::Compute {
                narrowed: None,
                expr,
                children,
                schema,
            });
        }
        let mut replaced: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        let mut operands: Vec<Option<NodeId>> = Vec::new();
        for child in expr.children() {
            if child.is::<Literal>() {
                replaced.push(Arc::clone(child));
                operands.push(None);
                continue;
            }
            let name = format!("{}", children.len());
            let field = child.return_field(schema)?.as_ref().clone();
            let node = self.add(child, file)?;
            let node = node.ok_or_else(|| internal_datafusion_err!("{child} has no key"))?;
            children.push(node);
            operands.push(Some(node));
            replaced.push(Arc::new(Column::new(&name, fields.len())));
            fields.push(Arc::new(field.with_name(name)));
        }
        Ok(Source::Compute {
            narrowed: narrowed(expr, &operands, schema),
            expr: Arc::clone(expr).with_new_children(replaced)?,
            children,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The inputs that these nodes read, each once, as positions in [`Graph::inputs`].
    pub(crate) fn inputs_of(&self, nodes: impl Iterator<Item = NodeId>) -> Vec<usize> {
        let mut inputs = Vec::new();
        let mut seen = vec![false; self.nodes.len()];
        let mut open: Vec<NodeId> = nodes.collect();
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut seen[node], true) {
                continue;
            }
            match &self.nodes[node].source {
                Source::Input(input) => inputs.push(*input),
                Source::Compute { children, .. } => open.extend(children),
            }
        }
        inputs.sort_unstable();
        inputs
    }

    /// The node's values for the rows of the frame; `inputs` are the columns for the same rows.
    ///
    /// # Errors
    /// The error of an expression.
    pub(crate) fn value(
        &self,
        node: NodeId,
        frame: &mut Frame,
        inputs: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        if let Some(known) = &frame.values[node] {
            return Ok(Arc::clone(known));
        }
        let Node { data_type, source } = &self.nodes[node];
        let value = match source {
            Source::Input(input) => widen(&inputs(*input)?, data_type)?,
            Source::Compute {
                narrowed,
                expr,
                children,
                schema,
            } => {
                let narrow = match narrowed {
                    None => None,
                    Some(Narrowed::Value(_)) => {
                        let narrow = self.narrow(node, frame, inputs)?;
                        narrow.and_then(|narrow| narrow.widen(data_type))
                    }
                    Some(Narrowed::Comparison(comparison)) => {
                        let sides = comparison.sides.map(|(operand, _)| Some(operand));
                        let known = self.narrow_operands(sides, frame, inputs)?;
                        let compared = comparison.apply(&known, frame.rows);
                        compared.map(|values| Arc::new(values) as ArrayRef)
                    }
                    Some(Narrowed::Float(float)) => {
                        let sides = [Some(float.operand), None];
                        let known = self.narrow_operands(sides, frame, inputs)?;
                        float
                            .apply(&known)
                            .map(|values| Arc::new(values) as ArrayRef)
                    }
                };
                match narrow {
                    Some(values) => values,
                    None => {
                        let columns = children
                            .iter()
                            .map(|child| self.value(*child, frame, inputs))
                            .collect::<Result<_>>()?;
                        let options = RecordBatchOptions::new().with_row_count(Some(frame.rows));
                        let schema = Arc::clone(schema);
                        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
                        expr.evaluate(&batch)?.into_array(frame.rows)?
                    }
                }
            }
        };
        frame.values[node] = Some(Arc::clone(&value));
        Ok(value)
    }

    /// Like [`Graph::value`], but a column that is kept as a dictionary array stays one, whichever
    /// text type the expression has.
    ///
    /// # Errors
    /// As [`Graph::value`].
    pub(crate) fn value_as_kept(
        &self,
        node: NodeId,
        frame: &mut Frame,
        inputs: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        if let Some(input) = self.input_as_text(node) {
            let array = inputs(input)?;
            if matches!(array.data_type(), DataType::Dictionary(..)) {
                return Ok(array);
            }
        }
        self.value(node, frame, inputs)
    }

    /// The input that the node is, or that it casts to another type of text.
    fn input_as_text(&self, node: NodeId) -> Option<usize> {
        let Node { data_type, source } = &self.nodes[node];
        match source {
            Source::Input(input) => Some(*input),
            Source::Compute { expr, children, .. } => {
                let [child] = children[..] else { return None };
                let texts = is_text(data_type) && is_text(&self.nodes[child].data_type);
                let casts = expr.is::<CastExpr>() && texts;
                casts.then(|| self.input_as_text(child)).flatten()
            }
        }
    }

    /// The node's values in 64 bits, if they are proved to fit.
    ///
    /// # Errors
    /// If a column is not there: a bug.
    pub(crate) fn narrow(
        &self,
        node: NodeId,
        frame: &mut Frame,
        inputs: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<Option<Narrow>> {
        match &frame.narrow[node] {
            Known::Nothing => {}
            Known::TheyDoNotFit => return Ok(None),
            Known::Values(known) => return Ok(Some(known.clone())),
        }
        let narrow = match &self.nodes[node].source {
            Source::Input(input) => Narrow::of_array(&inputs(*input)?),
            Source::Compute {
                narrowed: Some(Narrowed::Value(op)),
                ..
            } => {
                let known = self.narrow_operands(op.operands(), frame, inputs)?;
                op.apply(&known, frame.rows)
            }
            Source::Compute { .. } => None,
        };
        frame.narrow[node] = narrow.clone().map_or(Known::TheyDoNotFit, Known::Values);
        Ok(narrow)
    }

    fn narrow_operands(
        &self,
        operands: [Option<Operand>; 2],
        frame: &mut Frame,
        inputs: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<[Option<Narrow>; 2]> {
        let mut known = [None, None];
        for (operand, known) in operands.into_iter().zip(&mut known) {
            if let Some(Operand::Node(node)) = operand {
                *known = self.narrow(node, frame, inputs)?;
            }
        }
        Ok(known)
    }

    /// An empty frame for `rows` rows.
    pub(crate) fn frame(&self, rows: usize) -> Frame {
        Frame {
            rows,
            values: vec![None; self.nodes.len()],
            narrow: vec![Known::Nothing; self.nodes.len()],
        }
    }
}

impl Frame {
    /// The number of rows of the frame.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
}

/// A filter for use on several columns.
pub(crate) fn filter_of(mask: &BooleanArray) -> FilterPredicate {
    FilterBuilder::new(mask).optimize().build()
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Whether evaluating the expression always evaluates its children for every row.
fn is_divisible(expr: &Arc<dyn PhysicalExpr>) -> bool {
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) => !matches!(binary.op(), Operator::And | Operator::Or),
        None => {
            expr.is::<CastExpr>()
                || expr.is::<NotExpr>()
                || expr.is::<IsNullExpr>()
                || expr.is::<IsNotNullExpr>()
                || expr.is::<NegativeExpr>()
                || expr.is::<LikeExpr>()
                || expr
                    .downcast_ref::<ScalarFunctionExpr>()
                    .is_some_and(|function| !function.fun().short_circuits())
                || expr
                    .downcast_ref::<InListExpr>()
                    .is_some_and(|list| list.list().iter().all(|item| item.is::<Literal>()))
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Decimal64Array, Decimal128Array, DictionaryArray, Int64Array};
    use arrow::datatypes::Int32Type;
    use coscan_pg::numbers::CheckedInteger;
    use coscan_storage::narrowest;
    use datafusion::common::ScalarValue;
    use datafusion::config::ConfigOptions;
    use datafusion::logical_expr::ScalarUDF;
    use datafusion::physical_expr::expressions::{cast, col, lit};
    use proptest::prelude::*;

    use super::*;

    const EDGE: i64 = 999_999_999_999_999_999;

    fn decimal(value: i64, precision: u8, scale: i8) -> Arc<dyn PhysicalExpr> {
        lit(ScalarValue::Decimal128(
            Some(value.into()),
            precision,
            scale,
        ))
    }

    /// Expressions over columns `a` (scale 2) and `b` (scale 4), as a planner might write them.
    fn expr(schema: &Schema, seed: &[u8]) -> Arc<dyn PhysicalExpr> {
        let mut made = vec![col("a", schema).unwrap(), col("b", schema).unwrap()];
        for step in seed {
            let pick = |n: u8| Arc::clone(&made[usize::from(n) % made.len()]);
            let (left, right) = (pick(step >> 3), pick(step >> 5));
            let of = |left, op, right| -> Arc<dyn PhysicalExpr> {
                Arc::new(BinaryExpr::new(left, op, right))
            };
            let next = match step % 8 {
                0 => of(left, Operator::Plus, right),
                1 => of(left, Operator::Minus, right),
                2 => of(left, Operator::Multiply, right),
                3 => of(decimal(1, 1, 0), Operator::Minus, right),
                4 => of(
                    left,
                    Operator::Multiply,
                    decimal(i64::from(*step) - 100, 5, 2),
                ),
                5 => Arc::new(NegativeExpr::new(left)),
                6 => match cast(Arc::clone(&left), schema, DataType::Decimal128(30, 6)) {
                    Ok(cast) => cast,
                    Err(_) => left,
                },
                _ => of(left, Operator::Plus, decimal(5, 3, 2)),
            };
            if next.data_type(schema).is_ok() {
                made.push(next);
            }
        }
        let last = Arc::clone(&made[made.len() - 1]);
        // Planners bring both sides of a comparison to one type.
        match (seed.len() % 3, last.data_type(schema)) {
            (0, Ok(DataType::Decimal128(precision, scale))) => {
                let literal = decimal(77, precision, scale);
                Arc::new(BinaryExpr::new(last, Operator::LtEq, literal))
            }
            (1, Ok(_)) => cast(last, schema, DataType::Float64).unwrap(),
            _ => last,
        }
    }

    fn checked(
        left: Arc<dyn PhysicalExpr>,
        op: Operator,
        right: Arc<dyn PhysicalExpr>,
        schema: &Schema,
    ) -> Arc<dyn PhysicalExpr> {
        let function = ScalarUDF::from(CheckedInteger::new(op));
        let config = Arc::new(ConfigOptions::default());
        let args = vec![left, right];
        let call = ScalarFunctionExpr::try_new(Arc::new(function), args, schema, config);
        Arc::new(call.unwrap())
    }

    /// Fifty integers of 32 bits, small ones or up to the edges.
    fn whole() -> impl Strategy<Value = Vec<Option<i64>>> {
        let edges = vec![i64::from(i32::MAX), i64::from(i32::MIN), -1, 0, 1];
        let small = proptest::option::weighted(0.9, -100i64..100);
        let edge = proptest::option::weighted(0.9, proptest::sample::select(edges));
        prop_oneof![
            3 => proptest::collection::vec(small, 50),
            1 => proptest::collection::vec(edge, 50),
        ]
    }

    fn column() -> impl Strategy<Value = Vec<Option<i64>>> {
        let tiny = proptest::option::weighted(0.9, -100i64..100);
        let small = proptest::option::weighted(0.9, -10_000i64..10_000);
        let of_32_bits = proptest::option::weighted(0.9, -(1i64 << 31)..1 << 31);
        let large = proptest::option::weighted(0.9, -EDGE..EDGE);
        prop_oneof![
            1 => proptest::collection::vec(tiny, 50),
            2 => proptest::collection::vec(small, 50),
            1 => proptest::collection::vec(of_32_bits, 50),
            1 => proptest::collection::vec(large, 50),
        ]
    }

    #[test]
    fn integers_are_decimals_without_a_copy() {
        let schema = Schema::new(vec![Field::new("i", DataType::Int64, true)]);
        let kept: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(i64::MIN)]));
        let small = narrowest(Arc::new(Int64Array::from(vec![Some(7), None, Some(-9)])));
        let reads = [ColumnRequest::exact(Arc::new(schema.field(0).clone()))];
        let file = FileColumns {
            schema: &schema,
            reads: &reads,
        };
        for (precision, scale) in [(38, 0), (19, 0), (22, 3), (18, 0), (3, 1), (1, 0)] {
            let column = col("i", &schema).unwrap();
            let expr = cast(column, &schema, DataType::Decimal128(precision, scale)).unwrap();
            for (kept, read) in [
                (&kept, &kept),
                (&small, &widen(&small, &DataType::Int64).unwrap()),
            ] {
                let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::clone(read)]);
                let expected = expr.evaluate(&batch.unwrap()).and_then(|v| v.into_array(3));
                let mut graph = Graph::default();
                let node = graph.add(&expr, file).unwrap().unwrap();
                let input = |_: usize| -> Result<ArrayRef> { Ok(Arc::clone(kept)) };
                let found = graph.value(node, &mut graph.frame(3), &input);
                match (&found, &expected) {
                    (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{expr}"),
                    _ => assert_eq!(found.is_err(), expected.is_err(), "{expr}"),
                }
            }
        }
        let wide = cast(
            col("i", &schema).unwrap(),
            &schema,
            DataType::Decimal128(19, 0),
        )
        .unwrap();
        let mut graph = Graph::default();
        let node = graph.add(&wide, file).unwrap().unwrap();
        let input = |_: usize| -> Result<ArrayRef> { Ok(Arc::clone(&kept)) };
        let narrow = graph.narrow(node, &mut graph.frame(3), &input).unwrap();
        assert!(narrow.is_some(), "it is summed in 64 bits");
    }

    #[test]
    fn references_stay_references_for_any_text_type() {
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8, true)]);
        let read = Field::new_dictionary("s", DataType::Int32, DataType::Utf8, true);
        let reads = [ColumnRequest::exact(Arc::new(read))];
        let file = FileColumns {
            schema: &schema,
            reads: &reads,
        };
        let texts: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        let kept = narrowest(Arc::new(texts));
        let column = col("s", &schema).unwrap();
        let view = cast(Arc::clone(&column), &schema, DataType::Utf8View).unwrap();
        let bytes = cast(Arc::clone(&column), &schema, DataType::BinaryView).unwrap();
        let mut graph = Graph::default();
        let input = |_: usize| -> Result<ArrayRef> { Ok(Arc::clone(&kept)) };
        for (expr, stays) in [(column, true), (view, true), (bytes, false)] {
            let node = graph.add(&expr, file).unwrap().unwrap();
            let mut frame = graph.frame(3);
            let value = graph.value_as_kept(node, &mut frame, &input).unwrap();
            let refers = matches!(value.data_type(), DataType::Dictionary(..));
            assert_eq!(refers, stays, "{expr}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        #[test]
        fn values_are_those_of_datafusion(
            a in column(),
            b in column(),
            seed in proptest::collection::vec(any::<u8>(), 1..6),
            shrink in any::<bool>(),
        ) {
            let schema = Schema::new(vec![
                Field::new("a", DataType::Decimal128(18, 2), true),
                Field::new("b", DataType::Decimal128(18, 4), true),
            ]);
            let reads = [("a", 2), ("b", 4)].map(|(name, scale)| {
                ColumnRequest::exact(Arc::new(Field::new(name, DataType::Decimal64(18, scale), true)))
            });
            let expr = expr(&schema, &seed);
            let wide = |values: &[Option<i64>], scale: i8| -> ArrayRef {
                let array: Decimal128Array = values.iter().map(|v| v.map(i128::from)).collect();
                Arc::new(array.with_precision_and_scale(18, scale).unwrap())
            };
            let narrow = |values: &[Option<i64>], scale: i8| -> ArrayRef {
                let array: Decimal64Array = values.iter().copied().collect();
                let array = Arc::new(array.with_precision_and_scale(18, scale).unwrap());
                if shrink { narrowest(array) } else { array }
            };
            let rows = a.len();
            let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![wide(&a, 2), wide(&b, 4)]);
            let expected = expr.evaluate(&batch.unwrap()).and_then(|v| v.into_array(rows));
            let mut graph = Graph::default();
            let file = FileColumns { schema: &schema, reads: &reads };
            let node = graph.add(&expr, file).unwrap().unwrap();
            let columns = [("a", narrow(&a, 2)), ("b", narrow(&b, 4))];
            let input = |at: usize| -> Result<ArrayRef> {
                let name = &graph.inputs()[at].name;
                let column = columns.iter().find(|(column, _)| column == name);
                Ok(Arc::clone(&column.unwrap().1))
            };
            let found = graph.value(node, &mut graph.frame(rows), &input);
            match (found, expected) {
                (Ok(found), Ok(expected)) => {
                    prop_assert_eq!(found.data_type(), expected.data_type());
                    prop_assert_eq!(&found, &expected, "{}", expr);
                }
                // An expression must fail here exactly if it fails in DataFusion.
                (found, expected) => prop_assert_eq!(found.is_err(), expected.is_err(), "{}", expr),
            }
        }

        /// Integer arithmetic, with a check or, where types prove that the result fits, without: a
        /// result outside of its type is an error here exactly if it is one in the function
        /// itself.
        #[test]
        fn checked_integers_are_those_of_postgresql(
            a in whole(),
            b in whole(),
            steps in proptest::collection::vec(any::<u8>(), 1..5),
            wide in any::<bool>(),
        ) {
            let of = if wide { DataType::Int64 } else { DataType::Int32 };
            let schema = Schema::new(vec![
                Field::new("a", of.clone(), true),
                Field::new("b", of.clone(), true),
            ]);
            let columns = [a, b].map(|values| {
                let values: ArrayRef = Arc::new(Int64Array::from(values));
                arrow::compute::cast(&values, &of).unwrap()
            });
            let mut made = vec![col("a", &schema).unwrap(), col("b", &schema).unwrap()];
            for step in steps {
                let pick = |n: u8| Arc::clone(&made[usize::from(n) % made.len()]);
                let ops = [Operator::Plus, Operator::Minus, Operator::Multiply];
                let constant = ScalarValue::Int64(Some(i64::from(step) - 100)).cast_to(&of);
                let right = if step >= 192 { lit(constant.unwrap()) } else { pick(step >> 5) };
                made.push(checked(pick(step >> 3), ops[usize::from(step) % 3], right, &schema));
            }
            let expr = Arc::clone(&made[made.len() - 1]);
            let rows = columns[0].len();
            let batch = RecordBatch::try_new(Arc::new(schema.clone()), columns.to_vec());
            let expected = expr.evaluate(&batch.unwrap()).and_then(|v| v.into_array(rows));
            let reads = schema.fields().iter().cloned().map(ColumnRequest::exact);
            let reads: Vec<ColumnRequest> = reads.collect();
            let mut graph = Graph::default();
            let file = FileColumns { schema: &schema, reads: &reads };
            let node = graph.add(&expr, file).unwrap().unwrap();
            let input = |at: usize| -> Result<ArrayRef> {
                let of_b = graph.inputs()[at].name == "b";
                Ok(narrowest(Arc::clone(&columns[usize::from(of_b)])))
            };
            match (graph.value(node, &mut graph.frame(rows), &input), expected) {
                (Ok(found), Ok(expected)) => prop_assert_eq!(&found, &expected, "{}", expr),
                (found, expected) => prop_assert_eq!(found.is_err(), expected.is_err(), "{}", expr),
            }
        }

        /// Comparisons of dates and integers, kept in any width.
        #[test]
        fn comparisons_are_those_of_datafusion(
            days in proptest::collection::vec(
                proptest::option::weighted(0.9, prop_oneof![any::<i32>(), 8_000..9_000, -130..130]),
                50,
            ),
            keys in column(),
            constant in prop_oneof![any::<i32>(), 8_000..9_000, -130..130],
            op in 0..6usize,
            of_days in any::<bool>(),
            swapped in any::<bool>(),
        ) {
            let op = [
                Operator::Eq,
                Operator::NotEq,
                Operator::Lt,
                Operator::LtEq,
                Operator::Gt,
                Operator::GtEq,
            ][op];
            let fields = vec![
                Field::new("d", DataType::Date32, true),
                Field::new("k", DataType::Int64, true),
            ];
            let schema = Arc::new(Schema::new(fields));
            let columns: [ArrayRef; 2] =
                [Arc::new(Date32Array::from(days)), Arc::new(Int64Array::from(keys))];
            let (column, constant) = if of_days {
                (col("d", &schema).unwrap(), ScalarValue::Date32(Some(constant)))
            } else {
                (col("k", &schema).unwrap(), ScalarValue::Int64(Some(constant.into())))
            };
            let (left, right) = if swapped { (lit(constant), column) } else { (column, lit(constant)) };
            let expr: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(left, op, right));
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).unwrap();
            let expected = expr.evaluate(&batch).unwrap().into_array(50).unwrap();
            let reads = schema.fields().iter().cloned().map(ColumnRequest::exact);
            let reads: Vec<ColumnRequest> = reads.collect();
            let mut graph = Graph::default();
            let file = FileColumns { schema: &schema, reads: &reads };
            let node = graph.add(&expr, file).unwrap().unwrap();
            let input = |_: usize| -> Result<ArrayRef> {
                Ok(narrowest(Arc::clone(&columns[usize::from(!of_days)])))
            };
            let found = graph.value(node, &mut graph.frame(50), &input).unwrap();
            prop_assert_eq!(&found, &expected, "{}", expr);
        }
    }
}
