//! Promised: SET, SHOW and RESET work for PostgreSQL's settings and the session's own. A setting
//! belongs to one connection, and a wrong SET is an error.

use crate::common::{TestServer, connect, state};
use tokio_postgres::{Client, SimpleQueryMessage};

async fn show(client: &Client, name: &str) -> String {
    let messages = client.simple_query(&format!("SHOW {name}")).await.unwrap();
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_setting_belongs_to_one_connection() {
    let server = TestServer::start().await;
    let (one, other) = (server.connect().await, server.connect().await);
    let batch_size = "datafusion.execution.batch_size";
    one.batch_execute("SET coscan.policy = 'normal'")
        .await
        .unwrap();
    one.execute(&format!("SET {batch_size} = 100"), &[])
        .await
        .unwrap();
    assert_eq!(show(&one, "coscan.policy").await, "normal");
    assert_eq!(show(&other, "coscan.policy").await, "relevance");
    assert_eq!(show(&one, batch_size).await, "100");
    assert_eq!(show(&other, batch_size).await, "8192");
    let row = one
        .query_one(&format!("SHOW {batch_size}"), &[])
        .await
        .unwrap();
    assert_eq!(
        (row.columns()[0].name(), row.get::<_, &str>(0)),
        (batch_size, "100")
    );

    one.batch_execute("RESET coscan.policy").await.unwrap();
    assert_eq!(show(&one, "coscan.policy").await, "relevance");
    one.batch_execute("SET coscan.policy TO attach; SET statement_timeout = '5s'; RESET ALL")
        .await
        .unwrap();
    assert_eq!(show(&one, "coscan.policy").await, "relevance");
    assert_eq!(show(&one, "statement_timeout").await, "0");
    assert_eq!(show(&one, batch_size).await, "8192");
}

#[tokio::test]
async fn wrong_settings_are_refused() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for (sql, code) in [
        ("SET datafusion.execution.batch_size = 'many'", "22023"),
        ("SET datafusion.execution.no_such_option = 1", "42704"),
        ("SET coscan.no_such_option = 1", "42704"),
        ("SHOW nobody.knows", "42704"),
        ("SET unheard_of = 1", "42704"),
        ("SHOW unheard_of", "42704"),
        ("RESET coscan.unheard_of", "42704"),
        ("SET datafusion.runtime.memory_limit = '1T'", "42501"),
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("SET DateStyle = 'German'", "22023"),
        ("SET DateStyle = 'ISO, DMY'", "22023"),
        ("SET IntervalStyle = 'sql_standard'", "22023"),
        ("SET extra_float_digits = 0", "22023"),
        ("SET search_path = ''; SELECT * FROM t", "42P01"),
        ("SET search_path = nowhere; SELECT * FROM t", "42P01"),
        (
            "SET search_path = nowhere; CREATE TABLE made AS SELECT 1 AS x",
            "3F000",
        ),
        (
            "SET search_path = public; SELECT * FROM unheard_of",
            "42P01",
        ),
        ("SET TIME ZONE 'Mars/Olympus'", "22023"),
        ("SET statement_timeout = 'soon'", "22023"),
        ("SET server_version = '9.1'", "55P02"),
        ("BEGIN; SET LOCAL nothing = 'x'", "42704"),
        ("ROLLBACK; SET GLOBAL work_mem = '1GB'", "0A000"),
    ] {
        assert_eq!(state(client.simple_query(sql).await), code, "{sql}");
    }
}

#[tokio::test]
async fn settings_that_drivers_use_are_accepted() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for sql in [
        "SET extra_float_digits = 3",
        "SET application_name = 'PostgreSQL JDBC Driver'",
        "SET client_encoding TO 'UTF8'",
        "SET client_encoding TO '''utf-8'''",
        "SET NAMES 'UTF8'",
        "SET DateStyle = ISO, MDY",
        "SET standard_conforming_strings = on",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET search_path = public",
        "SET search_path TO DEFAULT",
        "SET client_min_messages TO warning",
        "SET TIME ZONE 'Europe/Berlin'",
        "SHOW transaction_isolation",
        "SHOW TRANSACTION ISOLATION LEVEL",
        "SHOW standard_conforming_strings",
        "SHOW ALL",
        "SHOW TABLES",
        "DISCARD ALL",
    ] {
        client
            .simple_query(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    client
        .batch_execute("SET TIME ZONE 'Europe/Berlin'")
        .await
        .unwrap();
    assert_eq!(show(&client, "TimeZone").await, "Europe/Berlin");
    assert_eq!(
        show(&client, "datafusion.execution.time_zone").await,
        "Europe/Berlin"
    );
}

/// A client may restore what it was shown.
#[tokio::test]
async fn a_time_zone_that_is_shown_can_be_set() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for (zone, expected) in [
        ("-03:30", "2020-01-01 23:30:00+03:30"),
        ("5.5", "2020-01-02 01:30:00+05:30"),
    ] {
        client
            .batch_execute(&format!("SET TIME ZONE '{zone}'"))
            .await
            .unwrap();
        let shown = show(&client, "TimeZone").await;
        for change in [
            format!("SET timezone = '{shown}'"),
            "BEGIN; SET LOCAL timezone = 'Asia/Tokyo'; COMMIT".to_owned(),
        ] {
            client.batch_execute(&change).await.unwrap();
            let sql = "SELECT (TIMESTAMPTZ '2020-01-01 20:00+00')::text";
            let row = client.query_one(sql, &[]).await.unwrap();
            assert_eq!(row.get::<_, &str>(0), expected, "{zone}: {change}");
        }
    }
}

#[tokio::test]
async fn the_startup_message_can_set_settings() {
    let server = TestServer::start().await;
    let mut config = server.config();
    config
        .application_name("me")
        .options("-c coscan.policy=elevator -c statement_timeout=1h");
    let client = connect(&config).await.unwrap();
    assert_eq!(show(&client, "coscan.policy").await, "elevator");
    assert_eq!(show(&client, "application_name").await, "me");
    config.options("-c coscan.policy=elevator -c statement_timeout=250ms");
    let client = connect(&config).await.unwrap();
    assert_eq!(
        state(client.simple_query(crate::common::LONG).await),
        "57014"
    );
    config.options("-c coscan.nonsense=1");
    assert_eq!(state(connect(&config).await.map(drop)), "42704");
}

#[tokio::test]
async fn reset_restores_the_settings_of_the_startup_message() {
    let server = TestServer::start().await;
    let started = [
        ("application_name", "me"),
        ("coscan.policy", "elevator"),
        ("my.setting", "mine"),
        ("search_path", "elsewhere"),
        ("statement_timeout", "7s"),
        ("tcp_keepalives_idle", "33"),
        ("TimeZone", "Asia/Tokyo"),
    ];
    let options = started.map(|(name, value)| format!("-c {name}={value}"));
    let mut config = server.config();
    config.options(options.join(" ")).application_name("me");
    let client = connect(&config).await.unwrap();
    let change = "SET application_name = 'other'; SET coscan.policy = attach; \
                  SET my.setting = 'other'; SET search_path = public; \
                  SET statement_timeout = 0; SET tcp_keepalives_idle = 0; SET TIME ZONE 'UTC'";
    let each = |form: &str| {
        let all = started.map(|(name, _)| form.replace('?', name));
        all.join("; ")
    };
    for reset in [
        each("RESET ?"),
        each("SET ? TO DEFAULT"),
        "RESET ALL".to_owned(),
        "DISCARD ALL".to_owned(),
        each("BEGIN; SET LOCAL ? TO DEFAULT; RESET ?; COMMIT"),
    ] {
        client.batch_execute(change).await.unwrap();
        client.batch_execute(&reset).await.unwrap();
        for (name, value) in started {
            assert_eq!(show(&client, name).await, value, "{reset}");
        }
        let sql = "SELECT (TIMESTAMPTZ '2020-01-01 20:00+00')::text";
        let row = client.query_one(sql, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "2020-01-02 05:00:00+09", "{reset}");
        assert_eq!(state(client.simple_query("SELECT * FROM t").await), "42P01");
    }
    let mut config = server.config();
    config.options("-c statement_timeout=2s");
    let client = connect(&config).await.unwrap();
    client
        .batch_execute("SET statement_timeout = 0; DISCARD ALL")
        .await
        .unwrap();
    assert_eq!(
        state(client.simple_query(crate::common::LONG).await),
        "57014"
    );
}

/// As PostgreSQL, which has a setting behind each of these words.
#[tokio::test]
async fn reset_knows_settings_of_several_words() {
    let server = TestServer::start().await;
    let mut config = server.config();
    config.options("-c TimeZone=Asia/Tokyo");
    let client = connect(&config).await.unwrap();
    client
        .batch_execute("SET TIME ZONE 'America/New_York'; RESET TIME ZONE")
        .await
        .unwrap();
    assert_eq!(show(&client, "TimeZone").await, "Asia/Tokyo");
    let sql = "SELECT (TIMESTAMPTZ '2020-01-01 20:00+00')::text";
    let row = client.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "2020-01-02 05:00:00+09");
    let user = show(&client, "session_authorization").await;
    for reset in [
        "RESET SESSION AUTHORIZATION",
        "RESET ROLE",
        "RESET TRANSACTION ISOLATION LEVEL",
        "reset \"TimeZone\"",
    ] {
        let answer = client.simple_query(reset).await;
        answer.unwrap_or_else(|error| panic!("{reset}: {error}"));
    }
    assert_eq!(show(&client, "session_authorization").await, user);
    for (wrong, code) in [
        ("RESET foo bar", "42601"),
        ("RESET TIME ZONE now", "42601"),
        ("RESET session", "42704"),
    ] {
        assert_eq!(state(client.simple_query(wrong).await), code, "{wrong}");
    }
}

#[tokio::test]
async fn user_database_and_schema_are_known() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let sql = "SELECT current_user, current_database(), current_schema(), version()";
    let row = client.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "tester");
    assert_eq!(row.get::<_, &str>(1), "datafusion");
    assert_eq!(row.get::<_, &str>(2), "public");
    assert!(row.get::<_, &str>(3).starts_with("PostgreSQL 16"));
}

/// The catalog's own name stays, too.
#[tokio::test]
async fn the_database_has_the_name_to_which_a_client_connects() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let mut config = server.config();
    config.dbname("shop");
    let client = connect(&config).await.unwrap();
    for sql in [
        "CREATE TABLE t AS SELECT 1 AS x",
        "CREATE VIEW v AS SELECT x FROM shop.public.t",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    for sql in [
        "SELECT current_database() = 'shop' AND current_catalog = 'shop'",
        "SELECT count(*) = 1 FROM pg_database WHERE datname = current_database()",
        "SELECT bool_and(table_catalog = 'shop') FROM information_schema.tables",
        "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = 'shop'",
        "SELECT x = 1 FROM shop.public.t",
        "SELECT datafusion.public.t.x = 1 FROM datafusion.public.t",
        "SELECT shop.public.t.x = 1 FROM shop.public.t",
    ] {
        let row = client.query_one(sql, &[]).await.unwrap();
        assert!(row.get::<_, bool>(0), "{sql}");
    }
    for table in ["t", "shop.public.t", "datafusion.public.t"] {
        let dropped = client.batch_execute(&format!("DROP TABLE {table}")).await;
        assert_eq!(state(dropped), "2BP01", "{table}");
    }
    let missing = client.query("SELECT x FROM other.public.t", &[]).await;
    assert_eq!(state(missing), "42P01");
}

/// Rails sets `iso_8601` at every connection.
#[tokio::test]
async fn intervals_have_the_style_of_their_session() {
    let server = TestServer::start().await;
    let (client, other) = (server.connect().await, server.connect().await);
    let sql = "SELECT concat_ws(' | ', i, i::text, ARRAY[i, NULL], to_json(i), v), i, ARRAY[i] \
               FROM (VALUES (interval '14 mons -3 days 04:05:06.789')) v(i)";
    let default = "1 year 2 mons -3 days +04:05:06.789";
    let verbose = "@ 1 year 2 mons -3 days 4 hours 5 mins 6.789 secs";
    let iso = "P1Y2M-3DT4H5M6.789S";
    for (set, style, text, quoted) in [
        ("SHOW IntervalStyle", "postgres", default, true),
        ("SET intervalstyle = iso_8601", "iso_8601", iso, false),
        ("SET intervalstyle = iso_8601", "iso_8601", iso, false),
        (
            "BEGIN; SET LOCAL IntervalStyle TO 'POSTGRES_VERBOSE'",
            "postgres_verbose",
            verbose,
            true,
        ),
        ("COMMIT", "iso_8601", iso, false),
        (
            "BEGIN; SET IntervalStyle = postgres; ROLLBACK",
            "iso_8601",
            iso,
            false,
        ),
        ("RESET IntervalStyle", "postgres", default, true),
        (
            "SET IntervalStyle = iso_8601; RESET ALL",
            "postgres",
            default,
            true,
        ),
    ] {
        client.batch_execute(set).await.unwrap();
        assert_eq!(show(&client, "IntervalStyle").await, style, "{set}");
        let element = if quoted {
            format!("\"{text}\"")
        } else {
            text.to_owned()
        };
        let row = if quoted { element.as_str() } else { text };
        let all = format!("{text} | {text} | {{{element},NULL}} | \"{text}\" | ({row})");
        let expected = [all, text.to_owned(), format!("{{{element}}}")];
        assert_eq!(cells(&client, sql).await, expected, "{set}");
        let plain = cells(&other, "SELECT interval '1 day'").await;
        assert_eq!(plain, ["1 day"]);
    }
}

/// The first row of an answer.
async fn cells(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.unwrap();
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.unwrap();
    let cells = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned());
    cells.collect()
}
