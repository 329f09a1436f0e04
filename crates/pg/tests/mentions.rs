//! A query in WITH that is named more than once behaves as if computed once, as in PostgreSQL, or
//! the statement is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;

async fn rows(sql: &str) -> Result<usize> {
    let builder = SessionStateBuilder::new().with_default_features();
    let context = SessionContext::new_with_state(coscan_pg::install(builder).build());
    let mut statements = coscan_pg::dialect::parse_postgres(sql)
        .map_err(|error| DataFusionError::SQL(Box::new(error), None))?;
    let statement = Statement::Statement(Box::new(statements.remove(0)));
    let plan = context.state().statement_to_plan(statement).await?;
    context.execute_logical_plan(plan).await?.count().await
}

#[tokio::test]
async fn volatile_rows_are_not_computed_twice() {
    for sql in [
        "with s as (select random() r) select * from s x, s y",
        "with s as (select 1 id order by random() limit 1) select * from s x join s y using (id)",
        "with s as (select gen_random_uuid() u) select * from s where u in (select u from s)",
        "with s as materialized (select clock_timestamp() c) select (select c from s), c from s",
        "with \"S\" as (select random() r) select * from \"S\" union all select * from \"S\"",
        "with s as (select random() r), t as (select r from s) select * from t x, t y",
        "with s as (select 1 k where random() < 2) select (select k from s) from s",
        "select (with s as (select random() r) select count(*) from s x, s y)",
        "with recursive s as (select random() r), \
         t as (select 1 n, 0::float8 r union all select n + 1, s.r from t, s where n < 3) \
         select * from t",
    ] {
        let error = rows(sql).await.expect_err(sql);
        let error = coscan_pg::translate(&error, &|_| None);
        assert_eq!(error.code(), "0A000", "{sql}: {error:?}");
    }
}

#[tokio::test]
async fn other_mentions_are_answered() {
    for sql in [
        "with s as (select random() r) select * from s",
        "with s as (select now() r) select * from s x, s y",
        "with s as (select 1 id), t as (select id, random() r from s) select t.* from t join s using (id)",
        "with recursive t as (select 1 n union all select n + 1 from t where n < 1) select x.* from t x, t y",
        "select * from (select random() r) x, (select random() r) y",
    ] {
        assert_eq!(rows(sql).await.unwrap(), 1, "{sql}");
    }
}
