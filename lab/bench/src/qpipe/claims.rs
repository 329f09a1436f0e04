//! Does the run show what the paper shows?
//!
//! Each claim is decided by points of this run. A claim without points is left out.

use coscan_study::Claim;

use super::results::Point;
use super::variant::{APART, ISOLATED, NO_OPERATORS, SCANS_ALONE, SHARED, Variant};
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
    claims.extend(one_client(points));
    claims.extend(throughput(points));
    claims.extend(every_number(points));
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

/// A client alone shares nothing, so that both arms do the same work. Fails with *ground.rs: the
/// arm with tables of its own has what isolated execution has*: the faults that [`ISOLATED`] has as
/// a baseline.
fn one_client(points: &[Point]) -> Option<Claim> {
    let one = of(points, THROUGHPUT, SHARED).find(|point| point.clients == 1)?;
    let ratio = one.qph / beside(points, one, APART)?.qph;
    let isolated = beside(points, one, ISOLATED).map(|without| {
        let ratio = factor(one.qph / without.qph);
        format!(" ({ratio} over isolated, which is more than sharing)")
    });
    let text = "1 client: within 10 % of the throughput on tables of its own";
    let ours = factor(ratio) + &isolated.unwrap_or_default();
    let holds = (0.9..=1.1).contains(&ratio);
    Some(Claim::of_figure(THROUGHPUT, text, "–", ours, holds))
}

/// Does not hold on the engine, whose isolated clients share the buffer and decoded arrays.
fn throughput(points: &[Point]) -> Option<Claim> {
    let most = of(points, THROUGHPUT, SHARED).max_by_key(|point| point.clients)?;
    let [apart, isolated] = [APART, ISOLATED].map(|variant| beside(points, most, variant));
    let ratios = [most.qph / apart?.qph, most.qph / isolated?.qph];
    let text = format!(
        "{} clients: at least 2.2 times the throughput with nothing shared, apart or isolated",
        most.clients
    );
    let ours = format!(
        "{} over apart, {} over isolated, which reads {:.1} MB/s",
        factor(ratios[0]),
        factor(ratios[1]),
        isolated?.io_bytes as f64 / isolated?.total_s / 1e6
    );
    // For the baseline the paper gives a curve but no number.
    let paper = "2 (over DBMS X)";
    let holds = ratios.iter().all(|ratio| *ratio >= 2.2);
    Some(Claim::of_figure(THROUGHPUT, text, paper, ours, holds))
}

/// Every point of the paper's axis counts: a number of clients that is not measured in both arms
/// makes the claim fail. Fails with *claims.rs: the arms are exchanged*. (`APART` has the policy of
/// `SHARED`, so that no policy can make it fail.)
fn every_number(points: &[Point]) -> Option<Claim> {
    let ratio = |point: &Point| {
        let apart = beside(points, point, APART)?;
        Some((point.clients, point.qph / apart.qph))
    };
    let ratios: Vec<_> = of(points, THROUGHPUT, SHARED).filter_map(ratio).collect();
    let (least, _) = range(ratios.iter().map(|(_, ratio)| *ratio))?;
    let measured = |clients: &usize| ratios.iter().any(|(of, _)| of == clients);
    let count = (1..=CLIENTS).filter(measured).count();
    let text =
        format!("1 to {CLIENTS} clients: never below 0.95 of the throughput on their own tables");
    let ours = format!("{} at {count} of {CLIENTS} points", factor(least));
    let holds = count == CLIENTS && least >= 0.95;
    Some(Claim::of_figure(THROUGHPUT, text, "1", ours, holds))
}

/// A think time that is not measured in both arms makes the claim fail. Fails with *claims.rs: the
/// arms are exchanged in Figure 13*.
fn response(points: &[Point]) -> Option<Claim> {
    let shared: Vec<&Point> = of(points, THINKING, SHARED).collect();
    let ratios = shared
        .iter()
        .filter_map(|point| Some(point.mean_s / beside(points, point, APART)?.mean_s));
    let ratios: Vec<f64> = ratios.collect();
    let (least, most) = range(ratios.iter().copied())?;
    let text = "at no think time is the mean response time above that on their own tables";
    let ours = format!(
        "{} to {} at {} of {} points",
        factor(least),
        factor(most),
        ratios.len(),
        shared.len()
    );
    let holds = ratios.len() == shared.len() && most <= 1.0;
    Some(Claim::of_figure(
        THINKING,
        text.to_owned(),
        "below",
        ours,
        holds,
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

/// The end of the paper's axis in Figure 12.
const CLIENTS: usize = 12;

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

    fn mix(variant: Variant, clients: usize, qph: f64) -> Point {
        Point {
            clients,
            qph,
            io_bytes: 50_000_000,
            ..point(THROUGHPUT, variant, 0.0, 1.0)
        }
    }

    #[test]
    fn a_baseline_that_differs_for_one_client_is_seen() {
        let points = |apart| {
            let one = [(ISOLATED, 100.0), (APART, apart), (SHARED, 121.0)];
            one.map(|(variant, qph)| mix(variant, 1, qph))
        };
        let same = &claims(&points(120.0))[0];
        assert!(same.holds && same.evidence.starts_with("1.01 (1.21 over isolated"));
        let differs = &claims(&points(100.0))[0];
        assert!(!differs.holds && differs.evidence.starts_with("1.21 "));
    }

    #[test]
    fn throughput_counts_at_every_number_of_clients_and_over_both_baselines() {
        let at = |clients: usize, isolated, shared| {
            let all = [(ISOLATED, isolated), (APART, 100.0), (SHARED, shared)];
            all.map(|(variant, qph)| mix(variant, clients, qph))
        };
        let mut points: Vec<Point> = (1..12).flat_map(|n| at(n, 100.0, 100.0)).collect();
        let few = claims(&points);
        assert!(few[0].holds && !few[1].holds && !few[2].holds);
        assert_eq!(few[2].evidence, "1.00 at 11 of 12 points");
        points.extend(at(12, 110.0, 250.0));
        let all = claims(&points);
        assert!(all[1..].iter().all(|claim| claim.holds), "{all:?}");
        let ours = "2.50 over apart, 2.27 over isolated, which reads 50.0 MB/s";
        assert_eq!(all[1].evidence, ours);
        let mut lacking = points.clone();
        lacking.retain(|point| point.clients != 5 || point.variant != APART.name);
        let lacking = &claims(&lacking)[2];
        assert!(!lacking.holds && lacking.evidence.ends_with("at 11 of 12 points"));
        for point in &mut points {
            if point.variant == SHARED.name {
                point.qph /= 1.2;
            }
        }
        let slower = claims(&points);
        assert!(slower.iter().all(|claim| !claim.holds), "{slower:?}");
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
