//! Which type does PostgreSQL infer for a parameter from its uses?
//!
//! Idea: an expression with a parameter of unknown type is resolved as in PostgreSQL (`resolve`):
//! the other arguments select the operator, function or CASE, and the selection determines the
//! parameter's type. The first use decides.
//!
//! The input is a plan with untyped parameters, before DataFusion's coercion. A type that is found
//! may determine others, so the caller plans and infers repeatedly until no more types are found.
//!
//! Not here: declared types, and casts in the text (`dialect/parameters.rs`), which take
//! precedence.
//! More than 800 lines: one walk over all kinds of expressions and plans, a few lines for each.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::arrow::datatypes::Field;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::expr::{AggregateFunction, Placeholder, WindowFunctionDefinition};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::scalar::ScalarValue;
use postgres_types::Type;

use super::frames::in_frame;
use super::write::number;
use crate::PgError;
use crate::casts::CAST;
use crate::dialect::AS_ARRAY;
use crate::functions::FIELDS_NULL;
use crate::functions::arrays::{ALL, ANY, NESTED_ROW, OF_ARRAYS, SLICE, SUBSCRIPT};
use crate::functions::time::{SERIES, operators};
use crate::numbers::aggregation::{ARRAY, CASE, CASE_OF};
use crate::numbers::{arithmetic, integers};
use crate::once::Once;
use crate::output::pg_type;
use crate::resolve::{self, Oid, UNKNOWN, Undecided};
use crate::trees::{PlanTree, Tree};

const BOOL: Oid = 16;
const INT4: Oid = 23;
const INT8: Oid = 20;
const NUMERIC: Oid = 1700;

/// What the uses of parameters determine.
#[derive(Debug, Default)]
pub struct Inferred {
    /// The types that are certain.
    pub types: BTreeMap<usize, Type>,
    /// The types that only DataFusion infers.
    pub suggested: BTreeMap<usize, Type>,
    /// The parameters of the plan.
    pub all: BTreeSet<usize>,
    /// The error if PostgreSQL would not infer a parameter's type.
    pub ambiguous: Option<PgError>,
}

impl Inferred {
    /// Adds what was found in another plan.
    pub(super) fn add(&mut self, other: Self) {
        for (number, said) in other.types {
            self.types.entry(number).or_insert(said);
        }
        for (number, said) in other.suggested {
            self.suggested.entry(number).or_insert(said);
        }
        self.all.extend(other.all);
        self.ambiguous = self.ambiguous.take().or(other.ambiguous);
    }
}

/// Infers the types of parameters that are not in `known`.
///
/// # Errors
/// 42P02 for a parameter whose name is not a number.
pub fn infer(plan: &LogicalPlan, known: &BTreeMap<usize, Type>) -> Result<Inferred> {
    let mut walk = Walk {
        known,
        found: Inferred::default(),
    };
    plan.each_with_subqueries(|node| {
        walk.node(node)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(walk.found)
}

/// The type of an expression that may contain untyped parameters.
pub(super) fn type_in(expr: &Expr, schema: &DFSchema) -> Oid {
    let known = BTreeMap::new();
    let mut walk = Walk {
        known: &known,
        found: Inferred::default(),
    };
    walk.visit(expr, schema)
}

struct Walk<'a> {
    known: &'a BTreeMap<usize, Type>,
    found: Inferred,
}

impl Walk<'_> {
    fn node(&mut self, node: &LogicalPlan) -> Result<()> {
        let schema = input_schema(node)?;
        node.each_expression(|expr| {
            self.visit(expr, &schema);
            self.collect(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        match node {
            LogicalPlan::Filter(filter) => self.assign(&filter.predicate, BOOL),
            LogicalPlan::Limit(limit) => {
                for count in [&limit.skip, &limit.fetch].into_iter().flatten() {
                    self.assign(count, INT8);
                }
            }
            LogicalPlan::Join(join) => {
                if let Some(filter) = &join.filter {
                    self.assign(filter, BOOL);
                }
                // INTERSECT and EXCEPT.
                for (left, right) in &join.on {
                    let column = |side: &Expr, plan: &LogicalPlan| match side {
                        Expr::Column(column) => plan.schema().maybe_index_of_column(column),
                        _ => None,
                    };
                    if let (Some(left), Some(right)) =
                        (column(left, &join.left), column(right, &join.right))
                    {
                        let both = [(join.left.as_ref(), left), (join.right.as_ref(), right)];
                        self.columns_alike(&both);
                    }
                }
            }
            LogicalPlan::Values(values) => {
                for column in 0..values.schema.fields().len() {
                    let column: Vec<&Expr> = values
                        .values
                        .iter()
                        .filter_map(|row| row.get(column))
                        .collect();
                    // A single row determines no types, but its use may.
                    if column.len() > 1 {
                        self.alike(&column, &schema);
                    }
                }
            }
            LogicalPlan::Union(union) => {
                for column in 0..union.schema.fields().len() {
                    let inputs = union.inputs.iter().map(|input| (input.as_ref(), column));
                    self.columns_alike(&inputs.collect::<Vec<_>>());
                }
            }
            LogicalPlan::Dml(dml) => self.stored(dml),
            _ => {}
        }
        Ok(())
    }

    /// Gives the parameters among columns of one type that type.
    fn columns_alike(&mut self, columns: &[(&LogicalPlan, usize)]) {
        let mut outputs = vec![];
        let mut types = vec![];
        for (plan, column) in columns {
            types.push(match output(plan, *column) {
                Some((expr, schema)) => {
                    outputs.push(expr);
                    self.visit(expr, &schema)
                }
                None => match plan.schema().field(*column) {
                    field if field.data_type().is_null() => UNKNOWN,
                    field => pg_type(field).oid(),
                },
            });
        }
        if let Some(common) = resolve::common(&types) {
            for expr in outputs {
                self.assign(expr, common);
            }
        }
    }

    /// Notes all parameters, and the types that DataFusion infers for them.
    fn collect(&mut self, expr: &Expr) -> Result<()> {
        expr.each(|expr| {
            if let Expr::Placeholder(Placeholder { id, field }) = expr {
                let Some(number) = number(id).filter(|number| *number > 0) else {
                    let error = PgError::new("42P02", format!("there is no parameter {id}"));
                    return Err(error.into());
                };
                self.found.all.insert(number);
                if let Some(field) = field {
                    let suggested = || pg_type(field);
                    self.found.suggested.entry(number).or_insert_with(suggested);
                }
            }
            if let Expr::WindowFunction(call) = expr {
                for number in in_frame(call) {
                    self.found.all.insert(number);
                    if !self.known.contains_key(&number) {
                        self.found.types.entry(number).or_insert(Type::INT8);
                    }
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// INSERT: a stored value has the column's type, in each row of VALUES.
    fn stored(&mut self, dml: &DmlStatement) {
        let LogicalPlan::Projection(projection) = dml.input.as_ref() else {
            return;
        };
        let schema = projection.input.schema();
        let table = dml.target.schema();
        let columns = projection.expr.iter().zip(table.fields());
        let columns = columns.filter_map(|(expr, field)| match bare(expr) {
            Expr::Column(column) => {
                Some((schema.maybe_index_of_column(column)?, pg_type(field).oid()))
            }
            _ => None,
        });
        let mut columns: Vec<(usize, Oid)> = columns.collect();
        // In the statement's order: the first use decides.
        columns.sort_unstable();
        if let LogicalPlan::Values(values) = projection.input.as_ref() {
            for row in &values.values {
                for (at, stored) in &columns {
                    if let Some(cell) = row.get(*at) {
                        self.assign(bare(cell), *stored);
                    }
                }
            }
        } else {
            for (at, stored) in columns {
                if let Some((source, _)) = output(&projection.input, at) {
                    self.assign(source, stored);
                }
            }
        }
    }

    /// Returns the type of an expression, and types the parameters in it.
    #[allow(clippy::too_many_lines)] // One arm a kind of expression.
    fn visit(&mut self, expr: &Expr, schema: &DFSchema) -> Oid {
        match expr {
            Expr::Alias(alias) => self.visit(&alias.expr, schema),
            Expr::Placeholder(placeholder) => self.placeholder(placeholder),
            Expr::Literal(value, _) => literal(value),
            Expr::Cast(datafusion::logical_expr::Cast { expr, field }) => {
                let target = pg_type(field).oid();
                self.visit(expr, schema);
                self.assign(expr, target);
                target
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And | Operator::Or => {
                    for side in [left, right] {
                        self.visit(side, schema);
                        self.assign(side, BOOL);
                    }
                    BOOL
                }
                op => {
                    let name = operator_name(*op);
                    self.binary(&name, left, right, schema)
                }
            },
            Expr::Like(like) | Expr::SimilarTo(like) => {
                self.binary("~~", &like.expr, &like.pattern, schema)
            }
            Expr::Not(inner)
            | Expr::IsTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsNotUnknown(inner) => {
                self.visit(inner, schema);
                self.assign(inner, BOOL);
                BOOL
            }
            Expr::Negative(inner) => self.unary("-", inner, schema),
            Expr::Between(between) => {
                self.binary(">=", &between.expr, &between.low, schema);
                self.binary("<=", &between.expr, &between.high, schema)
            }
            Expr::InList(list) => {
                let mut all = vec![list.expr.as_ref()];
                all.extend(&list.list);
                self.alike(&all, schema);
                BOOL
            }
            Expr::Case(case) => {
                for (when, _) in &case.when_then_expr {
                    if let Some(base) = &case.expr {
                        self.binary("=", base, when, schema);
                    } else {
                        self.visit(when, schema);
                        self.assign(when, BOOL);
                    }
                }
                let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
                let results: Vec<&Expr> = results.chain(case.else_expr.as_deref()).collect();
                self.alike(&results, schema)
            }
            Expr::ScalarFunction(call) if call.name() == CAST => {
                let target = of_schema(expr, schema);
                if let Some(value) = call.args.first() {
                    self.visit(value, schema);
                    self.assign(value, target);
                }
                target
            }
            Expr::ScalarFunction(call) => {
                match (symbol(call.name()), call.args.as_slice()) {
                    (Some(symbol), [left, right]) => {
                        return self.binary(symbol, left, right, schema);
                    }
                    (Some(symbol), [operand]) => return self.unary(symbol, operand, schema),
                    _ => {}
                }
                let arguments: Vec<&Expr> = call.args.iter().collect();
                match self.call(call.name(), &arguments, schema) {
                    UNKNOWN => {
                        if !resolve::is_function(postgresqls(call.name())) {
                            self.coerced(expr, schema);
                        }
                        of_schema(expr, schema)
                    }
                    result => result,
                }
            }
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
                self.visit(inner, schema);
                self.without_type(inner);
                BOOL
            }
            Expr::AggregateFunction(call) => {
                let arguments: Vec<&Expr> = call.params.args.iter().collect();
                if let Some(filter) = &call.params.filter {
                    self.visit(filter, schema);
                    self.assign(filter, BOOL);
                }
                for sort in &call.params.order_by {
                    self.visit(&sort.expr, schema);
                }
                if is_array_of_rows(call) {
                    let row = self.visit(arguments[0], schema);
                    self.assign(arguments[0], row_type(row));
                } else {
                    let mut arguments = arguments;
                    // DataFusion puts the sort expression of WITHIN GROUP first.
                    if call.func.supports_within_group_clause() && !arguments.is_empty() {
                        arguments.rotate_left(1);
                    }
                    self.call(call.func.name(), &arguments, schema);
                }
                of_schema(expr, schema)
            }
            Expr::WindowFunction(call) => {
                let arguments: Vec<&Expr> = call.params.args.iter().collect();
                let parts = call.params.partition_by.iter();
                let sorts = call.params.order_by.iter().map(|sort| &sort.expr);
                for part in parts.chain(sorts) {
                    self.visit(part, schema);
                }
                if let Some(filter) = &call.params.filter {
                    self.visit(filter, schema);
                    self.assign(filter, BOOL);
                }
                let name = match &call.fun {
                    WindowFunctionDefinition::AggregateUDF(function) => function.name(),
                    WindowFunctionDefinition::WindowUDF(function) => function.name(),
                };
                self.call(name, &arguments, schema);
                of_schema(expr, schema)
            }
            Expr::InSubquery(within) => {
                let given = self.visit(&within.expr, schema);
                self.compared(&within.expr, given, &within.subquery.subquery);
                BOOL
            }
            Expr::SetComparison(comparison) => {
                let given = self.visit(&comparison.expr, schema);
                self.compared(&comparison.expr, given, &comparison.subquery.subquery);
                BOOL
            }
            other => {
                let _ = other.apply_children(|child| {
                    self.visit(child, schema);
                    Ok(TreeNodeRecursion::Continue)
                });
                of_schema(other, schema)
            }
        }
    }

    fn placeholder(&self, placeholder: &Placeholder) -> Oid {
        let Some(number) = number(&placeholder.id) else {
            return UNKNOWN;
        };
        let known = self
            .known
            .get(&number)
            .or_else(|| self.found.types.get(&number));
        known.map_or(UNKNOWN, Type::oid)
    }

    /// A binary operator. Returns its result type.
    fn binary(&mut self, name: &str, left: &Expr, right: &Expr, schema: &DFSchema) -> Oid {
        let given = [self.visit(left, schema), self.visit(right, schema)];
        match resolve::binary(name, given[0], given[1]) {
            Ok(chosen) => {
                self.assign(left, chosen.arguments[0]);
                self.assign(right, chosen.arguments[1]);
                chosen.result
            }
            Err(Undecided::Several) if given.contains(&UNKNOWN) => {
                self.refuse(&[left, right], || {
                    let [left, right] = given.map(shown);
                    format!("operator is not unique: {left} {name} {right}")
                });
                UNKNOWN
            }
            Err(_) => UNKNOWN,
        }
    }

    /// A prefix operator. Returns its result type.
    fn unary(&mut self, name: &str, operand: &Expr, schema: &DFSchema) -> Oid {
        let given = self.visit(operand, schema);
        match resolve::unary(name, given) {
            Ok(chosen) => {
                self.assign(operand, chosen.arguments[0]);
                chosen.result
            }
            Err(Undecided::Several) if given == UNKNOWN => {
                self.refuse(&[operand], || {
                    format!("operator is not unique: {name} unknown")
                });
                UNKNOWN
            }
            Err(_) => given,
        }
    }

    /// A function with PostgreSQL's name. Returns [`UNKNOWN`] if PostgreSQL has no such function.
    fn call(&mut self, name: &str, arguments: &[&Expr], schema: &DFSchema) -> Oid {
        match name {
            "coalesce" | "greatest" | "least" | "nvl" => return self.alike(arguments, schema),
            "make_array" | ARRAY => {
                let element = self.alike(arguments, schema);
                return resolve::array_of(element).unwrap_or(UNKNOWN);
            }
            OF_ARRAYS if !arguments.is_empty() => return self.visit(arguments[0], schema),
            // CASE, as the dialect writes it: `condition, value, …, else`.
            CASE | CASE_OF => {
                let (operand, rest) = match (name, arguments) {
                    (CASE_OF, [operand, rest @ ..]) => {
                        let given = self.visit(operand, schema);
                        self.assign(operand, row_type(given));
                        (Some(*operand), rest)
                    }
                    _ => (None, arguments),
                };
                let mut values = vec![];
                for branch in rest.chunks(2) {
                    match (branch, operand) {
                        ([when, value], Some(operand)) => {
                            self.binary("=", operand, when, schema);
                            values.push(*value);
                        }
                        ([when, value], None) => {
                            self.visit(when, schema);
                            self.assign(when, BOOL);
                            values.push(*value);
                        }
                        (other, _) => values.extend(other),
                    }
                }
                return self.alike(&values, schema);
            }
            // The catalog of functions lacks those that implement operators.
            "array_cat" | "array_concat" | "list_concat" => {
                if let [left, right] = arguments {
                    return self.binary("||", left, right, schema);
                }
            }
            "nullif" => {
                if let [left, right] = arguments {
                    self.binary("=", left, right, schema);
                }
                return UNKNOWN;
            }
            // A subscript, which is not a function in PostgreSQL.
            "array_element" | "array_slice" | SUBSCRIPT | SLICE => {
                for (index, argument) in arguments.iter().enumerate() {
                    self.visit(argument, schema);
                    if index > 0 {
                        self.assign(argument, INT4);
                    }
                }
                return UNKNOWN;
            }
            // The array of a set-returning function.
            SERIES => {
                self.chosen("generate_series", arguments, schema);
                return UNKNOWN;
            }
            ANY | ALL => {
                let [symbol, left, array] = arguments else {
                    return UNKNOWN;
                };
                let Expr::Literal(symbol, _) = symbol else {
                    return UNKNOWN;
                };
                let given = [self.visit(left, schema), self.visit(array, schema)];
                let element = resolve::element_of(given[1]).unwrap_or(UNKNOWN);
                let symbol = symbol.try_as_str().flatten().unwrap_or_default();
                if let Ok(chosen) = resolve::binary(symbol, given[0], element) {
                    self.assign(left, chosen.arguments[0]);
                    if let Some(array_type) = resolve::array_of(chosen.arguments[1]) {
                        self.assign(array, array_type);
                    }
                }
                return BOOL;
            }
            FIELDS_NULL => {
                if let [row, _] = arguments {
                    self.visit(row, schema);
                    self.without_type(row);
                }
                return BOOL;
            }
            "row" | NESTED_ROW => {
                for argument in arguments {
                    self.visit(argument, schema);
                    self.without_type(argument);
                }
                return UNKNOWN;
            }
            AS_ARRAY => {
                let [array, like] = arguments else {
                    return UNKNOWN;
                };
                let given = self.visit(array, schema);
                if resolve::element_of(given).is_some() {
                    return given;
                }
                let like = self.visit(like, schema);
                // A text, or an untyped value, is compared with texts.
                let array_type = resolve::array_of(row_type(like)).unwrap_or(UNKNOWN);
                self.assign(array, array_type);
                return array_type;
            }
            _ => {}
        }
        self.chosen(postgresqls(name), arguments, schema)
    }

    /// The function that PostgreSQL selects by this name, which types the arguments.
    fn chosen(&mut self, name: &str, arguments: &[&Expr], schema: &DFSchema) -> Oid {
        let given: Vec<Oid> = arguments
            .iter()
            .map(|one| self.visit(one, schema))
            .collect();
        match resolve::function(name, &given) {
            Ok(chosen) => {
                for (argument, chosen) in arguments.iter().zip(chosen.arguments) {
                    match chosen {
                        UNKNOWN => self.without_type(argument),
                        chosen => self.assign(argument, chosen),
                    }
                }
                chosen.result
            }
            Err(Undecided::Several) if given.contains(&UNKNOWN) => {
                self.refuse(arguments, || {
                    let given: Vec<_> = given.iter().copied().map(shown).collect();
                    format!("function {name}({}) is not unique", given.join(", "))
                });
                UNKNOWN
            }
            Err(Undecided::Polymorphic) => {
                self.refused(arguments, PgError::polymorphic);
                UNKNOWN
            }
            Err(_) => UNKNOWN,
        }
    }

    /// Types the arguments of one of our own functions.
    fn coerced(&mut self, expr: &Expr, schema: &DFSchema) {
        use datafusion::arrow::datatypes::DataType;
        let Expr::ScalarFunction(call) = expr else {
            return;
        };
        let given = call.args.iter().map(|argument| match argument {
            Expr::Placeholder(_) => DataType::Null,
            other => other.get_type(schema).unwrap_or(DataType::Null),
        });
        let given: Vec<_> = given.collect();
        let Ok(taken) = call.func.coerce_types(&given) else {
            return;
        };
        for (argument, taken) in call.args.iter().zip(taken) {
            if taken != DataType::Null {
                self.assign(argument, pg_type(&Field::new("", taken, true)).oid());
            }
        }
    }

    /// Expressions with a common type, such as the branches of CASE. Returns the type.
    fn alike(&mut self, all: &[&Expr], schema: &DFSchema) -> Oid {
        let given: Vec<Oid> = all.iter().map(|one| self.visit(one, schema)).collect();
        let Some(common) = resolve::common(&given) else {
            return UNKNOWN;
        };
        for one in all {
            self.assign(one, common);
        }
        common
    }

    /// An expression that is compared with the rows of a subquery.
    fn compared(&mut self, expr: &Expr, given: Oid, subquery: &LogicalPlan) {
        let Some((column, schema)) = output(subquery, 0) else {
            let field = subquery.schema().fields().first().cloned();
            if let (Some(field), UNKNOWN) = (field, given) {
                self.assign(expr, pg_type(&field).oid());
            }
            return;
        };
        // The result of a subquery is typed independently of its use.
        let other = row_type(self.visit(column, &schema));
        if let Ok(chosen) = resolve::binary("=", given, other) {
            self.assign(expr, chosen.arguments[0]);
            self.assign(column, chosen.arguments[1]);
        }
    }

    /// Types an untyped parameter.
    fn assign(&mut self, expr: &Expr, oid: Oid) {
        let Some(number) = open(expr).filter(|_| oid != UNKNOWN) else {
            return;
        };
        if self.known.contains_key(&number) {
            return;
        }
        if let Some(pg_type) = Type::from_oid(oid) {
            self.found.types.entry(number).or_insert(pg_type);
        }
    }

    /// Notes that PostgreSQL would refuse to infer a type, if an argument is an untyped parameter.
    fn refuse(&mut self, arguments: &[&Expr], message: impl FnOnce() -> String) {
        self.refused(arguments, || PgError::new("42725", message()));
    }

    /// An argument of a polymorphic function that cannot determine a parameter's type.
    fn without_type(&mut self, argument: &Expr) {
        self.refused(&[argument], || {
            let number = open(argument).unwrap_or_default();
            let message = format!("could not determine data type of parameter ${number}");
            PgError::new("42P18", message)
        });
    }

    /// See [`Self::refuse`].
    fn refused(&mut self, arguments: &[&Expr], error: impl FnOnce() -> PgError) {
        let is_open = |expr: &&&Expr| {
            let number = open(expr);
            number
                .is_some_and(|n| !self.known.contains_key(&n) && !self.found.types.contains_key(&n))
        };
        if self.found.ambiguous.is_none() && arguments.iter().any(|one| is_open(&one)) {
            self.found.ambiguous = Some(error());
        }
    }
}

/// The type of a result column, where untyped values are text.
fn row_type(given: Oid) -> Oid {
    if given == UNKNOWN {
        Type::TEXT.oid()
    } else {
        given
    }
}

/// Whether this is `ARRAY(SELECT …)`, which the dialect rewrites to an aggregate with a filter
/// that no statement contains.
fn is_array_of_rows(call: &AggregateFunction) -> bool {
    let is_marked = matches!(call.params.filter.as_deref(), Some(Expr::Literal(..)));
    is_marked && call.func.name() == "array_agg" && call.params.args.len() == 1
}

/// The operator that a function implements.
fn symbol(name: &str) -> Option<&'static str> {
    operators::symbol(name)
        .or_else(|| arithmetic::symbol(name))
        .or_else(|| integers::symbol(name))
}

/// The number of a parameter that is the whole expression.
fn open(expr: &Expr) -> Option<usize> {
    match stripped(expr) {
        Expr::Placeholder(placeholder) => number(&placeholder.id),
        _ => None,
    }
}

fn stripped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => stripped(&alias.expr),
        other => other,
    }
}

/// The value without casts and aliases added by DataFusion. (Casts of the statement are calls.)
pub(crate) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => bare(&cast.expr),
        Expr::Alias(alias) => bare(&alias.expr),
        other => other,
    }
}

/// The expression of a plan's column, and the schema that it refers to.
pub(crate) fn output(plan: &LogicalPlan, column: usize) -> Option<(&Expr, DFSchemaRef)> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let expr = projection.expr.get(column)?;
            let schema = DFSchemaRef::clone(projection.input.schema());
            match stripped(expr) {
                Expr::Column(name) => {
                    let index = schema.maybe_index_of_column(name);
                    let below = index.and_then(|index| output(&projection.input, index));
                    below.or(Some((expr, schema)))
                }
                _ => Some((expr, schema)),
            }
        }
        LogicalPlan::Values(values) => match values.values.as_slice() {
            [row] => Some((row.get(column)?, DFSchemaRef::new(DFSchema::empty()))),
            _ => None,
        },
        LogicalPlan::SubqueryAlias(alias) => output(&alias.input, column),
        LogicalPlan::Extension(_) => output(Once::of(plan)?.input(), column),
        LogicalPlan::Sort(sort) => output(&sort.input, column),
        LogicalPlan::Limit(limit) => output(&limit.input, column),
        LogicalPlan::Distinct(datafusion::logical_expr::Distinct::All(input)) => {
            output(input, column)
        }
        _ => None,
    }
}

/// The schema that a node's expressions refer to.
fn input_schema(node: &LogicalPlan) -> Result<DFSchema> {
    let mut inputs = node.inputs().into_iter();
    let Some(first) = inputs.next() else {
        return Ok(node.schema().as_ref().clone());
    };
    let mut schema = first.schema().as_ref().clone();
    for input in inputs {
        schema.merge(input.schema());
    }
    Ok(schema)
}

fn of_schema(expr: &Expr, schema: &DFSchema) -> Oid {
    match expr.to_field(schema) {
        Ok((_, field)) if *field.data_type() == datafusion::arrow::datatypes::DataType::Null => {
            UNKNOWN
        }
        Ok((_, field)) => pg_type(&field).oid(),
        Err(_) => UNKNOWN,
    }
}

/// The PostgreSQL type of a literal: none for a string, the smallest that fits for a number.
fn literal(value: &ScalarValue) -> Oid {
    match value {
        ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::Null => UNKNOWN,
        ScalarValue::Int64(Some(value)) if i32::try_from(*value).is_ok() => INT4,
        ScalarValue::Float64(Some(_)) => NUMERIC,
        other => pg_type(&Field::new("", other.data_type(), true)).oid(),
    }
}

/// PostgreSQL's name of an operator.
fn operator_name(op: Operator) -> String {
    match op {
        Operator::NotEq => "<>".to_owned(),
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => "=".to_owned(),
        Operator::BitwiseXor => "#".to_owned(),
        Operator::IntegerDivide => "/".to_owned(),
        other => other.to_string(),
    }
}

/// PostgreSQL's name of a function that DataFusion names differently.
fn postgresqls(name: &str) -> &str {
    match name {
        "character_length" | "char_length" => "length",
        "datetrunc" => "date_trunc",
        "datepart" => "date_part",
        "stddev" => "stddev_samp",
        "var" => "var_samp",
        "mean" => "avg",
        "median" => "percentile_cont",
        other => other,
    }
}

pub(super) fn shown(oid: Oid) -> String {
    if oid == UNKNOWN {
        return "unknown".to_owned();
    }
    Type::from_oid(oid).map_or_else(
        || resolve::type_name(oid).to_owned(),
        |pg_type| super::types::sql_name(&pg_type),
    )
}
