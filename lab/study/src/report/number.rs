//! How are figures rounded for display?

/// The number rounded to about three significant digits; from 100 on to an integer.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.01 {
        format!("{value:.3}")
    } else {
        format!("{value:.2e}")
    }
}
