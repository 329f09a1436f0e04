//! Promised: the catalog answers clients' queries as recorded, query by query
//! (`catalog_queries/*.slt`). Its model is consistent: every fact by which queries are simplified
//! holds, oids are the same on every connection, and each table can be read.
//!
//! A file holds the queries of one client, recorded against PostgreSQL 15 with their parameters
//! filled in: `query`, the text, `----`, and the rows as PostgreSQL prints them, with `|` between
//! columns. `OID(name)` stands for a relation's oid. `COSCAN_RECORD=1` rewrites the answers.

use std::fmt::Write as _;
use std::path::Path;

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::common::{TestServer, state};

/// The rows, each as its values with `|` between them.
async fn answers(client: &Client, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let mut rows = vec![];
    for message in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            let values = (0..row.len()).map(|index| row.get(index).unwrap_or("NULL"));
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    Ok(rows)
}

async fn oid(client: &Client, name: &str) -> String {
    let sql = format!("SELECT '{name}'::regclass::oid");
    answers(client, &sql).await.unwrap().remove(0)
}

/// Replaces each `OID(name)`.
async fn with_oids(client: &Client, text: &str) -> String {
    let mut parts = text.split("OID(");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(')').unwrap();
        whole += &oid(client, name).await;
        whole += rest;
    }
    whole
}

async fn replay(file: &str) {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let path = Path::new("tests/server/catalog_queries").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let record = std::env::var_os("COSCAN_RECORD").is_some();
    let (mut written, mut wrong, mut count) = (String::new(), String::new(), 0);
    for block in text.split("\nquery\n").skip(1) {
        let (sql, expected) = block.split_once("\n----").unwrap();
        count += 1;
        let expected = with_oids(&client, expected.trim_matches('\n')).await;
        let query = with_oids(&client, sql).await;
        let got = match answers(&client, &query).await {
            Ok(rows) => rows.join("\n"),
            Err(error) => format!("ERROR {error:?}"),
        };
        // Most queries leave the order of some rows undefined.
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        if sorted(&got) != sorted(&expected) {
            write!(
                wrong,
                "{sql}\n---- expected\n{expected}\n---- got\n{got}\n\n"
            )
            .unwrap();
        }
        let mut shown = got;
        for name in ["people", "kinds", "endless", "grown"] {
            shown = shown.replace(&oid(&client, name).await, &format!("OID({name})"));
        }
        write!(written, "\nquery\n{sql}\n----\n{shown}\n").unwrap();
    }
    if record {
        let head = text.split("\nquery\n").next().unwrap();
        std::fs::write(&path, format!("{head}{written}")).unwrap();
        return;
    }
    assert!(count > 0, "{file} contains no query");
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test]
async fn adbcs_queries() {
    replay("adbc.slt").await;
}

#[tokio::test]
async fn asyncpgs_queries() {
    replay("asyncpg.slt").await;
}

#[tokio::test]
async fn djangos_queries() {
    replay("django.slt").await;
}

#[tokio::test]
async fn jdbcs_queries() {
    replay("jdbc.slt").await;
}

#[tokio::test]
async fn npgsqls_queries() {
    replay("npgsql.slt").await;
}

#[tokio::test]
async fn psqls_queries() {
    replay("psql.slt").await;
}

#[tokio::test]
async fn sqlalchemys_queries() {
    replay("sqlalchemy.slt").await;
}

#[tokio::test]
async fn oids_are_the_same_on_every_connection() {
    let (one, other) = (TestServer::start().await, TestServer::start().await);
    let (a, b) = (one.connect().await, other.connect().await);
    for name in [
        "people",
        "kinds",
        "grown",
        "pg_class",
        "information_schema.tables",
    ] {
        assert_eq!(oid(&a, name).await, oid(&b, name).await, "{name}");
    }
    assert_eq!(oid(&a, "pg_class").await, "1259");
    let twice = "SELECT oid FROM pg_class GROUP BY oid HAVING count(*) > 1";
    assert_eq!(answers(&a, twice).await.unwrap(), Vec::<String>::new());
    let unknown = a.simple_query("SELECT 'nothing'::regclass").await;
    assert_eq!(state(unknown), "42P01");
}

#[tokio::test]
async fn functions_are_listed() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let sql = "SELECT count(DISTINCT routine_name) > 100 FROM information_schema.routines";
    assert_eq!(answers(&client, sql).await.unwrap(), ["t"]);
    let shown = answers(&client, "SHOW FUNCTIONS LIKE 'nanvl'").await;
    assert!(!shown.unwrap().is_empty());
}

/// D1: queries are simplified by what the catalog can never contain, so it must not contain it.
#[tokio::test]
async fn the_facts_about_the_catalog_hold() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let tables = answers(
        &client,
        "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE nspname = 'pg_catalog' ORDER BY 1",
    )
    .await
    .unwrap();
    assert!(tables.len() > 60, "{tables:?}");
    for table in &tables {
        let rows = client.simple_query(&format!("SELECT * FROM {table}")).await;
        rows.unwrap_or_else(|error| panic!("{table}: {error:?}"));
    }
    // These queries are phrased so that no fact is used to prove itself.
    for (sql, expected) in [
        (
            "SELECT DISTINCT relkind || '' FROM pg_class ORDER BY 1",
            "r,v",
        ),
        (
            "SELECT DISTINCT typtype || '' FROM pg_type ORDER BY 1",
            "b,m,p,r",
        ),
        (
            "SELECT count(reloptions), count(relacl), count(relpartbound) FROM pg_class",
            "0|0|0",
        ),
        (
            "SELECT count(attacl), count(attoptions) FROM pg_attribute",
            "0|0",
        ),
        ("SELECT count(nspacl) FROM pg_namespace", "0"),
        ("SELECT count(datacl) FROM pg_database", "0"),
        (
            "SELECT DISTINCT atthasdef::int, attisdropped::int, length(attidentity || attgenerated) FROM pg_attribute",
            "0|0|0",
        ),
        (
            "SELECT DISTINCT relhasindex::int, relhasrules::int, relhastriggers::int, relispartition::int FROM pg_class",
            "0|0|0|0",
        ),
        ("SELECT DISTINCT typnotnull::int FROM pg_type", "0"),
        ("SELECT count(*) FROM (SELECT * FROM pg_constraint) c", "0"),
        ("SELECT count(*) FROM (SELECT * FROM pg_index) c", "0"),
        (
            "SELECT count(*), count(m.umoptions) FROM (SELECT * FROM pg_user_mappings) m",
            "0|0",
        ),
        (
            "SELECT count(*) FROM (SELECT * FROM pg_ts_config_map) c",
            "0",
        ),
        ("SELECT count(*) FROM (SELECT * FROM pg_attrdef) c", "0"),
        // Oids in columns must refer to existing rows.
        (
            "SELECT count(*) FROM pg_attribute a LEFT JOIN pg_type t ON a.atttypid = t.oid WHERE t.oid IS NULL",
            "0",
        ),
        (
            "SELECT count(*) FROM pg_class c LEFT JOIN pg_namespace n ON c.relnamespace = n.oid WHERE n.oid IS NULL",
            "0",
        ),
        (
            "SELECT count(*) FROM pg_type a LEFT JOIN pg_type e ON a.typelem = e.oid WHERE a.typelem <> 0 AND e.oid IS NULL",
            "0",
        ),
    ] {
        assert_eq!(
            answers(&client, sql).await.unwrap().join(","),
            expected,
            "{sql}"
        );
    }
}

#[tokio::test]
async fn a_connection_finds_itself() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let sql = "SET application_name = 'me'; \
               SELECT datname = current_database(), usename, application_name, state \
               FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    let found = answers(&client, sql).await.unwrap();
    assert_eq!(found, ["t|tester|me|active"]);
    for table in [
        "pg_indexes",
        "pg_locks",
        "pg_stats",
        "pg_cursors",
        "pg_sequences",
    ] {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(answers(&client, &count).await.unwrap(), ["0"], "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_columns_of_a_primary_key_are_not_null() {
    crate::own_tables::answers(&[
        (
            "CREATE TABLE keyed (a int, b text NOT NULL, c int, d int UNIQUE, PRIMARY KEY (c, a))",
            "",
        ),
        (
            "SELECT attname, attnotnull FROM pg_attribute \
             WHERE attrelid = 'keyed'::regclass ORDER BY attnum",
            "a | t; b | t; c | t; d | f",
        ),
        (
            "SELECT column_name, is_nullable FROM information_schema.columns \
             WHERE table_name = 'keyed' ORDER BY ordinal_position",
            "a | NO; b | NO; c | NO; d | YES",
        ),
        ("CREATE VIEW of_keyed AS SELECT a, b FROM keyed", ""),
        (
            "SELECT attname, attnotnull FROM pg_attribute \
             WHERE attrelid = 'of_keyed'::regclass ORDER BY attnum",
            "a | f; b | f",
        ),
    ])
    .await;
}

/// What Prisma, `DataGrip`, pgcli and migrations ask for beside the tables' columns.
#[tokio::test]
async fn clients_find_types_of_rows_and_names_of_types() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for (sql, expected) in [
        (
            "SELECT relname FROM pg_class WHERE relname = 'people' AND reltype > 0",
            "people",
        ),
        (
            "SELECT count(*) FROM pg_class c JOIN pg_type t ON t.oid = c.reltype",
            "0",
        ),
        (
            "SELECT n.xmin, nspname FROM pg_namespace n WHERE nspname = 'pg_catalog'",
            "1|pg_catalog",
        ),
        ("SELECT '{23,25}'::regtype[]", "{integer,text}"),
        (
            "SELECT ARRAY['int4'::regtype, 'float8'::regtype]",
            r#"{integer,"double precision"}"#,
        ),
        (
            "SELECT array_agg(atttypid::regtype) FROM pg_attribute \
             WHERE attrelid = 'people'::regclass AND attnum = 1",
            "{integer}",
        ),
        (
            "SELECT COALESCE(proallargtypes::regtype[], proargtypes::regtype[])::text[] \
             FROM pg_proc WHERE proname = 'pg_sleep'",
            r#"{"double precision"}"#,
        ),
        (
            "SELECT to_regclass('people'), to_regclass('nothing'), to_regtype('int4')::text",
            "people|NULL|integer",
        ),
    ] {
        let found = answers(&client, sql).await;
        assert_eq!(found.unwrap(), [expected], "{sql}");
    }
}

/// Correlated subqueries keep their values, and a second row is an error. (datafusion-postgres
/// makes them NULL, and takes the first of many rows.)
#[tokio::test]
async fn subqueries_return_their_rows() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for (sql, expected) in [
        (
            "SELECT p.id, (SELECT max(k.k) FROM kinds k WHERE k.k = p.id) FROM people p ORDER BY 1",
            "1|1,2|2,3|NULL",
        ),
        (
            "SELECT p.id, (SELECT q.name FROM people q WHERE q.id = p.id) FROM people p ORDER BY 1",
            "1|Ada,2|Barbara,3|NULL",
        ),
        ("SELECT (SELECT max(people.id) FROM people)", "3"),
        (
            "SELECT p.id FROM people p WHERE (SELECT q.name FROM people q WHERE q.id = p.id) = 'Ada'",
            "1",
        ),
        (
            "SELECT ARRAY(SELECT id FROM people ORDER BY id DESC)",
            "{3,2,1}",
        ),
        ("SELECT ARRAY(SELECT id FROM people WHERE id > 9)", "{}"),
        ("SELECT generate_subscripts(ARRAY[5, 6], 1)", "1,2"),
        ("SELECT generate_subscripts(ARRAY[5, 6], 2)", ""),
        (
            "SELECT id FROM people WHERE id <> ALL('{1,NULL}') ORDER BY 1",
            "",
        ),
        (
            "SELECT id FROM people WHERE id = ANY('{1, 3}') ORDER BY 1",
            "1,3",
        ),
        (
            "SELECT '{1,NULL,3}'::int[], '{\"a,b\",NULL}'::text[]",
            "{1,NULL,3}|{\"a,b\",NULL}",
        ),
    ] {
        assert_eq!(
            answers(&client, sql).await.unwrap().join(","),
            expected,
            "{sql}"
        );
    }
    for (sql, expected) in [
        // The rows that an outer join adds are NULL, whatever the column can contain.
        (
            "SELECT a.attidentity = '', NOT c.relhasindex, c.relkind <> 'x' FROM people p \
             LEFT JOIN pg_class c ON c.oid = -p.id LEFT JOIN pg_attribute a ON a.attrelid = c.oid",
            "NULL|NULL|NULL,NULL|NULL|NULL,NULL|NULL|NULL",
        ),
        // An aggregate makes a row from an empty input.
        ("SELECT (SELECT count(*) FROM pg_sequence)", "0"),
        (
            "SELECT (SELECT 7 FROM pg_sequence HAVING count(*) = 0)",
            "7",
        ),
        (
            "SELECT (SELECT count(*) FROM pg_sequence GROUP BY ROLLUP (seqcache))",
            "0",
        ),
        (
            "SELECT id FROM people WHERE EXISTS (SELECT seqcache FROM pg_sequence \
             UNION ALL SELECT 2) ORDER BY 1",
            "1,2,3",
        ),
        // Names that WITH defines are not the catalog's.
        (
            "WITH pg_class AS (SELECT 7 AS relkind) SELECT relkind FROM pg_class",
            "7",
        ),
        (
            "SELECT (WITH people AS (SELECT 1 AS x FROM pg_sequence) SELECT count(*) FROM people), \
             count(*) FROM people",
            "0|3",
        ),
    ] {
        assert_eq!(
            answers(&client, sql).await.unwrap().join(","),
            expected,
            "{sql}"
        );
    }
    for sql in [
        "SELECT (SELECT id FROM people)",
        "SELECT (SELECT q.id FROM people q WHERE q.id >= p.id) FROM people p",
        "SELECT (SELECT q.id FROM kinds k JOIN people q ON true WHERE k.k = p.id) FROM people p",
    ] {
        assert!(client.simple_query(sql).await.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn columns_have_postgres_names() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for (sql, names) in [
        (
            "SELECT 1, 1, 'x', true",
            "?column?,?column?,?column?,?column?",
        ),
        (
            "SELECT count(*), max(id), max(id) + 1, id FROM people GROUP BY id",
            "count,max,?column?,id",
        ),
        (
            "SELECT id::text, '1'::int, CASE WHEN id = 1 THEN 2 END, p.name FROM people p",
            "id,int4,case,name",
        ),
        ("SELECT p.id, p.* FROM people p", "id,id,name"),
        (
            "SELECT a.*, b.* FROM people a JOIN people b ON a.id = b.id",
            "id,name,id,name",
        ),
        (
            "SELECT current_schema, version(), current_user",
            "current_schema,version,current_user",
        ),
        ("SELECT id AS a, name AS a FROM people", "a,a"),
        ("SELECT 1, 1 UNION ALL SELECT 2, 2", "?column?,?column?"),
        (
            "SELECT extract(year FROM day), upper(word), ARRAY[1], 'kinds'::regclass FROM kinds",
            "extract,upper,array,regclass",
        ),
    ] {
        let statement = client
            .prepare(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let found: Vec<_> = statement
            .columns()
            .iter()
            .map(tokio_postgres::Column::name)
            .collect();
        assert_eq!(found.join(","), names, "{sql}");
        client.query(&statement, &[]).await.unwrap();
    }
    // The names are for display only: they do not change what a statement means.
    let rows = answers(&client, "SELECT id::text FROM people ORDER BY id DESC")
        .await
        .unwrap();
    assert_eq!(rows, ["3", "2", "1"]);
    let rows = answers(
        &client,
        "SELECT count(*) FROM people GROUP BY id ORDER BY count(*), id LIMIT 1",
    )
    .await;
    assert_eq!(rows.unwrap(), ["1"]);
}

#[tokio::test]
async fn arrays_can_be_parameters() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for sql in [
        "SELECT id FROM people WHERE id = ANY($1) ORDER BY id",
        "SELECT id FROM people WHERE id = ANY($1::int[]) ORDER BY id",
    ] {
        let statement = client.prepare(sql).await.unwrap();
        assert_eq!(*statement.params()[0].name(), *"_int4", "{sql}");
        for (given, expected) in [(vec![Some(1), None, Some(3)], vec![1, 3]), (vec![], vec![])] {
            let rows = client.query(&statement, &[&given]).await.unwrap();
            let found: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
            assert_eq!(found, expected, "{sql}");
        }
    }
    let words = vec![Some("a,b".to_owned()), None, Some(String::new())];
    let row = client
        .query_one("SELECT $1::text[]", &[&words])
        .await
        .unwrap();
    assert_eq!(row.get::<_, Vec<Option<String>>>(0), words);
    let row = client
        .query_one("SELECT $1::float8[]", &[&vec![0.5, 1.5]])
        .await
        .unwrap();
    assert_eq!(row.get::<_, Vec<f64>>(0), [0.5, 1.5]);
    let row = client
        .query_one("SELECT $1::int[]", &[&None::<Vec<i32>>])
        .await
        .unwrap();
    assert_eq!(row.get::<_, Option<Vec<i32>>>(0), None);
}

#[tokio::test]
async fn settings_are_read_and_set_by_functions() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let one = async |sql: &str| answers(&client, sql).await.unwrap().join(",");
    assert_eq!(
        one("SELECT current_setting('server_version_num')::int > 90000").await,
        "t"
    );
    assert_eq!(
        one("SELECT set_config('application_name', 'mine', false)").await,
        "mine"
    );
    assert_eq!(
        one("SELECT current_setting('application_name')").await,
        "mine"
    );
    assert_eq!(
        one("SELECT setting FROM pg_settings WHERE name = 'application_name'").await,
        "mine"
    );
    let of_memory = "SELECT setting, unit, vartype, context, source, min_val, boot_val, reset_val, \
                     pending_restart, category FROM pg_settings WHERE name = 'work_mem'";
    assert_eq!(
        one(of_memory).await,
        "4096|kB|integer|user|default|64|4096|4096|f|Resource Usage / Memory"
    );
    client.simple_query("SET work_mem = '5MB'").await.unwrap();
    assert_eq!(
        one(of_memory).await,
        "5120|kB|integer|user|session|64|4096|4096|f|Resource Usage / Memory"
    );
    // psql's \dconfig.
    let changed = "SELECT s.name, pg_catalog.current_setting(s.name) FROM pg_catalog.pg_settings s \
                   WHERE s.source <> 'default' AND s.setting IS DISTINCT FROM s.boot_val ORDER BY 1";
    assert_eq!(one(changed).await, "application_name|mine,work_mem|5MB");
    let levels = "SELECT enumvals[1], context, extra_desc, short_desc FROM pg_settings \
                  WHERE name IN ('transaction_isolation', 'server_encoding', 'is_superuser') \
                  ORDER BY name";
    assert_eq!(
        one(levels).await,
        "NULL|internal|NULL|Shows the server (database) character set encoding.,\
         serializable|user|NULL|Sets the current transaction's isolation level."
    );
    assert_eq!(
        one("SELECT set_config('coscan.policy', 'elevator', false)").await,
        "elevator"
    );
    assert_eq!(
        one("SELECT current_setting('coscan.policy')").await,
        "elevator"
    );
    assert_eq!(one("SELECT current_setting('no.such', true)").await, "NULL");
    let unknown = "SELECT set_config('nothing', 'x', false)";
    assert_eq!(state(client.simple_query(unknown).await), "42704");
    for sql in [
        "SELECT current_setting('nothing')",
        "SELECT set_config('server_version', 'x', false)",
    ] {
        assert!(client.simple_query(sql).await.is_err(), "{sql}");
    }
    // SET LOCAL and a local set_config() last until the end of the transaction, whether it commits
    // or rolls back.
    for end in ["COMMIT", "ROLLBACK"] {
        client
            .batch_execute(
                "BEGIN; SET LOCAL statement_timeout = '5s'; SET LOCAL coscan.policy = 'normal'",
            )
            .await
            .unwrap();
        assert_eq!(
            one("SELECT set_config('application_name', 'local', true)").await,
            "local"
        );
        assert_eq!(one("SHOW statement_timeout").await, "5s");
        assert_eq!(one("SHOW coscan.policy").await, "normal");
        assert_eq!(one("SHOW application_name").await, "local");
        client.batch_execute(end).await.unwrap();
        assert_eq!(one("SHOW statement_timeout").await, "0");
        assert_eq!(one("SHOW coscan.policy").await, "elevator");
        assert_eq!(one("SHOW application_name").await, "mine");
    }
    client
        .batch_execute("SET LOCAL statement_timeout = '5s'")
        .await
        .unwrap();
    assert_eq!(
        one("SHOW statement_timeout").await,
        "0",
        "outside of a transaction"
    );
}

/// The time to rewrite a statement is proportional to the statement's length.
#[tokio::test]
async fn rewriting_does_not_grow_without_bound() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let begun = std::time::Instant::now();
    let many = |part: &str, count| part.repeat(count);
    for sql in [
        format!("SELECT id{} FROM people", many(" = ANY('{1}')", 400)),
        format!("SELECT id FROM people WHERE {}id = ANY('{{1}}'){}", many("(", 40), many(") = ANY('{t}')", 40)),
        format!(
            "SELECT (SELECT u.id FROM people u WHERE u.id = p.id{}) FROM people p",
            (0..1000).map(|i| format!(" AND u.id = p.c{i} AND p.d{i} > 1")).collect::<Vec<_>>().concat()
        ),
        format!("SELECT * FROM pg_class{}", many(" UNION ALL SELECT * FROM pg_class", 150)),
        format!("SELECT {}1{}", many("ARRAY(SELECT ", 40), many(")", 40)),
        "SELECT set_config('application_name', repeat('x', 100000), false)".to_owned(),
        "SELECT '{'::int[]; SELECT 1 = ANY('{{'); SELECT generate_subscripts(ARRAY[1], NULL)".to_owned(),
        "SELECT pg_get_viewdef('nothing'), pg_get_viewdef(-1), 'a.b.c.d.e'::regclass".to_owned(),
        "SELECT ''::regclass, '\"'::regclass, '.'::regclass, '99999999999999999999'::regclass".to_owned(),
        "SELECT format_type(2147483647, -2147483648), format_type(1700, 2147483647), format_type(-1, 5)".to_owned(),
        "SELECT pg_size_pretty(9223372036854775807), pg_size_pretty(-9223372036854775808)".to_owned(),
        "SELECT json_build_object(NULL, 1), has_table_privilege('people'), pg_has_role(1)".to_owned(),
        "SELECT current_setting(NULL), set_config(NULL, NULL, NULL), like_pattern('a', '')".to_owned(),
        "SELECT as_array('{', 1), as_array(1), subscripts(1), single_row(1), regclass_name('x', 1)".to_owned(),
    ] {
        // The statement is answered or refused, and the connection survives.
        let _ = client.simple_query(&sql).await;
        client.simple_query("SELECT 1").await.unwrap_or_else(|error| panic!("{sql:.200}: {error:?}"));
    }
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(120),
        "{:?}",
        begun.elapsed()
    );
}
