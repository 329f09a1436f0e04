//! `docs/reference/differences.md` is true: each statement in its tables gives the answer in the
//! last column.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::BytesMut;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;

async fn answer(sql: &str) -> Result<String> {
    let builder = SessionStateBuilder::new().with_default_features();
    let context = SessionContext::new_with_state(coscan_pg::install(builder).build());
    let mut statements = coscan_pg::dialect::parse_postgres(sql)
        .map_err(|error| DataFusionError::SQL(Box::new(error), None))?;
    let statement = Statement::Statement(Box::new(statements.remove(0)));
    let plan = context.state().statement_to_plan(statement).await?;
    let batches = context.execute_logical_plan(plan).await?.collect().await?;
    let column = batches[0].column(0);
    let mut out = BytesMut::new();
    coscan_pg::output::cell_writer(column, false)?(0, &mut out).unwrap();
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[tokio::test]
async fn documented_differences_are_true() {
    let page = "../../docs/reference/differences.md";
    let page = std::fs::read_to_string(page).unwrap();
    let mut checked = 0;
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [sql, _, said] = cells[..] else {
            panic!("{line}: not three cells");
        };
        let bare = |cell: &str| cell.trim_matches(['|', ' ', '`']).to_owned();
        let (sql, said) = (bare(sql), bare(said));
        let given = match answer(&sql).await {
            Ok(value) => value,
            Err(error) => {
                let error = coscan_pg::translate(&error, &|_| None);
                format!("error {}", error.code())
            }
        };
        let given = if said.contains('.') {
            given.trim_end_matches('0').to_owned()
        } else {
            given
        };
        assert_eq!(given, said, "{sql}");
        checked += 1;
    }
    assert!(checked > 3, "the page must have tables");
}
