//! Promised: ALTER TABLE adds, drops and renames columns of a session's own tables, adds keys, and
//! sets and drops defaults and NOT NULL as PostgreSQL does, with its errors. Keys, NOT NULL and
//! defaults stay true. Views follow, or keep a column from being dropped. ROLLBACK restores the
//! columns. What was prepared before sees the new columns or fails, and no row is written to a
//! table that is no longer there. Tables of files and tables that all sessions see are refused.

use crate::common::TestServer;
use crate::common::raw::RawClient;
use crate::own_tables::answers;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_column_has_its_default_in_all_rows() {
    answers(&[
        ("CREATE TABLE t (a int, b text)", ""),
        ("INSERT INTO t VALUES (1, 'x'), (2, NULL)", ""),
        ("ALTER TABLE t ADD COLUMN c int", ""),
        (
            "SELECT * FROM t ORDER BY a",
            "1 | x | NULL; 2 | NULL | NULL",
        ),
        (
            "ALTER TABLE t ADD d character varying(3) DEFAULT 'abc' NOT NULL, \
             ADD COLUMN IF NOT EXISTS c text",
            "",
        ),
        ("SELECT d, c FROM t ORDER BY a", "abc | NULL; abc | NULL"),
        ("INSERT INTO t (a) VALUES (3)", ""),
        ("SELECT * FROM t WHERE a = 3", "3 | NULL | NULL | abc"),
        ("INSERT INTO t (a, d) VALUES (4, NULL)", "error 23502"),
        ("INSERT INTO t (a, d) VALUES (4, 'abcd')", "error 22001"),
        ("UPDATE t SET c = a WHERE a < 3", ""),
        ("SELECT a, c FROM t ORDER BY a", "1 | 1; 2 | 2; 3 | NULL"),
        ("DELETE FROM t WHERE c = 2", ""),
        (
            "ALTER TABLE t ADD COLUMN a bigint",
            "error 42701 column \"a\" of relation \"t\" already exists",
        ),
        ("ALTER TABLE t ADD a nonsense", "error 42701"),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a nonsense", ""),
        (
            "ALTER TABLE t ADD e int NOT NULL",
            "error 23502 column \"e\" of relation \"t\" contains null values",
        ),
        ("ALTER TABLE t ADD e int DEFAULT 'x'", "error 22P02"),
        (
            "ALTER TABLE t ADD e varchar(2) DEFAULT 'abc'",
            "error 22001",
        ),
        ("ALTER TABLE t ADD e int DEFAULT true", "error 42804"),
        ("ALTER TABLE t ADD e nonsense", "error 42704"),
        ("ALTER TABLE t ADD e int, ADD e int", "error 42701"),
        ("ALTER TABLE t ADD e int, DROP COLUMN e", "error 42703"),
        ("SELECT e FROM t", "error 42703"),
        (
            "ALTER TABLE t ADD n numeric(5,2) DEFAULT 1.005, ADD l int[] DEFAULT '{1,2}', \
             ADD j jsonb DEFAULT '{\"k\":1}', ADD h char(4) DEFAULT 'x', ADD f float8 DEFAULT 1e3",
            "",
        ),
        (
            "SELECT n, l, j, h = 'x', pg_typeof(h), f FROM t WHERE a = 1",
            "1.01 | {1,2} | {\"k\": 1} | t | character | 1000",
        ),
        (
            "BEGIN; ALTER TABLE t ADD m timestamptz DEFAULT now(); \
             SELECT count(*) FROM t WHERE m = now(); COMMIT",
            "2",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_without_rows_and_large_ones_get_columns() {
    answers(&[
        ("CREATE TABLE e (a int)", ""),
        ("ALTER TABLE e ADD b int NOT NULL", ""),
        ("INSERT INTO e VALUES (1)", "error 23502"),
        (
            "ALTER TABLE e ADD v varchar(2) DEFAULT 'abc'",
            "error 22001",
        ),
        ("ALTER TABLE e ADD c float8 DEFAULT random()", ""),
        ("INSERT INTO e VALUES (1, 2)", ""),
        ("SELECT a, b, c >= 0 FROM e", "1 | 2 | t"),
        ("CREATE TEMP TABLE q (a int)", ""),
        ("ALTER TABLE q ADD b int DEFAULT 3", ""),
        ("BEGIN READ ONLY", ""),
        ("INSERT INTO q VALUES (1)", ""),
        ("SELECT * FROM q", "1 | 3"),
        ("ROLLBACK", ""),
        (
            "CREATE TABLE g AS SELECT x FROM generate_series(1, 100000) g(x)",
            "",
        ),
        ("ALTER TABLE g ADD y int DEFAULT 7", ""),
        (
            "SELECT count(*), sum(y), max(x) FROM g",
            "100000 | 700000 | 100000",
        ),
        ("ALTER TABLE g DROP x", ""),
        ("SELECT count(*), sum(y) FROM g", "100000 | 700000"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_goes_with_a_column_of_it() {
    answers(&[
        (
            "CREATE TABLE k (a int, b int, c text DEFAULT 'd' UNIQUE, v int, PRIMARY KEY (a, b))",
            "",
        ),
        ("INSERT INTO k VALUES (1, 1, 'x', 10), (1, 2, 'y', 20)", ""),
        ("ALTER TABLE k DROP COLUMN v", ""),
        ("SELECT * FROM k ORDER BY b", "1 | 1 | x; 1 | 2 | y"),
        ("INSERT INTO k VALUES (1, 2, 'z')", "error 23505"),
        ("INSERT INTO k VALUES (2, 2, 'x')", "error 23505"),
        ("ALTER TABLE k DROP b", ""),
        ("INSERT INTO k VALUES (1, 'z')", ""),
        (
            "INSERT INTO k VALUES (NULL, 'q')",
            "error 23502 null value in column \"a\" of relation \"k\"",
        ),
        ("INSERT INTO k VALUES (5, 'x')", "error 23505"),
        ("INSERT INTO k (a) VALUES (7)", ""),
        ("SELECT c FROM k WHERE a = 7", "d"),
        (
            "ALTER TABLE k DROP nope",
            "error 42703 column \"nope\" of relation \"k\" does not exist",
        ),
        ("ALTER TABLE k DROP COLUMN IF EXISTS nope", ""),
        ("ALTER TABLE k DROP a, DROP a", "error 42703"),
        ("ALTER TABLE k ADD a text DEFAULT 'new', DROP a", ""),
        ("SELECT * FROM k WHERE c = 'x'", "x | new"),
        ("ALTER TABLE k DROP a, DROP c", ""),
        ("SELECT count(*) FROM k", "4"),
        ("ALTER TABLE k ADD w int DEFAULT 4", ""),
        ("SELECT sum(w) FROM k", "16"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_column_keeps_its_key_and_default() {
    answers(&[
        (
            "CREATE TABLE r (a int PRIMARY KEY, b text DEFAULT 'd', \"C\" int)",
            "",
        ),
        ("INSERT INTO r (a) VALUES (1)", ""),
        ("ALTER TABLE r RENAME COLUMN a TO id", ""),
        ("ALTER TABLE r RENAME b TO \"B b\"", ""),
        ("SELECT id, \"B b\", \"C\" FROM r", "1 | d | NULL"),
        ("SELECT a FROM r", "error 42703"),
        ("INSERT INTO r (id) VALUES (1)", "error 23505"),
        ("INSERT INTO r (id) VALUES (2)", ""),
        ("SELECT \"B b\" FROM r WHERE id = 2", "d"),
        (
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'r' \
             ORDER BY ordinal_position",
            "id; B b; C",
        ),
        (
            "ALTER TABLE r RENAME COLUMN id TO \"C\"",
            "error 42701 column \"C\" of relation \"r\" already exists",
        ),
        ("ALTER TABLE r RENAME id TO id", "error 42701"),
        (
            "ALTER TABLE r RENAME nope TO x",
            "error 42703 column \"nope\" does not exist",
        ),
        (
            "ALTER TABLE nope RENAME a TO b",
            "error 42P01 relation \"nope\" does not exist",
        ),
        ("ALTER TABLE IF EXISTS nope RENAME a TO b", ""),
        ("ALTER TABLE IF EXISTS s.nope DROP a", ""),
        (
            "ALTER TABLE s.nope ADD a int",
            "error 3F000 schema \"s\" does not exist",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_follow_changed_columns_or_prevent_the_change() {
    answers(&[
        ("CREATE TABLE t (a int, b text, c int)", ""),
        ("INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20)", ""),
        ("CREATE TABLE u (c int, d int)", ""),
        ("INSERT INTO u VALUES (10, 100)", ""),
        ("CREATE VIEW v AS SELECT a, b FROM t", ""),
        (
            "CREATE VIEW w AS SELECT a + 1 AS n FROM v WHERE b > 'a'",
            "",
        ),
        ("CREATE VIEW everything AS SELECT * FROM t", ""),
        ("ALTER TABLE t ADD e int DEFAULT 5", ""),
        (
            "SELECT * FROM everything ORDER BY a",
            "1 | x | 10; 2 | y | 20",
        ),
        ("SELECT n FROM w ORDER BY n", "2; 3"),
        (
            "ALTER TABLE t DROP COLUMN c",
            "error 2BP01 cannot drop column c of table t because other objects depend on it",
        ),
        ("DROP VIEW everything", ""),
        // Another table's column of the name.
        (
            "CREATE VIEW j AS SELECT x.a, u.d FROM t x JOIN u ON u.c = 10",
            "",
        ),
        ("ALTER TABLE t DROP COLUMN c", ""),
        ("SELECT a, d FROM j ORDER BY a", "1 | 100; 2 | 100"),
        ("ALTER TABLE t RENAME COLUMN a TO id", ""),
        ("SELECT a, b FROM v ORDER BY a", "1 | x; 2 | y"),
        ("SELECT n FROM w ORDER BY n", "2; 3"),
        ("SELECT a FROM j ORDER BY a", "1; 2"),
        ("INSERT INTO t VALUES (3, 'z', 0)", ""),
        ("SELECT a FROM v ORDER BY a", "1; 2; 3"),
        ("ALTER TABLE t RENAME TO t2; ALTER TABLE t2 ADD a text", ""),
        ("SELECT a FROM v ORDER BY a", "1; 2; 3"),
        ("CREATE VIEW late AS SELECT a FROM v", ""),
        ("ALTER TABLE t2 RENAME id TO k", ""),
        ("INSERT INTO t2 VALUES (4, 'q', 0, 'x')", ""),
        ("SELECT n FROM w ORDER BY n", "2; 3; 4; 5"),
        ("SELECT a FROM late ORDER BY a", "1; 2; 3; 4"),
        ("ALTER TABLE t2 DROP COLUMN b", "error 2BP01"),
        ("BEGIN; ALTER TABLE t2 DROP b CASCADE", ""),
        ("SELECT n FROM w", "error 42P01"),
        ("ROLLBACK", ""),
        ("SELECT n FROM w ORDER BY n", "2; 3; 4; 5"),
        ("ALTER TABLE t2 DROP COLUMN e", ""),
        ("ALTER TABLE t2 DROP b CASCADE", ""),
        ("SELECT * FROM v", "error 42P01"),
        ("SELECT * FROM w", "error 42P01"),
        ("SELECT * FROM late", "error 42P01"),
        ("SELECT a FROM j ORDER BY a", "1; 2; 3; 4"),
        (
            "ALTER TABLE j ADD x int",
            "error 42809 ALTER action ADD COLUMN cannot be performed on relation \"j\"",
        ),
        ("ALTER TABLE j DROP a", "error 42809"),
        ("ALTER VIEW j RENAME COLUMN a TO b", "error 0A000"),
        (
            "ALTER VIEW t2 RENAME COLUMN k TO l",
            "error 42809 \"t2\" is not a view",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_keep_their_columns_when_names_are_given_anew() {
    answers(&[
        ("CREATE TABLE t (a int, b int)", ""),
        ("INSERT INTO t VALUES (1, 2)", ""),
        ("CREATE VIEW v AS SELECT a, b FROM t", ""),
        (
            "CREATE VIEW w AS SELECT x.a + 10 AS n FROM t x WHERE x.b > 1",
            "",
        ),
        (
            "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; \
             ALTER TABLE t RENAME c TO b",
            "",
        ),
        ("SELECT a, b FROM t", "2 | 1"),
        ("SELECT a, b FROM v", "1 | 2"),
        ("SELECT n FROM w", "11"),
        (
            "ALTER TABLE t DROP b CASCADE, DROP a, ADD \u{c4}RGER int DEFAULT 4",
            "",
        ),
        ("SELECT * FROM v", "error 42P01"),
        ("ALTER TABLE t RENAME \u{c4}Rger TO \u{d6}L", ""),
        ("SELECT \u{d6}L FROM t", "4"),
        ("SELECT \"\u{d6}l\" FROM t", "4"),
        ("ALTER TABLE t DROP \u{d6}L", ""),
        ("CREATE TABLE r (a int)", ""),
        ("INSERT INTO r VALUES (1)", ""),
        ("CREATE VIEW f AS SELECT 5 AS x FROM r WHERE a > 0", ""),
        ("ALTER TABLE r RENAME a TO id", ""),
        ("ALTER TABLE r ADD a text DEFAULT 'new'", ""),
        ("SELECT x FROM f", "5"),
        ("ALTER TABLE r RENAME a TO z", ""),
        ("ALTER TABLE r RENAME z TO a", ""),
        ("SELECT x FROM f", "5"),
        ("ALTER TABLE r DROP a", ""),
        ("ALTER TABLE r DROP id", "error 2BP01"),
        ("SELECT x FROM f", "5"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_does_not_grow_with_each_new_name() {
    let (_engine, server) = server(coscan::Rights::NONE).await;
    blocking(&server, |mut client| {
        let made = "CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 2); \
                    CREATE VIEW v AS SELECT a FROM t; \
                    CREATE VIEW w AS SELECT x.a + 10 AS n FROM t x WHERE x.b > 1";
        assert_eq!(client.simple(made).error, None);
        // A plan of more than 500 operators is refused.
        for _ in 0..300 {
            let renamed = "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME c TO a";
            assert_eq!(client.simple(renamed).error, None);
        }
        assert_eq!(client.simple("SELECT a FROM v").shown(), "1");
        assert_eq!(client.simple("SELECT n FROM w").shown(), "11");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_restores_columns() {
    answers(&[
        (
            "CREATE TABLE t AS SELECT x AS a FROM generate_series(1, 3) g(x)",
            "",
        ),
        ("BEGIN", ""),
        ("ALTER TABLE t ADD b int DEFAULT 1", ""),
        ("INSERT INTO t VALUES (4, 2)", ""),
        ("SELECT sum(a), sum(b) FROM t", "10 | 5"),
        ("SAVEPOINT s", ""),
        ("ALTER TABLE t DROP a", ""),
        ("INSERT INTO t VALUES (9)", ""),
        ("SELECT * FROM t ORDER BY 1", "1; 1; 1; 2; 9"),
        ("ROLLBACK TO s", ""),
        ("SELECT sum(a), sum(b) FROM t", "10 | 5"),
        ("INSERT INTO t VALUES (5, 3)", ""),
        ("ROLLBACK", ""),
        ("SELECT * FROM t ORDER BY a", "1; 2; 3"),
        ("INSERT INTO t VALUES (4)", ""),
        ("UPDATE t SET a = 5 WHERE a = 4", ""),
        ("SELECT * FROM t ORDER BY a", "1; 2; 3; 5"),
        ("ALTER TABLE t ADD b int; SELECT 1/0", "error 22012"),
        ("SELECT * FROM t ORDER BY a", "1; 2; 3; 5"),
        ("BEGIN; ALTER TABLE t ADD b int DEFAULT 2; COMMIT", ""),
        ("SELECT sum(b) FROM t", "8"),
        (
            "BEGIN READ ONLY; ALTER TABLE t ADD c int",
            "error 25006 cannot execute ALTER TABLE in a read-only transaction",
        ),
        ("ROLLBACK", ""),
    ])
    .await;
}

/// The expected answers are PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::too_many_lines)] // A list of statements.
async fn keys_defaults_and_not_null_are_altered() {
    answers(&[
        ("CREATE TABLE t (a int, b text)", ""),
        ("INSERT INTO t VALUES (1, 'x'), (2, NULL)", ""),
        ("ALTER TABLE t ADD c int UNIQUE", ""),
        ("INSERT INTO t VALUES (3, 'y', 7)", ""),
        (
            "INSERT INTO t VALUES (4, 'y', 7)",
            "error 23505 duplicate key value violates unique constraint \"t_c_key\"",
        ),
        (
            "ALTER TABLE t ADD d int DEFAULT 0 UNIQUE",
            "error 23505 could not create unique index \"t_d_key\"",
        ),
        (
            "ALTER TABLE t ADD d int PRIMARY KEY",
            "error 23502 column \"d\" of relation \"t\" contains null values",
        ),
        ("ALTER TABLE t ADD PRIMARY KEY (b)", "error 23502 column"),
        ("ALTER TABLE t ADD CONSTRAINT named PRIMARY KEY (a)", ""),
        (
            "ALTER TABLE t ADD PRIMARY KEY (c)",
            "error 42P16 multiple primary keys for table \"t\" are not allowed",
        ),
        ("ALTER TABLE t ADD d int PRIMARY KEY", "error 42P16"),
        ("INSERT INTO t (a) VALUES (NULL)", "error 23502"),
        ("INSERT INTO t (a) VALUES (1)", "error 23505"),
        (
            "ALTER TABLE t ADD UNIQUE (x)",
            "error 42703 column \"x\" named in key does not exist",
        ),
        ("ALTER TABLE t ADD UNIQUE (b, c)", ""),
        ("INSERT INTO t VALUES (5, 'y', 8), (6, 'y', 9)", ""),
        ("ALTER TABLE t ADD UNIQUE (b)", "error 23505"),
        (
            "ALTER TABLE t ALTER COLUMN b SET NOT NULL",
            "error 23502 column \"b\" of relation \"t\" contains null values",
        ),
        ("ALTER TABLE t ALTER COLUMN b SET DEFAULT 5", ""),
        ("INSERT INTO t (a) VALUES (10)", ""),
        ("UPDATE t SET b = DEFAULT WHERE b IS NULL", ""),
        (
            "SELECT a, b, c FROM t ORDER BY a",
            "1 | x | NULL; 2 | 5 | NULL; 3 | y | 7; 5 | y | 8; 6 | y | 9; 10 | 5 | NULL",
        ),
        (
            "ALTER TABLE t ALTER b SET NOT NULL, ALTER c SET DEFAULT 1 + 1",
            "",
        ),
        ("INSERT INTO t (a, b) VALUES (11, NULL)", "error 23502"),
        ("ALTER TABLE t ALTER b DROP DEFAULT", ""),
        ("INSERT INTO t (a) VALUES (11)", "error 23502"),
        ("ALTER TABLE t ALTER b DROP NOT NULL", ""),
        ("INSERT INTO t (a) VALUES (11)", ""),
        ("SELECT a, b, c FROM t WHERE a = 11", "11 | NULL | 2"),
        (
            "ALTER TABLE t ALTER a DROP NOT NULL",
            "error 42P16 column \"a\" is in a primary key",
        ),
        ("ALTER TABLE t ALTER a SET DEFAULT 'x'", "error 22P02"),
        ("ALTER TABLE t ALTER x SET DEFAULT 1", "error 42703"),
        (
            "ALTER TABLE t ALTER x SET NOT NULL",
            "error 42703 column \"x\" of relation \"t\" does not exist",
        ),
        ("ALTER TABLE t ALTER c SET NOT NULL", "error 23502"),
        (
            "ALTER TABLE t ADD f int, ALTER f SET NOT NULL",
            "error 23502 column \"f\" of relation \"t\" contains null values",
        ),
        (
            "CREATE TABLE i (id int GENERATED ALWAYS AS IDENTITY, s serial, n int)",
            "",
        ),
        (
            "ALTER TABLE i ALTER id DROP DEFAULT",
            "error 42601 column \"id\" of relation \"i\" is an identity column",
        ),
        ("ALTER TABLE i ALTER id DROP NOT NULL", "error 42601"),
        (
            "CREATE TABLE p (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",
            "",
        ),
        (
            "ALTER TABLE p ALTER id DROP NOT NULL",
            "error 42601 column \"id\" of relation \"p\" is an identity column",
        ),
        (
            "ALTER TABLE i ALTER s DROP DEFAULT, ALTER s DROP NOT NULL",
            "",
        ),
        ("INSERT INTO i DEFAULT VALUES", ""),
        ("SELECT * FROM i", "1 | NULL | NULL"),
        ("CREATE VIEW v AS SELECT a FROM t", ""),
        (
            "ALTER TABLE v ALTER a SET NOT NULL",
            "error ALTER action ALTER COLUMN ... SET NOT NULL cannot be performed on relation \"v\"",
        ),
        ("ALTER TABLE v ADD UNIQUE (a)", "error 42809"),
        ("SELECT count(*) FROM v", "7"),
        ("BEGIN; ALTER TABLE t ADD e int UNIQUE", ""),
        ("ROLLBACK", ""),
        ("SELECT e FROM t", "error 42703"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_supported_is_refused() {
    answers(&[
        ("CREATE TABLE t AS SELECT 1 AS a", ""),
        ("ALTER TABLE t ADD e float8 DEFAULT random()", "error 0A000"),
        ("ALTER TABLE t ALTER a TYPE bigint", "error 0A000"),
        ("ALTER TABLE t DROP CONSTRAINT t_a_key", "error 0A000"),
        ("SELECT * FROM t", "1"),
    ])
    .await;
}

async fn server(rights: coscan::Rights) -> (coscan::Engine, TestServer) {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_with_rights(&engine, rights).await;
    (engine, server)
}

/// Runs `work` on a thread that may block.
async fn blocking(server: &TestServer, work: impl FnOnce(RawClient) + Send + 'static) {
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || work(RawClient::connect(addr)));
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_follow_changed_columns() {
    const INT4: u32 = 23;
    let (_engine, server) = server(coscan::Rights::NONE).await;
    blocking(&server, |mut client| {
        let done = |answer: crate::common::raw::Answer| assert_eq!(answer.error, None);
        done(client.simple("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x')"));
        done(client.simple("CREATE VIEW v AS SELECT b FROM t"));
        client.prepare("one", "SELECT a FROM t ORDER BY a", &[]);
        client.prepare("all", "SELECT * FROM t ORDER BY a", &[]);
        client.prepare("view", "SELECT b FROM v ORDER BY b", &[]);
        client.prepare("insert", "INSERT INTO t VALUES ($1, 'z')", &[INT4]);
        done(client.simple("PREPARE in_sql AS SELECT b FROM t ORDER BY a"));
        assert_eq!(client.run("all", &[], 0).shown(), "1 | x");

        done(client.simple("ALTER TABLE t ADD c int DEFAULT 7"));
        assert_eq!(client.run("one", &[], 0).shown(), "1");
        let refused = "error 0A000 cached plan must not change result type";
        assert_eq!(client.run("all", &[], 0).shown(), refused);
        done(client.run("insert", &[Some(b"2".to_vec())], 0));
        let shown = client.simple("SELECT * FROM t ORDER BY a").shown();
        assert_eq!(shown, "1 | x | 7; 2 | z | 7");

        done(client.simple("ALTER TABLE t RENAME COLUMN b TO d"));
        let shown = client.simple("EXECUTE in_sql").shown();
        assert!(shown.starts_with("error 42703"), "{shown}");
        assert_eq!(client.run("view", &[], 0).shown(), "x; z");
        done(client.run("insert", &[Some(b"3".to_vec())], 0));
        done(client.simple("ALTER TABLE t RENAME COLUMN d TO b"));
        assert_eq!(client.simple("EXECUTE in_sql").shown(), "x; z; z");

        done(client.simple("ALTER TABLE t DROP c"));
        assert_eq!(client.run("all", &[], 0).shown(), "1 | x; 2 | z; 3 | z");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_from_before_writes_no_row_that_is_lost() {
    let (_engine, server) = server(coscan::Rights::NONE).await;
    blocking(&server, |mut client| {
        assert_eq!(client.simple("CREATE TABLE t (a int)").error, None);
        let shown = client.messages(&[
            (b'P', b"insert\0INSERT INTO t VALUES (1)\0\0\0"),
            (b'B', b"portal\0insert\0\0\0\0\0\0\0"),
            (b'P', b"\0ALTER TABLE t ADD b int\0\0\0"),
            (b'B', b"\0\0\0\0\0\0\0\0"),
            (b'E', b"\0\0\0\0\0"),
            (b'E', b"portal\0\0\0\0\0"),
        ]);
        let shown = shown.shown();
        assert!(shown.starts_with("error 40001"), "{shown}");
        // All of it was one transaction, and the table is the old one again.
        assert_eq!(client.simple("INSERT INTO t VALUES (2)").error, None);
        assert_eq!(client.simple("SELECT * FROM t").shown(), "2");
        for change in [
            "UPDATE t SET a = 4 WHERE a = 3",
            "DELETE FROM t WHERE a = 3",
        ] {
            let parsed = format!("change\0{change}\0\0\0");
            let shown = client.messages(&[
                (b'P', parsed.as_bytes()),
                (b'B', b"portal\0change\0\0\0\0\0\0\0"),
                (b'P', b"\0ALTER TABLE t ADD b int\0\0\0"),
                (b'B', b"\0\0\0\0\0\0\0\0"),
                (b'E', b"\0\0\0\0\0"),
                (b'E', b"portal\0\0\0\0\0"),
            ]);
            let shown = shown.shown();
            assert!(shown.starts_with("error 40001"), "{change}: {shown}");
            assert_eq!(client.simple("DEALLOCATE change").error, None);
        }
        assert_eq!(client.simple("SELECT * FROM t").shown(), "2");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_sessions_own_tables_in_memory_are_altered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("0.parquet").display().to_string();
    let (engine, server) = server(coscan::Rights::ALL).await;
    let session = engine.session();
    for sql in [
        "CREATE TABLE shared AS SELECT 1 AS x".to_owned(),
        format!("COPY (SELECT 1 AS x) TO '{file}' STORED AS PARQUET"),
    ] {
        let rows = session.sql(&sql).await.unwrap();
        futures::TryStreamExt::try_collect::<Vec<_>>(rows)
            .await
            .unwrap();
    }
    session.register("f", &file).await.unwrap();
    blocking(&server, move |mut client| {
        let own = format!("CREATE EXTERNAL TABLE own STORED AS PARQUET LOCATION '{file}'");
        assert_eq!(client.simple(&own).error, None);
        for table in ["shared", "f", "own"] {
            for change in ["ADD y int", "DROP x", "RENAME x TO y"] {
                let shown = client.simple(&format!("ALTER TABLE {table} {change}"));
                let shown = shown.shown();
                let refused = format!("error 42501 must be owner of table {table}");
                assert!(shown.starts_with(&refused), "{table} {change}: {shown}");
            }
            let shown = client.simple(&format!("SELECT x FROM {table}")).shown();
            assert_eq!(shown, "1", "{table}");
        }
    })
    .await;
}
