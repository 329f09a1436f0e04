//! Promised: the experiments give the figures and claims in `docs/results`, one by one.
//!
//! Requests, bytes and virtual times count what the core decided. So this test also detects
//! changes of its decisions: no clock is read, so the test cannot flake. A claim that is excused
//! fails here once it holds.
//!
//! To accept an intended change, run `coscan sim run X --json FILE`, then `docs/tools/take.py
//! SECTION/X FILE`; the commit says why.
//! Not here: `coop-fig8`, which depends on the machine that runs it.

use std::fs;
use std::path::{Path, PathBuf};

use coscan_study::{Report, experiment, experiments};
use serde_json::Value;

/// Figures are committed with six digits.
const OFF_MAX: f64 = 1e-5;

/// The experiment that depends on the machine.
const MEASURED: &str = "coop-fig8";

/// `docs/results/*/NAME.json`.
fn committed_path(name: &str) -> Option<PathBuf> {
    let results = Path::new("../../docs/results");
    let sections = fs::read_dir(results).expect("docs/results is there");
    let mut paths = sections
        .flatten()
        .map(|section| section.path().join(format!("{name}.json")));
    paths.find(|path| path.is_file())
}

fn committed(name: &str) -> Value {
    let path = committed_path(name).expect("every experiment has a result in docs/results");
    let text = fs::read(path).expect("it was just found");
    let mut result: Value = serde_json::from_slice(&text).expect("it is JSON");
    result["report"].take()
}

/// A line for each figure or claim that differs.
fn differences(report: &Report, committed: &Value) -> Vec<String> {
    let mut differing = Vec::new();
    let rows = committed["rows"].as_array().expect("a report has rows");
    let claims = committed["claims"].as_array().expect("a report has claims");
    if rows.len() != report.rows.len() || claims.len() != report.claims.len() {
        differing.push("other rows or claims than are committed".to_owned());
    }
    for (row, was) in report.rows.iter().zip(rows) {
        if was["label"] != row.label.as_str() {
            differing.push(format!("{} is {} there", row.label, was["label"]));
        }
        for (what, is) in [("ours", row.ours), ("p05", row.p05), ("p95", row.p95)] {
            let was = was[what].as_f64().expect("figures are numbers");
            if (is - was).abs() > OFF_MAX * is.abs().max(was.abs()) {
                differing.push(format!("{}: {what} is {is}, was {was}", row.label));
            }
        }
    }
    for (claim, was) in report.claims.iter().zip(claims) {
        let mutation = serde_json::to_value(&claim.mutation).expect("it is text");
        let same = was["text"] == claim.text.as_str() && was["holds"] == claim.holds;
        if !same || was.get("mutation").unwrap_or(&Value::Null) != &mutation {
            let (holds, evidence) = (claim.holds, &claim.evidence);
            differing.push(format!(
                "{}: holds {holds} ({evidence}), was {was}",
                claim.text
            ));
        }
    }
    differing
}

fn check(name: &str) {
    let committed = committed(name);
    let seeds = committed["seeds"].as_u64().expect("a report has its seeds");
    let report = experiment(name).expect("it exists").run(seeds);
    let differing = differences(&report, &committed);
    assert!(
        differing.is_empty(),
        "{name}: docs/tools/take.py commits what is meant\n{}",
        differing.join("\n")
    );
}

macro_rules! as_committed {
    ($($test:ident: $experiment:literal;)*) => {
        $(#[test] fn $test() { check($experiment); })*

        #[test]
        fn every_experiment_is_compared() {
            for experiment in experiments() {
                let known = [$($experiment,)* MEASURED];
                assert!(known.contains(&experiment.name), "{} is not compared", experiment.name);
            }
        }
    };
}

as_committed! {
    intro: "coop-intro";
    fig2: "coop-fig2";
    table2: "coop-table2";
    fig4: "coop-fig4";
    fig5: "coop-fig5";
    fig6: "coop-fig6";
    fig7: "coop-fig7";
    table3: "coop-table3";
    table4: "coop-table4";
    mixes: "beyond-mixes";
    bounds: "beyond-bounds";
    fragments: "beyond-fragments";
    worst: "smooth-worst";
    density: "smooth-density";
    skew: "smooth-skew";
    rahm4a: "rahm-fig4a";
    rahm4b: "rahm-fig4b";
    rahm5: "rahm-fig5";
    rahm6a: "rahm-fig6a";
    rahm6b: "rahm-fig6b";
    rahm7a: "rahm-fig7a";
    rahm7b: "rahm-fig7b";
    rahm8: "rahm-fig8";
    rahm9: "rahm-fig9";
    rahm_scale: "rahm-scale";
    rahm_variants: "rahm-variants";
}

#[test]
fn a_changed_figure_and_a_changed_claim_are_reported() {
    let committed = committed("coop-intro");
    let mut report = experiment("coop-intro").expect("it exists").run(1);
    assert_eq!(differences(&report, &committed), Vec::<String>::new());
    report.rows[0].ours *= 1.001;
    report.claims[0].holds = false;
    assert_eq!(differences(&report, &committed).len(), 2);
}
