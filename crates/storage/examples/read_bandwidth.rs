//! How fast does a local device read?
//!
//! `cargo run --release -p coscan-storage --example read_bandwidth -- [FOLDER] [MIB]` writes a
//! file there, reads it back in loads of 16 MiB, four at a time, with each engine, and then reads
//! random pages, one at a time.

#![allow(
    clippy::single_range_in_vec_init,
    reason = "a read takes a list of ranges"
)]

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use coscan_storage::device::{Device, LocalDevice, LocalEngine, LocalOptions};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

const LOAD: u64 = 16 << 20;
const PAGES: u64 = 2000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "/var/tmp".into()));
    let mib: u64 = arguments.next().map_or(Ok(1024), |mib| mib.parse())?;
    let mut scratch = tempfile::NamedTempFile::new_in(folder)?;
    let block: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    for _ in 0..mib {
        scratch.write_all(&block)?;
    }
    scratch.as_file().sync_all()?;
    for engine in [LocalEngine::Uring, LocalEngine::Positional] {
        for direct in [true, false] {
            let options = LocalOptions {
                engine,
                direct,
                ..LocalOptions::default()
            };
            measure(scratch.path(), &options).await?;
        }
    }
    Ok(())
}

async fn measure(path: &std::path::Path, options: &LocalOptions) -> Result<(), Box<dyn Error>> {
    let device = LocalDevice::open(path, options)?;
    let file = device.stat(&Path::from_absolute_path(path)?).await?;
    let (before, cpu) = (Instant::now(), cpu_time()?);
    futures::stream::iter((0..file.size).step_by(1 << 24))
        .map(|at| {
            let (device, file) = (&device, &file);
            async move { device.read(file, &[at..file.size.min(at + LOAD)]).await }
        })
        .buffered(4)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    let (took, cpu) = (before.elapsed(), cpu_time()?.saturating_sub(cpu));
    let before = Instant::now();
    for i in 0..PAGES {
        let page = (i * 7919 % (file.size >> 12)) << 12;
        device.read(&file, &[page..page + 4096]).await?;
    }
    let page = before.elapsed().as_secs_f64() / PAGES as f64;
    let meter = device.meter().snapshot();
    println!(
        "{}: {:.0} MB/s, {:.0} % of a core, {:.0} us a page; a request costs {} bytes",
        device.name(),
        file.size as f64 / 1e6 / took.as_secs_f64(),
        cpu.as_secs_f64() / took.as_secs_f64() * 100.0,
        page * 1e6,
        device.request_cost_bytes(),
    );
    println!("    {meter:?}");
    Ok(())
}

/// User and system time of this process, from `/proc/self/stat`, in ticks of 10 ms.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').ok_or("no command in stat")?.1;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}
