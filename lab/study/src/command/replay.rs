//! `coscan sim replay`: does the core still make the decisions that a log recorded?

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use crate::error::StudyError;

/// Options of `coscan sim replay`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// A log that `--record` or `coscan sim chaos --record` wrote.
    file: PathBuf,
}

/// Replays the log and prints the result.
///
/// # Errors
/// The file is no log, is damaged, or the core makes another decision; the error then names the
/// event.
pub(crate) fn run(options: &Options) -> Result<(), StudyError> {
    let path = &options.file;
    let failed = |source| StudyError::Replay {
        path: path.clone(),
        source,
    };
    let file = File::open(path).map_err(|error| failed(error.into()))?;
    let begun = Instant::now();
    let replayed = coscan_sim::replay(BufReader::new(file)).map_err(failed)?;
    println!(
        "{}: {} events, {} actions, all the same ({:.1} s of the core's time, replayed in {:.2} s)",
        path.display(),
        replayed.events,
        replayed.actions,
        replayed.time.0 as f64 / 1e9,
        begun.elapsed().as_secs_f64(),
    );
    if replayed.cut_off {
        println!("The log was cut off; its last event may lack actions.");
    }
    Ok(())
}
