//! Evaluates the steps of a path.
//!
//! After PostgreSQL's `jsonpath_exec.c`. If no list of results is requested, only the existence of
//! a value matters, so evaluation stops at the first one.

use super::moment::Moment;
use super::outcome::{Outcome, Stop, soft};
use crate::PgError;
use crate::numbers::numeric::Numeric;
use crate::values::{Arithmetic, Json, JsonPath, LEVEL_LAST, PathItem, Sign, Step};

/// The value at the current step.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Json(&'a Json),
    Moment(&'a Moment),
}

/// A value that was found.
pub(super) enum Found {
    Json(Json),
    Moment(Moment),
}

impl Found {
    pub(super) fn at(&self) -> At<'_> {
        match self {
            Self::Json(value) => At::Json(value),
            Self::Moment(moment) => At::Moment(moment),
        }
    }

    pub(super) fn into_json(self) -> Json {
        match self {
            Self::Json(value) => value,
            Self::Moment(moment) => Json::Text(moment.to_string()),
        }
    }
}

impl At<'_> {
    fn kept(self) -> Found {
        match self {
            At::Json(value) => Found::Json(value.clone()),
            At::Moment(moment) => Found::Moment(*moment),
        }
    }

    fn is_array(self) -> bool {
        matches!(self, At::Json(Json::Array(_)))
    }

    pub(super) fn number(self) -> Option<Numeric> {
        match self {
            At::Json(Json::Number(number)) => Numeric::parse(number),
            _ => None,
        }
    }
}

pub(super) type List<'l> = Option<&'l mut Vec<Found>>;

/// A range of nesting levels, as in `.**{1 to 2}`.
#[derive(Clone, Copy)]
struct Levels {
    first: u32,
    last: u32,
    /// Whether structural errors of the steps that follow are ignored.
    is_any: bool,
}

const ELEMENTS: Levels = Levels {
    first: 1,
    last: 1,
    is_any: false,
};

/// An evaluation of a path.
pub(super) struct Evaluation<'a> {
    path: &'a JsonPath,
    pub(super) root: &'a Json,
    variables: &'a Json,
    /// Whether times with a zone may be compared with times without one.
    pub(super) with_zone: bool,
    /// The size of the array whose subscripts are evaluated.
    array_size: Option<usize>,
    ignores_structure: bool,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        path: &'a JsonPath,
        root: &'a Json,
        variables: &'a Json,
        with_zone: bool,
    ) -> Self {
        Self {
            path,
            root,
            variables,
            with_zone,
            array_size: None,
            ignores_structure: path.is_lax,
        }
    }

    /// Whether the path finds a value.
    pub(super) fn exists(mut self) -> Outcome<bool> {
        let root = At::Json(self.root);
        if self.path.is_lax {
            return self.follow(&self.path.root, root, root, None);
        }
        // A strict path must find all values without an error.
        let mut found = vec![];
        self.follow(&self.path.root, root, root, Some(&mut found))?;
        Ok(!found.is_empty())
    }

    pub(super) fn query(mut self, found: &mut Vec<Found>) -> Outcome<()> {
        let root = At::Json(self.root);
        self.follow(&self.path.root, root, root, Some(found))?;
        Ok(())
    }

    pub(super) fn is_lax(&self) -> bool {
        self.path.is_lax
    }

    /// Follows a step from `at`, with `current` as `@`. Returns whether a value was found.
    pub(super) fn follow(
        &mut self,
        step: &Step,
        at: At<'_>,
        current: At<'_>,
        found: List<'_>,
    ) -> Outcome<bool> {
        let unwraps = self.is_lax();
        self.item(step, at, current, found, unwraps)
    }

    /// Follows the steps after `step` from its value `at`.
    pub(super) fn next(
        &mut self,
        step: &Step,
        at: At<'_>,
        current: At<'_>,
        found: List<'_>,
    ) -> Outcome<bool> {
        if let Some(next) = &step.next {
            return self.follow(next, at, current, found);
        }
        if let Some(found) = found {
            found.push(at.kept());
        }
        Ok(true)
    }

    /// The values of an operand, with arrays replaced by their elements if `unwraps`.
    pub(super) fn operand(
        &mut self,
        step: &Step,
        current: At<'_>,
        unwraps: bool,
    ) -> Outcome<Vec<Found>> {
        let mut found = vec![];
        self.follow(step, current, current, Some(&mut found))?;
        if !(unwraps && self.is_lax()) {
            return Ok(found);
        }
        let mut elements = vec![];
        for value in found {
            match value {
                Found::Json(Json::Array(array)) => {
                    elements.extend(array.into_iter().map(Found::Json));
                }
                other => elements.push(other),
            }
        }
        Ok(elements)
    }

    fn item(
        &mut self,
        step: &Step,
        at: At<'_>,
        current: At<'_>,
        found: List<'_>,
        unwraps: bool,
    ) -> Outcome<bool> {
        // Without further steps, the value exists, and no list of results is requested.
        let is_sure = step.next.is_none() && found.is_none();
        // Steps that a lax path applies to the elements of an array.
        let is_of_elements = match &step.item {
            PathItem::Key(_) | PathItem::AnyKey | PathItem::Filter(_) => true,
            PathItem::Datetime(_) => true,
            PathItem::Method(method) => method.is_of_elements(),
            _ => false,
        };
        if is_of_elements
            && unwraps
            && let At::Json(Json::Array(_)) = at
        {
            return self.levels(Some(step), at, current, found, (1, ELEMENTS, false));
        }
        match &step.item {
            predicate if predicate.is_predicate() => {
                if is_sure {
                    return Ok(true);
                }
                let value = match self.decide(step, current)? {
                    Some(value) => Json::Bool(value),
                    None => Json::Null,
                };
                self.next(step, At::Json(&value), current, found)
            }
            PathItem::Root => {
                let root = self.root;
                self.next(step, At::Json(root), current, found)
            }
            PathItem::Current => self.next(step, current, current, found),
            PathItem::Key(key) => self.member(step, key, at, current, found),
            PathItem::AnyKey => match at {
                At::Json(Json::Object(_)) => {
                    let lax = self.is_lax();
                    let next = step.next.as_deref();
                    self.levels(next, at, current, found, (1, ELEMENTS, lax))
                }
                _ if self.ignores_structure => Ok(false),
                _ => soft(
                    "2203C",
                    "jsonpath wildcard member accessor can only be applied to an object",
                ),
            },
            PathItem::AnyArray if at.is_array() => {
                let lax = self.is_lax();
                let next = step.next.as_deref();
                self.levels(next, at, current, found, (1, ELEMENTS, lax))
            }
            PathItem::AnyArray if self.is_lax() => self.next(step, at, current, found),
            PathItem::AnyArray if self.ignores_structure => Ok(false),
            PathItem::AnyArray => soft(
                "22039",
                "jsonpath wildcard array accessor can only be applied to an array",
            ),
            PathItem::Index(places) if at.is_array() || self.is_lax() => {
                self.subscripts(step, places, at, current, found)
            }
            PathItem::Index(_) if self.ignores_structure => Ok(false),
            PathItem::Index(_) => soft(
                "22039",
                "jsonpath array accessor can only be applied to an array",
            ),
            PathItem::Any(first, last) => {
                self.descendants(step, (*first, *last), at, current, found)
            }
            PathItem::Filter(filter) => {
                if self.decide(filter, at)? == Some(true) {
                    self.next(step, at, current, found)
                } else {
                    Ok(false)
                }
            }
            PathItem::Method(method) => self.method(step, *method, at, current, found),
            PathItem::Datetime(template) => {
                let text = match at {
                    At::Json(Json::Text(text)) => Some(text.as_str()),
                    _ => None,
                };
                let moment = Moment::of_text(text, template.as_deref())?;
                if is_sure {
                    return Ok(true);
                }
                self.next(step, At::Moment(&moment), current, found)
            }
            PathItem::Unary(sign, operand) => self.unary(step, (*sign, operand), current, found),
            PathItem::Arithmetic(sign, left, right) => {
                let value = self.arithmetic(*sign, (left, right), current)?;
                if is_sure {
                    return Ok(true);
                }
                self.next(step, At::Json(&value), current, found)
            }
            _ if is_sure => Ok(true),
            literal => {
                let value = self.literal(literal)?;
                self.next(step, At::Json(&value), current, found)
            }
        }
    }

    fn literal(&self, item: &PathItem) -> Outcome<Json> {
        Ok(match item {
            PathItem::Bool(value) => Json::Bool(*value),
            PathItem::Number(number) => Json::Number(number.clone()),
            PathItem::Text(text) => Json::Text(text.clone()),
            PathItem::Last => {
                let last = self.array_size.map_or(-1, |size| as_i64(size) - 1);
                Json::Number(last.to_string())
            }
            PathItem::Variable(name) => {
                let known = match self.variables {
                    Json::Object(members) => members.iter().find(|(key, _)| key == name),
                    _ => None,
                };
                let Some((_, value)) = known else {
                    let message = format!("could not find jsonpath variable \"{name}\"");
                    return Err(Stop::Hard(PgError::new("42704", message)));
                };
                value.clone()
            }
            _ => Json::Null,
        })
    }

    fn member(
        &mut self,
        step: &Step,
        key: &str,
        at: At<'_>,
        current: At<'_>,
        found: List<'_>,
    ) -> Outcome<bool> {
        let At::Json(Json::Object(members)) = at else {
            return if self.ignores_structure {
                Ok(false)
            } else {
                let message = "jsonpath member accessor can only be applied to an object";
                soft("2203A", message)
            };
        };
        match members.iter().rev().find(|(known, _)| known == key) {
            Some((_, value)) => self.next(step, At::Json(value), current, found),
            None if self.ignores_structure => Ok(false),
            None => {
                let message = format!("JSON object does not contain key \"{key}\"");
                soft("2203A", message)
            }
        }
    }

    /// The elements of arrays and members of objects at some levels below `at`, and the values
    /// that `step` finds from them; it may unwrap arrays.
    fn levels(
        &mut self,
        step: Option<&Step>,
        at: At<'_>,
        current: At<'_>,
        mut found: List<'_>,
        (level, levels, unwraps): (u32, Levels, bool),
    ) -> Outcome<bool> {
        let values: Vec<&Json> = match at {
            _ if level > levels.last => return Ok(false),
            At::Json(Json::Array(elements)) => elements.iter().collect(),
            At::Json(Json::Object(members)) => members.iter().map(|(_, value)| value).collect(),
            _ => return Ok(false),
        };
        let mut has = false;
        for value in values {
            let is_container = matches!(value, Json::Array(_) | Json::Object(_));
            let is_leaf = levels.first == LEVEL_LAST && levels.last == LEVEL_LAST && !is_container;
            if level >= levels.first || is_leaf {
                let value = At::Json(value);
                match step {
                    Some(step) => {
                        let ignored = self.ignores_structure;
                        self.ignores_structure |= levels.is_any;
                        let list = found.as_deref_mut();
                        let outcome = self.item(step, value, current, list, unwraps);
                        self.ignores_structure = ignored;
                        has = outcome?;
                    }
                    None => {
                        has = true;
                        if let Some(found) = found.as_deref_mut() {
                            found.push(value.kept());
                        }
                    }
                }
                if has && found.is_none() {
                    return Ok(true);
                }
            }
            if level < levels.last && is_container {
                let list = found.as_deref_mut();
                let below = (level + 1, levels, unwraps);
                has = self.levels(step, At::Json(value), current, list, below)?;
                if has && found.is_none() {
                    return Ok(true);
                }
            }
        }
        Ok(has)
    }

    fn descendants(
        &mut self,
        step: &Step,
        (first, last): (u32, u32),
        at: At<'_>,
        current: At<'_>,
        mut found: List<'_>,
    ) -> Outcome<bool> {
        if first == 0 {
            let ignored = std::mem::replace(&mut self.ignores_structure, true);
            let outcome = self.next(step, at, current, found.as_deref_mut());
            self.ignores_structure = ignored;
            if outcome? && found.is_none() {
                return Ok(true);
            }
        }
        let levels = Levels {
            first,
            last,
            is_any: true,
        };
        let lax = self.is_lax();
        let next = step.next.as_deref();
        self.levels(next, at, current, found, (1, levels, lax))
    }

    fn subscripts(
        &mut self,
        step: &Step,
        places: &[(Step, Option<Step>)],
        at: At<'_>,
        current: At<'_>,
        mut found: List<'_>,
    ) -> Outcome<bool> {
        let elements = match at {
            At::Json(Json::Array(elements)) => Some(elements.as_slice()),
            _ => None,
        };
        let size = elements.map_or(1, <[Json]>::len);
        let outer = self.array_size;
        let mut has = false;
        for (from, to) in places {
            self.array_size = Some(size);
            let bounds = self.index(from, current).and_then(|from| {
                let to = to.as_ref().map(|to| self.index(to, current));
                Ok((from, to.transpose()?.unwrap_or(from)))
            });
            self.array_size = outer;
            let (from, to) = bounds?;
            if !self.ignores_structure && (from < 0 || from > to || to >= as_i64(size)) {
                return soft("22033", "jsonpath array subscript is out of bounds");
            }
            for place in from.max(0)..=to.min(as_i64(size) - 1) {
                let value = match elements {
                    Some(elements) => usize::try_from(place).ok().and_then(|at| elements.get(at)),
                    None => None,
                };
                let value = match (elements, value) {
                    (None, _) => at,
                    (Some(_), Some(value)) => At::Json(value),
                    (Some(_), None) => continue,
                };
                has = self.next(step, value, current, found.as_deref_mut())?;
                if has && found.is_none() {
                    return Ok(true);
                }
            }
        }
        Ok(has)
    }

    fn index(&mut self, step: &Step, current: At<'_>) -> Outcome<i64> {
        let number = match self.operand(step, current, false)?.as_slice() {
            [one] => one.at().number(),
            _ => None,
        };
        let Some(number) = number else {
            let message = "jsonpath array subscript is not a single numeric value";
            return soft("22033", message);
        };
        let whole = i32::try_from(&number.truncated(0).digits);
        match whole {
            Ok(index) => Ok(i64::from(index)),
            Err(_) => {
                let message = "jsonpath array subscript is out of integer range";
                soft("22033", message)
            }
        }
    }

    fn arithmetic(
        &mut self,
        sign: Arithmetic,
        (left, right): (&Step, &Step),
        current: At<'_>,
    ) -> Outcome<Json> {
        let mut sides = vec![];
        for side in [left, right] {
            sides.push(self.operand(side, current, true)?);
        }
        let mut numbers = vec![];
        for (values, side) in sides.iter().zip(["left", "right"]) {
            let number = match values.as_slice() {
                [one] => one.at().number(),
                _ => None,
            };
            let Some(number) = number else {
                let sign = sign.sign();
                let message = format!(
                    "{side} operand of jsonpath operator {sign} is not a single numeric value"
                );
                return soft("22038", message);
            };
            numbers.push(number);
        }
        let (Some(b), Some(a)) = (numbers.pop(), numbers.pop()) else {
            return soft("XX000", "an operator has two operands");
        };
        let divides = matches!(sign, Arithmetic::Divide | Arithmetic::Modulo);
        if divides && b.is_zero() {
            return Err(Stop::Soft(PgError::division_by_zero()));
        }
        let value = match sign {
            Arithmetic::Add => a.add(&b),
            Arithmetic::Subtract => a.sub(&b),
            Arithmetic::Multiply => a.mul(&b),
            Arithmetic::Divide => a.div_at(&b, a.quotient_scale(&b)),
            Arithmetic::Modulo => a.rem(&b),
        };
        Ok(Json::Number(value.to_string()))
    }

    fn unary(
        &mut self,
        step: &Step,
        (sign, operand): (Sign, &Step),
        current: At<'_>,
        mut found: List<'_>,
    ) -> Outcome<bool> {
        let mut has = false;
        for value in self.operand(operand, current, true)? {
            let is_sure = found.is_none() && step.next.is_none();
            let Some(number) = value.at().number() else {
                if is_sure {
                    continue;
                }
                let sign = sign.sign();
                let message =
                    format!("operand of unary jsonpath operator {sign} is not a numeric value");
                return soft("2203B", message);
            };
            if is_sure {
                return Ok(true);
            }
            let number = match sign {
                Sign::Plus => number,
                Sign::Minus => number.neg(),
            };
            let number = Json::Number(number.to_string());
            has |= self.next(step, At::Json(&number), current, found.as_deref_mut())?;
            if has && found.is_none() {
                return Ok(true);
            }
        }
        Ok(has)
    }
}

fn as_i64(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
