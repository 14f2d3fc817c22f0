//! Chunks in the order of the requests that used them last, a request's last chunk before its first, and of one chunk
//! the last group first.
//!
//! While a request runs, its chunks are the youngest. Where room is made and nobody else's are left, its own go, the
//! last ones first, but for those of this offer and those that this step or the one before stored: these are still
//! being written.

use super::residents::{
    GroupRun, GroupSpan, OfferClock, ResidentPath, Residents, by_groups, clip, groups_of, keys, list_of, tag,
    total,
};
use super::saved::{SavedOffload, fault, restore_lists};
use crate::engines::groups::GroupSet;
use crate::stack::runs::{Piece, PieceIndex, RunTree, StateFault};
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;

/// Chunks that wait in the order of their last use.
const QUEUED: u32 = 0;
/// Those that the request being served has used.
const OWN: u32 = 1;

fn is_own(tag: u32) -> bool {
    list_of(tag) == OWN
}

#[derive(Debug)]
pub(super) struct LruChunks {
    path: ResidentPath,
    /// The oldest first. A chunk of the request's own stands in no list; its `order` is the last moment at which it
    /// cannot leave.
    queue: PieceIndex,
    queued: u64,
    held: u64,
    stored: u64,
    capacity: u64,
    clock: OfferClock,
}

heap_bytes!(LruChunks { path; queue, queued, held, stored, capacity, clock });

impl LruChunks {
    pub fn new(capacity: u64) -> Self {
        let mut tree = RunTree::new();
        let queue = tree.arena.new_list();
        let clock = OfferClock::default();
        Self { path: ResidentPath::new(tree), queue, queued: 0, held: 0, stored: 0, capacity, clock }
    }

    /// Moves chunks that are there to the request's own, of which they cannot leave up to this moment.
    fn use_up_to(&mut self, spans: &[GroupSpan], moment: u64) {
        by_groups(spans, |span, groups| {
            let found = self.path.cut_out(|_| true, (span, groups));
            self.take_over(found, groups, moment);
        });
    }

    /// The same of all chunks that are offered, and what is missing of them.
    fn use_offered(&mut self, spans: &[GroupSpan], moment: u64) -> Vec<GroupRun> {
        let [span] = spans else {
            self.use_up_to(spans, moment);
            return self.path.gaps(is_own, spans);
        };
        let (found, missing) = self.path.cut_out_with_gaps(*span);
        self.take_over(found, GroupSet::of(span.0), moment);
        missing
    }

    fn take_over(&mut self, mut found: Vec<PieceIndex>, groups: GroupSet, moment: u64) {
        for index in found.drain(..) {
            let index = self.path.take_out(index, groups);
            let piece = self.path.tree.arena.get_mut(index);
            if !is_own(piece.tag) {
                self.queued -= keys(piece);
            }
            (piece.tag, piece.order) = (tag(OWN, groups_of(piece.tag)), piece.order.max(moment));
        }
        self.path.pieces = found;
    }

    /// Drops so many keys; none where fewer can leave.
    fn evict(&mut self, most: u64) -> bool {
        let own = if most > self.queued { self.own_that_can_leave() } else { Vec::new() };
        if most > self.queued + own.len() as u64 {
            return false;
        }
        self.held -= most;
        let mut left = most;
        while left > 0
            && let Some(oldest) = self.path.tree.arena.first(self.queue)
        {
            left -= self.path.drop_first(oldest, left);
        }
        self.queued -= most - left;
        for (chunk, group) in own.into_iter().take(left as usize) {
            let group = GroupSet::of(group);
            for index in self.path.cut_out(is_own, ((chunk, chunk + 1), group)) {
                let index = self.path.take_out(index, group);
                self.path.tree.remove_piece(index);
            }
        }
        true
    }

    /// The request's own keys that can leave, the last chunk first, and of one chunk the first group.
    fn own_that_can_leave(&self) -> Vec<(u32, u32)> {
        let pieces = self.path.nodes.iter().rev().flat_map(|node| self.path.tree.pieces(*node));
        let idle = pieces.filter(|(_, piece)| is_own(piece.tag) && piece.order < self.clock.now());
        let of_piece = |(_, piece): (PieceIndex, &Piece)| {
            let chunks = piece.from..piece.to;
            groups_of(piece.tag).iter().flat_map(move |group| chunks.clone().map(move |chunk| (chunk, group)))
        };
        let mut own: Vec<(u32, u32)> = idle.flat_map(of_piece).collect();
        own.sort_unstable_by_key(|(chunk, group)| (u32::MAX - chunk, *group));
        own
    }
}

impl Residents for LruChunks {
    fn enter(&mut self, ids: PageIds<'_>) {
        self.path.enter(ids);
        // The stores of the request before are done.
        self.clock.pass(2);
    }

    fn found(&self, span: GroupSpan) -> u32 {
        self.path.found(|_| true, span)
    }

    fn found_down(&self, span: GroupSpan) -> u32 {
        self.path.found_down(|_| true, span)
    }

    fn last_found(&self, span: GroupSpan) -> u32 {
        self.path.last_found(|_| true, span)
    }

    fn load(&mut self, spans: &[GroupSpan]) {
        self.use_up_to(spans, 0);
    }

    fn step(&mut self) {
        self.clock.pass(1);
    }

    fn offer(&mut self, spans: &[GroupSpan], admitted: Option<&[GroupSpan]>) -> bool {
        let now = self.clock.tick();
        let wanted = clip(self.use_offered(spans, now), admitted);
        let (chunks, free) = (total(&wanted), self.capacity - self.held);
        if chunks > free && !self.evict(chunks - free) {
            return false;
        }
        self.held += chunks;
        self.stored += chunks;
        for (group, (node, from, to)) in &wanted {
            let piece = Piece::new(*node, tag(OWN, GroupSet::of(*group)), (*from, *to), self.clock.written());
            self.path.tree.add_piece(piece);
        }
        self.path.runs = wanted;
        true
    }

    fn leave(&mut self) {
        self.queued += self.path.join(|piece| is_own(piece.tag), (QUEUED, self.queue));
        self.path.leave();
    }

    fn stored(&self) -> u64 {
        self.stored
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn save(&self, saved: &mut SavedOffload) {
        (saved.stored, saved.runs) = (self.stored, self.path.tree.save([self.queue]));
    }

    fn restore(&mut self, saved: &SavedOffload, groups: GroupSet) -> Result<(), StateFault> {
        let Some((tree, [(queue, held)])) = restore_lists(&saved.runs, groups)? else { return Ok(()) };
        if held > self.capacity {
            return Err(fault("holds more than its capacity"));
        }
        (self.path.tree, self.queue) = (tree, queue);
        (self.queued, self.held, self.stored) = (held, held, saved.stored);
        Ok(())
    }
}
