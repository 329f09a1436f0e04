//! `hashtext(text)` and `hashtextextended(text, seed)`: the hashes by which programs choose
//! advisory locks (`pg_advisory_lock(hashtext('a job'))`). They are PostgreSQL's on little-endian
//! machines, so that clients of both servers choose the same locks.
//!
//! Source: Bob Jenkins' lookup3, as in PostgreSQL 15's `common/hashfn.c`.

use crate::functions::scalar::Take::{Int, Text};
use crate::functions::scalar::{Form, Function, Give, Value};

/// What the words begin with, beside the length.
const START: u32 = 0x9e37_79b9_u32.wrapping_add(3_923_095);
/// How far the words are rotated, step by step, after each twelve bytes.
const MIXED: [u32; 6] = [4, 6, 8, 16, 19, 4];
/// How far they are rotated at the end.
const LAST: [u32; 7] = [14, 11, 25, 16, 4, 14, 24];

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "hashtext",
            vec![Form::new(&[Text], Give::Int4, |row| {
                let [.., low] = hash(row.text(0).as_bytes(), 0);
                Ok(Value::Int(i64::from(low.cast_signed())))
            })],
        ),
        Function::new(
            "hashtextextended",
            vec![Form::new(&[Text, Int], Give::Int8, |row| {
                let [high, low] = hash(row.text(0).as_bytes(), row.int(1).cast_unsigned());
                let hash = (u64::from(high) << 32) | u64::from(low);
                Ok(Value::Int(hash.cast_signed()))
            })],
        ),
    ]
}

/// The upper and the lower half of the hash.
fn hash(bytes: &[u8], seed: u64) -> [u32; 2] {
    // The length of a text is below 2^30.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut words = [START.wrapping_add(length); 3];
    if seed != 0 {
        let [high, low] = halves(seed);
        words = mixed(plus(words, [high, low, 0]));
    }
    let mut chunks = bytes.chunks_exact(12);
    for chunk in &mut chunks {
        words = mixed(plus(words, read(chunk)));
    }
    // The lowest byte of the third word is left free.
    let rest = chunks.remainder();
    let (two, third) = rest.split_at(rest.len().min(8));
    let mut last = [0; 12];
    last[..two.len()].copy_from_slice(two);
    last[9..9 + third.len()].copy_from_slice(third);
    let [mut a, mut b, mut c] = plus(words, read(&last));
    for turn in LAST {
        c = (c ^ b).wrapping_sub(b.rotate_left(turn));
        (a, b, c) = (b, c, a);
    }
    [a, b]
}

fn halves(seed: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = seed.to_be_bytes();
    [
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    ]
}

/// Three words from twelve bytes.
fn read(bytes: &[u8]) -> [u32; 3] {
    let word = |at: usize| {
        let byte = |place: usize| u32::from(bytes[at + place]) << (8 * place);
        byte(0) | byte(1) | byte(2) | byte(3)
    };
    [word(0), word(4), word(8)]
}

fn plus(words: [u32; 3], others: [u32; 3]) -> [u32; 3] {
    let [a, b, c] = words;
    let [x, y, z] = others;
    [a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z)]
}

fn mixed([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for turn in MIXED {
        a = a.wrapping_sub(c) ^ c.rotate_left(turn);
        c = c.wrapping_add(b);
        (a, b, c) = (b, c, a);
    }
    [a, b, c]
}
