//! Parses a path by PostgreSQL's grammar, from the weakest operator to the strongest.

use super::lexer::{Token, syntax_error, tokens};
use super::{Arithmetic, Compare, Item, JsonPath, LEVEL_LAST, Method, Sign, Step};
use crate::PgError;
use crate::values::json_number;

/// The maximum nesting depth of a path.
const DEPTH_MAX: usize = 200;

impl JsonPath {
    /// Parses a path. `regex` checks its regular expressions and their flags.
    pub(crate) fn parse(text: &str, regex: Regex) -> Result<Self, PgError> {
        let tokens = tokens(text)?;
        if tokens.is_empty() {
            return Err(PgError::invalid_text("jsonpath", text));
        }
        let mut reader = Reader {
            tokens,
            at: 0,
            depth: 0,
            regex,
        };
        let is_strict = reader.eat_word("strict");
        if !is_strict {
            reader.eat_word("lax");
        }
        let root = reader.any()?;
        if reader.at < reader.tokens.len() {
            return Err(reader.wrong());
        }
        check(&root, false, false)?;
        Ok(Self {
            is_lax: !is_strict,
            root,
        })
    }
}

/// Checks that `@` is only used in filters, and `last` only in subscripts.
fn check(step: &Step, in_filter: bool, in_subscript: bool) -> Result<(), PgError> {
    let inner = |step: &Step| check(step, in_filter, in_subscript);
    match &step.item {
        Item::Current if !in_filter => {
            let message = "@ is not allowed in root expressions";
            return Err(PgError::new("42601", message));
        }
        Item::Last if !in_subscript => {
            let message = "LAST is allowed only in array subscripts";
            return Err(PgError::new("42601", message));
        }
        Item::Index(places) => {
            for (from, to) in places {
                check(from, in_filter, true)?;
                to.iter().try_for_each(|to| check(to, in_filter, true))?;
            }
        }
        Item::Filter(filter) => check(filter, true, in_subscript)?,
        Item::Unary(_, one)
        | Item::Not(one)
        | Item::IsUnknown(one)
        | Item::Exists(one)
        | Item::LikeRegex(one, ..) => inner(one)?,
        Item::Arithmetic(_, left, right)
        | Item::Compare(_, left, right)
        | Item::And(left, right)
        | Item::Or(left, right)
        | Item::StartsWith(left, right) => {
            inner(left)?;
            inner(right)?;
        }
        _ => {}
    }
    step.next.iter().try_for_each(|next| inner(next))
}

/// Checks a regular expression with its flags.
type Regex = fn(&str, &str) -> Result<(), PgError>;

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    regex: Regex,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn wrong(&self) -> PgError {
        match self.peek() {
            // The scanner has consumed a name before it sees the character after it.
            Some(Token::Word(_) | Token::Variable(_)) if self.at + 1 < self.tokens.len() => {
                syntax_error(Some(" "))
            }
            Some(Token::Number(number)) => syntax_error(Some(number)),
            Some(Token::Sign(sign)) => syntax_error(Some(sign)),
            Some(Token::Text(_)) => syntax_error(Some("\"")),
            _ => syntax_error(None),
        }
    }

    fn is_sign(&self, wanted: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(sign)) if *sign == wanted)
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let found = self.is_sign(wanted);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: &str) -> Result<(), PgError> {
        if self.eat(wanted) {
            Ok(())
        } else {
            Err(self.wrong())
        }
    }

    fn is_word(&self, wanted: &str) -> bool {
        // JSON's literals must be in lower case.
        let exact = matches!(wanted, "null" | "true" | "false");
        matches!(self.peek(), Some(Token::Word(word))
            if word == wanted || (!exact && word.eq_ignore_ascii_case(wanted)))
    }

    fn eat_word(&mut self, wanted: &str) -> bool {
        let found = self.is_word(wanted);
        self.at += usize::from(found);
        found
    }

    fn expect_word(&mut self, wanted: &str) -> Result<(), PgError> {
        if self.eat_word(wanted) {
            Ok(())
        } else {
            Err(self.wrong())
        }
    }

    fn text(&mut self) -> Result<String, PgError> {
        match self.peek() {
            Some(Token::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.wrong()),
        }
    }

    fn predicate(&mut self) -> Result<Box<Step>, PgError> {
        let step = self.any()?;
        self.as_predicate(step)
    }

    fn as_predicate(&self, step: Step) -> Result<Box<Step>, PgError> {
        if step.is_predicate() {
            Ok(Box::new(step))
        } else {
            Err(self.wrong())
        }
    }

    fn as_expression(&self, step: Step) -> Result<Box<Step>, PgError> {
        if step.is_predicate() {
            Err(self.wrong())
        } else {
            Ok(Box::new(step))
        }
    }

    fn expression(&mut self) -> Result<Step, PgError> {
        let step = self.sum()?;
        Ok(*self.as_expression(step)?)
    }

    /// Parses an expression or a predicate.
    fn any(&mut self) -> Result<Step, PgError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(PgError::new("54001", "stack depth limit exceeded"));
        }
        let mut left = self.conjunction()?;
        while self.is_sign("||") {
            let left_side = self.as_predicate(left)?;
            self.at += 1;
            let right = self.conjunction()?;
            let right = self.as_predicate(right)?;
            left = Step::new(Item::Or(left_side, right));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Step, PgError> {
        let mut left = self.comparison()?;
        while self.is_sign("&&") {
            let left_side = self.as_predicate(left)?;
            self.at += 1;
            let right = self.comparison()?;
            let right = self.as_predicate(right)?;
            left = Step::new(Item::And(left_side, right));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Step, PgError> {
        if self.eat("!") {
            let negated = if self.is_word("exists") {
                Box::new(self.primary()?)
            } else {
                self.expect("(")?;
                let negated = self.predicate()?;
                self.expect(")")?;
                negated
            };
            return Ok(Step::new(Item::Not(negated)));
        }
        let left = self.sum()?;
        let compares = [
            Compare::Equal,
            Compare::NotEqual,
            Compare::LessOrEqual,
            Compare::GreaterOrEqual,
            Compare::Less,
            Compare::Greater,
        ];
        for compare in compares {
            if self.eat(compare.sign()) {
                let left = self.as_expression(left)?;
                let right = self.sum()?;
                let right = self.as_expression(right)?;
                return Ok(Step::new(Item::Compare(compare, left, right)));
            }
        }
        if self.eat_word("starts") {
            self.expect_word("with")?;
            let left = self.as_expression(left)?;
            let initial = match self.peek().cloned() {
                Some(Token::Text(text)) => Item::Text(text),
                Some(Token::Variable(name)) => Item::Variable(name),
                _ => return Err(self.wrong()),
            };
            self.at += 1;
            return Ok(Step::new(Item::StartsWith(left, Step::boxed(initial))));
        }
        if self.eat_word("like_regex") {
            let left = self.as_expression(left)?;
            let pattern = self.text()?;
            let flags = if self.eat_word("flag") {
                flags(&self.text()?)?
            } else {
                String::new()
            };
            (self.regex)(&pattern, &flags)?;
            return Ok(Step::new(Item::LikeRegex(left, pattern, flags)));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Step, PgError> {
        self.operators(&[Arithmetic::Add, Arithmetic::Subtract], Self::product)
    }

    fn product(&mut self) -> Result<Step, PgError> {
        let signs = [Arithmetic::Multiply, Arithmetic::Divide, Arithmetic::Modulo];
        self.operators(&signs, Self::signed)
    }

    fn operators(
        &mut self,
        signs: &[Arithmetic],
        operand: fn(&mut Self) -> Result<Step, PgError>,
    ) -> Result<Step, PgError> {
        let mut left = operand(self)?;
        loop {
            let found = signs.iter().find(|sign| self.eat(sign.sign()));
            let Some(sign) = found.copied() else {
                return Ok(left);
            };
            let left_side = self.as_expression(left)?;
            let right = operand(self)?;
            let right = self.as_expression(right)?;
            left = Step::new(Item::Arithmetic(sign, left_side, right));
        }
    }

    fn signed(&mut self) -> Result<Step, PgError> {
        for sign in [Sign::Plus, Sign::Minus] {
            if !self.eat(sign.sign()) {
                continue;
            }
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(PgError::new("54001", "stack depth limit exceeded"));
            }
            let operand = self.signed()?;
            self.depth -= 1;
            let operand = self.as_expression(operand)?;
            // The sign belongs to a literal.
            return Ok(match (&operand.item, &operand.next, sign) {
                (Item::Number(_), None, Sign::Plus) => *operand,
                (Item::Number(number), None, Sign::Minus) => {
                    let negative = match number.strip_prefix('-') {
                        Some(positive) => positive.to_owned(),
                        None => format!("-{number}"),
                    };
                    let negative = json_number::normal(&negative).unwrap_or(negative);
                    Step::new(Item::Number(negative))
                }
                _ => Step::new(Item::Unary(sign, operand)),
            });
        }
        self.primary()
    }

    /// Parses a value, or brackets, with accessors.
    fn primary(&mut self) -> Result<Step, PgError> {
        if self.eat("(") {
            let inner = self.any()?;
            self.expect(")")?;
            if inner.is_predicate() && self.eat_word("is") {
                self.expect_word("unknown")?;
                return Ok(Step::new(Item::IsUnknown(Box::new(inner))));
            }
            return self.accessors(inner);
        }
        if self.eat_word("exists") {
            self.expect("(")?;
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(Step::new(Item::Exists(Box::new(inner))));
        }
        let item = match self.peek() {
            Some(Token::Text(text)) => Item::Text(text.clone()),
            Some(Token::Variable(name)) => Item::Variable(name.clone()),
            Some(Token::Number(number)) => {
                let spelled = format!("0{number}");
                let spelled = spelled.strip_suffix('.').unwrap_or(&spelled);
                let normal = json_number::normal(&spelled.replace(".e", "e").replace(".E", "e"));
                Item::Number(normal.ok_or_else(|| self.wrong())?)
            }
            Some(Token::Sign("$")) => Item::Root,
            Some(Token::Sign("@")) => Item::Current,
            Some(Token::Word(_)) if self.is_word("null") => Item::Null,
            Some(Token::Word(_)) if self.is_word("true") => Item::Bool(true),
            Some(Token::Word(_)) if self.is_word("false") => Item::Bool(false),
            Some(Token::Word(_)) if self.is_word("last") => Item::Last,
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        self.accessors(Step::new(item))
    }

    fn accessors(&mut self, first: Step) -> Result<Step, PgError> {
        let mut items = vec![];
        loop {
            items.push(if self.eat(".") {
                self.member()?
            } else if self.eat("[") {
                self.subscripts()?
            } else if self.eat("?") {
                self.expect("(")?;
                let filter = self.predicate()?;
                self.expect(")")?;
                Item::Filter(filter)
            } else {
                break;
            });
        }
        let mut next = None;
        for item in items.into_iter().rev() {
            next = Some(Box::new(Step { item, next }));
        }
        let mut step = first;
        append(&mut step, next);
        Ok(step)
    }

    fn member(&mut self) -> Result<Item, PgError> {
        if self.eat("*") {
            return Ok(Item::AnyKey);
        }
        if self.eat("**") {
            if !self.eat("{") {
                return Ok(Item::Any(0, LEVEL_LAST));
            }
            let first = self.level()?;
            let last = if self.eat_word("to") {
                self.level()?
            } else {
                first
            };
            self.expect("}")?;
            return Ok(Item::Any(first, last));
        }
        let name = match self.peek() {
            Some(Token::Text(text)) => {
                let key = Item::Key(text.clone());
                self.at += 1;
                return Ok(key);
            }
            Some(Token::Word(word)) => word.clone(),
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        let is_called = self.is_sign("(");
        if is_called && name.eq_ignore_ascii_case("datetime") {
            self.at += 1;
            let template = match self.peek() {
                Some(Token::Text(_)) => Some(self.text()?),
                _ => None,
            };
            self.expect(")")?;
            return Ok(Item::Datetime(template));
        }
        let mut methods = Method::ALL.into_iter();
        let method = methods.find(|method| method.name().eq_ignore_ascii_case(&name));
        match method {
            Some(method) if is_called => {
                self.at += 1;
                self.expect(")")?;
                Ok(Item::Method(method))
            }
            _ => Ok(Item::Key(name)),
        }
    }

    fn level(&mut self) -> Result<u32, PgError> {
        if self.eat_word("last") {
            return Ok(LEVEL_LAST);
        }
        let level = match self.peek() {
            Some(Token::Number(number)) => number.parse().map_err(|_| self.wrong())?,
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        Ok(level)
    }

    fn subscripts(&mut self) -> Result<Item, PgError> {
        if self.eat("*") {
            self.expect("]")?;
            return Ok(Item::AnyArray);
        }
        let mut places = vec![];
        loop {
            let from = self.expression()?;
            let to = if self.eat_word("to") {
                Some(self.expression()?)
            } else {
                None
            };
            places.push((from, to));
            if self.eat("]") {
                return Ok(Item::Index(places));
            }
            self.expect(",")?;
        }
    }
}

fn append(step: &mut Step, behind: Option<Box<Step>>) {
    match &mut step.next {
        Some(next) => append(next, behind),
        end => *end = behind,
    }
}

/// The flags of `like_regex`, without duplicates, in the order in which they are shown.
fn flags(given: &str) -> Result<String, PgError> {
    for flag in given.chars() {
        if !"ismxq".contains(flag) {
            return Err(PgError::new(
                "42601",
                "invalid input syntax for type jsonpath",
            ));
        }
    }
    if given.contains('x') && !given.contains('q') {
        let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
        return Err(PgError::unsupported(message));
    }
    Ok("ismxq"
        .chars()
        .filter(|flag| given.contains(*flag))
        .collect())
}
