//! Does the run show what the paper shows?
//!
//! Each claim is decided by points of this run. A claim without points is left out.

use coscan_study::Claim;

use super::results::Point;
use super::variant::{ISOLATED, NO_OPERATORS, SCANS_ALONE, SHARED, Variant};
use super::{HASH_JOIN, MERGE_JOIN, OPEN, SCANS, SORT_MERGE, THINKING, THROUGHPUT};
use crate::table::factor;

pub(crate) fn claims(points: &[Point]) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(bytes_saved(points, SCANS_ALONE));
    claims.extend(bytes_saved(points, SHARED));
    for figure in [MERGE_JOIN, SORT_MERGE, HASH_JOIN] {
        for what in names(points, figure) {
            claims.extend(speed_up(points, figure, what));
            claims.extend(no_loss(points, figure, what));
        }
    }
    claims.extend(throughput(points));
    claims.extend(response(points));
    claims.extend(open(points));
    claims
}

/// The bytes that eight clients save when they start a fifth of a scan apart.
fn bytes_saved(points: &[Point], variant: Variant) -> Option<Claim> {
    let fifth = |point: &&Point| point.interarrival.is_some_and(|i| (i - 0.2).abs() < 1e-9);
    let mut of = of(points, SCANS, variant);
    let ours = of.find(|point| point.clients == 8 && fifth(point))?;
    let without = beside(points, ours, ISOLATED)?;
    let saved = 1.0 - ours.io_bytes as f64 / without.io_bytes.max(1) as f64;
    let text = format!(
        "8 clients of Q6 a fifth of a scan apart: {} save at least 63 % of the bytes read",
        if variant == SHARED {
            "scans, fragments and operators"
        } else {
            "shared scans alone"
        }
    );
    // The buffer serves queries that follow each other closely even without sharing. The bytes
    // that eight isolated queries read show how much of the saving that is.
    let alone = 1.0 - ours.io_bytes as f64 / ours.demand_bytes.max(1) as f64;
    let evidence = format!(
        "{:.0} %; of each by itself {:.0} %",
        100.0 * saved,
        100.0 * alone
    );
    Some(Claim::of_figure(
        SCANS,
        text,
        "63 %",
        evidence,
        saved >= 0.63,
    ))
}

/// The speed-up at points where the window is open and the second query is so far behind the first
/// that the buffer alone does not serve both. Where both start at once, the paper's baseline is no
/// slower either. Each of these points must have the satellites expected of it, so that broken
/// sharing makes the claim fail rather than vanish.
fn speed_up(points: &[Point], figure: &str, what: &str) -> Option<Claim> {
    let open = |point: &&Point| {
        let kept = point.buffer_bytes as f64 / point.touched_bytes.max(1) as f64;
        let expected = point.satellites_expected > 0;
        point.what == what && expected && point.interarrival.is_some_and(|i| i > kept)
    };
    let open: Vec<&Point> = of(points, figure, SHARED).filter(open).collect();
    let ratios = open.iter().filter_map(|point| {
        let without = beside(points, point, ISOLATED)?;
        Some(without.total_s / point.total_s)
    });
    let (least, most) = range(ratios)?;
    let as_expected = |point: &&&Point| point.satellites >= point.satellites_expected;
    let joined = open.iter().filter(as_expected).count();
    let text = format!(
        "{what}: a satellite at every point while the window is open, and at least twice as fast"
    );
    let ours = format!(
        "{} to {}; satellites at {joined} of {} points",
        factor(least),
        factor(most),
        open.len()
    );
    let holds = joined == open.len() && least >= 2.0;
    Some(Claim::of_figure(figure, text, "2", ours, holds))
}

/// The least speed-up at any time between the two queries, over isolated queries and over shared
/// scans and fragments alone.
fn no_loss(points: &[Point], figure: &str, what: &str) -> Option<Claim> {
    let all = of(points, figure, SHARED).filter(|point| point.what == what);
    let ratios = all.flat_map(|point| {
        let others = [ISOLATED, NO_OPERATORS].map(|variant| beside(points, point, variant));
        let others = others.into_iter().flatten();
        others.map(|other| other.total_s / point.total_s)
    });
    let (least, _) = range(ratios)?;
    let text = format!("{what}: never below 0.95 of the speed without");
    Some(Claim::of_figure(
        figure,
        text,
        "1",
        factor(least),
        least >= 0.95,
    ))
}

/// A policy reads ahead in its own way, so that even a single client is faster or slower under it,
/// which is not sharing. So the gain of one client is divided out.
fn throughput(points: &[Point]) -> Option<Claim> {
    let gain = |point: &Point| Some(point.qph / beside(points, point, ISOLATED)?.qph);
    let most = of(points, THROUGHPUT, SHARED).max_by_key(|point| point.clients)?;
    let one = of(points, THROUGHPUT, SHARED).find(|point| point.clients == 1)?;
    let (of_all, of_one) = (gain(most)?, gain(one)?);
    let ratio = of_all / of_one;
    let text = format!(
        "{} clients: at least 2.2 times the throughput with nothing shared, over what a client \
         alone gains",
        most.clients
    );
    let ours = format!(
        "{} ({} over {})",
        factor(ratio),
        factor(of_all),
        factor(of_one)
    );
    // For the baseline the paper gives a curve but no number.
    let paper = "2 (over DBMS X)";
    Some(Claim::of_figure(
        THROUGHPUT,
        text,
        paper,
        ours,
        ratio >= 2.2,
    ))
}

fn response(points: &[Point]) -> Option<Claim> {
    let ratios = of(points, THINKING, SHARED)
        .filter_map(|point| Some(point.mean_s / beside(points, point, ISOLATED)?.mean_s));
    let (least, most) = range(ratios)?;
    let text = "at no think time is the mean response time above that with nothing shared";
    let ours = format!("{} to {}", factor(least), factor(most));
    Some(Claim::of_figure(
        THINKING,
        text.to_owned(),
        "below",
        ours,
        most <= 1.0,
    ))
}

fn open(points: &[Point]) -> Option<Claim> {
    let shared = of(points, OPEN, SHARED).next()?;
    let ratio = shared.p95_s / beside(points, shared, ISOLATED)?.p95_s;
    let text = "arrivals at 1.5 times what isolated execution sustains: P95 at most 0.3 of its";
    Some(Claim::of_figure(
        OPEN,
        text.to_owned(),
        "–",
        factor(ratio),
        ratio <= 0.3,
    ))
}

fn of<'a>(points: &'a [Point], figure: &str, variant: Variant) -> impl Iterator<Item = &'a Point> {
    points
        .iter()
        .filter(move |point| point.figure == figure && point.variant == variant.name)
}

/// The same clients in another variant.
pub(crate) fn beside<'a>(
    points: &'a [Point],
    point: &Point,
    variant: Variant,
) -> Option<&'a Point> {
    let same = |other: &&Point| {
        other.variant == variant.name
            && (&other.figure, &other.what) == (&point.figure, &point.what)
            && other.clients == point.clients
            && (other.interarrival, other.think_s) == (point.interarrival, point.think_s)
    };
    points.iter().find(same)
}

/// The names of a figure's points, in the order of the points.
fn names<'a>(points: &'a [Point], figure: &str) -> Vec<&'a str> {
    let of = points.iter().filter(|point| point.figure == figure);
    let mut names: Vec<&str> = of.map(|point| point.what.as_str()).collect();
    names.dedup();
    names
}

/// The least and the largest value; None if there is no value.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((least, most)) => Some((value.min(least), value.max(most))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(figure: &str, variant: Variant, interarrival: f64, total_s: f64) -> Point {
        Point {
            figure: figure.to_owned(),
            what: "x".to_owned(),
            variant: variant.name.to_owned(),
            clients: 8,
            interarrival: Some(interarrival),
            total_s,
            ..Point::default()
        }
    }

    #[test]
    fn a_window_that_is_open_is_where_the_second_joined() {
        let mut points = Vec::new();
        for (interarrival, isolated, shared, satellites) in
            [(0.0, 1.0, 1.0, 1), (0.5, 2.1, 1.0, 1), (1.2, 2.0, 2.2, 0)]
        {
            points.push(point(MERGE_JOIN, ISOLATED, interarrival, isolated));
            points.push(Point {
                satellites,
                satellites_expected: u64::from(interarrival < 1.0),
                ..point(MERGE_JOIN, SHARED, interarrival, shared)
            });
        }
        let seen = claims(&points);
        let decided: Vec<_> = seen.iter().map(|c| (c.holds, &*c.evidence)).collect();
        let joined = "2.10 to 2.10; satellites at 1 of 1 points";
        assert_eq!(decided, [(true, joined), (false, "0.91")]);
        assert_eq!(seen[0].source.as_ref().unwrap().paper, "2");
        for point in &mut points {
            point.satellites = 0;
        }
        let broken = &claims(&points)[0];
        assert!(!broken.holds && broken.evidence.contains("at 0 of 1 points"));
    }

    #[test]
    fn what_one_client_gains_is_not_sharing() {
        let mix = |variant, clients, qph| Point {
            clients,
            qph,
            ..point(THROUGHPUT, variant, 0.0, 1.0)
        };
        let points = [
            mix(ISOLATED, 1, 100.0),
            mix(SHARED, 1, 121.0),
            mix(ISOLATED, 12, 100.0),
            mix(SHARED, 12, 242.0),
        ];
        let claims = claims(&points);
        assert_eq!(claims[0].evidence, "2.00 (2.42 over 1.21)");
        assert!(!claims[0].holds);
    }

    #[test]
    fn bytes_are_compared_at_a_fifth_of_a_scan() {
        let read = |variant, interarrival, io_bytes| Point {
            io_bytes,
            demand_bytes: 1000,
            ..point(SCANS, variant, interarrival, 1.0)
        };
        let points = [
            read(ISOLATED, 0.2, 100),
            read(SCANS_ALONE, 0.2, 37),
            read(SHARED, 0.2, 38),
            read(SHARED, 0.4, 1),
        ];
        let claims = claims(&points);
        let decided: Vec<_> = claims.iter().map(|c| (c.holds, &*c.evidence)).collect();
        assert_eq!(
            decided,
            [
                (true, "63 %; of each by itself 96 %"),
                (false, "62 %; of each by itself 96 %")
            ]
        );
    }

    #[test]
    fn what_was_not_measured_is_not_claimed() {
        assert!(claims(&[]).is_empty());
        assert!(claims(&[point(THROUGHPUT, SHARED, 0.0, 1.0)]).is_empty());
    }
}
