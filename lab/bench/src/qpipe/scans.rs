//! What do overlapping scans read?
//!
//! Each client runs TPC-H Q6 once, some time after its predecessor. Each query has its own
//! parameters, so that no two select the same rows: they have only the scan in common.
//! Source: [QPipe05 §5.1.1, Figure 8].

use super::ground::{Case, Ground, Query};
use super::results::{Point, QpipeResults};
use super::variant::{ISOLATED, SCANS_ALONE, SHARED};
use super::{QpipeOptions, SCANS, pairs};
use crate::error::Result;
use crate::progress::OnProgress;
use crate::random::Random;
use crate::workload::q6;

/// The numbers of clients.
const CLIENTS: [usize; 3] = [2, 4, 8];

pub(crate) async fn run(
    options: &QpipeOptions,
    on_progress: &OnProgress,
    results: &mut QpipeResults,
) -> Result<()> {
    let mut random = Random::new(options.seed);
    let most = CLIENTS.into_iter().max().unwrap_or(0);
    let query = |_| Query {
        name: "Q6".to_owned(),
        sql: q6(&mut random),
    };
    let queries = (0..most).map(query).collect();
    let tables = options.tables(&["lineitem"])?;
    let mut ground = Ground::new(options, on_progress, "Figure 8", tables, &[], queries).await?;
    let mut cases = Vec::new();
    for clients in CLIENTS {
        for interarrival in &options.interarrivals {
            let alone_s = ground.alone_s();
            cases.push(Case {
                point: Point {
                    figure: SCANS.to_owned(),
                    what: "Q6, parameters drawn".to_owned(),
                    clients,
                    interarrival_s: Some(interarrival * alone_s),
                    interarrival: Some(*interarrival),
                    alone_s,
                    ..Point::default()
                },
                clients: pairs::one_after_the_other(&ground, clients, interarrival * alone_s),
                variants: vec![ISOLATED, SCANS_ALONE, SHARED],
            });
        }
    }
    ground.measure(cases, results).await
}
