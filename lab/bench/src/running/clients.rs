//! Which client sends which query, and when?
//!
//! Idea: a client starts at a given time and sends its queries one after the other. It sends each
//! query when the preceding one has been answered and the client has thought. Streams, two queries
//! some time apart, and open arrivals are all clients.
//! Not here: the queries (`workload`), the engine (`arena.rs`), what the times mean (the caller).

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::answer::Answer;
use super::arena::{Arena, answer};
use crate::error::{BenchError, Result};
use crate::progress::{OnProgress, Progress};

/// One client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// When it starts, counted from the start of the run.
    pub(crate) start: Duration,
    pub(crate) asks: Vec<Ask>,
}

/// One query of a client.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// How long the client thinks before it sends the query.
    pub(crate) think: Duration,
    /// The query's label in traces and errors.
    pub(crate) label: String,
    pub(crate) sql: Arc<str>,
}

impl Ask {
    /// A query without thinking time.
    pub(crate) fn new(label: impl Into<String>, sql: &str) -> Self {
        Self {
            think: Duration::ZERO,
            label: label.into(),
            sql: sql.into(),
        }
    }
}

/// One query, answered.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    /// When it was sent, counted from the start of the run.
    pub(crate) start: Duration,
    /// From sending the query to its last row.
    pub(crate) latency: Duration,
    pub(crate) answer: Answer,
}

/// Runs all clients; returns their answers, client by client.
///
/// Cancel safety: dropping the future cancels all queries.
///
/// # Errors
/// The first query that fails; the others are cancelled.
pub(crate) async fn run(
    arena: &Arc<Arena>,
    clients: &[Client],
    on_progress: &OnProgress,
) -> Result<Vec<Done>> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for (number, client) in clients.iter().enumerate() {
        let (arena, client) = (Arc::clone(arena), client.clone());
        let on_progress = Arc::clone(on_progress);
        running.spawn(async move {
            sleep_until(start + client.start).await;
            let done = one(&arena, start, &client.asks, &on_progress).await;
            done.map(|done| (number, done))
        });
    }
    // Dropping the set aborts the other clients; the first error does so.
    let mut done: Vec<Vec<Done>> = clients.iter().map(|_| Vec::new()).collect();
    while let Some(client) = running.join_next().await {
        let (number, answered) =
            client.map_err(|error| BenchError::engine("a client", error))??;
        done[number] = answered;
    }
    Ok(done.into_iter().flatten().collect())
}

async fn one(
    arena: &Arena,
    start: Instant,
    asks: &[Ask],
    on_progress: &OnProgress,
) -> Result<Vec<Done>> {
    let mut done = Vec::with_capacity(asks.len());
    for ask in asks {
        if !ask.think.is_zero() {
            sleep(ask.think).await;
        }
        let sent = Instant::now();
        let batches = arena.run(&ask.label, &ask.sql).await?;
        let latency = sent.elapsed();
        done.push(Done {
            start: sent - start,
            latency,
            answer: answer(&batches)?,
        });
        on_progress(Progress::Advanced);
    }
    Ok(done)
}
