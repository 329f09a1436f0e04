//! Which expressions have the same value in every row of a plan, or one known value?
//!
//! Equality conditions say so: `a = 5` of a filter, `a = b` of an inner join. A fact about an
//! operator's input is a fact about its output as far as the output has columns for it.
//!
//! Not here: what follows for keys (`mod.rs`).
//! Bounds: conditions add expressions up to [`FACTS_MAX`], and a join keeps as many classes. What
//! is left out is not known.
//! NKEY-I1: members of a class have one type, by whose equality equal values are the same value.
//! For floats (0 and -0) and intervals (a month and 30 days) they are not.

use std::collections::HashSet;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection, Union,
};
use datafusion::scalar::ScalarValue;

/// Queries have a few dozen; each is compared with all others.
const FACTS_MAX: usize = 256;

/// What is known of the expressions over a plan's rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Equal(Vec<Class>);

/// Expressions of equal value.
#[derive(Clone, Debug, Default)]
struct Class {
    value: Option<ScalarValue>,
    members: Vec<Expr>,
}

impl Equal {
    /// What is known of the rows of `plan`, given what is known of its inputs' rows.
    pub(super) fn of(plan: &LogicalPlan, mut inputs: Vec<Self>) -> Self {
        if let LogicalPlan::Join(join) = plan {
            return Self::of_join(join, inputs);
        }
        if let LogicalPlan::Union(union) = plan {
            return Self::of_union(union, &inputs);
        }
        let input = inputs.pop().unwrap_or_default();
        match plan {
            LogicalPlan::TableScan(scan) => {
                let mut known = Self::default();
                for filter in &scan.filters {
                    known.learn(filter, &scan.projected_schema);
                }
                known
            }
            LogicalPlan::Filter(filter) => {
                let mut known = input;
                known.learn(&filter.predicate, filter.input.schema());
                known
            }
            LogicalPlan::Projection(Projection { expr, schema, .. }) => {
                input.through(expr.iter(), schema)
            }
            LogicalPlan::Aggregate(aggregate) if !is_grouping_set(&aggregate.group_expr) => {
                input.through(aggregate.group_expr.iter(), &aggregate.schema)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let columns = alias.input.schema().columns();
                let columns: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
                input.through(columns.iter(), &alias.schema)
            }
            LogicalPlan::Window(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Distinct(Distinct::All(_))
            | LogicalPlan::Repartition(_) => input,
            _ => Self::default(),
        }
    }

    fn of_join(join: &Join, mut inputs: Vec<Self>) -> Self {
        use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi};
        use JoinType::{Right, RightAnti, RightMark, RightSemi};
        let right = inputs.pop().unwrap_or_default();
        let left = inputs.pop().unwrap_or_default();
        match join.join_type {
            Left | LeftAnti | LeftMark => left,
            Right | RightAnti | RightMark => right,
            Inner | LeftSemi | RightSemi => {
                let mut known = left;
                known.0.extend(right.0);
                known.0.truncate(FACTS_MAX);
                let (left, right) = (join.left.schema(), join.right.schema());
                for (of_left, of_right) in &join.on {
                    let types = (of_left.get_type(left), of_right.get_type(right));
                    if let (Ok(of), Ok(same)) = types
                        && of == same
                    {
                        known.same(of_left, of_right, &of);
                    }
                }
                if let Some(filter) = &join.filter
                    && let Ok(both) = left.join(right)
                {
                    known.learn(filter, &both);
                }
                known.only(&join.schema)
            }
            JoinType::Full => Self::default(),
        }
    }

    /// The columns that have the same known value in all inputs.
    fn of_union(union: &Union, inputs: &[Self]) -> Self {
        let mut known = Self::default();
        for (at, column) in union.schema.columns().into_iter().enumerate() {
            let mut values = union.inputs.iter().zip(inputs).map(|(plan, known)| {
                let column = plan.schema().columns().into_iter().nth(at)?;
                known.value(&Expr::Column(column)).cloned()
            });
            if let Some(Some(first)) = values.next()
                && values.all(|value| value.as_ref() == Some(&first))
            {
                known.constant(&Expr::Column(column), &first);
            }
        }
        known
    }

    /// The value that an expression has in every row.
    pub(super) fn value<'a>(&'a self, of: &'a Expr) -> Option<&'a ScalarValue> {
        match unaliased(of) {
            Expr::Literal(value, _) => Some(value),
            of => self.class(of).and_then(|at| self.0[at].value.as_ref()),
        }
    }

    /// Whether two expressions have the same value in every row.
    pub(super) fn are_same(&self, a: &Expr, b: &Expr) -> bool {
        let class = self.class(unaliased(a));
        class.is_some() && class == self.class(unaliased(b))
    }

    /// Learns from a condition that all rows meet.
    fn learn(&mut self, condition: &Expr, schema: &DFSchema) {
        for part in split_conjunction(condition) {
            let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else {
                continue;
            };
            if *op != Operator::Eq || left.is_volatile() || right.is_volatile() {
                continue;
            }
            match (left.as_ref(), right.as_ref()) {
                (Expr::Literal(value, _), of) | (of, Expr::Literal(value, _)) => {
                    self.constant(of, value);
                }
                (left, right) => {
                    if let (Ok(of), Ok(same)) = (left.get_type(schema), right.get_type(schema))
                        && of == same
                    {
                        self.same(left, right, &of);
                    }
                }
            }
        }
    }

    fn constant(&mut self, expr: &Expr, value: &ScalarValue) {
        if !value.is_null() && is_exact(&value.data_type()) {
            let at = self.class_or_new(expr);
            if let Some(class) = at.map(|at| &mut self.0[at]) {
                class.value.get_or_insert_with(|| value.clone());
            }
        }
    }

    fn same(&mut self, a: &Expr, b: &Expr, data_type: &DataType) {
        if !is_exact(data_type) {
            return;
        }
        let (Some(a), Some(b)) = (self.class_or_new(a), self.class_or_new(b)) else {
            return;
        };
        if a != b {
            let gone = std::mem::take(&mut self.0[b]);
            let class = &mut self.0[a];
            class.value = class.value.take().or(gone.value);
            class.members.extend(gone.members);
        }
    }

    fn class(&self, of: &Expr) -> Option<usize> {
        self.0.iter().position(|class| class.members.contains(of))
    }

    fn class_or_new(&mut self, of: &Expr) -> Option<usize> {
        if let Some(at) = self.class(of) {
            return Some(at);
        }
        if self
            .0
            .iter()
            .map(|class| class.members.len())
            .sum::<usize>()
            >= FACTS_MAX
        {
            return None;
        }
        self.0.push(Class {
            value: None,
            members: vec![of.clone()],
        });
        Some(self.0.len() - 1)
    }

    /// What is known where these expressions are the first columns of `schema`.
    fn through<'a>(&self, exprs: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Self {
        let columns = schema.columns().into_iter().map(Expr::Column);
        let columns: Vec<(&Expr, Expr)> = exprs.map(unaliased).zip(columns).collect();
        let mut known = Self::default();
        for class in &self.0 {
            let of = columns
                .iter()
                .filter(|(expr, _)| class.members.contains(expr));
            let members: Vec<Expr> = of.map(|(_, column)| column.clone()).collect();
            if !members.is_empty() {
                let value = class.value.clone();
                known.0.push(Class { value, members });
            }
        }
        for (expr, column) in &columns {
            if let Expr::Literal(value, _) = expr {
                known.constant(column, value);
            }
        }
        known
    }

    /// What is known of the columns of `schema`.
    fn only(mut self, schema: &DFSchema) -> Self {
        let columns: HashSet<Column> = schema.columns().into_iter().collect();
        for class in &mut self.0 {
            class.members.retain(|member| {
                let mut of_member = member.column_refs().into_iter();
                of_member.all(|column| columns.contains(column))
            });
        }
        self.0.retain(|class| !class.members.is_empty());
        self
    }
}

/// The expression that an alias names.
pub(in crate::plan) fn unaliased(mut expr: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    expr
}

pub(super) fn is_grouping_set(keys: &[Expr]) -> bool {
    keys.iter().any(|key| matches!(key, Expr::GroupingSet(_)))
}

/// Whether equal values of a type are the same value.
fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_decimal()
        || data_type.is_string()
        || data_type.is_binary()
        || matches!(data_type, DataType::Boolean | DataType::FixedSizeBinary(_))
        || matches!(data_type, DataType::Date32 | DataType::Date64)
        || matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
        || matches!(data_type, DataType::Timestamp(..))
}
