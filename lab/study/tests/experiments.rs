//! Promised: a seed fixes the result of an experiment, every experiment can be drawn, and the
//! error for an unknown experiment names the known ones.
//!
//! Not here: the results (`as_committed.rs`).

use coscan_study::{Report, StudyError, experiment, experiments};

fn run(name: &str, seeds: u64) -> Report {
    experiment(name).expect("it exists").run(seeds)
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
    for name in [
        "coop-intro",
        "coop-table2",
        "coop-fig4",
        "coop-table4",
        "beyond-fragments",
    ] {
        let svg = run(name, 1).svg().expect("it has a plot");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    }
}

#[test]
fn the_error_for_an_unknown_experiment_names_the_known_ones() {
    let error = experiment("coop-table1").expect_err("there is none");
    assert!(matches!(error, StudyError::UnknownExperiment { .. }));
    let text = error.to_string();
    assert!(
        text.contains("coop-table1") && text.contains("coop-table2"),
        "{text}"
    );
    assert!(experiments().len() >= 10);
}
