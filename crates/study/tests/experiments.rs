//! Promised: the experiments show what the paper says, as far as `docs/REPRODUCTION.md` says they do; a seed fixes what they show;
//! and every one of them can be drawn.
//!
//! Few seeds, so that it is fast: figures are not compared here, but sentences that hold with every seed.

use coscan_study::{Report, StudyError, experiment, experiments};

fn run(name: &str, seeds: u64) -> Report {
    experiment(name).expect("it exists").run(seeds)
}

/// Asserts that all claims hold but those that contain one of the texts.
fn holds_but_for(report: &Report, known: &[&str]) {
    let failed = report.failed();
    let failed = failed.filter(|claim| !known.iter().any(|text| claim.text.contains(text)));
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(!report.claims.is_empty());
}

#[test]
fn the_introductions_example() {
    holds_but_for(&run("coop-intro", 1), &[]);
}

#[test]
fn table_2_ranks_and_sentences() {
    // The range of six arrangements is too narrow for the paper's single one. Elevator's and relevance's total times are 3 % apart in
    // the paper, as the times of elevator's and attach's streams are here.
    let known = [
        "lies within",
        "total time (s): the policies rank",
        "relevance achieves the best",
        "elevator shows a further",
        "stream time (s): the policies rank",
    ];
    holds_but_for(&run("coop-table2", 6), &known);
}

#[test]
fn figure_4_has_the_patterns() {
    holds_but_for(&run("coop-fig4", 3), &[]);
}

#[test]
fn more_queries_share_more() {
    holds_but_for(
        &run("coop-fig7", 2),
        &["exceeds a factor of two over attach"],
    );
}

#[test]
fn columns_are_shared_as_rows_are() {
    // Ours lose to an elevator that the paper has not (`docs/REPRODUCTION.md`): by a factor of about 1.5, the paper's by 1.25.
    let known = [
        "lies within",
        "total time (s): the policies rank",
        "relevance loses slightly to elevator",
    ];
    holds_but_for(&run("coop-table3", 4), &known);
}

#[test]
fn smooth_scans_adapt() {
    holds_but_for(&run("smooth-density", 1), &[]);
    holds_but_for(&run("smooth-skew", 1), &[]);
}

#[test]
fn a_seed_fixes_a_report() {
    for name in ["coop-table2", "coop-table4"] {
        let (one, two) = (run(name, 1), run(name, 1));
        assert_eq!(one.rows, two.rows);
        assert_eq!(one.claims, two.claims);
    }
}

#[test]
fn every_figure_can_be_drawn() {
    for name in ["coop-intro", "coop-table2", "coop-fig4", "coop-table4"] {
        let svg = run(name, 1).svg().expect("it has a plot");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    }
}

#[test]
fn an_unknown_experiment_is_named_with_those_there_are() {
    let error = experiment("coop-table1").expect_err("there is none");
    assert!(matches!(error, StudyError::UnknownExperiment { .. }));
    let text = error.to_string();
    assert!(
        text.contains("coop-table1") && text.contains("coop-table2"),
        "{text}"
    );
    assert!(experiments().len() >= 10);
}
