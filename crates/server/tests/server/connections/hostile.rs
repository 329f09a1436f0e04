//! Promised: no statement, message or socket of one client ends the server or keeps other clients
//! out. A request that is too large is refused with an error that says so, and the connection
//! survives. The memory that a client makes the server hold is counted and bounded.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_postgres::Client;
use tokio_postgres::config::SslMode;

use crate::common::raw::STARTUP;
use crate::common::tls::{Trusting, certificate};
use crate::common::{LONG, TestServer, alone, connect, state};
use coscan_server::{Server, ServerConfig, ServerError};

const MANY: usize = 100_000;

/// Held by tests that take much memory: some of them measure the memory of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Chains that the parser makes left-deep, and others that the parser or the planner follows
/// recursively.
fn chains() -> Vec<(&'static str, String, &'static [&'static str])> {
    const ANSWERED: &[&str] = &[];
    const COMPLEX: &[&str] = &["54001"];
    const REFUSED: &[&str] = &["54001", "42601", "0A000", "42000", "42883", "42703"];
    let many = |part: &str| part.repeat(MANY);
    let numbered =
        |part: &dyn Fn(usize) -> String, by: &str| (0..MANY).map(part).collect::<Vec<_>>().join(by);
    let id = "SELECT count(*) FROM people WHERE";
    let or = numbered(&|i| format!("id={i}"), " OR ");
    let and = numbered(&|i| format!("id<>{}", i + 7), " AND ");
    let others = numbered(&|i| format!("id%{}=1", i + 7), " OR ");
    let union = numbered(&|i| format!("SELECT {i}"), " UNION ALL ");
    let cte = |i: usize| {
        let next = i + 1;
        format!("c{next} AS (SELECT a.x FROM c{i} a UNION ALL SELECT b.x FROM c{i} b)")
    };
    let ctes: Vec<_> = (0..20_000).map(cte).collect();
    let list = numbered(&|i| i.to_string(), ",");
    vec![
        ("OR", format!("{id} {or}"), ANSWERED),
        ("AND", format!("{id} {and}"), ANSWERED),
        ("IN", format!("{id} id IN ({list})"), ANSWERED),
        ("OR of others", format!("{id} {others}"), COMPLEX),
        ("UNION ALL", union, COMPLEX),
        ("+", format!("SELECT 1{}", many("+1")), COMPLEX),
        (
            "||",
            format!("SELECT name{} FROM people", many("||'a'")),
            COMPLEX,
        ),
        (
            "::",
            format!("SELECT id{} FROM people", many("::int")),
            COMPLEX,
        ),
        (
            "->",
            format!("SELECT name{} FROM people", many("->'a'")),
            COMPLEX,
        ),
        (
            "IS NULL",
            format!("SELECT id{} FROM people", many(" IS NULL")),
            COMPLEX,
        ),
        (
            "LIKE",
            format!("SELECT name{} FROM people", many(" LIKE 'a'")),
            COMPLEX,
        ),
        (
            "COLLATE",
            format!("SELECT name{} FROM people", many(" COLLATE c")),
            &[],
        ),
        (
            "CASE",
            format!("SELECT {}1{}", many("CASE WHEN true THEN "), many(" END")),
            COMPLEX,
        ),
        (
            "CAST",
            format!("SELECT {}1{}", many("CAST("), many(" AS int)")),
            COMPLEX,
        ),
        (
            "25 CASTs",
            format!("SELECT {}1", "CAST(".repeat(25)),
            COMPLEX,
        ),
        ("NOT", format!("SELECT {}true", many("NOT ")), COMPLEX),
        (
            "brackets",
            format!("SELECT {}1{}", many("("), many(")")),
            COMPLEX,
        ),
        ("types", format!("SELECT 1::int{}", many("[]")), COMPLEX),
        (
            "ARRAY<",
            format!("SELECT 1::{}int", many("array<")),
            COMPLEX,
        ),
        ("[]", format!("SELECT name{}", many("[1]")), COMPLEX),
        (
            "INTERVAL",
            format!("SELECT {}'1 day'", many("INTERVAL ")),
            COMPLEX,
        ),
        ("EXPLAIN", format!("{}SELECT 1", many("EXPLAIN ")), COMPLEX),
        ("comments", format!("{}SELECT 1", many("/*!")), COMPLEX),
        (
            "subqueries",
            format!("SELECT * FROM {}people", many("(SELECT * FROM ")),
            COMPLEX,
        ),
        (
            "JOIN",
            format!("SELECT 1 FROM people{}", many(" NATURAL JOIN people")),
            COMPLEX,
        ),
        (
            "comma",
            format!("SELECT 1 FROM people{}", many(",people")),
            COMPLEX,
        ),
        (
            "EXCEPT",
            format!("SELECT 1{}", many(" EXCEPT SELECT 1")),
            COMPLEX,
        ),
        (
            "WITH",
            format!(
                "WITH c0 AS (SELECT 1 AS x), {} SELECT 1 FROM c20000",
                ctes.join(",")
            ),
            COMPLEX,
        ),
        (
            "WITH twice",
            format!(
                "WITH c0 AS (SELECT 1 AS x), {} SELECT 1 FROM c40",
                ctes[..40].join(",")
            ),
            COMPLEX,
        ),
        (
            "a very long one",
            format!("SELECT 1{}", "+1".repeat(600_000)),
            COMPLEX,
        ),
        ("open", format!("SELECT 'a{}", many("''")), &["42601"]),
        ("nonsense", format!("SELECT {}", many("* / ,")), REFUSED),
    ]
}

async fn lives(client: &Client) {
    let row = client.query_one("SELECT 7::int", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_are_answered_or_refused_by_both_protocols() {
    let _one = ONE_AT_A_TIME.lock().await;
    let server = TestServer::start().await;
    let (client, other) = (server.connect().await, server.connect().await);
    for (name, sql, codes) in chains() {
        let begun = Instant::now();
        let simple = client.simple_query(&sql).await.map(drop);
        let prepared = client.prepare(&sql).await;
        let extended = match prepared {
            Ok(statement) => client.query(&statement, &[]).await.map(drop),
            Err(error) => Err(error),
        };
        for outcome in [simple, extended] {
            if codes.is_empty() {
                assert!(outcome.is_ok(), "{name}: {outcome:?}");
            } else {
                let code = state(outcome);
                assert!(codes.contains(&code.as_str()), "{name}: {code}");
            }
        }
        lives(&client).await;
        lives(&other).await;
        println!("{name}: {:?}", begun.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_served_while_a_long_statement_is_planned() {
    let _one = ONE_AT_A_TIME.lock().await;
    let _alone = alone();
    let server = TestServer::start().await;
    let client = server.connect().await;
    let long: Vec<_> = (0..4)
        .map(|_| {
            let config = server.config();
            tokio::spawn(async move {
                let client = connect(&config).await.unwrap();
                let token = client.cancel_token();
                let terms: Vec<_> = (0..9_000).map(|i| format!("id%{}=1", i + 7)).collect();
                let sql = format!("SELECT count(*) FROM people WHERE {}", terms.join(" OR "));
                let query = tokio::spawn(async move { client.simple_query(&sql).await.map(drop) });
                tokio::time::sleep(Duration::from_millis(1500)).await;
                let asked = Instant::now();
                token.cancel_query(tokio_postgres::NoTls).await.unwrap();
                let _ = query.await.unwrap();
                asked.elapsed()
            })
        })
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        let asked = Instant::now();
        lives(&client).await;
        lives(&server.connect().await).await;
        let took = asked.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    for query in long {
        let took = query.await.unwrap();
        assert!(took < Duration::from_secs(2), "cancel took {took:?}");
    }
}

#[tokio::test]
async fn empty_statements_take_no_memory() {
    let _one = ONE_AT_A_TIME.lock().await;
    let _alone = alone();
    let (server, _) = TestServer::limited(512 << 20).await;
    let client = server.connect().await;
    let before = peak_bytes();
    let many = ";".repeat((60 << 20) - 20);
    assert!(client.simple_query(&many).await.is_ok());
    assert!(
        client
            .simple_query(&format!("{many} SELECT 1"))
            .await
            .is_ok()
    );
    drop(many);
    let took = peak_bytes() - before;
    // 100 bytes for each would be six times as much.
    assert!(took < 2 << 30, "{took} bytes");
}

#[tokio::test]
async fn large_results_from_small_arguments_are_refused() {
    let _one = ONE_AT_A_TIME.lock().await;
    let (server, _) = TestServer::limited(512 << 20).await;
    let client = server.connect().await;
    for hostile in [
        "length(repeat('x', 2000000000))",
        "length(repeat(repeat('x', 1000000), 1000000))",
        "length(lpad('x', 2000000000))",
        "length(rpad('x', 2000000000, 'yz'))",
        "length(replace(repeat('x', 1000000), 'x', repeat('y', 1000000)))",
        "length(replace(repeat('x', 1000000), '', repeat('y', 1000000)))",
        "cardinality(range(1000000000000))",
        "cardinality(range(-9223372036854775807, 9223372036854775807, 3))",
        "generate_series(1, 1000000000000)",
        "generate_series(timestamp '1970-01-01', timestamp '2030-01-01', \
         interval '1 microsecond')",
        "cardinality(range(timestamp '1970-01-01', timestamp '2030-01-01', \
         interval '1 millisecond'))",
        "cardinality(array_repeat(1, 1000000000000))",
        "cardinality(array_resize([1], 1000000000000))",
        "length(array_to_string(range(100000), repeat('x', 1000000)))",
    ] {
        let constant = client.simple_query(&format!("SELECT {hostile}")).await;
        assert_eq!(state(constant), "53200", "{hostile}");
    }
    let each = "SELECT sum(length(repeat('x', 100 * x))) FROM generate_series(1, 8000) a(x)";
    assert_eq!(state(client.simple_query(each).await), "53200", "a batch");
    for (harmless, right) in [
        ("length(repeat('ab', 1000))", "2000"),
        ("repeat('ab', -1)", ""),
        ("lpad('x', 3, NULL) IS NULL", "t"),
        ("rpad('x', 3, 'yz')", "xyz"),
        ("replace('aXbX', 'X', 'yy')", "ayybyy"),
        ("range(5, 1, -2)", "{5,3}"),
        ("range(3)", "{0,1,2}"),
        (
            "cardinality(range(date '2000-01-01', date '2001-01-01', interval '1 month'))",
            "12",
        ),
        (
            "count(*) FROM (SELECT generate_series(timestamp '2000-01-02', \
             timestamp '2000-01-01', interval '-1 second')) a",
            "86401",
        ),
        ("cardinality(array_repeat([1, 2], 3))", "6"),
        ("generate_series(7, 9)", "7"),
        ("array_repeat('x', 2)", "{x,x}"),
        ("array_to_string([1, NULL, 3], '-')", "1-3"),
        ("range(NULL) IS NULL", "t"),
    ] {
        let rows = client.simple_query(&format!("SELECT {harmless}")).await;
        let rows = rows.unwrap_or_else(|error| panic!("{harmless}: {error:?}"));
        let text = rows.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        assert_eq!(text.as_deref(), Some(right), "{harmless}");
    }
    lives(&client).await;
}

/// The peak memory of the process so far.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<usize>()
        .unwrap()
        << 10
}

#[tokio::test]
async fn memory_held_for_a_client_is_counted_and_bounded() {
    let _one = ONE_AT_A_TIME.lock().await;
    let (server, pool) = TestServer::limited(64 << 20).await;
    let client = server.connect().await;
    let idle = pool.reserved();
    assert!(idle > 0, "a connection is counted");

    let text = format!("SELECT '{}'", "x".repeat(40 << 20));
    assert_eq!(state(client.simple_query(&text).await), "53200");
    // The server cannot find the end of such a message, so the connection is lost.
    assert!(client.simple_query("SELECT 1").await.is_err());

    let client = server.connect().await;
    let statements = format!("{}SELECT 1", "SELECT 1;".repeat(15_000));
    assert_eq!(state(client.simple_query(&statements).await), "53200");
    lives(&client).await;

    let mut kept = Vec::new();
    let refused = loop {
        let list = vec!["1"; 1000].join(",");
        let sql = format!("SELECT 1 IN ({list}), {}", kept.len());
        match client.prepare(&sql).await {
            Ok(statement) => kept.push(statement),
            Err(error) => break state(Err::<(), _>(error)),
        }
        assert!(kept.len() < 4096);
    };
    assert_eq!(refused, "53200");
    assert!(pool.reserved() > 16 << 20);
    client.simple_query("DEALLOCATE ALL").await.unwrap();
    lives(&client).await;
    drop(kept);
    drop(client);
    while pool.reserved() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const SSL_REQUEST: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    message.extend(body);
    message
}

#[tokio::test]
async fn messages_are_read_ahead_up_to_a_bound() {
    let _one = ONE_AT_A_TIME.lock().await;
    let server = TestServer::start().await;
    let mut socket = TcpStream::connect(server.addr).await.unwrap();
    socket.write_all(STARTUP).await.unwrap();
    let mut query = LONG.as_bytes().to_vec();
    query.push(0);
    socket.write_all(&message(b'Q', &query)).await.unwrap();
    // An unnamed statement of a megabyte, many times.
    let mut parse = vec![b'\0'];
    parse.resize(1 << 20, b' ');
    parse.extend([0, 0, 0]);
    let parse = message(b'P', &parse);
    let mut sent = 0;
    loop {
        let write = socket.write(&parse);
        match tokio::time::timeout(Duration::from_secs(2), write).await {
            Ok(written) => sent += written.unwrap(),
            Err(_) => break,
        }
        assert!(sent < 48 << 20, "the server reads without a bound");
    }
}

#[tokio::test]
async fn plain_text_after_a_request_for_tls_is_refused() {
    let (_folder, files) = certificate();
    let server = TestServer::start_with(|config| config.tls = Some(files.clone())).await;
    for (behind, served) in [(STARTUP, false), (&b""[..], true)] {
        let mut socket = TcpStream::connect(server.addr).await.unwrap();
        let mut request = SSL_REQUEST.to_vec();
        request.extend(behind);
        socket.write_all(&request).await.unwrap();
        let mut answer = [0];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"S");
        let Ok(mut tls) = Trusting::new(&files).secure(socket).await else {
            assert!(!served);
            continue;
        };
        if served {
            tls.write_all(STARTUP).await.unwrap();
        }
        let mut answer = [0];
        let read = tokio::time::timeout(Duration::from_secs(5), tls.read(&mut answer)).await;
        // Nothing came through TLS, so an answer `R` would mean that plain text, from any sender,
        // counted as if it had.
        assert_eq!(matches!(read, Ok(Ok(1))), served, "{read:?} {answer:?}");
    }
}

#[tokio::test]
async fn tls_can_be_required() {
    let (_folder, files) = certificate();
    let server = TestServer::start_with(|config| {
        config.tls = Some(files.clone());
        config.tls_required = true;
    })
    .await;
    let mut config = server.config();
    config.ssl_mode(SslMode::Disable);
    assert_eq!(state(connect(&config).await.map(drop)), "28000");
    config.ssl_mode(SslMode::Require);
    let (client, connection) = config.connect(Trusting::new(&files)).await.unwrap();
    tokio::spawn(connection);
    lives(&client).await;

    let mut config = ServerConfig::new(([127, 0, 0, 1], 0).into());
    config.tls_required = true;
    let bound = Server::bind(config, Arc::new(|| Ok(SessionContext::new()))).await;
    assert!(matches!(bound, Err(ServerError::TlsWithoutCertificate)));
}

/// Lists whose planning is charged to the memory: some are answered, the others refused. The
/// process stays within its memory plus the room for what is not counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_long_lists_at_once_keep_to_the_memory() {
    const MEMORY: usize = 512 << 20;
    let _one = ONE_AT_A_TIME.lock().await;
    let _alone = alone();
    let list: Vec<_> = (1..=MANY).map(|n| (n * 20).to_string()).collect();
    let texts: Vec<_> = list.iter().map(|number| format!("'{number}'")).collect();
    let (list, texts) = (list.join(","), texts.join(","));
    let lists = [
        format!("SELECT count(*) FROM people WHERE id IN ({list})"),
        format!("SELECT count(*) FROM people WHERE id = ANY('{{{list}}}')"),
        format!("SELECT count(*) FROM people WHERE id::text NOT IN ({texts})"),
    ];
    for sql in lists {
        let (server, pool) = TestServer::limited(MEMORY).await;
        let people =
            "CREATE TABLE people AS SELECT value AS id FROM generate_series(1, 3) g(value)";
        let (before, most) = (resident_bytes(), Cell::new(0));
        let all_are_there = tokio::sync::Barrier::new(12);
        let asked = (0..12).map(|_| async {
            let client = server.connect().await;
            client.simple_query(people).await.unwrap();
            all_are_there.wait().await;
            match client.simple_query(&sql).await {
                Ok(_) => true,
                refused => {
                    assert_eq!(state(refused), "53200");
                    lives(&client).await;
                    false
                }
            }
        });
        let asked = futures::future::join_all(asked);
        let watch = async {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                most.set(most.get().max(resident_bytes().saturating_sub(before)));
            }
        };
        let answered = tokio::select! {
            answered = asked => answered,
            () = watch => unreachable!("the watch never ends"),
        };
        let kind = &sql[..50];
        assert!(answered.contains(&true), "{kind}: a list is answered");
        assert!(answered.contains(&false), "{kind}: not all fit at once");
        let most = most.get();
        assert!(most < MEMORY + BEYOND, "{kind}: {most} bytes");
        drop(pool);
    }
}

/// Room for what is not counted: threads, the allocator's reserves, and tests without a server.
const BEYOND: usize = 320 << 20;

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    4096 * pages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_many_tables_end() {
    let _one = ONE_AT_A_TIME.lock().await;
    let server = TestServer::start().await;
    let client = server.connect().await;
    // Joins of small tables run one above the other in one task, which yields in each.
    for joins in [11, 60, 150] {
        let join = |n: usize| format!("JOIN people p{n} ON p{n}.id = p{}.id", n - 1);
        let joins: Vec<_> = (1..=joins).map(join).collect();
        let sql = format!("SELECT count(*) FROM people p0 {}", joins.join(" "));
        let answer = tokio::time::timeout(Duration::from_secs(60), client.simple_query(&sql));
        let answer = answer.await.unwrap_or_else(|_| panic!("{sql}"));
        if answer.is_err() {
            assert_eq!(state(answer), "54001", "{sql}");
        }
    }
    lives(&client).await;
}
