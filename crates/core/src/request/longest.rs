//! Texts and lists of token ids that a log cuts at one length, without a sign at their ends: several different ones are
//! as long as none is longer.

/// Different ones of the greatest length that are told apart: so many are no chance.
const DIFFERENT: usize = 4;
/// The shortest length at which anybody cuts.
const SHORTEST: usize = 100;

/// The longest texts, or lists, of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Longest {
    /// Their length, in characters or ids.
    length: usize,
    /// How many have it, and the digests of the first few that differ.
    items: u64,
    different: [u64; DIFFERENT],
}

impl Longest {
    /// Of one of this length, and of this digest.
    pub fn of(length: usize, digest: u64) -> Self {
        let mut different = [0; DIFFERENT];
        different[0] = digest.max(1);
        Self { length, items: 1, different }
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        if other.length > self.length {
            *self = *other;
        } else if other.length == self.length {
            self.items += other.items;
            other.different.into_iter().filter(|digest| *digest > 0).for_each(|digest| self.note(digest));
        }
    }

    fn note(&mut self, digest: u64) {
        let known = self.different.iter_mut().take_while(|known| **known != digest);
        if let Some(place) = known.into_iter().find(|known| **known == 0) {
            *place = digest;
        }
    }

    fn is_limit(&self) -> bool {
        self.length >= SHORTEST && !self.different.contains(&0)
    }

    /// The same of so many items where lengths are any and half of these pile up there, or where all have one that is a
    /// power of two, alike or not.
    pub fn cut_of(&self, items: u64) -> Option<(usize, u64)> {
        const MANY: u64 = 8;
        let is_one = self.items == items && items >= MANY && self.length.is_power_of_two();
        if is_one && self.length >= SHORTEST {
            return Some((self.length, items));
        }
        let piles_up = self.is_limit() && self.items < items && self.items * 2 >= items;
        self.cut().or(piles_up.then_some((self.length, self.items)))
    }

    /// The length at which texts were cut, and how many were: a round one, or a power of two.
    pub fn cut(&self) -> Option<(usize, u64)> {
        let is_round = self.length.is_power_of_two() || self.length.is_multiple_of(100);
        let is_limit = self.is_limit() && is_round;
        is_limit.then_some((self.length, self.items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(lengths: &[usize], is_one: bool) -> Option<(usize, u64)> {
        let mut longest = Longest::default();
        for (number, length) in lengths.iter().enumerate() {
            let first = if is_one { 'x' } else { char::from(b'a' + number as u8) };
            longest.add(&Longest::of(*length, u64::from(u32::from(first))));
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
        assert_eq!(Longest::default().cut(), None);
    }
}
