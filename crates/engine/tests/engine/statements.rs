//! Promised: no statement overflows a stack. Chains of 100,000 terms are answered, or refused with
//! an error that says so; a list of a million literals works; and the time is proportional to the
//! length.

use std::time::{Duration, Instant};

use coscan::{Engine, EngineConfig, Session};
use futures::TryStreamExt;

/// A statement's answer, as text, on a thread with a stack of Tokio's size.
fn answer(session: &Session, sql: &str) -> Result<String, String> {
    std::thread::scope(|scope| {
        let work = || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let session = session.clone();
                let sql = sql.to_owned();
                let task = tokio::spawn(async move {
                    let rows = session.sql(&sql).await.map_err(|e| e.to_string())?;
                    let batches: Vec<_> = rows.try_collect().await.map_err(|e| e.to_string())?;
                    let table = arrow::util::pretty::pretty_format_batches(&batches)
                        .map_err(|e| e.to_string())?;
                    let text = table.to_string();
                    Ok(text.lines().skip(3).collect::<Vec<_>>().join("\n"))
                });
                task.await.unwrap()
            })
        };
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        thread.spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

#[test]
fn planning_takes_a_moment_unless_operators_are_many() {
    let time = |sql: &str| {
        let texts = coscan::statement_texts(sql);
        let times = texts.map(|text| text.unwrap().size.planning_time());
        times.sum::<Duration>()
    };
    for number in 1..=22 {
        let path = format!("tests/tpch/q{number:02}.sql");
        let time = time(&std::fs::read_to_string(path).unwrap());
        let usual = Duration::from_micros(50)..Duration::from_millis(5);
        assert!(usual.contains(&time), "Q{number}: {time:?}");
    }
    let chain = |terms: usize| format!("SELECT {}", vec!["1"; terms].join("+"));
    let hundred = time(&chain(100));
    assert!(hundred > Duration::from_millis(10), "{hundred:?}");
    assert!(time(&chain(200)) > 3 * hundred, "{hundred:?}");
}

#[test]
fn chains_are_answered_or_refused_on_small_stacks() {
    let session = Engine::new(EngineConfig::default()).unwrap().session();
    let table = "(SELECT x FROM generate_series(1, 10) s (x))";
    // First the largest allowed lengths, run and dropped on threads of 2 MiB. Then one far beyond
    // them.
    for n in [190, 990, 100_000] {
        for (name, sql) in chains(n, table) {
            let said = answer(&session, &sql);
            let answered =
                matches!(name, "or" | "and" | "in" | "values") || n == 190 && name == "joins";
            match &said {
                Ok(_) => {}
                Err(error) if answered => panic!("{name} {n}: {error}"),
                Err(error) if n == 100_000 => {
                    assert!(error.contains("the statement is too"), "{name}: {error}");
                }
                Err(_) => {}
            }
        }
    }
    let two = answer(&session, "SELECT 2").unwrap();
    assert!(two.contains('2'), "{two}");
}

/// The least time of three in which a statement gets this answer, because the machine may be busy.
fn least_time(session: &Session, sql: &str, answered: &str) -> Duration {
    let times = (0..3).map(|_| {
        let begun = Instant::now();
        let said = answer(session, sql).unwrap();
        assert!(said.contains(answered), "{said}");
        begun.elapsed()
    });
    times.min().unwrap()
}

/// Ten times as many terms take about ten times as long; quadratic time would be a hundred times.
#[test]
fn time_is_in_proportion_to_the_length_up_to_a_million() {
    let session = Engine::new(EngineConfig::default()).unwrap().session();
    let counted = "SELECT count(*) FROM (SELECT x FROM generate_series(1, 10) s (x)) WHERE";
    let numbers = |n: usize| (0..n).map(|i| i.to_string());
    let list = |n| {
        format!(
            "{counted} x IN ({})",
            numbers(n).collect::<Vec<_>>().join(",")
        )
    };
    let ors = |n| {
        let terms = numbers(n).map(|i| format!("x={i}"));
        format!("{counted} {}", terms.collect::<Vec<_>>().join(" OR "))
    };
    let (short, long) = (list(100_000), list(1_000_000));
    let (short, long) = (
        least_time(&session, &short, "10"),
        least_time(&session, &long, "10"),
    );
    assert!(long < 40 * short, "a list: {short:?}, then {long:?}");
    let (short, long) = (ors(10_000), ors(100_000));
    let (short, long) = (
        least_time(&session, &short, "10"),
        least_time(&session, &long, "10"),
    );
    assert!(long < 40 * short, "a chain: {short:?}, then {long:?}");
}

#[allow(clippy::too_many_lines)] // A list.
fn chains(n: usize, t: &str) -> Vec<(&'static str, String)> {
    let many = |part: &str| part.repeat(n);
    let numbered =
        |f: &dyn Fn(usize) -> String, by: &str| (0..n).map(f).collect::<Vec<_>>().join(by);
    vec![
        ("plus", format!("SELECT 1{}", many("+1"))),
        ("plus column", format!("SELECT x{} FROM {t}", many("+1"))),
        (
            "or",
            format!(
                "SELECT count(*) FROM {t} WHERE {}",
                numbered(&|i| format!("x={i}"), " OR ")
            ),
        ),
        (
            "or various",
            format!(
                "SELECT count(*) FROM {t} WHERE {}",
                numbered(&|i| format!("x%{i}=7"), " OR ")
            ),
        ),
        (
            "and",
            format!(
                "SELECT count(*) FROM {t} WHERE {}",
                numbered(&|i| format!("x<>{i}"), " AND ")
            ),
        ),
        (
            "in",
            format!(
                "SELECT count(*) FROM {t} WHERE x IN ({})",
                numbered(&|i| i.to_string(), ",")
            ),
        ),
        ("concat", format!("SELECT x{} FROM {t}", many("||'a'"))),
        ("cast", format!("SELECT x{} FROM {t}", many("::int"))),
        (
            "cast()",
            format!("SELECT {}x{} FROM {t}", many("CAST("), many(" AS int)")),
        ),
        (
            "case",
            format!(
                "SELECT CASE {} END FROM {t}",
                numbered(&|i| format!("WHEN x={i} THEN {i}"), " ")
            ),
        ),
        (
            "not",
            format!("SELECT count(*) FROM {t} WHERE {} x=1", many("NOT ")),
        ),
        ("minus", format!("SELECT {}x FROM {t}", many("- "))),
        ("is null", format!("SELECT x{} FROM {t}", many(" IS NULL"))),
        (
            "brackets",
            format!("SELECT {}x{} FROM {t}", many("("), many(")")),
        ),
        (
            "subqueries",
            format!("SELECT * FROM {}{t}{}", many("(SELECT * FROM "), many(")")),
        ),
        (
            "joins",
            format!(
                "SELECT count(*) FROM {t} t0 {}",
                numbered(&|i| format!("JOIN {t} u{i} ON t0.x=u{i}.x"), " ")
            ),
        ),
        (
            "commas",
            format!(
                "SELECT count(*) FROM {}",
                numbered(&|i| format!("(SELECT 1 AS x) u{i}"), ",")
            ),
        ),
        (
            "union all",
            format!(
                "SELECT count(*) FROM ({})",
                numbered(&|i| format!("SELECT {i} AS x"), " UNION ALL ")
            ),
        ),
        (
            "union",
            format!(
                "SELECT count(*) FROM ({})",
                numbered(&|i| format!("SELECT {} AS x", i % 3), " UNION ")
            ),
        ),
        (
            "except",
            format!(
                "SELECT count(*) FROM ({})",
                numbered(&|i| format!("SELECT {i} AS x"), " EXCEPT ")
            ),
        ),
        ("json", format!("SELECT x{} FROM {t}", many("->'a'"))),
        ("subscripts", format!("SELECT x{} FROM {t}", many("[1]"))),
        ("types", format!("SELECT x::int{} FROM {t}", many("[]"))),
        (
            "arrays",
            format!("SELECT x::{}int{} FROM {t}", many("array<"), many(">")),
        ),
        ("interval", format!("SELECT {} '1 day'", many("INTERVAL "))),
        ("explain", format!("{} SELECT 1", many("EXPLAIN "))),
        ("like", format!("SELECT x{} FROM {t}", many(" LIKE 'a'"))),
        (
            "at time zone",
            format!("SELECT x{} FROM {t}", many(" AT TIME ZONE 'UTC'")),
        ),
        (
            "values",
            format!(
                "SELECT count(*) FROM (VALUES {})",
                numbered(&|i| format!("({i})"), ",")
            ),
        ),
        (
            "columns",
            format!("SELECT {} FROM {t}", numbered(&|i| format!("x+{i}"), ",")),
        ),
        (
            "groups",
            format!(
                "SELECT count(*) FROM {t} GROUP BY {}",
                numbered(&|i| format!("x+{i}"), ",")
            ),
        ),
        (
            "wide values",
            format!(
                "SELECT count(*) FROM (VALUES ({}))",
                numbered(&|i| i.to_string(), ",")
            ),
        ),
        (
            "ctes",
            format!(
                "WITH c0 AS (SELECT 1 AS x), {} SELECT count(*) FROM c{n}",
                numbered(
                    &|i| format!(
                        "c{} AS (SELECT a.x FROM c{i} a UNION ALL SELECT b.x FROM c{i} b)",
                        i + 1
                    ),
                    ","
                )
            ),
        ),
    ]
}
