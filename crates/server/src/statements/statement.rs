//! Which action does a statement's text ask for? The connection handles settings, transactions and
//! cursors itself; everything else is a plan for DataFusion.
//!
//! Not here: parsing (`coscan::parse_postgresql`), which setting a statement names
//! (`coscan::session_settings`), and what FETCH and MOVE ask for (`../encode/cursor.rs`).

use coscan::session_settings::SettingStatement;
use coscan::{
    AlterColumns, BlockStatement, ColumnChange, DropNames, IndexStatement, NamesStatement, Rename,
    StatementText, TEMPORARY_SCHEMA,
};
use datafusion::common::TableReference;
use datafusion::sql::parser::{DFParserBuilder, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, CloseCursor, CreateTable, DataType,
    Declare, DeclareType, DiscardObject, DropBehavior, Expr, Ident, IndexColumn, Lock,
    LockTableMode, NullsDistinctOption, ObjectName, ObjectNamePart, ObjectType, OnCommit,
    RenameTableNameKind, ShowCreateObject, Statement as SqlStatement, TableConstraint, Truncate,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;

use super::explain;
use super::show_create::show_create;
use crate::encode::{CopyFormat, Declared, Walk, as_csv, copy_to_file, copy_to_stdout, cursor};
use crate::failure::Failure;
use coscan_pg::dialect::Written;

/// The tag of ALTER TABLE.
pub(crate) const ALTER_TABLE: &str = "ALTER TABLE";

/// How the server carries out one statement.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// DataFusion plans and runs the statement.
    Plan(Box<DfStatement>),
    /// A query that runs for its effect on an index, and the tag that replaces its rows as the
    /// answer.
    Index {
        query: Box<DfStatement>,
        tag: &'static str,
    },
    /// A query whose rows are sent as COPY data.
    Copy {
        query: Box<DfStatement>,
        format: CopyFormat,
    },
    /// BEGIN, COMMIT, ROLLBACK and savepoints.
    Block(BlockStatement),
    /// Accepted, though there is nothing to do: there are no notifications (LISTEN, NOTIFY,
    /// UNLISTEN), statistics come from the files (ANALYZE, VACUUM), comments are not kept
    /// (COMMENT). Holds the tag of the answer.
    Nothing(&'static str),
    /// LOCK in a mode that only prevents changes of the table's definition: a statement reads the
    /// table as it was at its start.
    Lock(Vec<TableReference>),
    /// SET, RESET and SHOW.
    Setting(SettingStatement),
    Declare {
        name: String,
        declared: Declared,
        query: Box<DfStatement>,
    },
    /// FETCH and MOVE.
    Fetch(Walk),
    /// SQL's PREPARE. `types` are those of its first parameters, `written` those in casts.
    Prepare {
        name: String,
        types: Vec<DataType>,
        written: Written,
        query: Box<DfStatement>,
        /// The text of the PREPARE itself.
        text: String,
    },
    Execute {
        name: String,
        arguments: Vec<Expr>,
    },
    Rename(Rename),
    /// ALTER TABLE … ADD, DROP and RENAME COLUMN.
    Alter(AlterColumns),
    /// DROP TABLE or DROP VIEW.
    Drop(DropNames),
    /// TRUNCATE of several tables, as one statement for each.
    Truncate(Vec<DfStatement>),
    /// The cursor's name; `None` for all cursors.
    Close(Option<String>),
    /// The prepared statement's name; `None` for all of them.
    Deallocate(Option<String>),
    /// DISCARD. Without ALL and TEMP it names a part of the session that Coscan does not have.
    Discard {
        all: bool,
        temp: bool,
    },
}

impl Action {
    /// The tag that replaces a query's rows as the answer.
    pub(crate) fn tag(&self) -> Option<&'static str> {
        match self {
            Self::Index { tag, .. } => Some(tag),
            _ => None,
        }
    }

    /// Whether it may change something that ROLLBACK restores.
    pub(crate) fn may_change(&self) -> bool {
        match self {
            Self::Setting(statement) => statement.changes(),
            Self::Plan(_)
            | Self::Declare { .. }
            | Self::Execute { .. }
            | Self::Rename(_)
            | Self::Alter(_)
            | Self::Drop(_)
            | Self::Truncate(_)
            | Self::Discard { .. } => true,
            Self::Index { .. }
            | Self::Copy { .. }
            | Self::Block(_)
            | Self::Nothing(_)
            | Self::Lock(_)
            | Self::Fetch(_)
            | Self::Prepare { .. }
            | Self::Close(_)
            | Self::Deallocate(_) => false,
        }
    }

    /// Whether it runs a query, which reads tables.
    pub(crate) fn queries(&self) -> bool {
        matches!(
            self,
            Self::Plan(_)
                | Self::Index { .. }
                | Self::Copy { .. }
                | Self::Declare { .. }
                | Self::Execute { .. }
                | Self::Truncate(_)
        )
    }

    /// The verb that a READ ONLY transaction refuses, for actions without a plan.
    pub(crate) fn writes(&self) -> Option<&'static str> {
        match self {
            Self::Index {
                tag: tag @ ("CREATE INDEX" | "REFRESH INDEX" | "DROP INDEX"),
                ..
            }
            | Self::Nothing(tag @ "COMMENT") => Some(*tag),
            Self::Rename(rename) => Some(rename_tag(rename)),
            Self::Alter(_) => Some(ALTER_TABLE),
            Self::Drop(drop) => Some(drop_tag(drop)),
            _ => None,
        }
    }

    /// The format of a COPY, if the rows are sent as COPY data.
    pub(crate) fn copy_format(&self) -> Option<&CopyFormat> {
        match self {
            Self::Copy { format, .. } => Some(format),
            _ => None,
        }
    }
}

impl From<NamesStatement> for Action {
    fn from(statement: NamesStatement) -> Self {
        match statement {
            NamesStatement::Prepare { name, types, query } => Self::Prepare {
                name,
                types,
                written: Written::new(),
                query,
                text: String::new(),
            },
            NamesStatement::Execute { name, arguments } => Self::Execute { name, arguments },
            NamesStatement::Deallocate(name) => Self::Deallocate(name),
        }
    }
}

/// The tag of ALTER TABLE … RENAME and ALTER VIEW … RENAME.
pub(crate) fn rename_tag(rename: &Rename) -> &'static str {
    if rename.view {
        "ALTER VIEW"
    } else {
        ALTER_TABLE
    }
}

/// The tag of DROP TABLE and DROP VIEW.
pub(crate) fn drop_tag(drop: &DropNames) -> &'static str {
    if drop.views {
        "DROP VIEW"
    } else {
        "DROP TABLE"
    }
}

/// Parses one statement of a text; `None` for a text of comments only.
///
/// The syntax trees are built on a stack that is large enough for them, and are returned only if
/// any stack can hold them.
pub(crate) fn parse(statement: StatementText<'_>) -> Result<Option<Action>, Failure> {
    if let Some(walk) = cursor::read(statement.text) {
        return Ok(Some(Action::Fetch(walk?)));
    }
    if let Some(tag) = maintenance(statement.text) {
        return Ok(Some(Action::Nothing(tag)));
    }
    let (query, tag) = match coscan::index_statement(statement.text)? {
        Some(IndexStatement { query, tag }) => (Some(query), tag),
        None => (None, None),
    };
    let mut read = match &query {
        Some(query) => coscan::parse_postgresql(StatementText::whole(query)?)?,
        None => coscan::parse_postgresql(statement)?,
    };
    if read.len() > 1 {
        return Err(Failure::syntax("this reads as several statements"));
    }
    let mut action = read.pop().map(action_datafusion).transpose()?;
    match &mut action {
        Some(Action::Rename(rename)) => rename.view = is_of_view(statement.text),
        Some(Action::Alter(alter)) => alter.view = is_of_view(statement.text),
        _ => {}
    }
    Ok(match (action, tag) {
        (Some(Action::Plan(query)), Some(tag)) => Some(Action::Index { query, tag }),
        (action, _) => action,
    })
}

/// Whether the second word of a text is VIEW. ALTER VIEW is parsed as ALTER TABLE, which may rename
/// views too.
fn is_of_view(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    words
        .nth(1)
        .is_some_and(|word| word.eq_ignore_ascii_case("view"))
}

fn action_datafusion(statement: DfStatement) -> Result<Action, Failure> {
    if let Some(about_settings) = SettingStatement::of(&statement)? {
        return Ok(Action::Setting(about_settings));
    }
    match statement {
        DfStatement::Statement(statement) => action(*statement),
        mut other => {
            as_csv(&mut other);
            Ok(Action::Plan(Box::new(other)))
        }
    }
}

/// Longer than a screen: a table with one arm per statement.
fn action(mut statement: SqlStatement) -> Result<Action, Failure> {
    if let Some((query, format)) = copy_to_stdout(&statement)? {
        let query = Box::new(query);
        return Ok(Action::Copy { query, format });
    }
    if let Some(copy) = copy_to_file(&statement)? {
        return Ok(Action::Plan(Box::new(copy)));
    }
    if let Some(about_block) = BlockStatement::of(&statement) {
        return Ok(Action::Block(about_block));
    }
    if let Some(about_names) = NamesStatement::of(&statement)? {
        return Ok(about_names.into());
    }
    explain::in_words(&mut statement)?;
    Ok(match statement {
        SqlStatement::UNLISTEN { .. } => Action::Nothing("UNLISTEN"),
        SqlStatement::ShowCreate {
            obj_type: ShowCreateObject::Table,
            obj_name,
        } => Action::Plan(show_create(&obj_name)?),
        SqlStatement::Declare { stmts } => cursor_declared(stmts)?,
        SqlStatement::ShowTables { .. } => Action::Plan(Box::new(users_tables()?)),
        SqlStatement::LISTEN { .. } => Action::Nothing("LISTEN"),
        SqlStatement::Comment { .. } => Action::Nothing("COMMENT"),
        SqlStatement::NOTIFY { .. } => Action::Nothing("NOTIFY"),
        SqlStatement::Lock(Lock {
            tables,
            lock_mode: Some(LockTableMode::AccessShare | LockTableMode::RowShare),
            ..
        }) => Action::Lock(tables.iter().map(|table| reference(&table.name)).collect()),
        SqlStatement::AlterTable(alter) => altered(alter),
        SqlStatement::Truncate(truncate) if truncate.table_names.len() > 1 => {
            Action::Truncate(one_by_one(&truncate))
        }
        SqlStatement::Drop {
            object_type: object @ (ObjectType::Table | ObjectType::View),
            if_exists,
            names,
            cascade,
            ..
        } => Action::Drop(DropNames {
            names: names.iter().map(reference).collect(),
            views: object == ObjectType::View,
            if_exists,
            cascade,
        }),
        SqlStatement::Close { cursor } => Action::Close(match cursor {
            CloseCursor::All => None,
            CloseCursor::Specific { name } => Some(named(name)),
        }),
        SqlStatement::Discard { object_type } => Action::Discard {
            all: object_type == DiscardObject::ALL,
            temp: object_type == DiscardObject::TEMP,
        },
        SqlStatement::CreateTable(create) => plan(SqlStatement::CreateTable(of_session(create))),
        other => plan(other),
    })
}

fn plan(statement: SqlStatement) -> Action {
    Action::Plan(Box::new(DfStatement::Statement(Box::new(statement))))
}

/// DECLARE of one cursor.
fn cursor_declared(mut declares: Vec<Declare>) -> Result<Action, Failure> {
    let declare = declares.pop().filter(|_| declares.is_empty());
    let declare = declare.filter(|d| d.declare_type == Some(DeclareType::Cursor));
    match declare {
        Some(Declare {
            names,
            hold,
            scroll,
            binary,
            for_query: Some(query),
            ..
        }) if names.len() == 1 => Ok(Action::Declare {
            name: names.into_iter().next().map(named).unwrap_or_default(),
            declared: Declared {
                hold: hold == Some(true),
                scroll: scroll == Some(true),
                binary: binary == Some(true),
            },
            query: Box::new(DfStatement::Statement(Box::new(SqlStatement::Query(query)))),
        }),
        _ => Err(Failure::syntax("DECLARE needs a cursor's name and query")),
    }
}

/// A TRUNCATE for each of the tables.
fn one_by_one(truncate: &Truncate) -> Vec<DfStatement> {
    let tables = truncate.table_names.iter().map(|table| {
        let table_names = vec![table.clone()];
        let truncate = SqlStatement::Truncate(Truncate {
            table_names,
            ..truncate.clone()
        });
        DfStatement::Statement(Box::new(truncate))
    });
    tables.collect()
}

/// A temporary table is session-local, even where there is no schema to create it in.
fn of_session(mut create: CreateTable) -> CreateTable {
    if create.temporary && create.name.0.len() == 1 {
        let schema = ObjectNamePart::Identifier(Ident::new(TEMPORARY_SCHEMA));
        create.name.0.insert(0, schema);
    }
    // LOCAL and GLOBAL have no meaning in PostgreSQL either.
    create.global = None;
    if create.on_commit == Some(OnCommit::PreserveRows) {
        create.on_commit = None;
    }
    create
}

/// The tag of ANALYZE or VACUUM, whose options and names consist of words, commas, dots and
/// parentheses.
fn maintenance(text: &str) -> Option<&'static str> {
    let text = text.trim().trim_end_matches(';');
    let (word, rest) = match text.find(|c: char| !c.is_ascii_alphabetic()) {
        Some(end) => text.split_at(end),
        None => (text, ""),
    };
    let tag = match word.to_ascii_lowercase().as_str() {
        "analyze" | "analyse" => "ANALYZE",
        "vacuum" => "VACUUM",
        _ => return None,
    };
    let is_plain = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_$.,()\"".contains(c);
    rest.chars().all(is_plain).then_some(tag)
}

/// A name, folded as in PostgreSQL.
fn named(name: Ident) -> String {
    match name.quote_style {
        Some(_) => name.value,
        None => name.value.to_lowercase(),
    }
}

/// A table's name, folded as in PostgreSQL.
fn reference(name: &ObjectName) -> TableReference {
    TableReference::parse_str(&name.to_string())
}

fn altered(alter: AlterTable) -> Action {
    if let Some(rename) = renamed(&alter) {
        return Action::Rename(rename);
    }
    match columns_altered(&alter) {
        Some(columns) => Action::Alter(columns),
        None => plan(SqlStatement::AlterTable(alter)),
    }
}

/// The columns that an ALTER TABLE changes, if it does nothing else. PostgreSQL renames one column
/// in a statement of its own.
fn columns_altered(alter: &AlterTable) -> Option<AlterColumns> {
    let changes = alter.operations.iter().map(column_change);
    let changes: Vec<ColumnChange> = changes.collect::<Option<_>>()?;
    let mut renames = changes.iter();
    let renames = renames.any(|change| matches!(change, ColumnChange::Rename { .. }));
    (changes.len() == 1 || !renames).then(|| AlterColumns {
        table: reference(&alter.name),
        if_exists: alter.if_exists,
        view: false,
        changes,
    })
}

fn column_change(operation: &AlterTableOperation) -> Option<ColumnChange> {
    match operation {
        AlterTableOperation::AddColumn {
            if_not_exists,
            column_def,
            column_position: None,
            ..
        } => Some(ColumnChange::Add {
            column: Box::new(column_def.clone()),
            if_not_exists: *if_not_exists,
        }),
        AlterTableOperation::DropColumn {
            column_names,
            if_exists,
            drop_behavior,
            ..
        } => match column_names.as_slice() {
            [name] => Some(ColumnChange::Drop {
                name: column_name(name),
                if_exists: *if_exists,
                cascade: *drop_behavior == Some(DropBehavior::Cascade),
            }),
            _ => None,
        },
        AlterTableOperation::RenameColumn {
            old_column_name,
            new_column_name,
        } => Some(ColumnChange::Rename {
            from: column_name(old_column_name),
            to: column_name(new_column_name),
        }),
        AlterTableOperation::AddConstraint {
            constraint,
            not_valid: false,
        } => constraint_added(constraint),
        AlterTableOperation::AlterColumn {
            column_name: name,
            op,
        } => column_altered(column_name(name), op),
        _ => None,
    }
}

fn constraint_added(constraint: &TableConstraint) -> Option<ColumnChange> {
    match constraint {
        TableConstraint::Check(check) => Some(ColumnChange::AddCheck {
            check: Box::new(check.clone()),
        }),
        TableConstraint::PrimaryKey(key) => Some(ColumnChange::AddKey {
            columns: key_columns(&key.columns)?,
            primary: true,
        }),
        TableConstraint::Unique(key) if key.nulls_distinct != NullsDistinctOption::NotDistinct => {
            Some(ColumnChange::AddKey {
                columns: key_columns(&key.columns)?,
                primary: false,
            })
        }
        _ => None,
    }
}

/// The columns of a key; `None` if there is another expression among them.
fn key_columns(columns: &[IndexColumn]) -> Option<Vec<String>> {
    let names = columns.iter().map(|column| match &column.column.expr {
        Expr::Identifier(name) => Some(column_name(name)),
        _ => None,
    });
    names.collect()
}

fn column_altered(name: String, operation: &AlterColumnOperation) -> Option<ColumnChange> {
    Some(match operation {
        AlterColumnOperation::SetNotNull => ColumnChange::SetNullable {
            name,
            nullable: false,
        },
        AlterColumnOperation::DropNotNull => ColumnChange::SetNullable {
            name,
            nullable: true,
        },
        AlterColumnOperation::SetDefault { value } => ColumnChange::SetDefault {
            name,
            default: Some(Box::new(value.clone())),
        },
        AlterColumnOperation::DropDefault => ColumnChange::SetDefault {
            name,
            default: None,
        },
        _ => return None,
    })
}

/// The name of a column as DataFusion's planner reads it: PostgreSQL folds no other letters than
/// ASCII's in UTF-8.
fn column_name(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

/// What an ALTER TABLE renames, if it does nothing else.
fn renamed(alter: &AlterTable) -> Option<Rename> {
    match alter.operations.as_slice() {
        [
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
            },
        ] => Some(Rename {
            from: alter.name.to_string(),
            to: name.to_string(),
            view: false,
            if_exists: alter.if_exists,
        }),
        _ => None,
    }
}

/// SHOW TABLES: the relations of users, without those of the system.
fn users_tables() -> Result<DfStatement, Failure> {
    let query = "SELECT table_catalog, table_schema, table_name, table_type \
                 FROM information_schema.tables \
                 WHERE table_schema NOT IN ('information_schema', 'pg_catalog', 'coscan') \
                 ORDER BY 1, 2, 3";
    let dialect = GenericDialect {};
    let mut parser = DFParserBuilder::new(query).with_dialect(&dialect).build()?;
    let statement = parser.parse_statements()?.pop_front();
    statement.ok_or_else(|| Failure::syntax("SHOW TABLES is not a query"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Steps;

    fn all(sql: &str) -> Result<Vec<Action>, Failure> {
        coscan::statement_texts(sql)
            .filter_map(|statement| match statement {
                Ok(statement) => parse(statement).transpose(),
                Err(error) => Some(Err(error.into())),
            })
            .collect()
    }

    fn one(sql: &str) -> Action {
        let mut actions = all(sql).unwrap();
        assert_eq!(actions.len(), 1, "{sql}");
        actions.remove(0)
    }

    #[test]
    fn comments_and_semicolons_are_nothing() {
        assert!(all(" ; -- nothing\n ;").unwrap().is_empty());
    }

    #[test]
    fn datafusions_own_statements_become_plans() {
        let external = one("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/x'");
        assert!(
            matches!(&external, Action::Plan(s) if matches!(**s, DfStatement::CreateExternalTable(_)))
        );
        let copy = one("COPY t TO '/x.parquet'");
        assert!(matches!(&copy, Action::Plan(s) if matches!(**s, DfStatement::CopyTo(_))));
    }

    #[test]
    fn index_statements_mix_with_others() {
        let text = "BEGIN; create index i on t (a) ;SELECT ';'; SHOW INDEXES; -- done\nrefresh index i; \
                    CREATE EXTERNAL TABLE u STORED AS PARQUET LOCATION '/x'; DROP INDEX i";
        let actions = all(text).unwrap();
        let shown: Vec<&str> = actions
            .iter()
            .map(|action| match action {
                Action::Index { tag, .. } => tag,
                Action::Plan(statement) => match statement.as_ref() {
                    DfStatement::CreateExternalTable(_) => "external table",
                    _ => "plan",
                },
                Action::Block(BlockStatement::Begin { tag, .. }) => tag,
                _ => "?",
            })
            .collect();
        let expected = [
            "BEGIN",
            "CREATE INDEX",
            "plan",
            "plan",
            "REFRESH INDEX",
            "external table",
            "DROP INDEX",
        ];
        assert_eq!(shown, expected);
        for wrong in ["DROP INDEX i; SELEC 1", "DROP INDEX i; SELECT 'open"] {
            assert!(all(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn statements_of_the_connection_become_its_actions() {
        for (text, expected) in [
            ("END", BlockStatement::Commit { chain: false }),
            ("ABORT", BlockStatement::Rollback { chain: false }),
        ] {
            assert!(matches!(one(text), Action::Block(found) if found == expected));
        }
        let setting = |text: &str| match one(text) {
            Action::Setting(statement) => statement,
            other => panic!("{text}: {other:?}"),
        };
        let show = |name: &str| SettingStatement::Show(name.to_owned());
        assert_eq!(setting("SHOW TIME ZONE"), show("timezone"));
        let name = "datafusion.execution.batch_size";
        assert_eq!(setting(&format!("SHOW {name}")), show(name));
        assert_eq!(setting("RESET ALL"), SettingStatement::Reset(None));
        let reset = |name: &str| SettingStatement::Reset(Some(name.to_owned()));
        assert_eq!(setting("reset Coscan.Policy"), reset("coscan.policy"));
        for (words, name) in [
            ("TIME ZONE", "timezone"),
            ("\"TimeZone\"", "timezone"),
            ("Transaction Isolation Level", "transaction_isolation"),
            ("SESSION AUTHORIZATION", "session_authorization"),
            ("my.time", "my.time"),
        ] {
            let read = setting(&format!("RESET {words}"));
            assert_eq!(read, reset(name), "{words}");
        }
        assert_eq!(setting("RESET ROLE"), reset("role"));
        assert!(matches!(
            one("FETCH 10 FROM c"),
            Action::Fetch(Walk {
                steps: Steps::By(10),
                ..
            })
        ));
        assert!(matches!(
            one("FETCH FORWARD ALL IN c"),
            Action::Fetch(Walk {
                steps: Steps::AllAfter,
                ..
            })
        ));
        assert!(matches!(
            one("DECLARE c CURSOR WITH HOLD FOR SELECT 1"),
            Action::Declare {
                declared: Declared { hold: true, .. },
                ..
            }
        ));
        assert!(matches!(one("DEALLOCATE ALL"), Action::Deallocate(None)));
        assert!(matches!(
            one("DISCARD ALL"),
            Action::Discard { all: true, .. }
        ));
    }

    #[test]
    fn a_syntax_error_has_its_sqlstate() {
        for wrong in ["SELEC 1", "RESET foo bar", "RESET TIME ZONE now"] {
            let failure = all(wrong).unwrap_err();
            assert!(failure.to_string().contains("42601"), "{wrong}: {failure}");
        }
    }
}
