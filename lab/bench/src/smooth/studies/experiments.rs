//! The experiments besides the selectivities, with the claims that each must show.
//!
//! | experiment | question | source |
//! |---|---|---|
//! | `skew` | does a scan go back to single pages where results become rare? | Figure 20 |
//! | `cache` | what does it cost if rows waiting for their turn exceed the memory? | Figure 22 |
//! | `cliff` | how much more does one more row cost? | Figure 25 |
//! | `model` | does the cost model agree with the measurement? | Figure 24 |
//! | `together` | what do concurrent index scans read, with and without a shared buffer? | ours |
//!
//! Source: [SmoothScan18 §7.4 to §7.7].

use coscan_core::smooth::CostModel;
use coscan_study::Claim;

use super::experiment_run::{ExperimentOptions, Run};
use crate::error::Result;
use crate::progress::OnProgress;
use crate::smooth::outcome::figures::{Figure, Figures};
use crate::smooth::query::data::{COLUMNS, Keys, Spec, Table, VALUES, bound};
use crate::smooth::query::measure::{Bench, Case, Expected, Median, select};
use crate::smooth::query::paths::{self, INDEX, INDEX_PLAIN};
use crate::table::factor;

/// An experiment that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Figure 20.
    Skew,
    /// Figure 22.
    Cache,
    /// Figure 25.
    Cliff,
    /// Figure 24.
    Model,
    /// Concurrent queries.
    Together,
}

impl Experiment {
    fn name(self) -> &'static str {
        match self {
            Self::Skew => "skew",
            Self::Cache => "cache",
            Self::Cliff => "cliff",
            Self::Model => "model",
            Self::Together => "together",
        }
    }

    /// The table of the experiment.
    #[must_use]
    pub fn spec(self, options: &ExperimentOptions) -> Spec {
        let keys = match self {
            Self::Skew => Keys::Skewed,
            _ => Keys::Uniform,
        };
        Spec {
            keys,
            ..options.spec
        }
    }

    /// Runs the experiment on the table that [`Spec::ensure`] made for [`Self::spec`].
    ///
    /// # Errors
    /// As [`crate::smooth::run::run`].
    pub async fn run(
        self,
        options: &ExperimentOptions,
        table: &Table,
        on_progress: OnProgress,
    ) -> Result<Figures> {
        let run = Run {
            bench: Bench::new(table, options.device, options.limit, options.repeats),
            spec: self.spec(options),
            name: self.name(),
            options,
            table,
            on_progress,
        };
        run.bench.index(&run.on_progress).await?;
        match self {
            Self::Skew => run.skew().await,
            Self::Cache => run.cache().await,
            Self::Cliff => run.cliff().await,
            Self::Model => run.model().await,
            Self::Together => super::together::run(&run).await,
        }
    }
}

impl Run<'_> {
    async fn skew(&self) -> Result<Figures> {
        let smooth = |policy| vec![("access_path", "smooth"), ("smooth_policy", policy)];
        let kept = paths::kept_bytes(self.options.memory_bytes).to_string();
        let index = |kept| vec![("access_path", INDEX), ("index_cache", kept)];
        let ways = [
            ("full", vec![("access_path", "full")]),
            (INDEX_PLAIN, index("0")),
            (INDEX, index(kept.as_str())),
            ("sort", vec![("access_path", "sort")]),
            (ELASTIC, smooth("elastic")),
            (
                "smooth, selectivity increase",
                smooth("selectivity_increase"),
            ),
            ("smooth, greedy", smooth("greedy")),
        ];
        let cases: Vec<Case> = ways
            .iter()
            .map(|(label, settings)| self.case(label, 1, settings))
            .collect();
        let medians = self.measure(&cases).await?;
        let mut figures = self.figures(&[
            "time_s",
            "max_s",
            "pages",
            "pages_ratio",
            "requests",
            "read_bytes",
        ]);
        let holding = ways
            .iter()
            .position(|(label, _)| *label == "sort")
            .map_or(0, |at| medians[at].of.pages());
        for ((label, _), median) in ways.iter().zip(&medians) {
            let mut figure = Figure::measured(*label, median);
            let pages = match *label {
                "full" => self.table.pages,
                _ => median.of.pages(),
            };
            figure.set("pages", pages as f64);
            figure.set("pages_ratio", pages as f64 / holding.max(1) as f64);
            figures.points.push(figure);
        }
        skewed(&mut figures);
        Ok(figures)
    }

    async fn cache(&self) -> Result<Figures> {
        let all = bound(100.0);
        let ordered = |label: &str, bytes: &str| {
            let mut case = self.case(
                label,
                all,
                &[("access_path", "smooth"), ("smooth_cache", bytes)],
            );
            case.sql = select(all, true);
            if let Expected::Rows { ordered, .. } = &mut case.answer {
                *ordered = true;
            }
            case.memory_bytes = self.options.memory_bytes.max(IN_MEMORY * self.table.bytes);
            case
        };
        let mut caps = vec![None];
        caps.extend([80.0, 50.0, 25.0, 10.0, 5.0, CACHE_PERCENT].map(Some));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // Fractions of the file's size.
        let bytes = |percent: f64| (self.table.bytes as f64 * percent / 100.0) as u64;
        let label =
            |cap: Option<f64>| cap.map_or(UNLIMITED.to_owned(), |p| format!("{p} % of the table"));
        let mut cases: Vec<Case> = caps
            .iter()
            .map(|cap| {
                let value = cap.map_or(UNLIMITED.to_owned(), |p| bytes(p).to_string());
                ordered(&label(*cap), &value)
            })
            .collect();
        // A region of one page never becomes a scan. So every index entry is checked, and the
        // index names a page once per row of the page.
        let settings = [
            ("access_path", "smooth"),
            ("smooth_policy", "selectivity_increase"),
            ("smooth_region_max", "1"),
        ];
        cases.push(self.case(SINGLE_PAGES, all, &settings));
        let medians = self.measure(&cases).await?;
        let mut figures = self.figures(&[
            "time_s",
            "max_s",
            "time_ratio",
            "peak_bytes",
            "spills",
            "on_disk_ratio",
            "page_checks",
            "page_checks_ratio",
        ]);
        let in_memory = medians.first().and_then(Median::seconds);
        let mut over = None;
        for (cap, median) in caps.iter().zip(&medians) {
            let mut figure = Figure::measured(label(*cap), median);
            let peak = median.of.metric("result_cache_bytes_max");
            figure.set("peak_bytes", peak as f64);
            figure.set("spills", median.of.metric("result_cache_spills") as f64);
            let on_disk = median.of.metric("spilled_rows") as f64 / f64::from(self.spec.rows);
            figure.set("on_disk_ratio", on_disk);
            if let Some((time, in_memory)) = median.seconds().zip(in_memory) {
                figure.set("time_ratio", time / in_memory);
            }
            if let Some(percent) = cap {
                let part = peak as f64 / bytes(*percent).max(1) as f64;
                // A cache that reports no bytes was not measured.
                let part = if peak > 0 { part } else { f64::INFINITY };
                over = Some(part.max(over.unwrap_or(0.0)));
            }
            figures.points.push(figure);
        }
        if let Some(median) = medians.last() {
            figures.points.push(checks_of_pages(median));
        }
        let caps = caps.iter().map(|cap| label(*cap)).collect::<Vec<_>>();
        let spilling = spilling(&figures, &caps);
        figures.claims.push(spilling);
        let checks = figures.figure(SINGLE_PAGES, "page_checks_ratio");
        figures.at_most("the Result Cache is never over its budget", over, 1.0);
        figures.claims.push(Claim::new(
            "checks of the Page ID cache take less than 1 % of the time",
            checks.is_some_and(|share| share <= 0.01),
            checks.map_or_else(
                || "not measured".to_owned(),
                |share| format!("{:.2} %", 100.0 * share),
            ),
        ));
        Ok(figures)
    }

    async fn cliff(&self) -> Result<Figures> {
        // The estimate is the rows of 8.5 values: the ninth value exceeds it.
        let rows = f64::from(self.spec.rows);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // Below the table's rows.
        let estimate = (rows * (f64::from(CLIFF) - 0.5) / f64::from(VALUES)) as u64;
        let estimate = estimate.to_string();
        let bounds: Vec<u32> = (CLIFF - 4..CLIFF + 3).collect();
        let ways: [(&str, Vec<(&'static str, &str)>); 3] = [
            ("full", vec![("access_path", "full")]),
            (
                "switch",
                vec![("access_path", "switch"), ("smooth_estimate", &estimate)],
            ),
            ("smooth", vec![("access_path", "smooth")]),
        ];
        let label = |way: &str, bound: u32| format!("{way}, {}", percent(bound));
        let mut cases = Vec::new();
        for bound in &bounds {
            for (way, settings) in &ways {
                cases.push(self.case(&label(way, *bound), *bound, settings));
            }
        }
        let medians = self.measure(&cases).await?;
        let mut figures = self.figures(&["time_s", "max_s", "requests", "read_bytes"]);
        for (case, median) in cases.iter().zip(&medians) {
            figures
                .points
                .push(Figure::measured(case.label.clone(), median));
        }
        // The largest step from one value to the next, over the full scan's time.
        let steps = |way: &str| -> Option<f64> {
            let full = figures.figure(&label("full", CLIFF), "time_s")?;
            let time = |bound: u32| figures.figure(&label(way, bound), "time_s");
            let steps = bounds
                .windows(2)
                .map(|pair| Some((time(pair[1])? - time(pair[0])?) / full));
            steps
                .collect::<Option<Vec<f64>>>()?
                .into_iter()
                .reduce(f64::max)
        };
        let (switch, smooth) = (steps("switch"), steps("smooth"));
        figures.at_least(
            format!(
                "switch scan's cliff: from {} to {} of the rows a query takes longer by most of a full scan",
                percent(CLIFF - 1),
                percent(CLIFF)
            ),
            switch,
            0.75,
        );
        figures.at_most(
            "smooth scan has none: no step is larger than a quarter of a full scan",
            smooth,
            0.25,
        );
        Ok(figures)
    }

    async fn model(&self) -> Result<Figures> {
        let page_s = |bandwidth: u64| self.table.page_bytes as f64 / bandwidth.max(1) as f64;
        let Some(sequential) = self.bench.bandwidth.map(page_s) else {
            let mut figures = self.figures(&[]);
            figures.at_most(
                "the model needs a device of which prices are known (--device disk)",
                None,
                0.0,
            );
            return Ok(figures);
        };
        let rows = u64::from(self.spec.rows);
        let model = CostModel {
            rows,
            row_bytes: (COLUMNS * size_of::<i32>()) as u64,
            page_bytes: (self.spec.page_rows * COLUMNS * size_of::<i32>()) as u64,
            key_bytes: size_of::<i32>() as u64,
            random: sequential + self.bench.latency.as_secs_f64() * COLUMNS as f64,
            sequential,
            cpu: 0.0,
        };
        let bounds = MODEL_PERCENTS.map(bound);
        let ways = ["full", "smooth"];
        let label = |way: &str, bound: u32| format!("{way}, {}", percent(bound));
        let mut cases = Vec::new();
        for bound in bounds {
            for way in ways {
                cases.push(self.case(&label(way, bound), bound, &[("access_path", way)]));
            }
        }
        let medians = self.measure(&cases).await?;
        let mut figures = self.figures(&["time_s", "max_s", "model_s", "error_ratio"]);
        // `None` where a query has no time.
        let mut worst = [Some((0.0, String::new())), Some((0.0, String::new()))];
        for (at, (case, median)) in cases.iter().zip(&medians).enumerate() {
            let mut figure = Figure::measured(case.label.clone(), median);
            let share = f64::from(bounds[at / ways.len()]) / f64::from(VALUES);
            let predicted = match at % ways.len() {
                0 => model.full_scan().total(),
                _ => smooth_cost(&model, share),
            };
            figure.set("model_s", predicted);
            let worst = &mut worst[at % ways.len()];
            match median.seconds().map(|time| (time / predicted - 1.0).abs()) {
                None => *worst = None,
                Some(error) => {
                    figure.set("error_ratio", error);
                    if worst.as_ref().is_some_and(|(most, _)| error > *most) {
                        *worst = Some((error, case.label.clone()));
                    }
                }
            }
            figures.points.push(figure);
        }
        for (way, worst) in ways.iter().zip(worst) {
            figures.claims.push(within_model(way, worst));
        }
        Ok(figures)
    }
}

/// The claim about a way's largest error and the case that has it; `None`: a case has no time. The
/// case is not in the claim's text, by which runs are compared.
fn within_model(way: &str, worst: Option<(f64, String)>) -> Claim {
    let text = format!("{way}: the measurement is within 15 % of the model");
    let holds = worst.as_ref().is_some_and(|(error, _)| *error <= 0.15);
    let evidence = worst.map_or_else(
        || "not measured".to_owned(),
        |(error, at)| format!("{} at {at}", factor(error)),
    );
    Claim::new(text, holds, evidence)
}

/// The claims of Figure 20.
fn skewed(figures: &mut Figures) {
    // A scan that reads fewer pages than hold results did not use the index: its pages were
    // not counted.
    let pages = figures.figure(ELASTIC, "pages_ratio");
    let pages = pages.filter(|ratio| *ratio >= 1.0);
    figures.at_most(
        "elastic reads at most 1.2 times the pages that hold results",
        pages,
        1.2,
    );
    let others = ["full", INDEX_PLAIN, INDEX, "sort"];
    let best = others.map(|path| figures.figure(path, "time_s"));
    let best = best.into_iter().flatten().reduce(f64::min);
    let over = figures.figure(ELASTIC, "time_s").zip(best);
    figures.at_most(
        "elastic takes at most 1.2 times as long as the best of full, index and sort scan",
        over.map(|(time, best)| time / best),
        1.2,
    );
}

/// The model's cost of a smooth scan that knows the prices of pages. Where results are too rare
/// for reading the pages between them to pay off, the scan stays in mode 1 and fetches each page
/// that holds results; otherwise it is in mode 2 for all pages (eq. 16 to 27).
fn smooth_cost(model: &CostModel, selectivity: f64) -> f64 {
    let shape = model.shape();
    let pages = shape.pages as f64;
    let density = 1.0 - (1.0 - selectivity).powf(shape.rows_per_page as f64);
    let random = fetch_s(model, density);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Below the table's pages.
    let holding = (pages * density) as u64;
    if holding as f64 * random < pages * model.sequential {
        let apart = CostModel { random, ..*model };
        apart.smooth_scan([0, holding, 0]).total()
    } else {
        model.smooth_scan([0, 0, model.rows]).total()
    }
}

/// The mean time to fetch a page when this share of the pages is fetched, at random: a jump, as in
/// the paper; or, where that is cheaper, reading on through the pages since the last fetched one.
/// The distance to the last fetched page is geometric.
fn fetch_s(model: &CostModel, density: f64) -> f64 {
    let mut farther = 1.0;
    let mut seconds = 0.0;
    let mut reading_on = model.sequential;
    while reading_on < model.random {
        seconds += farther * density * reading_on;
        farther *= 1.0 - density;
        reading_on += model.sequential;
    }
    seconds + farther * model.random
}

/// The query with least memory, the last of these cases, against the fastest of all. Not against
/// all rows in memory: there each row's memory is new to the process, while with less memory the
/// same pages are used for range after range, and files of ranges are in the system's cache.
/// Fails with *`result_cache.rs`: the Result Cache has no bound of its own*, because no row is then
/// on disk.
fn spilling(figures: &Figures, cases: &[String]) -> Claim {
    let time = |label: &String| figures.figure(label, "time_s");
    let fastest = cases.iter().filter_map(time).reduce(f64::min);
    let least = cases.last();
    let ratio = least.and_then(time).zip(fastest);
    let ratio = ratio.map(|(time, fastest)| time / fastest);
    let on_disk = least.and_then(|label| figures.figure(label, "on_disk_ratio"));
    let on_disk = on_disk.unwrap_or(0.0);
    let text = format!(
        "with memory for {CACHE_PERCENT} % of the table most rows wait on disk, and it takes at \
         most 1.4 times as long as with the memory that suits it best"
    );
    let holds = on_disk >= 0.5 && ratio.is_some_and(|ratio| ratio <= 1.4);
    let ratio = ratio.map_or_else(|| "not measured".to_owned(), factor);
    let evidence = format!("{ratio}; {:.0} % of the rows on disk", 100.0 * on_disk);
    Claim::new(text, holds, evidence)
}

/// How many entries named pages that were already read, and the share of the query's time that all
/// checks took, as measured by the operator. No share if no entry was checked.
fn checks_of_pages(median: &Median) -> Figure {
    let mut figure = Figure::measured(SINGLE_PAGES, median);
    let checks = median.of.metric("index_entries_seen");
    figure.set("page_checks", checks as f64);
    if let Some(time) = median.seconds().filter(|_| checks > 0) {
        let checking = median.of.metric("page_check_time") as f64 / 1e9;
        figure.set("page_checks_ratio", checking / time);
    }
    figure
}

/// A bound as the share of the rows below it.
fn percent(bound: u32) -> String {
    let percent = f64::from(bound) / f64::from(VALUES) * 100.0;
    format!("{percent:.3} %")
}

const ELASTIC: &str = "smooth, elastic";
const UNLIMITED: &str = "unlimited";
/// Figure 22's other price: the Page ID cache where it is checked most often.
const SINGLE_PAGES: &str = "page by page, in any order";
/// The least memory in Figure 22.
const CACHE_PERCENT: f64 = 2.5;
/// Memory that holds all rows, as a multiple of the table's size on disk.
const IN_MEMORY: u64 = 4;
/// Queries up to this value have more rows than switch scan's estimate: 0.009 % of the rows, as in
/// the paper.
const CLIFF: u32 = 9;
/// Shares of the rows at which the model is compared.
const MODEL_PERCENTS: [f64; 8] = [0.001, 0.002, 0.1, 1.0, 5.0, 20.0, 50.0, 100.0];

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::smooth::DeviceKind;

    fn options() -> ExperimentOptions {
        ExperimentOptions {
            spec: Spec {
                rows: 120_000,
                page_rows: 128,
                seed: 5,
                keys: Keys::Uniform,
            },
            device: DeviceKind::Plain,
            memory_bytes: 64 << 20,
            repeats: 1,
            limit: Duration::from_secs(60),
        }
    }

    async fn figures(experiment: Experiment, options: &ExperimentOptions) -> Figures {
        let root = tempfile::tempdir().unwrap();
        let spec = experiment.spec(options);
        let table = spec.ensure(root.path(), |_| ()).await.unwrap();
        let figures = experiment.run(options, &table, Arc::new(|_| ())).await;
        let figures = figures.unwrap();
        let failed = figures.points.iter().find(|point| point.error.is_some());
        assert_eq!(failed, None);
        figures
    }

    /// Each experiment runs, and its rows are right (M1, M4). Times mean nothing at this size.
    #[tokio::test(flavor = "multi_thread")]
    async fn every_experiment_shows_its_figures() {
        for (experiment, points, claims) in [
            (Experiment::Skew, 7, 2),
            (Experiment::Cache, 8, 3),
            (Experiment::Cliff, 21, 2),
            (Experiment::Together, 4, 2),
        ] {
            let figures = figures(experiment, &options()).await;
            let found = (figures.points.len(), figures.claims.len());
            assert_eq!(found, (points, claims), "{figures:?}");
            let timed = |point: &Figure| point.figures.get("time_s").is_some_and(|s| *s > 0.0);
            assert!(figures.points.iter().all(timed), "{figures:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn memory_of_the_result_cache_is_kept() {
        // One batch of rows, 330 kB, is kept whatever the limit: a fortieth of this table is more
        // than that.
        let mut options = options();
        options.spec.rows = 1_000_000;
        let figures = figures(Experiment::Cache, &options).await;
        let [_, over, _] = figures.claims.as_slice() else {
            panic!("{figures:?}");
        };
        assert!(over.holds, "{over:?}");
        let spills = |label| figures.figure(label, "spills").unwrap();
        assert!(spills(UNLIMITED) < 1.0);
        // All entries but the first of each page are checked.
        let checks = figures.figure(SINGLE_PAGES, "page_checks").unwrap();
        assert!(checks > 900_000.0, "{checks}");
        assert!(figures.figure(SINGLE_PAGES, "page_checks_ratio").unwrap() > 0.0);
        let least = "2.5 % of the table";
        assert!(spills(least) > 0.0);
        assert!(figures.figure(least, "on_disk_ratio").unwrap() > 0.5);
    }

    #[test]
    fn spilling_is_compared_with_the_fastest_and_must_happen() {
        let claim = |[unlimited, half, least]: [f64; 3], on_disk| {
            let mut figures = Figures::new("cache", "a table".to_owned(), &[]);
            let times = [("all", unlimited), ("half", half), ("least", least)];
            for (label, time) in times {
                let mut figure = Figure {
                    label: label.to_owned(),
                    ..Figure::default()
                };
                figure.set("time_s", time);
                figure.set("on_disk_ratio", on_disk);
                figures.points.push(figure);
            }
            spilling(&figures, &["all", "half", "least"].map(str::to_owned))
        };
        let kept = claim([5.6, 4.0, 5.2], 0.97);
        assert!(kept.holds);
        assert_eq!(kept.evidence, "1.30; 97 % of the rows on disk");
        assert!(!claim([5.6, 4.0, 5.7], 0.97).holds);
        assert!(!claim([5.6, 4.0, 5.2], 0.0).holds, "nothing was spilled");
    }

    #[test]
    fn a_model_is_judged_by_its_worst_case_and_every_case_needs_a_time() {
        let judged = |worst: Option<(f64, &str)>| {
            within_model("full", worst.map(|(error, at)| (error, at.to_owned())))
        };
        let near = judged(Some((0.15, "full, 1.000 %")));
        let decided = (near.holds, &*near.evidence);
        assert_eq!(decided, (true, "0.15 at full, 1.000 %"));
        let far = judged(Some((0.23, "full, 5.000 %")));
        assert!(!far.holds && far.text == near.text);
        assert!(!judged(None).holds);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_model_needs_a_device_with_known_prices() {
        let plain = figures(Experiment::Model, &options()).await;
        assert!(plain.points.is_empty() && !plain.claims[0].holds);
        let disk = ExperimentOptions {
            device: DeviceKind::Disk {
                bandwidth: 50_000_000,
                latency: None,
            },
            ..options()
        };
        let figures = figures(Experiment::Model, &disk).await;
        assert_eq!((figures.points.len(), figures.claims.len()), (16, 2));
        // 120,000 rows of 40 bytes at 50 MB/s.
        let full = figures.figure("full, 100.000 %", "model_s").unwrap();
        assert!((0.09..0.11).contains(&full), "{full}");
    }

    #[test]
    fn a_page_near_the_one_before_costs_no_jump() {
        let model = CostModel {
            rows: 1_000,
            row_bytes: 40,
            page_bytes: 4_000,
            key_bytes: 4,
            random: 10.0,
            sequential: 1.0,
            cpu: 0.0,
        };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(fetch_s(&model, 1.0), 1.0));
        assert!(close(fetch_s(&model, 1e-12), 10.0));
        // The page is one to nine pages on; otherwise the device jumps.
        let half: f64 = (1..10).map(|k: i32| f64::from(k) * 0.5_f64.powi(k)).sum();
        assert!(close(fetch_s(&model, 0.5), half + 10.0 * 0.5_f64.powi(9)));
        // Where a jump costs as much as a page, every page costs that.
        let flat = CostModel {
            random: 1.0,
            ..model
        };
        assert!(close(fetch_s(&flat, 0.3), 1.0));
    }
}
