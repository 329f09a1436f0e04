//! Arithmetic of decimals stays plain and narrow where possible, in the form that plans and
//! fragments recognize.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;

async fn physical(sql: &str) -> (String, String) {
    let builder = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(1))
        .with_default_features();
    let context = SessionContext::new_with_state(coscan_pg::install(builder).build());
    let table = "CREATE TABLE l AS SELECT * FROM (VALUES (1, 2::smallint, 3::bigint, 4.00::numeric(15,2), \
                 0.05::numeric(15,2), 0.02::numeric(15,2), date '1995-01-01', 2.5::float8)) AS t(i, s, b, price, discount, tax, day, f)";
    for statement in [table, sql] {
        let mut parsed = coscan_pg::dialect::parse_postgres(statement).unwrap();
        let parsed = Statement::Statement(Box::new(parsed.remove(0)));
        let plan = context.state().statement_to_plan(parsed).await.unwrap();
        if statement == sql {
            let state = context.state();
            let plan = state.optimize(&plan).unwrap();
            let types = plan
                .schema()
                .fields()
                .iter()
                .map(|f| f.data_type().to_string());
            let types = types.collect::<Vec<_>>().join(" ");
            let exec = state
                .query_planner()
                .create_physical_plan(&plan, &state)
                .await
                .unwrap();
            let shown = datafusion::physical_plan::displayable(exec.as_ref())
                .indent(false)
                .to_string();
            return (types, shown);
        }
        context
            .execute_logical_plan(plan)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
    }
    unreachable!()
}

#[tokio::test]
async fn hot_paths_are_plain() {
    for (sql, types) in [
        (
            "SELECT sum(price * (1 - discount) * (1 + tax)), sum(price * (1 - discount)), avg(discount), count(*) FROM l",
            "Decimal256(48, 6) Decimal256(42, 4) Decimal256(76, 38) Int64",
        ),
        ("SELECT sum(price * discount) FROM l", "Decimal256(41, 4)"),
        (
            "SELECT sum(s + 1), sum(s), avg(i), sum(b) FROM l",
            "Int64 Int64 Decimal256(76, 38) Decimal128(29, 0)",
        ),
        (
            "SELECT price * (1 - discount) * (1 + tax) FROM l",
            "Decimal128(38, 6)",
        ),
        (
            "SELECT sum(CASE WHEN i = 1 THEN price * (1 - discount) ELSE 0 END) FROM l",
            "Decimal256(42, 4)",
        ),
        (
            "SELECT i FROM l WHERE day >= date '1995-01-01' AND discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND i < 24 AND b = 5 AND f > 0.5",
            "Int32",
        ),
    ] {
        let (found, shown) = physical(sql).await;
        println!("{sql}\n{shown}");
        assert_eq!(found, types, "{sql}\n{shown}");
        for line in shown
            .lines()
            .filter(|line| !line.contains("avg(") && !line.contains("pg_divide"))
        {
            assert!(
                !line.contains("pg_") && !line.contains("::"),
                "{sql}\n{shown}"
            );
        }
    }
}
