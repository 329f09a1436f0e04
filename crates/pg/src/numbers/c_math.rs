//! Functions of doubles for which Rust's result differs from PostgreSQL's in the last digit.
//!
//! PostgreSQL calls the C library, and so do the methods of `f64`, except these. Rust's runtime
//! defines a correctly rounded `cbrt` of its own (as glibc does from 2.41 on), which hides the C
//! library's from the linker; so `cbrt` is looked up by name at the first call.

use std::mem::transmute;
use std::sync::OnceLock;

// SAFETY: C99 declares these functions in this way; they accept any double and touch no memory but
// errno.
unsafe extern "C" {
    pub(super) safe fn asinh(x: f64) -> f64;
    pub(super) safe fn acosh(x: f64) -> f64;
    pub(super) safe fn atanh(x: f64) -> f64;
}

/// The C library's cube root, or Rust's if the program has no such library.
pub(super) fn cbrt(x: f64) -> f64 {
    type Cbrt = extern "C" fn(f64) -> f64;
    static FOUND: OnceLock<Cbrt> = OnceLock::new();
    extern "C" fn of_rust(x: f64) -> f64 {
        x.cbrt()
    }
    let found = FOUND.get_or_init(|| {
        // SAFETY: the name ends with a zero byte, and the search starts with the program's
        // libraries.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"cbrt".as_ptr()) };
        if symbol.is_null() {
            return of_rust;
        }
        // SAFETY: C99 declares `cbrt` in this way, and a library that is linked is not unloaded.
        unsafe { transmute::<*mut libc::c_void, Cbrt>(symbol) }
    });
    found(x)
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use std::ffi::CStr;

    use super::cbrt;

    /// Before 2.41, the last digit of glibc's result may be off; that of Rust's never is.
    #[test]
    fn cbrt_is_the_c_librarys() {
        // SAFETY: glibc returns a static string.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        let version = version.to_str().unwrap();
        let minor: u32 = version.split('.').nth(1).unwrap().parse().unwrap();
        let expected = if minor < 41 {
            1.357_208_808_297_453_2
        } else {
            1.357_208_808_297_453_4
        };
        assert_eq!(cbrt(2.5).to_bits(), f64::to_bits(expected), "{version}");
    }
}
