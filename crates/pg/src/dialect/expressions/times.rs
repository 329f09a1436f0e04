//! PostgreSQL's syntax for times and intervals, as calls of functions.
//!
//! | from | to |
//! |---|---|
//! | `INTERVAL '1-2' YEAR TO MONTH` | `pg_cast('1-2', 'interval:year to month')` |
//! | `x AT TIME ZONE z` | `timezone(z, x)` |
//! | `EXTRACT('year' FROM x)` | `EXTRACT(year FROM x)` |
//! | `(a, b) OVERLAPS (c, d)` | `overlaps(a, b, c, d)` |
//! | `make_interval(days => 10)` | `make_interval(0, 0, 0, 10, 0, 0, 0)` |

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Interval, NamedWindowExpr, Select, Value, VisitorMut, WindowType,
};

use super::frames;
use crate::casts::CAST;
use crate::dialect::ast::{call, last_word, literal_text, text};

pub(in crate::dialect) struct Times;

impl VisitorMut for Times {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for window in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = &mut window.1 {
                frames::write_offsets(window);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Interval(interval) => {
                if let Some(target) = target(interval) {
                    let value =
                        std::mem::replace(interval.value.as_mut(), crate::dialect::ast::null());
                    *expr = call(CAST, vec![value, text(&target)]);
                }
            }
            // DataFusion would take the quotes for a part of the field's name.
            Expr::Extract {
                field: DateTimeField::Custom(word),
                ..
            } => word.quote_style = None,
            Expr::AtTimeZone {
                timestamp,
                time_zone,
            } => {
                let at = std::mem::replace(timestamp.as_mut(), crate::dialect::ast::null());
                let zone = std::mem::replace(time_zone.as_mut(), crate::dialect::ast::null());
                *expr = call("timezone", vec![zone, at]);
            }
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Overlaps,
                right,
            } => {
                if let (Expr::Tuple(left), Expr::Tuple(right)) = (left.as_mut(), right.as_mut()) {
                    let mut ends = std::mem::take(left);
                    ends.append(right);
                    *expr = call("overlaps", ends);
                }
            }
            Expr::Function(Function {
                over: Some(WindowType::WindowSpec(window)),
                ..
            }) => frames::write_offsets(window),
            Expr::Function(function) if is_make_interval(function) => {
                if let Some(arguments) = positional(function) {
                    *expr = call("make_interval", arguments);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The type of a qualified interval.
fn target(interval: &Interval) -> Option<String> {
    literal_text(&interval.value)?;
    let mut target = "interval".to_owned();
    if let Some(first) = &interval.leading_field {
        target.push(':');
        target.push_str(&first.to_string().to_lowercase());
        if let Some(last) = &interval.last_field {
            target.push_str(" to ");
            target.push_str(&last.to_string().to_lowercase());
        }
    }
    let digits = interval
        .fractional_seconds_precision
        .or(interval.leading_precision);
    if let Some(digits) = digits {
        target.push_str(&format!("({})", digits.min(6)));
    }
    Some(target)
}

const PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

fn is_make_interval(function: &Function) -> bool {
    last_word(&function.name).as_deref() == Some("make_interval")
}

/// All arguments in order, with 0 for those that are missing.
fn positional(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let zero = || Expr::Value(Value::Number("0".to_owned(), false).into());
    let mut arguments: Vec<Expr> = PARTS.iter().map(|_| zero()).collect();
    for (at, argument) in list.args.iter().enumerate() {
        let (at, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (at, value),
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(value),
                ..
            }
            | FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => {
                let name = name.value.to_lowercase();
                (PARTS.iter().position(|part| *part == name)?, value)
            }
            _ => return None,
        };
        *arguments.get_mut(at)? = value.clone();
    }
    Some(arguments)
}
