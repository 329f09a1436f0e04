//! A run of the smooth scan's micro-benchmark as one page.
//!
//! Like the other report: one file, no script, nothing fetched; everything on the page comes from
//! [`SmoothResults`].
//! Source: the pictures of [SmoothScan18 Figures 14, 15].

use std::fmt::Write as _;

use super::{Notes, closing, escape, head, pages, section, selectivity};
use crate::smooth::results::SmoothResults;
use crate::smooth::table::{device, ratio, time};
use crate::smooth::verdict::verdicts;

/// The whole page.
#[must_use]
pub fn render(results: &SmoothResults, notes: &Notes) -> String {
    let mut page = head("Coscan: smooth scans", &[]);
    page.push_str("<h1>One access path for every selectivity</h1>\n");
    // Writing to a string cannot fail, here and below.
    match &results.picture {
        Some(picture) => pages::sections(&mut page, picture),
        None => {
            let device = escape(&device(results));
            let _ = writeln!(page, "<p class=\"facts\">{device}</p>");
        }
    }
    let orders = [
        (false, "Rows in any order"),
        (true, "ORDER BY the indexed column"),
    ];
    let measured = |order_by: &bool| !results.selectivities(*order_by).is_empty();
    page.push_str("<div class=\"pair\">\n");
    for (order_by, title) in orders.iter().filter(|(order_by, _)| measured(order_by)) {
        section(
            &mut page,
            title,
            "From the query’s text to its last row, from an empty buffer. Lower is better; the scale is logarithmic.",
            "chart",
            &format!(
                "{}{}",
                legend(results),
                selectivity::figure(results, *order_by)
            ),
        );
    }
    page.push_str("</div>\n");
    let mut promises = String::new();
    for verdict in verdicts(results) {
        let _ = write!(promises, "<li>{}</li>", escape(&verdict.to_string()));
    }
    section(
        &mut page,
        "What was promised",
        "Each with the point that is nearest to breaking it.",
        "",
        &format!("<ul class=\"promises\">{promises}</ul>"),
    );
    for (order_by, title) in orders.iter().filter(|(order_by, _)| measured(order_by)) {
        section(
            &mut page,
            &format!(
                "All times: {}",
                title.to_lowercase().replace("order by", "ORDER BY")
            ),
            "The best of a row is bold. The last column compares the smooth scan with it.",
            "wide",
            &table(results, *order_by),
        );
    }
    closing(
        &mut page,
        notes,
        "Every query’s rows were compared with those that the table was made of: they are the same.",
        "The table and its query are those of Borovica-Gajic, Idreos, Ailamaki, Zukowski and Fraser, “Smooth Scan: robust access \
         path selection without cardinality estimation”, The VLDB Journal 2018, section 7.",
    );
    page
}

fn legend(results: &SmoothResults) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for path in results.paths() {
        let _ = write!(
            out,
            "<li><i style=\"background:var(--{path})\"></i>{path}</li>"
        );
    }
    out + "</ul>"
}

fn table(results: &SmoothResults, order_by: bool) -> String {
    let paths = results.paths();
    let mut out = String::from("<table><thead><tr><th>rows in the result</th>");
    for path in &paths {
        let _ = write!(out, "<th style=\"color:var(--{path})\">{path}</th>");
    }
    out.push_str("<th>smooth / best</th></tr></thead><tbody>");
    for selectivity in results.selectivities(order_by) {
        let best = results.best(order_by, selectivity).map(|(path, _)| path);
        let _ = write!(out, "<tr><th>{selectivity} %</th>");
        for path in &paths {
            let point = results.point(order_by, selectivity, path);
            let shown = point.map_or_else(|| "–".to_owned(), |point| time(point, results.limit_s));
            let class = if best == Some(*path) {
                " class=\"best\""
            } else {
                ""
            };
            let _ = write!(out, "<td{class}>{}</td>", escape(&shown));
        }
        let ratio = ratio(results, order_by, selectivity).unwrap_or_else(|| "–".to_owned());
        let _ = write!(out, "<td>{ratio}</td></tr>");
    }
    out.push_str("</tbody></table>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smooth::picture::Picture;
    use crate::smooth::results::Point;

    #[test]
    fn the_page_is_one_file_and_says_what_was_measured() {
        let point = |path: &str, time_s| Point {
            selectivity: 1.0,
            path: path.to_owned(),
            limit: true,
            time_s,
            ..Point::default()
        };
        let results = SmoothResults {
            limit_s: 9.0,
            points: vec![
                point("full", Some(2.0)),
                point("index", None),
                point("smooth", Some(1.0)),
            ],
            picture: Some(Picture::default()),
            ..SmoothResults::default()
        };
        let page = render(&results, &Notes::default());
        for forbidden in [
            "http://", "https://", "<script", "url(", "@import", "src=", "NaN", "inf",
        ] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        for (open, close) in [
            ("<svg", "</svg>"),
            ("<section", "</section>"),
            ("<div", "</div>"),
        ] {
            assert_eq!(page.matches(open).count(), page.matches(close).count());
        }
        for words in [
            "class=\"best\">1.00 s",
            "&gt; 9.00 s",
            "unproven: smooth is",
            "any order",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(
            !page.contains("ORDER BY the indexed column"),
            "it was not measured"
        );
    }

    #[test]
    fn an_empty_run_still_makes_a_page() {
        let page = render(&SmoothResults::default(), &Notes::default());
        assert!(page.ends_with("</html>\n") && !page.contains("NaN"));
    }
}
