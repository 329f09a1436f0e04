//! How many values, and how many bytes, do the lengths of a delta-encoded page of strings claim?
//!
//! Idea: parquet 59.3 allocates memory for as many lengths as the page's own header claims, and
//! `DELTA_BYTE_ARRAY` repeats the front of one value in the next, so a page of a megabyte can
//! claim terabytes. The lengths are read here without storing them.
//! Not here: other encodings. Their number of values is in the page header, and parquet makes
//! their values one batch at a time.
//! Bounds: O(values), constant memory.
//! Source: parquet-format's Encodings.md, "Delta encoding" and "Delta Strings".

use parquet::basic::Encoding;

/// What a delta-encoded page of strings claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strings {
    pub(crate) values: u64,
    /// Their total bytes. Counted only for `DELTA_BYTE_ARRAY`: strings of other encodings have no
    /// more bytes than the page.
    pub(crate) bytes: u64,
}

/// What the values of a page claim, given without its levels. `None` if the page has another
/// encoding, or if the lengths are malformed: then parquet refuses the page too.
pub(crate) fn strings(encoding: Encoding, values: &[u8], values_max: u64) -> Option<Strings> {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => {
            let values = Lengths::new(values)?.left;
            Some(Strings { values, bytes: 0 })
        }
        Encoding::DELTA_BYTE_ARRAY => delta_byte_array(values, values_max),
        _ => None,
    }
}

fn delta_byte_array(bytes: &[u8], values_max: u64) -> Option<Strings> {
    let mut prefixes = Lengths::new(bytes)?;
    let values = prefixes.left;
    if values > values_max {
        return Some(Strings { values, bytes: 0 });
    }
    let mut end = Lengths::new(bytes)?;
    while end.next().is_some() {}
    let mut suffixes = Lengths::new(bytes.get(end.at..)?)?;
    // Suffixes without a prefix are counted too: parquet stores both lists before it compares them.
    let values = values.max(suffixes.left);
    let mut total: u64 = 0;
    while let (Some(prefix), Some(suffix)) = (prefixes.next(), suffixes.next()) {
        // Parquet refuses negative lengths.
        total = total.saturating_add(u64::from(prefix.unsigned_abs()));
        total = total.saturating_add(u64::from(suffix.unsigned_abs()));
    }
    Some(Strings {
        values,
        bytes: total,
    })
}

/// The numbers of a `DELTA_BINARY_PACKED` run of 32 bits.
struct Lengths<'a> {
    bytes: &'a [u8],
    /// Where the next block begins; after the last block, where it ended.
    at: usize,
    /// How many numbers are left.
    left: u64,
    first: bool,
    last: i32,
    min_delta: i32,
    /// Bit widths of the block's remaining mini blocks.
    widths: std::slice::Iter<'a, u8>,
    mini_blocks: usize,
    per_mini_block: u64,
    /// The current mini block: the numbers left in it, where its bits begin, their width, and the
    /// index of the next number.
    here: u64,
    bits_at: usize,
    width: u32,
    bit: u64,
}

impl<'a> Lengths<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let mut at = 0;
        let block = varint(bytes, &mut at)?;
        let mini_blocks = varint(bytes, &mut at)?;
        let left = varint(bytes, &mut at)?;
        let first = zigzag(varint(bytes, &mut at)?);
        let per_mini_block = block.checked_div(mini_blocks)?;
        Some(Self {
            bytes,
            at,
            left,
            first: true,
            last: truncated(first),
            min_delta: 0,
            widths: [].iter(),
            mini_blocks: usize::try_from(mini_blocks).ok()?,
            per_mini_block,
            here: 0,
            bits_at: at,
            width: 0,
            bit: 0,
        })
    }

    fn block(&mut self) -> Option<()> {
        let mut at = self.at;
        self.min_delta = truncated(zigzag(varint(self.bytes, &mut at)?));
        let widths = self.bytes.get(at..at.checked_add(self.mini_blocks)?)?;
        self.widths = widths.iter();
        at += self.mini_blocks;
        self.bits_at = at;
        // Mini blocks after the last number have no bytes.
        let mut left = self.left;
        for &width in widths {
            if left == 0 {
                break;
            }
            at = at.checked_add(self.mini_block_bytes(width)?)?;
            left = left.saturating_sub(self.per_mini_block);
        }
        self.at = at;
        self.mini_block()
    }

    fn mini_block_bytes(&self, width: u8) -> Option<usize> {
        usize::try_from(self.per_mini_block.checked_mul(u64::from(width))? / 8).ok()
    }

    fn mini_block(&mut self) -> Option<()> {
        self.bits_at += self.mini_block_bytes(u8::try_from(self.width).ok()?)?;
        let &width = self.widths.next()?;
        self.width = u32::from(width);
        (self.width <= 32).then_some(())?;
        self.here = self.per_mini_block;
        self.bit = 0;
        (self.here > 0).then_some(())
    }
}

impl Iterator for Lengths<'_> {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        self.left = self.left.checked_sub(1)?;
        if self.first {
            self.first = false;
            return Some(self.last);
        }
        if self.here == 0 {
            // The counts in the block's header include the number to be returned.
            self.left += 1;
            let more = if self.widths.len() > 0 {
                self.mini_block()
            } else {
                self.width = 0;
                self.block()
            };
            self.left = more.map_or(0, |()| self.left - 1);
            more?;
        }
        self.here -= 1;
        let delta = bits(self.bytes.get(self.bits_at..)?, self.bit, self.width)?;
        self.bit += u64::from(self.width);
        let delta = delta.cast_signed().wrapping_add(self.min_delta);
        self.last = self.last.wrapping_add(delta);
        Some(self.last)
    }
}

/// `width` bits from bit `at` on, the lowest bit first.
fn bits(bytes: &[u8], at: u64, width: u32) -> Option<u32> {
    if width == 0 {
        return Some(0);
    }
    let byte = usize::try_from(at / 8).ok()?;
    let end = usize::try_from((at + u64::from(width)).div_ceil(8)).ok()?;
    let mut word = [0; 8];
    let these = bytes.get(byte..end)?;
    word.get_mut(..these.len())?.copy_from_slice(these);
    let value = u64::from_le_bytes(word) >> (at % 8);
    let mask = (1_u64 << width) - 1;
    u32::try_from(value & mask).ok()
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Parquet refuses values that do not fit.
#[allow(clippy::cast_possible_truncation)]
fn truncated(value: i64) -> i32 {
    value as i32
}
