//! Which functions of doubles does Rust compute itself, with another last digit than PostgreSQL?
//!
//! PostgreSQL calls the C library, and so do the methods of `f64`, but for these. Not here: `cbrt`,
//! which Rust's runtime defines, too, rounded correctly (as glibc's from 2.41 on).

// SAFETY: C99 declares these functions so; they take any double and touch no memory but errno.
unsafe extern "C" {
    pub(super) safe fn asinh(x: f64) -> f64;
    pub(super) safe fn acosh(x: f64) -> f64;
    pub(super) safe fn atanh(x: f64) -> f64;
}
