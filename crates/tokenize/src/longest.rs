//! Texts that a log cuts at one length, without a sign at their ends: several different ones are as long as none is
//! longer.

use xxhash_rust::xxh3::xxh3_64;

/// Different texts of the greatest length that are told apart: so many are no chance.
const DIFFERENT: usize = 4;
/// The shortest length at which anybody cuts, in characters.
const SHORTEST: usize = 100;

/// The longest texts of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LongestTexts {
    /// Their length, in characters.
    chars: usize,
    /// How many have it, and the digests of the first few that differ.
    texts: u64,
    different: [u64; DIFFERENT],
}

impl LongestTexts {
    /// Of one text.
    pub(super) fn of(text: &str) -> Self {
        let mut different = [0; DIFFERENT];
        different[0] = xxh3_64(text.as_bytes()).max(1);
        Self { chars: text.chars().count(), texts: 1, different }
    }

    /// Adds others.
    pub(super) fn add(&mut self, other: &Self) {
        if other.chars > self.chars {
            *self = *other;
        } else if other.chars == self.chars {
            self.texts += other.texts;
            other.different.into_iter().filter(|digest| *digest > 0).for_each(|digest| self.note(digest));
        }
    }

    fn note(&mut self, digest: u64) {
        let known = self.different.iter_mut().take_while(|known| **known != digest);
        if let Some(place) = known.into_iter().find(|known| **known == 0) {
            *place = digest;
        }
    }

    /// The length at which texts were cut, and how many were: a round one, or a power of two.
    pub(super) fn cut(&self) -> Option<(usize, u64)> {
        let is_round = self.chars.is_power_of_two() || self.chars.is_multiple_of(100);
        let is_limit = self.chars >= SHORTEST && is_round && !self.different.contains(&0);
        is_limit.then_some((self.chars, self.texts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(lengths: &[usize], is_one: bool) -> Option<(usize, u64)> {
        let mut longest = LongestTexts::default();
        for (number, length) in lengths.iter().enumerate() {
            let first = if is_one { 'x' } else { char::from(b'a' + number as u8) };
            longest.add(&LongestTexts::of(&format!("{first}{}", "ä".repeat(length - 1))));
        }
        longest.cut()
    }

    #[test]
    fn several_texts_of_the_greatest_length_were_cut_there() {
        assert_eq!(cut(&[12, 1024, 1024, 900, 1024, 1024, 1024], false), Some((1024, 5)));
        assert_eq!(cut(&[500, 500, 200, 500, 500], false), Some((500, 4)));
        assert_eq!(cut(&[1024, 1024, 1024], false), None, "too few");
        assert_eq!(cut(&[1024; 9], true), None, "one text, such as a system prompt");
        assert_eq!(cut(&[1024, 1024, 1024, 1024, 1025], false), None, "one is longer");
        assert_eq!(cut(&[937; 9], false), None, "no length at which anybody cuts");
        assert_eq!(cut(&[10; 9], false), None, "short");
        assert_eq!(LongestTexts::default().cut(), None);
    }
}
