//! A seeded generator (SplitMix64): the same seed gives the same numbers everywhere.

/// The generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that starts at `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// A small number below `end`.
    pub fn small(&mut self, end: u8) -> u8 {
        u8::try_from(self.below(u64::from(end))).unwrap_or_default()
    }

    /// Whether a thing happens that happens `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let at = self.below(from.len() as u64);
        from[usize::try_from(at).unwrap_or_default()].clone()
    }

    /// One of them, each as often as its weight says.
    pub fn weighted<T: Clone>(&mut self, from: &[(u64, T)]) -> T {
        let mut left = self.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, it) in from {
            if left < *weight {
                return it.clone();
            }
            left -= weight;
        }
        from[0].1.clone()
    }
}
