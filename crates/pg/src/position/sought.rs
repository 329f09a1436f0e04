//! What does an error's message name?

/// What is searched for in a text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sought<'a> {
    /// The token at this place of the statement.
    Token {
        line: usize,
        column: usize,
        token: &'a str,
    },
    /// A quote or a comment that begins at this place of the text.
    Unended {
        line: usize,
        column: usize,
    },
    /// The end of the statement.
    End,
    /// A token that looks like this.
    Word(&'a str),
    /// A column by its name, as the text qualifies it.
    Column {
        table: Option<&'a str>,
        name: &'a str,
    },
    /// A column by its name without a table, which several relations have.
    Ambiguous(&'a str),
    /// The table that qualifies a column.
    Qualifier(&'a str),
    /// A relation, with its schema if that is another than `public`.
    Relation(&'a str),
    Function(&'a str),
    Operator(&'a str),
}

impl<'a> Sought<'a> {
    /// `None` for an error that is not about a place in the text.
    pub(super) fn of(code: &str, message: &'a str) -> Option<Self> {
        match code {
            "42601" => of_syntax(message),
            "42702" => {
                let name = inside(message, "column reference \"", "\" is ambiguous")?;
                Some(Self::Ambiguous(name))
            }
            "42703" => of_column(inside(message, "column ", " does not exist")?),
            "42P01" => of_relation(message),
            "42P02" => Some(Self::Word(message.strip_prefix("there is no parameter ")?)),
            "42883" => of_call(message),
            _ => None,
        }
    }
}

fn of_syntax(message: &str) -> Option<Sought<'_>> {
    if message.ends_with("found: EOF") {
        return Some(Sought::End);
    }
    if let Some(word) = inside(message, "syntax error at or near \"", "\"") {
        return Some(Sought::Word(word));
    }
    if let Some((_, place)) = message.split_once(" that begins at line ") {
        let (line, column) = place
            .strip_suffix(" does not end")?
            .split_once(", column ")?;
        return Some(Sought::Unended {
            line: line.parse().ok()?,
            column: column.parse().ok()?,
        });
    }
    let (told, place) = message.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let (_, token) = told.rsplit_once("found: ")?;
    Some(Sought::Token {
        line: line.parse().ok()?,
        column: column.parse().ok()?,
        token,
    })
}

fn of_column(named: &str) -> Option<Sought<'_>> {
    if let Some(name) = inside(named, "\"", "\"") {
        return Some(Sought::Column { table: None, name });
    }
    let (table, name) = named.split_once('.')?;
    Some(Sought::Column {
        table: Some(table),
        name,
    })
}

fn of_relation(message: &str) -> Option<Sought<'_>> {
    if let Some(name) = inside(message, "relation \"", "\" does not exist") {
        return Some(Sought::Relation(name));
    }
    let name = inside(message, "missing FROM-clause entry for table \"", "\"")?;
    Some(Sought::Qualifier(name))
}

fn of_call(message: &str) -> Option<Sought<'_>> {
    if let Some(types) = message.strip_prefix("operator does not exist: ") {
        let is_symbol =
            |word: &&str| !word.is_empty() && word.chars().all(|c| "+-*/<>=~!@#%^&|`?".contains(c));
        let symbol = types.split(' ').find(is_symbol)?;
        return Some(Sought::Operator(if symbol == "!=" { "<>" } else { symbol }));
    }
    let signature = inside(message, "function ", " does not exist")?;
    let name = signature.split('(').next()?;
    Some(Sought::Function(name.rsplit('.').next()?))
}

/// What is between the beginning and the end of a text.
fn inside<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(begin)?.strip_suffix(end)
}
