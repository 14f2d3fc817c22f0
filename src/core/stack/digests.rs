//! What each segment was last found to share with a request, by digest.
//!
//! A request that returns meets the labels it met before. By now they have left the processor's caches, while
//! the request has just come in, so comparing the two is mostly waiting for the label. Therefore the pages two
//! requests have in common are remembered by a digest: the next request that begins with them is read alone,
//! and the label only from there on.
//!
//! A digest has 64 bits, as a page id has, so two runs of ids have the same one as seldom as two prompts have
//! the same page id; and whoever could make runs that do could send the same ids as well. Digests are a memory and
//! nothing more: what was forgotten is compared id by id, and snapshots leave it out.

use super::table::Table;
use super::tree::SegmentId;
use crate::core::pages::PageIds;
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

/// Ids added to a digest at once: enough for hashing to be faster than reading a label from memory.
const BLOCK: usize = if cfg!(test) { 2 } else { 32 };

/// Ids below which nothing is remembered, since comparing so few costs no more.
pub(super) const SHORTEST: usize = 2 * BLOCK;

/// The leading ids of a run, digested.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// The digest of the whole blocks among them.
    blocks: u64,
    /// The digest of all of them.
    all: u64,
    /// How many they are; none if nothing is known.
    len: u32,
}

impl Known {
    /// Of which ids [`Known::blocks`] is the digest.
    fn whole(self) -> usize {
        self.len as usize / BLOCK * BLOCK
    }

    /// Digests all of `ids`, which begin with those that are digested already.
    #[inline]
    fn grown_to(self, ids: PageIds<'_>) -> Self {
        let (whole, rest) = ids.from(self.whole()).blocks::<BLOCK>();
        let blocks = whole.iter().fold(self.blocks, |digest, block| add(digest, block));
        Self { blocks, all: add(blocks, rest), len: ids.len() as u32 }
    }
}

/// The digest of the ids of another one and these.
#[inline]
fn add(digest: u64, ids: &[[u8; 8]]) -> u64 {
    let mut hasher = FixedState::with_seed(digest).build_hasher();
    hasher.write(ids.as_flattened());
    hasher.finish()
}

/// For every segment the ids after its first one that its label and a request had in common last.
#[derive(Debug)]
pub(super) struct Digests {
    /// By segment; only up to the last one of which something was ever known.
    known: Table<Known>,
}

impl Digests {
    pub(super) fn new() -> Self {
        Self { known: Table::new() }
    }

    /// How many of the ids that follow a segment's first one are known to be the leading ones of `rest`; 0
    /// where nothing is known, whatever they are.
    #[inline]
    pub(super) fn shared(&self, id: SegmentId, rest: PageIds<'_>) -> usize {
        let known = self.of(id);
        let len = known.len as usize;
        let is_known =
            len > 0 && len <= rest.len() && Known::default().grown_to(rest.first(len)).all == known.all;
        if is_known { len } else { 0 }
    }

    /// Notes that the ids after a segment's first one begin with all of `rest`, of which the first `known` were
    /// known to ([`Digests::shared`]).
    #[inline]
    pub(super) fn remember(&mut self, id: SegmentId, rest: PageIds<'_>, known: usize) {
        if rest.len() < SHORTEST || rest.len() == known {
            return;
        }
        let base = if known > 0 { self.of(id) } else { Known::default() };
        while self.known.len() <= id.index() {
            self.known.push(Known::default());
        }
        self.known[id.index()] = base.grown_to(rest);
    }

    /// A segment keeps its first `pages` pages only.
    pub(super) fn truncate(&mut self, id: SegmentId, pages: u32) {
        // The first page's id is in no digest, so these would be one too many.
        let known = self.of(id).len;
        if known > 0 && known >= pages {
            self.known[id.index()] = Known::default();
        }
    }

    #[inline]
    fn of(&self, id: SegmentId) -> Known {
        self.known.get(id.index()).copied().unwrap_or_default()
    }

    /// Bytes of memory held, spare room included.
    pub(super) fn memory_bytes(&self) -> usize {
        self.known.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let mut lengths = [0; 3];
            for (segment, action, keep, more) in steps {
                let (id, label) = (SegmentId(segment), &mut labels[segment as usize]);
                let length = &mut lengths[segment as usize];
                match action {
                    0 => label.extend(more),
                    1 => {
                        label.truncate(keep);
                        digests.truncate(id, 1 + keep as u32);
                        *length = if *length > keep { 0 } else { *length };
                    }
                    _ => {
                        let request: Vec<u64> = label.iter().take(keep).chain(&more).copied().collect();
                        let rest = PageIds::from_slice(&request);
                        let known = digests.shared(id, rest);
                        let shared = label.iter().zip(&request).take_while(|(a, b)| a == b).count();
                        prop_assert_eq!(known, if shared >= *length { *length } else { 0 });
                        digests.remember(id, rest.first(shared), known);
                        if shared >= SHORTEST {
                            *length = shared;
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_kept_of_segments_that_share_little() {
        let mut digests = Digests::new();
        digests.remember(SegmentId(1 << 20), PageIds::from_slice(&[7; SHORTEST - 1]), 0);
        assert_eq!(digests.memory_bytes(), 0);
    }
}
