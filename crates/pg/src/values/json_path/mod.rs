//! `jsonpath`: the path language of SQL/JSON, as in PostgreSQL 15.
//!
//! `read.rs` parses a text to a [`JsonPath`], and `write.rs` writes it as PostgreSQL shows it.
//! Not here: evaluation (`functions/json/path/`).
//!
//! No crate is used: sql-json-path enables `arbitrary_precision` of `serde_json` for the whole
//! tree, brings a second nom and bigdecimal, and implements methods of later versions.

mod lexer;
mod read;
mod write;

/// A path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    /// Lax, not strict: structural errors are suppressed, and arrays are unwrapped.
    pub(crate) is_lax: bool,
    pub(crate) root: Step,
}

/// An item, and the step that follows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) item: Item,
    pub(crate) next: Option<Box<Step>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    Null,
    Bool(bool),
    /// In the normal form of `jsonb`.
    Number(String),
    Text(String),
    Variable(String),
    /// `$`
    Root,
    /// `@`
    Current,
    Last,
    Key(String),
    AnyKey,
    AnyArray,
    /// `[a, b to c]`
    Index(Vec<(Step, Option<Step>)>),
    /// `.**{first to last}`
    Any(u32, u32),
    Filter(Box<Step>),
    Method(Method),
    Datetime(Option<String>),
    Unary(Sign, Box<Step>),
    Arithmetic(Arithmetic, Box<Step>, Box<Step>),
    Compare(Compare, Box<Step>, Box<Step>),
    And(Box<Step>, Box<Step>),
    Or(Box<Step>, Box<Step>),
    Not(Box<Step>),
    IsUnknown(Box<Step>),
    Exists(Box<Step>),
    StartsWith(Box<Step>, Box<Step>),
    /// The values, the pattern and its flags.
    LikeRegex(Box<Step>, String, String),
}

/// The level `last` in `.**{…}`.
pub(crate) const LEVEL_LAST: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Abs,
    Size,
    Type,
    Floor,
    Double,
    Ceiling,
    KeyValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Plus,
    Minus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
}

impl Method {
    pub(crate) const ALL: [Self; 7] = [
        Self::Abs,
        Self::Size,
        Self::Type,
        Self::Floor,
        Self::Double,
        Self::Ceiling,
        Self::KeyValue,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Abs => "abs",
            Self::Size => "size",
            Self::Type => "type",
            Self::Floor => "floor",
            Self::Double => "double",
            Self::Ceiling => "ceiling",
            Self::KeyValue => "keyvalue",
        }
    }
}

impl Sign {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
        }
    }
}

impl Arithmetic {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

impl Compare {
    fn sign(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::Greater => ">",
            Self::LessOrEqual => "<=",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Step {
    fn new(item: Item) -> Self {
        Self { item, next: None }
    }

    fn boxed(item: Item) -> Box<Self> {
        Box::new(Self::new(item))
    }

    /// Whether the step evaluates to true, false or unknown.
    fn is_predicate(&self) -> bool {
        self.next.is_none() && self.item.is_predicate()
    }
}

impl Item {
    pub(crate) fn is_predicate(&self) -> bool {
        matches!(
            self,
            Self::Compare(..)
                | Self::And(..)
                | Self::Or(..)
                | Self::Not(_)
                | Self::IsUnknown(_)
                | Self::Exists(_)
                | Self::StartsWith(..)
                | Self::LikeRegex(..)
        )
    }
}
