//! Named windows: `OVER w` and `OVER (w ROWS …)` are replaced by their definition.
//!
//! DataFusion supports `OVER w` only in the SELECT list, and reads `(w ROWS …)` as `(ROWS …)`. The
//! defaults of `lag` and `lead` are rewritten here, too.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, OrderBy, Select,
    Value, WindowSpec, WindowType,
};

use crate::dialect::ast::{arguments, boolean, call, is_aggregate, last_word, null, number, text};
use crate::dialect::lexical::{is_mark, marks};
use crate::dialect::names::folded;
use crate::dialect::own_exprs::OwnExprs;
use crate::error::WINDOW_FUNCTIONS;
use crate::functions::FAIL;
use crate::resolve;
use crate::visits::Walk;

pub(super) fn rewrite(select: &mut Select, order_by: Option<&mut OrderBy>) {
    let mut windows = Windows::default();
    for NamedWindowDefinition(name, window) in std::mem::take(&mut select.named_window) {
        let name = folded(&name);
        let known = windows.known.iter().any(|(known, _)| *known == name);
        let window = match window {
            _ if known => refused("42P20", format!("window \"{name}\" is already defined")),
            NamedWindowExpr::NamedWindow(name) => windows.named(&name),
            NamedWindowExpr::WindowSpec(window) => windows.whole(window),
        };
        windows.known.push((name, window));
    }
    let mut own = OwnExprs::new(|expr| windows.write_out(expr));
    let _ = select.projection.walk(&mut own);
    if let Some(order_by) = order_by {
        let _ = order_by.walk(&mut own);
    }
}

/// A window, or the failing call that replaces a function over it.
type Whole = Result<WindowSpec, Box<Expr>>;

#[derive(Default)]
struct Windows {
    known: Vec<(String, Whole)>,
}

impl Windows {
    fn named(&self, name: &Ident) -> Whole {
        let name = folded(name);
        let mut known = self.known.iter().rev();
        match known.find(|(known, _)| *known == name) {
            Some((_, window)) => window.clone(),
            None => refused("42704", format!("window \"{name}\" does not exist")),
        }
    }

    /// Replaces the window of a function with its definition.
    fn write_out(&self, expr: &mut Expr) {
        let Expr::Function(function) = expr else {
            return;
        };
        let whole = match function.over.take() {
            None => return,
            Some(WindowType::NamedWindow(name)) => self.named(&name),
            Some(WindowType::WindowSpec(window)) => self.whole(window),
        };
        if let Some(fails) = not_over_rows(function) {
            *expr = fails;
            return;
        }
        match whole {
            Ok(window) => {
                function.over = Some(WindowType::WindowSpec(window));
                if is_of_no_type(function) {
                    let message = "could not determine polymorphic type because input has type \
                                   unknown";
                    *expr = call(FAIL, vec![text("42804"), text(message)]);
                    return;
                }
                if let Some(other) = with_default(function).or_else(|| of_null(function)) {
                    *expr = other;
                }
            }
            Err(fails) => *expr = *fails,
        }
    }

    /// A window, completed by the window that it names.
    fn whole(&self, mut window: WindowSpec) -> Whole {
        let Some(name) = window.window_name.take() else {
            return Ok(window);
        };
        let base = self.named(&name)?;
        let name = folded(&name);
        if !window.partition_by.iter().all(is_mark) {
            let message = format!("cannot override PARTITION BY clause of window \"{name}\"");
            return refused("42P20", message);
        }
        if !window.order_by.is_empty() && !base.order_by.is_empty() {
            let message = format!("cannot override ORDER BY clause of window \"{name}\"");
            return refused("42P20", message);
        }
        if base.window_frame.is_some() {
            let message = format!("cannot copy window \"{name}\" because it has a frame clause");
            return refused("42P20", message);
        }
        let mut whole = base;
        whole.partition_by.extend(marks(&window).cloned());
        if whole.order_by.is_empty() {
            whole.order_by = window.order_by;
        }
        whole.window_frame = window.window_frame;
        Ok(whole)
    }
}

/// Error 42809 for OVER after a function that is neither an aggregate nor a window function:
/// DataFusion would ignore the OVER.
fn not_over_rows(function: &Function) -> Option<Expr> {
    let name = last_word(&function.name)?;
    let is_of_rows = is_aggregate(function) || WINDOW_FUNCTIONS.contains(&name.as_str());
    if is_of_rows || !resolve::is_function(&name) {
        return None;
    }
    let message =
        format!("OVER specified, but {name} is not a window function nor an aggregate function");
    Some(call(FAIL, vec![text("42809"), text(&message)]))
}

/// Whether the argument of a polymorphic function is an untyped constant. `lag` and `lead` with
/// three arguments take such a constant for text.
fn is_of_no_type(function: &Function) -> bool {
    let name = last_word(&function.name);
    let (Some(name), Some(arguments)) = (name, arguments(function)) else {
        return false;
    };
    let most = match name.as_str() {
        "first_value" | "last_value" => 1,
        "nth_value" | "lag" | "lead" => 2,
        _ => return false,
    };
    arguments.len() <= most && arguments.first().is_some_and(|value| is_untyped(value))
}

fn is_untyped(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_untyped(inner),
        Expr::Value(value) => matches!(
            value.value,
            Value::Null | Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_)
        ),
        _ => false,
    }
}

/// `lag(x, n, d)` becomes `CASE WHEN lag(true, n) IS NULL THEN d ELSE lag(x, n) END`, because
/// DataFusion accepts only constants as defaults, and casts them to the type of `x`. PostgreSQL
/// finds a common type of `x` and `d`, as CASE does. Without a number of rows there is no default.
fn with_default(function: &Function) -> Option<Expr> {
    let name = last_word(&function.name)?;
    let [value, rows, default] = arguments(function)?[..] else {
        return None;
    };
    let is_kept = is_null(default) || (is_open(value) && is_constant(default));
    let is_plain = function.null_treatment.is_none();
    if !matches!(name.as_str(), "lag" | "lead") || is_kept || !is_plain {
        return None;
    }
    let shifted = |value: &Expr| {
        let mut shifted = call(&name, vec![value.clone(), rows.clone()]);
        if let Expr::Function(made) = &mut shifted {
            made.over.clone_from(&function.over);
        }
        shifted
    };
    let is_none = CaseWhen {
        condition: Expr::IsNull(Box::new(rows.clone())),
        result: null(),
    };
    let is_beyond = CaseWhen {
        condition: Expr::IsNull(Box::new(shifted(&boolean(true)))),
        result: default.clone(),
    };
    let mut conditions = vec![];
    conditions.extend((!is_number(rows)).then_some(is_none));
    conditions.push(is_beyond);
    Some(case(conditions, Some(shifted(value))))
}

/// `ntile(NULL)` is NULL; DataFusion refuses it.
fn of_null(function: &Function) -> Option<Expr> {
    let [count] = arguments(function)?[..] else {
        return None;
    };
    let count = match count {
        Expr::Cast { expr, .. } => expr.as_ref(),
        count => count,
    };
    if last_word(&function.name).as_deref() != Some("ntile") || !is_null(count) {
        return None;
    }
    let mut of_one = call("ntile", vec![number(1)]);
    if let Expr::Function(made) = &mut of_one {
        made.over.clone_from(&function.over);
    }
    let never = CaseWhen {
        condition: boolean(false),
        result: of_one,
    };
    Some(case(vec![never], None))
}

fn case(conditions: Vec<CaseWhen>, otherwise: Option<Expr>) -> Expr {
    Expr::Nested(Box::new(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result: otherwise.map(Box::new),
    }))
}

fn is_number(value: &Expr) -> bool {
    match value {
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_number(expr),
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    }
}

fn is_null(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_null(inner),
        Expr::Value(value) => value.value == Value::Null,
        _ => false,
    }
}

/// Whether nothing but the default may give a value its type: without the default, `lag` of such a
/// value is an error.
fn is_open(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_open(inner),
        Expr::Value(inner) => matches!(inner.value, Value::Placeholder(_)) || is_untyped(value),
        _ => false,
    }
}

/// Whether DataFusion accepts the default as written: NULL, a parameter, a text or an integer.
fn is_constant(default: &Expr) -> bool {
    match default {
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_constant(expr),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.bytes().all(|byte| byte.is_ascii_digit()),
            _ => true,
        },
        _ => false,
    }
}

fn refused(code: &str, message: String) -> Whole {
    Err(Box::new(call(FAIL, vec![text(code), text(&message)])))
}
