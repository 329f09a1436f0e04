//! Records a core's events and actions to a log that can be replayed (`coscan sim replay`).
//!
//! Idea: lines (`coscan_core::log`) are collected under the pool's lock, where events have an
//! order, and passed in blocks to a thread that writes them, so that queries never wait for the
//! log's disk.
//! Not here: the format, the replay (coscan-core, coscan-sim).
//! Bounds: at most `BLOCKS_MAX` blocks wait to be written. When the disk is too slow for that, or
//! full, recording stops with one warning: a truncated log can be replayed, a log with a hole
//! cannot. A pool without a recorder pays nothing: it has no thread and formats nothing.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use coscan_core::{AbmConfig, Action, Event, EventError, Time, log as format};

/// Where pools write their logs: one log per pool, because a log describes one core.
///
/// Cheap to clone. Goes into [`crate::pool::PoolConfig::recorder`].
#[derive(Clone)]
pub struct Recorder {
    open: Arc<dyn Fn(usize) -> io::Result<Sink> + Send + Sync>,
    pools: Arc<AtomicUsize>,
}

type Sink = Box<dyn Write + Send>;

impl Recorder {
    /// Records to a file, which is created with the first pool; the second pool's log is `path`
    /// with `.1` added, and so on. (A process has a pool for each policy and storage model in
    /// use.)
    #[must_use]
    pub fn to_file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self::new(move |pool| {
            let mut path = path.clone().into_os_string();
            if pool > 0 {
                path.push(format!(".{pool}"));
            }
            Ok(Box::new(File::create(path)?) as Sink)
        })
    }

    /// Records each pool to the sink that `open` returns for the pool's number (from 0). Each sink
    /// has a thread that writes to it in blocks.
    #[must_use]
    pub fn new(open: impl Fn(usize) -> io::Result<Sink> + Send + Sync + 'static) -> Self {
        Self {
            open: Arc::new(open),
            pools: Arc::default(),
        }
    }

    /// Begins the next pool's log. Logs a warning and returns `None` if the log cannot be opened.
    pub(crate) fn begin(&self, config: &AbmConfig) -> Option<Recording> {
        let pool = self.pools.fetch_add(1, Ordering::Relaxed);
        let recording = (self.open)(pool).and_then(|sink| Recording::new(sink, config));
        match recording {
            Ok(recording) => Some(recording),
            Err(error) => {
                log::warn!("the log of buffer pool {pool} cannot be recorded: {error}");
                None
            }
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

/// One pool's log. Dropping it closes the log without waiting for the disk; [`Recording::finish`]
/// allows waiting.
pub(crate) struct Recording {
    lines: String,
    /// `None` once recording has stopped.
    blocks: Option<SyncSender<String>>,
    writer: Option<JoinHandle<()>>,
}

/// Lines are handed over in blocks of about this size.
const BLOCK_BYTES: usize = 64 << 10;
/// Blocks that may wait to be written: 16 MiB, some seconds of a busy engine.
const BLOCKS_MAX: usize = 256;

impl Recording {
    fn new(sink: Sink, config: &AbmConfig) -> io::Result<Self> {
        let (blocks, waiting) = sync_channel(BLOCKS_MAX);
        let writer = std::thread::Builder::new()
            .name("coscan-record".into())
            .spawn(move || write_all(sink, &waiting))?;
        let mut recording = Self {
            lines: String::new(),
            blocks: Some(blocks),
            writer: Some(writer),
        };
        recording.add(|lines| format::write_config(lines, config));
        Ok(recording)
    }

    pub(crate) fn event(&mut self, now: Time, event: &Event) {
        self.add(|lines| format::write_event(lines, now, event));
    }

    pub(crate) fn action(&mut self, action: &Action) {
        self.add(|lines| format::write_action(lines, action));
    }

    pub(crate) fn refusal(&mut self, refused: &EventError) {
        self.add(|lines| format::write_refusal(lines, refused));
    }

    fn add(&mut self, write: impl FnOnce(&mut String) -> std::fmt::Result) {
        if self.blocks.is_none() {
            return;
        }
        // Writing to a String cannot fail.
        let _ = write(&mut self.lines);
        if self.lines.len() >= BLOCK_BYTES {
            self.hand_over();
        }
    }

    /// Passes the collected lines to the writer's thread.
    pub(crate) fn hand_over(&mut self) {
        let Some(blocks) = &self.blocks else { return };
        if self.lines.is_empty() {
            return;
        }
        let block = std::mem::replace(&mut self.lines, String::with_capacity(BLOCK_BYTES * 5 / 4));
        match blocks.try_send(block) {
            Ok(()) => {}
            // The writer has already logged why.
            Err(TrySendError::Disconnected(_)) => self.stop(),
            Err(TrySendError::Full(_)) => {
                log::warn!("recording stops: the log's disk is too slow");
                self.stop();
            }
        }
    }

    fn stop(&mut self) {
        self.blocks = None;
        self.lines = String::new();
    }

    /// Closes the log; the returned thread ends once everything is written.
    pub(crate) fn finish(mut self) -> Option<JoinHandle<()>> {
        self.close();
        self.writer.take()
    }

    fn close(&mut self) {
        self.add(format::write_end);
        self.hand_over();
        self.stop();
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.close();
    }
}

/// Writes blocks until the channel closes or the sink fails.
fn write_all(mut sink: Sink, blocks: &Receiver<String>) {
    let write = |sink: &mut Sink, block: &str| {
        sink.write_all(block.as_bytes())?;
        sink.flush()
    };
    for block in blocks {
        if let Err(error) = write(&mut sink, &block) {
            log::warn!("recording stops: the log cannot be written: {error}");
            return;
        }
    }
}
