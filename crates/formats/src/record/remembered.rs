//! What was seen before, by a digest, within bounds.

/// Digests that are remembered, a power of two.
const REMEMBERED: usize = 1 << 14;

/// What was seen, as far as it is remembered: of two at one place the later one.
#[derive(Debug)]
pub(super) struct Remembered<T> {
    /// All there is until something else is seen: a row that is read by itself needs no table.
    first: Option<(u64, T)>,
    places: Vec<Option<(u64, T)>>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self { first: None, places: Vec::new() }
    }
}

impl<T: Copy> Remembered<T> {
    /// Takes what is seen now; what was seen before with its digest, and where it is kept.
    pub fn see(&mut self, digest: u64, now: T) -> (Option<T>, &mut T) {
        let is_alone = self.first.is_none_or(|(first, _)| first == digest);
        let place = if self.places.is_empty() && is_alone {
            &mut self.first
        } else {
            if self.places.is_empty() {
                self.places = vec![None; REMEMBERED];
                if let Some((first, _)) = self.first {
                    self.places[first as usize % REMEMBERED] = self.first;
                }
            }
            &mut self.places[digest as usize % REMEMBERED]
        };
        let earlier = place.replace((digest, now)).filter(|(earlier, _)| *earlier == digest);
        (earlier.map(|(_, seen)| seen), &mut place.get_or_insert((digest, now)).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_two_at_one_place_is_remembered() {
        let mut seen = Remembered::default();
        let beside = 7 + REMEMBERED as u64;
        assert_eq!(seen.see(7, 'a').0, None);
        assert_eq!(seen.see(7, 'b').0, Some('a'), "before there is a table");
        *seen.see(8, 'c').1 = 'd';
        assert_eq!((seen.see(7, 'e').0, seen.see(8, 'f').0), (Some('b'), Some('d')));
        assert_eq!((seen.see(beside, 'g').0, seen.see(7, 'h').0), (None, None));
    }
}
