//! Promised: a parameter has its declared type, or the one that PostgreSQL infers from its use;
//! the type decides the columns and the rows; no value is truncated to the type that the statement
//! would have without it. `parameters.tsv` contains PostgreSQL's answers.

use std::net::SocketAddr;

use tokio_postgres::types::{ToSql, Type};

use crate::common::TestServer;
use crate::common::raw::RawClient;

fn type_of(name: &str) -> Type {
    match name {
        "-" => Type::UNKNOWN,
        "bool" => Type::BOOL,
        "int2" => Type::INT2,
        "int4" => Type::INT4,
        "int8" => Type::INT8,
        "float4" => Type::FLOAT4,
        "float8" => Type::FLOAT8,
        "numeric" => Type::NUMERIC,
        "text" => Type::TEXT,
        "varchar" => Type::VARCHAR,
        "bpchar" => Type::BPCHAR,
        "json" => Type::JSON,
        "jsonb" => Type::JSONB,
        "bytea" => Type::BYTEA,
        "uuid" => Type::UUID,
        "date" => Type::DATE,
        "time" => Type::TIME,
        "timestamp" => Type::TIMESTAMP,
        "timestamptz" => Type::TIMESTAMPTZ,
        "interval" => Type::INTERVAL,
        "numeric[]" => Type::NUMERIC_ARRAY,
        "int4[]" => Type::INT4_ARRAY,
        "int8[]" => Type::INT8_ARRAY,
        "text[]" => Type::TEXT_ARRAY,
        "varchar[]" => Type::VARCHAR_ARRAY,
        "bpchar[]" => Type::BPCHAR_ARRAY,
        "name[]" => Type::NAME_ARRAY,
        "uuid[]" => Type::UUID_ARRAY,
        "json[]" => Type::JSON_ARRAY,
        "jsonb[]" => Type::JSONB_ARRAY,
        other => panic!("{other}"),
    }
}

fn name_of(oid: u32) -> String {
    let pg_type = Type::from_oid(oid).unwrap();
    match pg_type.name().strip_prefix('_') {
        Some(element) => format!("{element}[]"),
        None => pg_type.name().to_owned(),
    }
}

/// A value in PostgreSQL's binary form; `None` if the test has no encoder for its type.
fn binary(pg_type: &Type, text: &str) -> Option<Vec<u8>> {
    let mut out = bytes::BytesMut::new();
    let encoded = match *pg_type {
        Type::BOOL if ["t", "f"].contains(&text) => (text == "t").to_sql(pg_type, &mut out),
        Type::INT2 => text.parse::<i16>().ok()?.to_sql(pg_type, &mut out),
        Type::INT4 => text.parse::<i32>().ok()?.to_sql(pg_type, &mut out),
        Type::INT8 => text.parse::<i64>().ok()?.to_sql(pg_type, &mut out),
        Type::FLOAT4 => text.parse::<f32>().ok()?.to_sql(pg_type, &mut out),
        Type::FLOAT8 => text.parse::<f64>().ok()?.to_sql(pg_type, &mut out),
        Type::TEXT | Type::VARCHAR | Type::JSON => text.to_sql(pg_type, &mut out),
        Type::JSONB => return Some([b"\x01", text.as_bytes()].concat()),
        Type::NUMERIC => return numeric(text),
        _ => return None,
    };
    encoded.ok()?;
    Some(out.to_vec())
}

/// Encodes a numeric below 10,000 with at most four digits after the point.
fn numeric(text: &str) -> Option<Vec<u8>> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i16 = whole.parse().ok().filter(|whole| *whole < 10_000)?;
    let groups = [whole, format!("{fraction:0<4}").parse().ok()?];
    let header = [2_i16, 0, 0, fraction.len() as i16];
    Some(
        header
            .iter()
            .chain(&groups)
            .flat_map(|n| n.to_be_bytes())
            .collect(),
    )
}

/// Removes trailing zeros after the point of each number: Arrow's decimals have a different
/// display scale.
fn comparable(answer: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for character in answer.chars().chain([' ']) {
        if character.is_ascii_digit() || character == '.' {
            word.push(character);
            continue;
        }
        let is_number = word.matches('.').count() == 1;
        let trimmed = word.trim_end_matches('0').trim_end_matches('.');
        out.push_str(if is_number { trimmed } else { &word });
        out.push(character);
        word.clear();
    }
    out.trim_end().to_owned()
}

fn differences(addr: SocketAddr) -> Vec<String> {
    let mut client = RawClient::connect(addr);
    let mut found = vec![];
    for line in include_str!("parameters.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let [types, values, sql, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let types: Vec<Type> = types.split(',').map(type_of).collect();
        let values: Vec<&str> = if values.starts_with('{') {
            vec![values]
        } else {
            values.split(',').collect()
        };
        let texts = values
            .iter()
            .map(|text| (*text != "NULL").then(|| text.as_bytes().to_vec()));
        let texts: Vec<_> = texts.collect();
        let encoded = types
            .iter()
            .zip(&values)
            .map(|(pg_type, text)| binary(pg_type, text));
        let encoded: Option<Vec<_>> = encoded.map(|value| value.map(Some)).collect();
        let oids: Vec<u32> = types
            .iter()
            .map(|pg_type| {
                if *pg_type == Type::UNKNOWN {
                    0
                } else {
                    pg_type.oid()
                }
            })
            .collect();
        for (format, values) in [(0, Some(texts)), (1, encoded)] {
            let Some(values) = values else { continue };
            client.prepare("", sql, &oids);
            let answer = client.run("", &values, format);
            let shown = if answer.error.is_some() {
                answer.shown()
            } else {
                let types: Vec<_> = answer
                    .columns
                    .iter()
                    .map(|(_, oid)| name_of(*oid))
                    .collect();
                format!("{} : {}", types.join(","), answer.shown())
            };
            if comparable(&shown) != comparable(expected) {
                found.push(format!(
                    "{sql} ({types:?} {values:?}, format {format})\n    PostgreSQL: {expected}\n    Coscan:     {shown}"
                ));
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_neither_truncated_nor_guessed() {
    let server = server().await;
    let found = tokio::task::spawn_blocking(move || differences(server.addr));
    let found = found.await.unwrap();
    assert!(
        found.is_empty(),
        "{} differences:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// Their texts would be compared as texts.
#[tokio::test(flavor = "multi_thread")]
async fn declared_types_that_coscan_lacks_are_refused() {
    let server = TestServer::start().await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        let mut shown = |pg_type: &Type, value: &[u8], format| {
            client.prepare("", "SELECT $1", &[pg_type.oid()]);
            client.run("", &[Some(value.to_vec())], format).shown()
        };
        for (lacking, text) in [
            (Type::TIMETZ, "10:00+02"),
            (Type::INET, "1.2.3.4"),
            (Type::MONEY, "5"),
            (Type::INT4_RANGE, "[1,5]"),
            (Type::INET_ARRAY, "{1.2.3.4}"),
        ] {
            let answer = shown(&lacking, text.as_bytes(), 0);
            assert!(answer.starts_with("error 0A000"), "{lacking}: {answer}");
        }
        for as_text in [Type::TEXT, Type::VARBIT, Type::REGCLASS] {
            assert_eq!(shown(&as_text, b"101", 0), "101", "{as_text}");
        }
        let array_from = |lower_bound: i32| {
            let numbers = [1, 0, 23, 2, lower_bound, 4, 7, 4, 8].map(i32::to_be_bytes);
            numbers.as_flattened().to_vec()
        };
        assert_eq!(shown(&Type::INT4_ARRAY, &array_from(1), 1), "{7,8}");
        let answer = shown(&Type::INT4_ARRAY, &array_from(0), 1);
        assert!(answer.starts_with("error 0A000"), "{answer}");
    });
    done.await.unwrap();
}

/// A server whose sessions see the table `people`.
async fn server() -> TestServer {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let session = engine.session();
    let people = "CREATE TABLE people AS SELECT CAST(id AS INT) AS id, name \
                  FROM (VALUES (1, 'Ada'), (2, 'Barbara'), (3, NULL)) AS v(id, name)";
    futures::TryStreamExt::try_collect::<Vec<_>>(session.sql(people).await.unwrap())
        .await
        .unwrap();
    TestServer::start_on_engine(&engine).await
}
