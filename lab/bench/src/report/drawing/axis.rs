//! Where does a value lie on a picture, and which values get a tick?
//!
//! Idea: a scale is a pure map from a domain to pixels, and its ticks are the round numbers (1, 2,
//! 5 × 10ⁿ) inside the domain. A linear scale always starts at 0: a bar or a distance that starts
//! elsewhere exaggerates differences.

use std::fmt::Write as _;

/// A map from values to pixels.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Scale {
    kind: Kind,
    domain: (f64, f64),
    pixels: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Linear,
    Logarithmic,
}

impl Scale {
    /// From 0 to a little more than `max`.
    pub(in crate::report) fn linear(max: f64, pixels: (f64, f64)) -> Self {
        let max = if max.is_finite() && max > 0.0 {
            max
        } else {
            1.0
        };
        Self {
            kind: Kind::Linear,
            domain: (0.0, max),
            pixels,
        }
    }

    /// From `min` to `max`, both widened to the next round number.
    pub(in crate::report) fn logarithmic(min: f64, max: f64, pixels: (f64, f64)) -> Self {
        let max = if max.is_finite() && max > 0.0 {
            max
        } else {
            1.0
        };
        let min = if min.is_finite() && min > 0.0 {
            min.min(max)
        } else {
            max / 10.0
        };
        let low = round_numbers(min)
            .rfind(|tick| *tick <= min * 1.0001)
            .unwrap_or(min);
        let high = round_numbers(max)
            .find(|tick| *tick >= max * 0.9999)
            .unwrap_or(max);
        let high = if high > low { high } else { low * 10.0 };
        Self {
            kind: Kind::Logarithmic,
            domain: (low, high),
            pixels,
        }
    }

    /// The pixel of `value`; values outside the domain are clamped to its ends.
    pub(in crate::report) fn at(&self, value: f64) -> f64 {
        let (low, high) = self.domain;
        let value = if value.is_finite() {
            value.clamp(low, high)
        } else {
            low
        };
        let part = match self.kind {
            Kind::Linear => value / high,
            Kind::Logarithmic => (value / low).ln() / (high / low).ln(),
        };
        self.pixels.0 + part * (self.pixels.1 - self.pixels.0)
    }

    /// Round values inside the domain, about one for each `spacing` pixels.
    pub(in crate::report) fn ticks(&self, spacing: f64) -> Vec<f64> {
        let (low, high) = self.domain;
        let wanted = ((self.pixels.1 - self.pixels.0).abs() / spacing).max(1.0);
        match self.kind {
            Kind::Linear => {
                let step = round_numbers(high / wanted)
                    .find(|step| *step * wanted >= high * 0.9999)
                    .unwrap_or(high);
                (0..TICKS_MAX)
                    .map(|n| f64::from(n) * step)
                    .take_while(|tick| *tick <= high * 1.0001)
                    .collect()
            }
            Kind::Logarithmic => {
                let all: Vec<f64> = round_numbers(low)
                    .chain(round_numbers(high))
                    .filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001)
                    .chain(decades(low, high))
                    .collect();
                let mut all: Vec<f64> = all;
                all.sort_by(f64::total_cmp);
                all.dedup_by(|a, b| (*a / *b - 1.0).abs() < 1e-6);
                if all.len() as f64 <= wanted * 1.5 {
                    return all;
                }
                all.retain(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-6);
                all
            }
        }
    }
}

/// 1, 2, 5 × 10ⁿ from a decade below `value` to a decade above it, ascending.
fn round_numbers(value: f64) -> std::vec::IntoIter<f64> {
    let decade = value.max(f64::MIN_POSITIVE).log10().floor();
    let mut numbers = Vec::with_capacity(9);
    for power in [decade - 1.0, decade, decade + 1.0] {
        for digit in [1.0, 2.0, 5.0] {
            numbers.push(digit * 10_f64.powf(power));
        }
    }
    numbers.into_iter()
}

/// 1, 2, 5 × 10ⁿ over all of `low..=high`.
fn decades(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let first = low.log10().floor();
    (0..TICKS_MAX)
        .map(move |n| 10_f64.powf(first + f64::from(n)))
        .take_while(move |decade| *decade <= high)
        .flat_map(|decade| [decade, 2.0 * decade, 5.0 * decade])
        .filter(move |tick| *tick >= low * 0.999 && *tick <= high * 1.001)
}

/// One `text` element. `class` chooses its style, `anchor` is `start`, `middle` or `end`.
pub(in crate::report) fn text(
    out: &mut String,
    class: &str,
    anchor: &str,
    x: f64,
    y: f64,
    text: &str,
) {
    let text = crate::report::escape(text);
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        r#"<text class="{class}" text-anchor="{anchor}" x="{x:.1}" y="{y:.1}">{text}</text>"#
    );
}

/// One straight line.
pub(in crate::report) fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = write!(
        out,
        r#"<line class="{class}" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
        from.0, from.1, to.0, to.1
    );
}

/// A number on an axis, with as few digits as distinguish neighbouring ticks.
pub(in crate::report) fn tick_label(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// More ticks than any axis shows, to bound the loops.
const TICKS_MAX: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_start_at_zero() {
        let scale = Scale::linear(36.4, (0.0, 800.0));
        assert_eq!(
            scale.ticks(100.0),
            [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0]
        );
        assert!((scale.at(18.2) - 400.0).abs() < 1e-9);
        assert!(
            (scale.at(1e9) - 800.0).abs() < 1e-9,
            "values outside stay on the picture"
        );
    }

    #[test]
    fn logarithmic_domains_are_widened_to_round_numbers() {
        let scale = Scale::logarithmic(0.03, 27.0, (0.0, 900.0));
        let ticks = scale.ticks(60.0);
        assert!((ticks[0] - 0.02).abs() < 1e-9 && (ticks[ticks.len() - 1] - 50.0).abs() < 1e-6);
        assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
        assert!(scale.at(0.02).abs() < 1e-6 && (scale.at(50.0) - 900.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_to_show_is_no_reason_to_panic() {
        for scale in [
            Scale::linear(0.0, (0.0, 10.0)),
            Scale::linear(f64::NAN, (0.0, 10.0)),
            Scale::logarithmic(0.0, 0.0, (0.0, 10.0)),
            Scale::logarithmic(1.0, 1.0, (0.0, 10.0)),
        ] {
            assert!(scale.at(f64::NAN).is_finite() && scale.at(0.5).is_finite());
            assert!(!scale.ticks(50.0).is_empty());
        }
        assert_eq!(tick_label(0.0), "0");
        assert_eq!(tick_label(0.05), "0.05");
        assert_eq!(tick_label(200.0), "200");
    }
}
