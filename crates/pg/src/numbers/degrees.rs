//! Trigonometric functions in degrees, exact where PostgreSQL's are (at multiples of 30, 45 and
//! 60).
//!
//! The formulas are those of PostgreSQL's `float.c`.

/// The sine of 0 to 30 degrees.
fn sine_to_30(x: f64) -> f64 {
    let thirty = 30_f64.to_radians().sin();
    (x.to_radians().sin() / thirty) / 2.0
}

/// The cosine of 0 to 60 degrees.
fn cosine_to_60(x: f64) -> f64 {
    let sixty = 1.0 - 60_f64.to_radians().cos();
    1.0 - ((1.0 - x.to_radians().cos()) / sixty) / 2.0
}

/// The sine of 0 to 90 degrees.
fn sine_to_90(x: f64) -> f64 {
    if x <= 30.0 {
        sine_to_30(x)
    } else {
        cosine_to_60(90.0 - x)
    }
}

/// The cosine of 0 to 90 degrees.
fn cosine_to_90(x: f64) -> f64 {
    if x <= 60.0 {
        cosine_to_60(x)
    } else {
        sine_to_30(90.0 - x)
    }
}

/// The equivalent angle between 0 and 90 degrees, and the signs of sine and cosine.
fn first_quadrant(x: f64) -> (f64, f64, f64) {
    let x = x % 360.0;
    let (mut x, mut sine) = if x < 0.0 { (-x, -1.0) } else { (x, 1.0) };
    let mut cosine = 1.0;
    if x > 180.0 {
        x = 360.0 - x;
        sine = -sine;
    }
    if x > 90.0 {
        x = 180.0 - x;
        cosine = -cosine;
    }
    (x, sine, cosine)
}

pub(super) fn sine(x: f64) -> f64 {
    let (angle, sign, _) = first_quadrant(x);
    sign * sine_to_90(angle)
}

pub(super) fn cosine(x: f64) -> f64 {
    let (angle, _, sign) = first_quadrant(x);
    sign * cosine_to_90(angle)
}

pub(super) fn tangent(x: f64) -> f64 {
    let (angle, sine, cosine) = first_quadrant(x);
    let one = sine_to_90(45.0) / cosine_to_90(45.0);
    let value = (sine_to_90(angle) / cosine_to_90(angle)) / one;
    // Adding 0 turns -0 into 0.
    sine * cosine * value + 0.0
}

pub(super) fn cotangent(x: f64) -> f64 {
    let (angle, sine, cosine) = first_quadrant(x);
    let one = cosine_to_90(45.0) / sine_to_90(45.0);
    let value = (cosine_to_90(angle) / sine_to_90(angle)) / one;
    sine * cosine * value + 0.0
}

pub(super) fn arc_sine(x: f64) -> f64 {
    if x < 0.0 {
        return -arc_sine(-x);
    }
    if x <= 0.5 {
        (x.asin() / 0.5_f64.asin()) * 30.0
    } else {
        90.0 - (x.acos() / 0.5_f64.acos()) * 60.0
    }
}

pub(super) fn arc_cosine(x: f64) -> f64 {
    if x < 0.0 {
        return 90.0 + arc_sine(-x);
    }
    if x <= 0.5 {
        90.0 - (x.asin() / 0.5_f64.asin()) * 30.0
    } else {
        (x.acos() / 0.5_f64.acos()) * 60.0
    }
}

/// Converts an arc tangent to degrees.
pub(super) fn of_tangent(radians: f64) -> f64 {
    (radians / 1_f64.atan()) * 45.0
}
