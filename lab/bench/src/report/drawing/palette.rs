//! Which colour means what, on light and on dark paper?
//!
//! Idea: two families of hues that colour-blind readers can distinguish (blue: FAST, orange:
//! SLOW). In each family the strength grows with the range: the query that reads everything stands
//! out most. Policies and access paths have their own hues, `relevance` and `smooth` the
//! strongest, and so have the sizes of reads. Colours are custom properties, so a page follows the
//! reader's theme by itself.

use std::fmt::Write as _;

/// Light paper and dark paper.
type Pair = (&'static str, &'static str);

/// The part of the style sheet that depends on the classes of the run: `--class-0` and so on, in
/// the order of `classes`.
pub(in crate::report) fn properties(classes: &[String]) -> String {
    let (mut light, mut dark) = (String::new(), String::new());
    for (index, class) in classes.iter().enumerate() {
        let family: Vec<&String> = classes
            .iter()
            .filter(|c| c.chars().next() == class.chars().next())
            .collect();
        let rank = family.iter().position(|c| *c == class).unwrap_or(0);
        let part = if family.len() > 1 {
            rank as f64 / (family.len() - 1) as f64
        } else {
            1.0
        };
        let (light_ends, dark_ends) = if class.starts_with('F') { FAST } else { SLOW };
        // Writing to a string cannot fail.
        let _ = write!(light, "--class-{index}:{};", blend(light_ends, part));
        let _ = write!(dark, "--class-{index}:{};", blend(dark_ends, part));
    }
    for (name, (on_light, on_dark)) in POLICIES.into_iter().chain(PATHS).chain(READS) {
        let _ = write!(light, "--{name}:{on_light};");
        let _ = write!(dark, "--{name}:{on_dark};");
    }
    format!(":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}")
}

/// The name of a policy's custom property; unknown policies share one.
pub(in crate::report) fn policy(name: &str) -> &str {
    let name = name.replace('+', "-");
    POLICIES
        .iter()
        .find(|(known, _)| *known == name)
        .map_or("other", |(known, _)| known)
}

/// The colour at `part` of the way between two colours, in sRGB.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Between two bytes.
fn blend((from, to): (u32, u32), part: f64) -> String {
    let channel = |shift: u32| {
        let (a, b) = (f64::from(from >> shift & 255), f64::from(to >> shift & 255));
        (a + (b - a) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(16), channel(8), channel(0))
}

/// (weakest, strongest) on light paper, then on dark paper.
const FAST: ((u32, u32), (u32, u32)) = ((0x8f_c1e3, 0x0b_4a86), (0x3f_7fae, 0xa5_daff));
const SLOW: ((u32, u32), (u32, u32)) = ((0xf2_b872, 0xb0_3a0c), (0xa8_6a2c, 0xff_cf8f));
const POLICIES: [(&str, Pair); 9] = [
    ("normal", ("#8b8d94", "#8d929b")),
    ("attach", ("#8a63c9", "#b497ea")),
    ("pbm", ("#2f7fb8", "#6db4e6")),
    ("pbm-sampling", ("#5a8f2e", "#9ccc6b")),
    ("elevator", ("#3c9a75", "#5fc79d")),
    ("relevance", ("#d0345c", "#ff6d8d")),
    ("relevance-fragments", ("#c24a1d", "#ff9a6b")),
    ("relevance-2007", ("#b5852b", "#e8bd6a")),
    ("other", ("#4a4d55", "#c5c8ce")),
];
/// Access paths; `smooth` is the strongest.
const PATHS: [(&str, Pair); 6] = [
    ("full", ("#6f7682", "#a3aab6")),
    ("index-plain", ("#8f5a17", "#c99a5b")),
    ("index", ("#c77b18", "#eab063")),
    ("sort", ("#3c9a75", "#5fc79d")),
    ("switch", ("#8a63c9", "#b497ea")),
    ("smooth", ("#d0345c", "#ff6d8d")),
];
/// The size of a read: a page, pages side by side, a chunk.
const READS: [(&str, Pair); 3] = [
    ("read-page", ("#d0345c", "#ff6d8d")),
    ("read-pages", ("#e59a1f", "#f2bd62")),
    ("read-chunk", ("#2f7fb8", "#6db4e6")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_range_of_a_family_has_its_strongest_colour() {
        let classes = ["F-01", "F-100", "S-10"].map(str::to_owned);
        let css = properties(&classes);
        assert!(
            css.contains("--class-0:#8fc1e3;--class-1:#0b4a86;--class-2:#b03a0c;"),
            "{css}"
        );
        assert!(css.contains("prefers-color-scheme:dark"));
    }
}
