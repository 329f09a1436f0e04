//! SHOW CREATE TABLE: which statement made a table or view?
//!
//! DataFusion would look in `information_schema.views`, which has other columns in PostgreSQL.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::catalog::DEFINITIONS;
use crate::failure::Failure;

/// The query that produces the rows of SHOW CREATE TABLE. It fails if the relation does not exist.
pub(crate) fn show_create(table: &ObjectName) -> Result<Box<DfStatement>, Failure> {
    let words: Vec<&Ident> = table
        .0
        .iter()
        .filter_map(ObjectNamePart::as_ident)
        .collect();
    let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let word = |ident: &Ident| match ident.quote_style {
        Some(_) => literal(&ident.value),
        None => literal(&ident.value.to_lowercase()),
    };
    let [.., name] = words.as_slice() else {
        return Err(Failure::syntax("SHOW CREATE TABLE needs a table's name"));
    };
    let mut sql = format!(
        "SELECT table_catalog, table_schema, table_name, definition \
         FROM information_schema.{DEFINITIONS} \
         WHERE regclass_oid({}) IS NOT NULL AND table_name = {}",
        literal(&table.to_string()),
        word(name)
    );
    if let [.., schema, _] = words.as_slice() {
        sql = format!("{sql} AND table_schema = {}", word(schema));
    }
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, &sql)
        .map_err(|error| Failure::syntax(error.to_string()))?;
    let query = statements.pop();
    let query = query.ok_or_else(|| Failure::syntax("SHOW CREATE TABLE needs a table's name"))?;
    Ok(Box::new(DfStatement::Statement(Box::new(query))))
}
