//! What each segment was found to share with requests, by digest.
//!
//! A request that returns meets the labels it met before. By now they have left the processor's caches, while
//! the request has just come in, so comparing the two is mostly waiting for the label. Therefore the pages two
//! requests have in common are remembered by a digest: the next request that begins with them is read alone,
//! and the label only from there on.
//!
//! A digest has 64 bits, as a page id has, so two runs of ids have the same one as seldom as two prompts have
//! the same page id; and whoever could make runs that do could send the same ids as well. Digests are a memory and
//! nothing more: what was forgotten is compared id by id, and snapshots leave it out.

use super::ids::SegmentId;
use super::table::AppendTable;
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

/// Ids added to a digest at once: enough for hashing to be faster than reading a label from memory.
const BLOCK: usize = if cfg!(test) { 2 } else { 32 };

/// Ids below which nothing is remembered, since comparing so few costs no more.
pub(super) const SHORTEST: usize = 2 * BLOCK;

/// The leading ids of a run, digested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
struct Known {
    digest: u64,
    /// How many they are; none if nothing is known.
    len: u32,
}

impl Known {
    /// Digests all of `ids`, which begin with those that are digested already.
    #[inline]
    fn grown_to(self, ids: PageIds<'_>) -> Self {
        let known = self.len as usize / BLOCK;
        let (whole, rest) = ids.from(known * BLOCK).blocks::<BLOCK>();
        // The last ids of the known ones made no whole block; now they may.
        let partial = ids.first(self.len as usize).from(known * BLOCK).blocks::<BLOCK>().1;
        let before = self.digest.wrapping_sub(digest_of(known, partial));
        let digests = (known..).zip(whole).map(|(place, block)| digest_of(place, block));
        let last = digest_of(known + whole.len(), rest);
        Self { digest: digests.fold(before, u64::wrapping_add).wrapping_add(last), len: ids.len() as u32 }
    }
}

/// The digest of the ids at one place of a run; 0 of none. Those of several places are summed, so that a
/// processor need not wait for one to begin with the next.
#[inline]
fn digest_of(place: usize, ids: &[[u8; 8]]) -> u64 {
    if ids.is_empty() {
        return 0;
    }
    let mut hasher = FixedState::with_seed(place as u64).build_hasher();
    hasher.write(ids.as_flattened());
    hasher.finish()
}

/// For every segment the ids after its first one that its label and requests had in common.
#[derive(Debug)]
pub(super) struct Digests {
    /// By segment the most ids that a request shared, and those of the last request that shared fewer; only up to the
    /// last one of which something was ever known. A session's own requests share all of a segment, those of its
    /// sub-agents a part; neither may take the other's place.
    shared: AppendTable<[Known; 2]>,
}

heap_bytes!(Digests { shared });

impl Digests {
    pub(super) fn new() -> Self {
        Self { shared: AppendTable::new() }
    }

    /// How many of the ids that follow a segment's first one are known to be the leading ones of `rest`; 0
    /// where nothing is known, whatever they are.
    #[inline]
    pub(super) fn shared(&self, id: SegmentId, rest: PageIds<'_>) -> usize {
        let [most, fewer] = self.of(id);
        let mut found = Known::default();
        for known in [fewer, most].into_iter().filter(|known| known.len > 0) {
            let len = known.len as usize;
            if len > rest.len() || found.grown_to(rest.first(len)) != known {
                break;
            }
            found = known;
        }
        found.len as usize
    }

    /// Notes that the ids after a segment's first one begin with all of `rest`, of which the first `known` were
    /// known to ([`Digests::shared`]).
    #[inline]
    pub(super) fn remember(&mut self, id: SegmentId, rest: PageIds<'_>, known: usize) {
        if rest.len() < SHORTEST || rest.len() == known {
            return;
        }
        while self.shared.len() <= id.index() {
            self.shared.push(Default::default());
        }
        let [most, fewer] = &mut self.shared[id.index()];
        let base = [*most, *fewer].into_iter().find(|base| base.len as usize == known);
        let grown = base.unwrap_or_default().grown_to(rest);
        *(if grown.len >= most.len { most } else { fewer }) = grown;
    }

    /// A segment keeps its first `pages` pages only.
    pub(super) fn truncate(&mut self, id: SegmentId, pages: u32) {
        // The first page's id is in no digest, so these would be one too many.
        let is_kept = |known: &Known| known.len < pages;
        let [most, fewer] = self.of(id);
        if !is_kept(&most) && most.len > 0 {
            let most = Some(fewer).filter(is_kept).unwrap_or_default();
            self.shared[id.index()] = [most, Known::default()];
        }
    }

    #[inline]
    fn of(&self, id: SegmentId) -> [Known; 2] {
        self.shared.get(id.index()).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::heap::HeapBytes;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_digest_tells_of_no_id_that_a_label_does_not_have(
            steps in prop::collection::vec(
                (0u32..3, 0u8..4, 0usize..12, prop::collection::vec(0u64..2, 0..12)), 1..80,
            ),
        ) {
            let mut digests = Digests::new();
            let mut labels: [Vec<u64>; 3] = Default::default();
            // For each label the most ids shared, and the fewer ones.
            let mut lengths = [(0, 0); 3];
            for (segment, action, keep, more) in steps {
                let (id, label) = (SegmentId(segment), &mut labels[segment as usize]);
                let (most, fewer) = &mut lengths[segment as usize];
                match action {
                    0 => label.extend(more),
                    1 => {
                        label.truncate(keep);
                        digests.truncate(id, 1 + keep as u32);
                        if *most > keep {
                            (*most, *fewer) = (if *fewer > keep { 0 } else { *fewer }, 0);
                        }
                    }
                    _ => {
                        let request: Vec<u64> = label.iter().take(keep).chain(&more).copied().collect();
                        let rest = PageIds::from_slice(&request);
                        let known = digests.shared(id, rest);
                        let shared = label.iter().zip(&request).take_while(|(a, b)| a == b).count();
                        let expected = if shared < *fewer { 0 } else if shared < *most { *fewer } else { *most };
                        prop_assert_eq!(known, expected);
                        digests.remember(id, rest.first(shared), known);
                        if shared >= SHORTEST && shared != known {
                            *(if shared >= *most { most } else { fewer }) = shared;
                        }
                    }
                }
            }
        }
    }

    /// A sub-agent leaves its session half-way; the session's next request is recognised by its digest all the same.
    #[test]
    fn one_that_leaves_half_way_does_not_make_the_whole_forgotten() {
        let (mut digests, session) = (Digests::new(), SegmentId(0));
        let label: Vec<u64> = (0..20).collect();
        let rest = PageIds::from_slice(&label);
        digests.remember(session, rest, 0);
        let half = [&label[..10], &[100, 101]].concat();
        let leaving = PageIds::from_slice(&half);
        assert_eq!(digests.shared(session, leaving), 0);
        digests.remember(session, leaving.first(10), 0);
        assert_eq!((digests.shared(session, rest), digests.shared(session, leaving)), (20, 10));
    }

    #[test]
    fn nothing_is_kept_of_segments_that_share_little() {
        let mut digests = Digests::new();
        digests.remember(SegmentId(1 << 20), PageIds::from_slice(&[7; SHORTEST - 1]), 0);
        assert_eq!(digests.heap_bytes(), 0);
    }
}
