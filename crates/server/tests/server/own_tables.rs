//! Promised: a session's own tables behave like PostgreSQL's.
//!
//! | file | what is promised of |
//! |---|---|
//! | `changes.rs` | INSERT, UPDATE, DELETE and TRUNCATE |
//! | `checks.rs` | CHECK |
//! | `columns.rs` | ALTER TABLE |
//! | `created.rs` | CREATE TABLE: names, types, defaults and keys |
//! | `sequences.rs` | `serial` and identities |
//! | `settings.rs` | how long a setting lasts |
//! | `transactions.rs` | ROLLBACK and READ ONLY |
//! | `views.rs` | views of these tables, and DROP |

mod changes;
mod checks;
mod columns;
mod created;
mod sequences;
mod settings;
mod transactions;
mod views;

use crate::common::TestServer;
use crate::common::raw::RawClient;

/// Runs each statement, and compares its rows, or a part of its error.
pub(crate) async fn answers(script: &'static [(&'static str, &'static str)]) {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        for (sql, expected) in script {
            let answer = client.simple(sql);
            match expected.strip_prefix("error ") {
                Some(state) => assert!(answer.shown().contains(state), "{sql}: {}", answer.shown()),
                None => {
                    assert_eq!(answer.error, None, "{sql}");
                    assert_eq!(answer.shown(), *expected, "{sql}");
                }
            }
        }
    });
    done.await.unwrap();
}
