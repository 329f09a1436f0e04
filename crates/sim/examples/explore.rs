//! Table 2 with CPU costs, loads outstanding and waiting unit varied: a quick look at what the policies depend on.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers from the command line"
)]

use coscan_core::Policy;
use coscan_sim::{summarise, table2};

fn main() {
    let arg = |n: usize, d: f64| {
        std::env::args()
            .nth(n)
            .and_then(|a| a.parse().ok())
            .unwrap_or(d)
    };
    let (cpu, loads_max, wait_unit, seeds) = (arg(1, 1.0), arg(2, 1.0), arg(3, 1.0), arg(4, 5.0));
    for policy in [
        Policy::Normal,
        Policy::Attach,
        Policy::Elevator,
        Policy::Relevance,
    ] {
        let (mut stream, mut norm, mut total, mut used, mut loads) = (0., 0., 0., 0., 0.);
        for seed in 0..seeds as u64 {
            let mut e = table2(policy, seed);
            e.abm.loads_max = loads_max as usize;
            e.abm.wait_unit_ns = (wait_unit * 1e9) as u64;
            for q in e.streams.iter_mut().flat_map(|s| &mut s.queries) {
                q.cpu_ns_per_chunk = (q.cpu_ns_per_chunk as f64 * cpu) as u64;
            }
            let o = e.run();
            assert!(o.finished);
            let s = summarise(&e, &o);
            stream += s.stream_s;
            norm += s.normalized;
            total += s.total_s;
            used += s.cpu;
            loads += s.loads as f64;
        }
        let n = seeds;
        println!(
            "{policy:?}: stream {:.1} norm {:.2} total {:.1} cpu {:.2} loads {:.0}",
            stream / n,
            norm / n,
            total / n,
            used / n,
            loads / n
        );
    }
}
