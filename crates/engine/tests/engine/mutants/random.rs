//! Random numbers that a seed determines.

/// splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A position in something of this length; 0 if it is empty.
    pub(crate) fn at(&mut self, length: usize) -> usize {
        self.below(length.max(1) as u64) as usize
    }

    /// Numbers that often break programs, or numbers near `known`.
    pub(crate) fn number(&mut self, known: i64) -> i64 {
        const EDGES: [i64; 18] = [
            0,
            1,
            -1,
            2,
            7,
            100,
            255,
            1 << 15,
            1 << 20,
            i32::MAX as i64,
            i32::MAX as i64 + 1,
            i32::MIN as i64,
            1 << 33,
            1 << 40,
            1 << 60,
            i64::MAX,
            i64::MIN,
            i64::MAX - 7,
        ];
        match self.below(8) {
            0 => known.wrapping_add(1),
            1 => known.wrapping_sub(1),
            2 => known.wrapping_mul(2),
            3 => known / 2,
            4 => known ^ (1 << self.below(62)),
            _ => EDGES[self.at(EDGES.len())],
        }
    }
}
