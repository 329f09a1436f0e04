//! A run as one page to read, keep and send: `report.html`.
//!
//! Idea: one file, no script, nothing fetched, so that it still opens from a mail in ten years.
//! Pictures are inline SVG; colours follow the reader's light or dark theme. Everything on the
//! page comes from [`CoopResults`], so any JSON file can be drawn. A [`Dashboard`], whose queries
//! share operators, and a [`Picture`] of index scans may be added. The page of the latter is
//! `smooth.rs`.
//! Not here: measuring (`coop.rs`) and the terminal's table (`table.rs`).
//! Source: the pictures of [CoopScans07 Figures 4, 5, Table 2].

mod accesses;
mod drawing;
mod jobs;
mod latency;
mod operators;
mod pages;
mod selectivity;
pub mod smooth;
mod tradeoff;
mod volume;

use std::fmt::Write as _;

use crate::dashboard::Dashboard;
use crate::results::{CoopResults, WITH_FRAGMENTS};
use crate::smooth::picture::Picture;
use crate::table::{BASELINE, class_latency, factor, figures};
use coscan_quantities as quantities;
use drawing::palette;

/// The text of the page besides the measurements.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// The command that made the run.
    pub command: String,
    /// Machine, version and date, by which a reader judges the figures.
    pub machine: String,
    /// How the run relates to the paper's, one paragraph each.
    pub paragraphs: Vec<String>,
}

/// The whole page, with the dashboard and the picture if given.
#[must_use]
pub fn render(
    results: &CoopResults,
    dashboard: Option<&Dashboard>,
    picture: Option<&Picture>,
    notes: &Notes,
) -> String {
    let title = format!("Coscan: {} queries, one read", query_count(results));
    let mut page = head(&title, &results.classes());
    opening(&mut page, results);
    tiles(&mut page, results);
    section(
        &mut page,
        "Which chunk was read when",
        "Each dot is one load, placed at its time and its chunk and coloured by the query it was chosen for. A lone scan draws a \
         slanted line. The dotted line is the last answer.",
        "wide",
        &format!("{}{}", legend(results), accesses::figure(results)),
    );
    for (name, policy) in results.policies_in_order() {
        if !policy.jobs.is_empty() {
            section(
                &mut page,
                &format!("Who computed what for whom under {}", escape(name)),
                "A chunk is worked on once for all queries of a class that want it. Left, each mark is such a job: its time and \
                 chunk, the colour of the query that began it, larger the more queries it served. Right, the queries in the \
                 order in which they came: a dot says for how many chunks the query of its column computed what the query of \
                 its row wanted; the diagonal is what a query computed for itself.",
                "wide",
                &format!("{}{}", jobs::legend(), jobs::figure(results, policy)),
            );
        }
    }
    page.push_str("<div class=\"pair\">\n");
    section(
        &mut page,
        "Throughput against latency",
        "Lower left is better. Throughput is the average time of a stream; a query's latency is divided by the time it \
         takes alone, with an empty buffer.",
        "",
        &tradeoff::figure(results),
    );
    section(
        &mut page,
        "Bytes read",
        "In brackets: times what at least one query needs, which no policy can undercut from an empty buffer. \
         “Each for itself” is what the queries would read with neither sharing nor a buffer.",
        "",
        &volume::figure(results),
    );
    page.push_str("</div>\n");
    section(
        &mut page,
        "Latency by class of query",
        "F is FAST (TPC-H Q6), S is SLOW (TPC-H Q1 with extra arithmetic); the number is the percentage of the table that it \
         reads. Dots are queries, bars are means, the dashed line is the time alone.",
        "wide",
        &latency::figure(results),
    );
    section(
        &mut page,
        "All figures",
        "The best of a row is bold. × compares with relevance.",
        "wide",
        &table(results),
    );
    if let Some(dashboard) = dashboard {
        page.push_str("<h1 class=\"next\">Queries with joins</h1>\n");
        who_shared(&mut page, dashboard);
    }
    if let Some(picture) = picture {
        page.push_str("<h1 class=\"next\">Scans by an index</h1>\n");
        pages::sections(&mut page, picture);
    }
    closing(&mut page, notes, &how_compared(results), WORKLOAD);
    page
}

/// The queries of a dashboard, and which queries ran the operators that served them.
fn who_shared(page: &mut String, dashboard: &Dashboard) {
    let device = dashboard.bandwidth.map_or_else(
        || "a device without a limit".to_owned(),
        |rate| format!("a device held to {}", quantities::rate(rate)),
    );
    let buffer = dashboard.buffer_bytes.map_or_else(String::new, |bytes| {
        format!("buffer {} · ", quantities::bytes(bytes))
    });
    let oracle = if dashboard.verified {
        ", and plain DataFusion's"
    } else {
        ""
    };
    let _ = write!(
        page,
        "<p class=\"lead\">{} viewers look at one dashboard. They come {} apart, and each asks {} queries of TPC-H, one after the \
         other, with one of {} sets of parameters each. The last answer comes after {}; with operators not shared after {}. \
         The rows are the same{oracle}.</p>\n<p class=\"facts\">TPC-H 1, 4, 6, 8, 12, 13, 14 and 19 · {device} · {buffer}nothing in \
         memory at first</p>\n",
        dashboard.viewers,
        quantities::seconds(dashboard.apart_s),
        dashboard.queries.len() / dashboard.viewers.max(1),
        dashboard.sets,
        quantities::seconds(dashboard.total_s),
        quantities::seconds(dashboard.unshared_total_s),
    );
    section(
        page,
        "Who shared what with whom",
        "Left, a grey line is a query of a viewer, from the question to the last row. A stroke comes from the query for which an \
         operator runs and ends, with a dot, at a query that takes its output instead of running the same itself; right of \
         the grey line, the output was kept. Right, the same from query to query, in the order of the rows on the left.",
        "wide",
        &format!(
            "{}{}",
            operators::legend(dashboard),
            operators::figure(dashboard)
        ),
    );
}

/// The page's beginning. Each of the `classes` of queries has its own colour.
fn head(title: &str, classes: &[String]) -> String {
    let mut page = String::with_capacity(512 << 10);
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n<main>\n",
        escape(title),
        include_str!("page.css"),
        palette::properties(classes),
    );
    page
}

/// The queries and the table.
fn opening(page: &mut String, results: &CoopResults) {
    let model = match results.model.as_str() {
        "nsm" => "row groups read whole (nsm)",
        "dsm" => "only the columns that are asked for read (dsm)",
        other => other,
    };
    let device = results.bandwidth.map_or_else(
        || "a device without a limit".to_owned(),
        |rate| format!("a device held to {}", quantities::rate(rate)),
    );
    let _ = write!(
        page,
        "<h1>Many queries, one read</h1>\n<p class=\"lead\">{} streams of {} queries over the same table, once under each scheduling \
         policy. The queries, the device and the buffer are the same each time; only the order of the reads differs{}.</p>\n\
         <p class=\"facts\">{} · {} in {} chunks · {} · buffer {} · {} · streams start {} apart · mix {} · seed {}</p>\n",
        results.streams,
        results.queries_per_stream,
        if results.policies.contains_key(WITH_FRAGMENTS) {
            ", and under the last one queries share the work above their scans too"
        } else {
            ""
        },
        escape(&results.table),
        quantities::bytes(results.table_bytes),
        results.chunks,
        escape(model),
        quantities::bytes(results.buffer_bytes),
        device,
        quantities::seconds(results.delay_s),
        escape(&results.mix),
        results.seed,
    );
}

/// Relevance compared with normal in three numbers, whichever is better.
fn tiles(page: &mut String, results: &CoopResults) {
    let (Some(ours), Some(base)) = (
        results.policies.get(BASELINE),
        results.policies.get("normal"),
    ) else {
        return;
    };
    let tiles = [
        (
            base.avg_stream_s / ours.avg_stream_s,
            "shorter streams than normal",
            format!(
                "{} instead of {}",
                quantities::seconds(ours.avg_stream_s),
                quantities::seconds(base.avg_stream_s)
            ),
        ),
        (
            base.avg_normalized_latency / ours.avg_normalized_latency,
            "lower latency than normal",
            format!(
                "{} instead of {} times the time alone",
                quantities::significant(ours.avg_normalized_latency),
                quantities::significant(base.avg_normalized_latency)
            ),
        ),
        (
            base.io_bytes as f64 / ours.io_bytes as f64,
            "fewer bytes read than normal",
            format!(
                "{} instead of {}",
                quantities::bytes(ours.io_bytes),
                quantities::bytes(base.io_bytes)
            ),
        ),
    ];
    page.push_str("<div class=\"tiles\">\n");
    for (ratio, what, detail) in tiles {
        if ratio.is_finite() {
            let _ = writeln!(
                page,
                "<div class=\"tile\"><b>{} ×</b><span>{what}</span><small>{}</small></div>",
                factor(ratio),
                escape(&detail)
            );
        }
    }
    page.push_str("</div>\n");
}

fn section(page: &mut String, title: &str, caption: &str, class: &str, content: &str) {
    let _ = write!(
        page,
        "<section><h2>{title}</h2>\n<p class=\"caption\">{caption}</p>\n<div class=\"card {class}\">{content}</div></section>\n"
    );
}

/// The classes' colours and how many queries each has.
fn legend(results: &CoopResults) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    let queries = results
        .policies
        .values()
        .next()
        .map_or(&[][..], |policy| &policy.queries);
    for (index, class) in results.classes().iter().enumerate() {
        let count = queries.iter().filter(|query| query.name == *class).count();
        let _ = write!(
            out,
            "<li><i style=\"background:var(--class-{index})\"></i>{} <span>({count})</span></li>",
            escape(class)
        );
    }
    out.push_str("</ul>");
    out
}

/// The comparison table, with the best value of each compared row in bold.
fn table(results: &CoopResults) -> String {
    let policies = results.policies_in_order();
    let mut out = String::from("<table><thead><tr><th></th>");
    for (name, _) in &policies {
        let style = palette::policy(name);
        let _ = write!(
            out,
            "<th style=\"color:var(--{style})\">{}</th>",
            escape(name)
        );
    }
    out.push_str("</tr></thead><tbody>");
    for figure in figures() {
        let values: Vec<f64> = policies
            .iter()
            .map(|(_, policy)| (figure.value)(policy))
            .collect();
        let base = results
            .policies
            .get(BASELINE)
            .map(figure.value)
            .filter(|base| *base > 0.0);
        row(
            &mut out,
            figure.name,
            &values,
            figure.show,
            figure.compare,
            base,
        );
    }
    let _ = write!(
        out,
        "<tr class=\"group\"><td colspan=\"{}\">mean latency by class</td></tr>",
        policies.len() + 1
    );
    for class in results.classes() {
        let alone = results.standalone.get(&class).copied().unwrap_or_default();
        let values: Vec<f64> = policies
            .iter()
            .map(|(_, policy)| class_latency(policy, &class).unwrap_or(f64::NAN))
            .collect();
        let base = results
            .policies
            .get(BASELINE)
            .and_then(|policy| class_latency(policy, &class));
        let name = format!("{class} (alone {})", quantities::seconds(alone));
        row(&mut out, &name, &values, quantities::seconds, true, base);
    }
    out.push_str("</tbody></table>");
    out
}

/// One row of the table. NaN means "no such query".
fn row(
    out: &mut String,
    name: &str,
    values: &[f64],
    show: fn(f64) -> String,
    compare: bool,
    base: Option<f64>,
) {
    let best = values
        .iter()
        .copied()
        .filter(|value| *value > 0.0)
        .fold(f64::MAX, f64::min);
    let _ = write!(out, "<tr><th>{}</th>", escape(name));
    for &value in values {
        if value.is_nan() {
            out.push_str("<td>–</td>");
            continue;
        }
        let class = if compare && value <= best {
            " class=\"best\""
        } else {
            ""
        };
        let _ = write!(out, "<td{class}>{}", escape(&show(value)));
        if let Some(base) = base.filter(|_| compare) {
            let _ = write!(out, " <small>{} ×</small>", factor(value / base));
        }
        out.push_str("</td>");
    }
    out.push_str("</tr>");
}

/// What makes the policies' figures comparable.
fn how_compared(results: &CoopResults) -> String {
    let oracle = if results.verified {
        " and with plain DataFusion"
    } else {
        ""
    };
    format!(
        "Every query's rows were compared between the policies{oracle}: they are the same. SLOW computes {} \
         extra sums for each row. CPU use is that of the whole process, of {} cores.",
        results.slow_arithmetic, results.cores
    )
}

/// How the run was made and can be repeated, the source of the experiment, and the page's end.
fn closing(page: &mut String, notes: &Notes, last_paragraph: &str, source: &str) {
    page.push_str("<section><h2>How this was run</h2>\n");
    for paragraph in notes
        .paragraphs
        .iter()
        .map(String::as_str)
        .chain([last_paragraph])
    {
        let _ = writeln!(page, "<p>{}</p>", escape(paragraph));
    }
    if !notes.command.is_empty() {
        let _ = writeln!(page, "<pre>{}</pre>", escape(&notes.command));
    }
    let machine = escape(&notes.machine);
    let _ = writeln!(
        page,
        "</section>\n<footer>{machine} {source}</footer>\n</main>\n</body>\n</html>"
    );
}

/// The source of the experiment.
const WORKLOAD: &str = "The workload and the first picture are those of Zukowski, Héman, Nes and Boncz, “Cooperative \
                        Scans: Dynamic Bandwidth Sharing in a DBMS”, VLDB 2007, section 5.";

fn query_count(results: &CoopResults) -> usize {
    results.streams * results.queries_per_stream
}

/// Text for HTML, in content and in attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{JobResults, PolicyResults, QueryResults};

    fn results() -> CoopResults {
        let mut results = CoopResults {
            streams: 1,
            queries_per_stream: 1,
            ..Default::default()
        };
        results.standalone.insert("F-01".to_owned(), 0.1);
        for (name, time) in [("normal", 3.0), ("relevance", 1.0)] {
            let mut policy = PolicyResults {
                io_bytes: 1000,
                queries: vec![QueryResults {
                    name: "F-01".to_owned(),
                    latency_s: time,
                    ..Default::default()
                }],
                trace: vec![(0.1, 0, 0), (0.2, 1, 0), (0.3, 9, 77)],
                jobs: vec![JobResults {
                    begun_s: 0.1,
                    ended_s: 0.2,
                    chunk: 3,
                    query: 0,
                    served: vec![0, 77],
                }],
                ..Default::default()
            };
            policy.summarize(&results.standalone);
            results.policies.insert(name.to_owned(), policy);
        }
        results
    }

    #[test]
    fn the_page_is_one_file_and_fetches_nothing() {
        let page = render(&results(), None, None, &Notes::default());
        for forbidden in ["http://", "https://", "<script", "url(", "@import", "src="] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert_eq!(
            page.matches("<section").count(),
            page.matches("</section>").count()
        );
        assert!(
            page.contains("3.00 ×"),
            "relevance is three times as fast as normal"
        );
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn names_cannot_break_the_page() {
        let mut results = results();
        results.table = "<script>alert(1)</script>&\"".to_owned();
        assert!(!render(&results, None, None, &Notes::default()).contains("<script"));
    }

    #[test]
    fn an_empty_run_still_makes_a_page() {
        let page = render(&CoopResults::default(), None, None, &Notes::default());
        assert!(page.ends_with("</html>\n") && !page.contains("NaN"));
    }
}
