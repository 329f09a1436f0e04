//! How is a statement planned so that all of its parameters have types?

use std::collections::BTreeMap;

use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use postgres_types::Type;

use super::infer::{Inferred, infer};
use super::types::{Kind, is_supported, nominal, sql_name};
use super::write::{PlanKinds, read_kinds};
use crate::PgError;
use crate::dialect::Written;

/// The protocol counts parameters in 16 bits.
const PARAMETERS_MAX: usize = 65_535;

/// The maximum number of times that a statement is planned to find its parameters' types: each
/// round may type parameters that determine the types of others.
const ROUNDS_MAX: usize = 8;

/// A plan for parameters of certain types.
#[derive(Debug)]
pub struct Typed {
    /// The plan, whose parameters have types but no values.
    pub plan: LogicalPlan,
    /// The types of `$1`, `$2`, …
    pub types: Vec<Type>,
    /// The kinds of parameters for which the plan is made.
    pub kinds: Vec<Kind>,
    /// The Arrow types of these kinds.
    pub plan_kinds: PlanKinds,
}

/// Finds the types of a statement's parameters, and plans it with them. `declared` are the types
/// given by the client, `written` those given by casts in the text. `planner` plans the statement
/// for given kinds of parameters (`write_kinds`), and `aside` plans the queries that the plan may
/// lack (`with_queries`).
///
/// # Errors
/// Errors of planning; 0A000 for a declared type that Coscan lacks, 42725 if PostgreSQL would
/// refuse to infer a type, 42P18 if nothing determines the type of a parameter that the statement
/// does not contain, 54000 for too many parameters.
pub async fn plan_typed<F, G>(
    declared: &[Option<Type>],
    written: &Written,
    planner: impl Fn(BTreeMap<usize, Kind>) -> F,
    aside: impl Fn(BTreeMap<usize, Kind>) -> G,
) -> Result<Typed>
where
    F: Future<Output = Result<LogicalPlan>>,
    G: Future<Output = Vec<LogicalPlan>>,
{
    if written.is_empty() && declared.is_empty() {
        return Ok(Typed {
            plan: planner(BTreeMap::new()).await?,
            types: vec![],
            kinds: vec![],
            plan_kinds: PlanKinds::new(),
        });
    }
    let mut known = given(declared, written)?;
    let mut count = written
        .keys()
        .max()
        .copied()
        .unwrap_or(0)
        .max(declared.len());
    for round in 1.. {
        check_count(count)?;
        let kinds: BTreeMap<usize, Kind> = known
            .iter()
            .map(|(number, said)| (*number, nominal(said)))
            .collect();
        let (mut found, plan, plan_kinds) = match planner(kinds.clone()).await {
            Ok(plan) => {
                let (plan, plan_kinds) = read_kinds(plan)?;
                (infer(&plan, &known)?, Some(plan), plan_kinds)
            }
            // DataFusion refuses an untyped parameter in this place, or infers a wrong type.
            Err(error) => match tried(&planner, &kinds, &known, written).await? {
                Some(found) => (found, None, PlanKinds::new()),
                None => return Err(error),
            },
        };
        let mut written_ones = written.keys();
        if written_ones.any(|number| !found.all.contains(number) && !known.contains_key(number)) {
            for plan in aside(kinds).await {
                found.add(infer(&read_kinds(plan)?.0, &known)?);
            }
        }
        count = count.max(found.all.iter().max().copied().unwrap_or(0));
        check_count(count)?;
        let is_open = |number: &usize| !known.contains_key(number);
        let open: Vec<usize> = found.all.iter().copied().filter(|n| is_open(n)).collect();
        if let (true, Some(plan)) = (open.is_empty(), plan) {
            let types = (1..=count).map(|number| decided(number, &known, written));
            let types = types.collect::<Result<Vec<_>, _>>()?;
            let kinds = types.iter().map(nominal).collect();
            return Ok(Typed {
                plan,
                types,
                kinds,
                plan_kinds,
            });
        }
        let mut said = found.types;
        if said.is_empty() {
            if let Some(ambiguous) = found.ambiguous {
                return Err(ambiguous.into());
            }
            said = found.suggested;
        }
        said.retain(|number, _| is_open(number));
        // A parameter whose type nothing determines is text, as in `SELECT $1`.
        if said.is_empty() || round == ROUNDS_MAX {
            said = open
                .into_iter()
                .map(|number| (number, Type::TEXT))
                .collect();
        }
        known.extend(said);
    }
    Err(PgError::new("XX000", "parameters without types").into())
}

/// The types that casts in the text give, or that the client declared.
fn given(declared: &[Option<Type>], written: &Written) -> Result<BTreeMap<usize, Type>> {
    let mut known: BTreeMap<usize, Type> = written
        .iter()
        .filter_map(|(number, said)| Some((*number, said.clone()?)))
        .collect();
    for (index, said) in declared.iter().enumerate() {
        if let Some(said) = said.as_ref().filter(|said| **said != Type::UNKNOWN) {
            check_supported(said)?;
            known.insert(index + 1, said.clone());
        }
    }
    Ok(known)
}

/// The type of a parameter, once nothing is open.
fn decided(
    number: usize,
    known: &BTreeMap<usize, Type>,
    written: &Written,
) -> Result<Type, PgError> {
    match known.get(&number) {
        Some(said) => Ok(said.clone()),
        // Rewriting may have dropped the expression that contained the parameter.
        None if written.contains_key(&number) => Ok(Type::TEXT),
        None => {
            let text = format!("could not determine data type of parameter ${number}");
            Err(PgError::new("42P18", text))
        }
    }
}

/// What the uses of parameters determine in a plan in which the untyped ones got a trial type;
/// `None` if no parameter is untyped, no trial can be planned, or nothing is found.
async fn tried<F>(
    planner: &impl Fn(BTreeMap<usize, Kind>) -> F,
    kinds: &BTreeMap<usize, Kind>,
    known: &BTreeMap<usize, Type>,
    written: &Written,
) -> Result<Option<Inferred>>
where
    F: Future<Output = Result<LogicalPlan>>,
{
    let open = || written.keys().filter(|number| !known.contains_key(number));
    if open().next().is_none() {
        return Ok(None);
    }
    for trial in TRIALS {
        let mut kinds = kinds.clone();
        kinds.extend(open().map(|number| (*number, nominal(trial))));
        if let Ok(plan) = planner(kinds).await {
            let (plan, _) = read_kinds(plan)?;
            let mut found = infer(&plan, known)?;
            // DataFusion would infer the trial type itself.
            found.suggested.clear();
            let is_something = !found.types.is_empty() || found.ambiguous.is_some();
            return Ok(is_something.then_some(found));
        }
    }
    Ok(None)
}

/// The types with which an untyped parameter is tried if DataFusion cannot plan it: types that can
/// be added to dates, numbers and texts, and arrays.
const TRIALS: [&Type; 6] = [
    &Type::INTERVAL,
    &Type::FLOAT8,
    &Type::TEXT,
    &Type::INT4,
    &Type::INT4_ARRAY,
    &Type::TEXT_ARRAY,
];

/// Refuses a declared type that Coscan lacks: its values would be compared and shown as text.
fn check_supported(declared: &Type) -> Result<()> {
    if is_supported(declared) {
        return Ok(());
    }
    let name = sql_name(declared);
    let text = format!("parameters of type {name} are not supported");
    Err(PgError::unsupported(text).into())
}

fn check_count(count: usize) -> Result<()> {
    if count > PARAMETERS_MAX {
        let text = format!("at most {PARAMETERS_MAX} parameters");
        return Err(PgError::new("54000", text).into());
    }
    Ok(())
}
