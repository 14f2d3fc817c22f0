//! Adaptive replacement as vLLM does it: chunks used once and chunks used again, each in one order, with ghosts of
//! those that left either.
//!
//! A request's use counts as it ends: what it only stored stays among those used once, what it found there moves to
//! those used again. Until then chunks keep their places, so those that a request found may leave before it ends.
//! What is being written, in the step and in the next one, and what is offered cannot.

use super::residents::{
    ChunkSpan, GroupRun, GroupSpan, OfferClock, ResidentPath, Residents, by_groups, clip, groups_of, keys,
    list_of, tag, total,
};
use super::saved::{SavedOffload, fault, restore_lists};
use crate::engines::groups::GroupSet;
use crate::stack::runs::{Piece, PieceIndex, RunTree, StateFault};
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;

/// Chunks used once, used again, and the ghosts of those that left either.
const ONCE: u32 = 0;
const AGAIN: u32 = 1;
const ONCE_GHOSTS: u32 = 2;
const AGAIN_GHOSTS: u32 = 3;

fn is_held(tag: u32) -> bool {
    list_of(tag) < ONCE_GHOSTS
}

fn is_ghost(tag: u32) -> bool {
    !is_held(tag)
}

/// Whether the request being served has used a piece.
fn is_own(piece: &Piece) -> bool {
    is_held(piece.tag) && piece.order != 0
}

/// The list that such a piece stands in once the request has ended.
fn used_as(piece: &Piece) -> u32 {
    if piece.order & FOUND != 0 { AGAIN } else { list_of(piece.tag) }
}

/// Marks in a piece's `order`, the rest of which is the last moment at which it cannot leave: the request being served
/// found it, or stored it.
const FOUND: u64 = 1;
const STORED: u64 = 2;
const MARKS: u32 = 2;

#[derive(Debug)]
pub(super) struct ArcChunks {
    path: ResidentPath,
    /// A list and its keys, by number, the oldest first.
    lists: [PieceIndex; 4],
    keys: [u64; 4],
    /// How many keys used once are wanted: a share of ghosts is added or taken at a time.
    wanted_once: f64,
    capacity: u64,
    /// Keys stored since the start.
    stored: u64,
    clock: OfferClock,
    /// What the request being served missed in offers that found no room.
    missed: Vec<GroupSpan>,
    /// What it found, and lost again to its own stores.
    lost: Vec<GroupSpan>,
}

heap_bytes!(ArcChunks { path, missed, lost; lists, keys, wanted_once, capacity, stored, clock });

impl ArcChunks {
    pub fn new(capacity: u64) -> Self {
        let mut tree = RunTree::new();
        let lists = [(); 4].map(|()| tree.arena.new_list());
        let path = ResidentPath::new(tree);
        Self {
            path,
            lists,
            keys: [0; 4],
            wanted_once: 0.0,
            capacity,
            stored: 0,
            clock: OfferClock::default(),
            missed: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn free(&self) -> u64 {
        self.capacity - self.held()
    }

    /// Learns from ghosts of chunks that are missing, the last one first: each moves the wanted number by the ratio of
    /// the two lists of ghosts.
    fn learn(&mut self, wanted: &[GroupRun]) {
        let [_, _, once, again] = self.keys.map(|keys| keys as f64);
        for (group, (_, from, to)) in wanted.iter().rev() {
            for span in self.not_missed(*group, (*from, *to)).into_iter().rev() {
                self.learn_from(span, *group, [once, again]);
            }
        }
    }

    fn learn_from(&mut self, span: ChunkSpan, group: u32, [once, again]: [f64; 2]) {
        let (groups, most) = (GroupSet::of(group), self.capacity as f64);
        let found = self.path.cut_out(is_ghost, (span, groups));
        for index in found.iter().rev() {
            let list = list_of(self.path.tree.arena.get(*index).tag);
            let index = self.path.take_out(*index, groups);
            for _ in 0..self.path.tree.arena.get(index).pages() {
                self.wanted_once = match list {
                    ONCE_GHOSTS => (self.wanted_once + (again / once).max(1.0)).min(most),
                    _ => (self.wanted_once - (once / again).max(1.0)).max(0.0),
                };
            }
            self.path.tree.arena.get_mut(index).ascending = false;
            self.path.tree.append(self.lists[list as usize], index);
        }
        self.path.pieces = found;
    }

    /// The parts of a span that no earlier offer of the request has learnt from.
    fn not_missed(&self, group: u32, span: ChunkSpan) -> Vec<ChunkSpan> {
        let mut parts = vec![span];
        for (_, (start, end)) in self.missed.iter().filter(|(other, _)| *other == group) {
            let around = |(from, to): ChunkSpan| [(from, to.min(*start)), (from.max(*end), to)];
            parts = parts.into_iter().flat_map(around).filter(|(from, to)| from < to).collect();
        }
        parts
    }

    /// Keys of a list that cannot leave now, all of them the request's own.
    fn fixed(&self, list: u32) -> u64 {
        let own = self.path.nodes.iter().flat_map(|node| self.path.tree.pieces(*node));
        let fixed = own.filter(|(_, piece)| list_of(piece.tag) == list && self.is_fixed(piece));
        fixed.map(|(_, piece)| keys(piece)).sum()
    }

    fn is_fixed(&self, piece: &Piece) -> bool {
        piece.order >> MARKS >= self.clock.now()
    }

    /// Drops so many keys; none where fewer can leave. Those used once go while there are as many as are wanted, then
    /// those used again.
    fn evict(&mut self, most: u64) -> bool {
        let once = self.keys[ONCE as usize] - self.fixed(ONCE);
        let again = self.keys[AGAIN as usize] - self.fixed(AGAIN);
        if most > once + again {
            return false;
        }
        // A count, not negative.
        let surplus = (self.keys[ONCE as usize] + 1).saturating_sub(self.wanted_once as u64);
        let first = most.min(once).min(surplus);
        let second = (most - first).min(again);
        self.leave_list(ONCE, first);
        self.leave_list(AGAIN, second);
        self.leave_list(ONCE, most - first - second);
        for list in [ONCE_GHOSTS, AGAIN_GHOSTS] {
            self.trim(list);
        }
        true
    }

    /// The oldest keys of a list that can leave become ghosts.
    fn leave_list(&mut self, list: u32, most: u64) {
        let (place, ghosts, mut left) = (self.lists[list as usize], list + ONCE_GHOSTS, most);
        let mut next = self.path.tree.arena.first(place);
        while left > 0
            && let Some(index) = next
        {
            next = self.path.tree.arena.next(place, index);
            if self.is_fixed(self.path.tree.arena.get(index)) {
                continue;
            }
            for leaving in self.path.cut_first(index, left) {
                self.path.tree.arena.unlink(leaving);
                let piece = self.path.tree.arena.get_mut(leaving);
                left -= keys(piece);
                if piece.order & FOUND != 0 {
                    let lost = groups_of(piece.tag).iter();
                    self.lost.extend(lost.map(|group| (group, (piece.from, piece.to))));
                }
                (piece.tag, piece.order) = (tag(ghosts, groups_of(piece.tag)), 0);
                self.path.tree.append(self.lists[ghosts as usize], leaving);
            }
        }
        self.keys[list as usize] -= most;
        self.keys[ghosts as usize] += most;
    }

    /// Forgets the oldest ghosts that are more than the capacity.
    fn trim(&mut self, list: u32) {
        while self.keys[list as usize] > self.capacity
            && let Some(oldest) = self.path.tree.arena.first(self.lists[list as usize])
        {
            for gone in self.path.cut_first(oldest, self.keys[list as usize] - self.capacity) {
                self.keys[list as usize] -= keys(self.path.tree.arena.get(gone));
                self.path.tree.remove_piece(gone);
            }
        }
    }

    /// Stores keys as used once; their ghosts are forgotten.
    fn store(&mut self, (group, (node, from, to)): GroupRun) {
        let mut ghosts = self.path.cut_out(is_ghost, ((from, to), GroupSet::of(group)));
        for ghost in ghosts.drain(..) {
            let list = list_of(self.path.tree.arena.get(ghost).tag);
            let ghost = self.path.take_out(ghost, GroupSet::of(group));
            self.keys[list as usize] -= keys(self.path.tree.arena.get(ghost));
            self.path.tree.remove_piece(ghost);
        }
        self.path.pieces = ghosts;
        if self.lost.iter().all(|(other, span)| *other != group || span.1 <= from || to <= span.0) {
            self.store_as(STORED, (group, (node, from, to)));
        } else {
            (from..to).for_each(|at| self.store_as(self.mark_of(group, at), (group, (node, at, at + 1))));
        }
    }

    /// What is stored of a key: one that the request found before, and lost, was used again all the same.
    fn mark_of(&self, group: u32, at: u32) -> u64 {
        let is_it = |(other, (from, to)): &GroupSpan| *other == group && (*from..*to).contains(&at);
        if self.lost.iter().any(is_it) { STORED | FOUND } else { STORED }
    }

    fn store_as(&mut self, mark: u64, (group, (node, from, to)): GroupRun) {
        let order = (self.clock.written() << MARKS) | mark;
        let piece = Piece::new(node, tag(ONCE, GroupSet::of(group)), (from, to), order).root_first();
        let piece = self.path.tree.add_piece(piece);
        self.path.tree.append(self.lists[ONCE as usize], piece);
        self.keys[ONCE as usize] += u64::from(to - from);
    }

    /// The pieces that hold some of these keys, of nothing else.
    fn held_of(&mut self, spans: &[GroupSpan]) -> Vec<PieceIndex> {
        let mut held = Vec::new();
        by_groups(spans, |span, groups| {
            let mut found = self.path.cut_out(is_held, (span, groups));
            for index in found.drain(..) {
                self.path.single_out(index, groups, &mut held);
            }
            self.path.pieces = found;
        });
        held
    }
}

impl Residents for ArcChunks {
    fn enter(&mut self, ids: PageIds<'_>) {
        self.path.enter(ids);
        self.missed.clear();
        self.lost.clear();
        // The stores of the request before are done.
        self.clock.pass(2);
    }

    fn found(&self, span: GroupSpan) -> u32 {
        self.path.found(is_held, span)
    }

    fn found_down(&self, span: GroupSpan) -> u32 {
        self.path.found_down(is_held, span)
    }

    fn last_found(&self, span: GroupSpan) -> u32 {
        self.path.last_found(is_held, span)
    }

    fn load(&mut self, spans: &[GroupSpan]) {
        for index in self.held_of(spans) {
            self.path.tree.arena.get_mut(index).order |= FOUND;
        }
    }

    fn step(&mut self) {
        self.clock.pass(1);
    }

    fn offer(&mut self, spans: &[GroupSpan], admitted: Option<&[GroupSpan]>) -> bool {
        let now = self.clock.tick();
        let wanted = clip(self.path.gaps(is_held, spans), admitted);
        self.learn(&wanted);
        for index in self.held_of(spans) {
            let piece = self.path.tree.arena.get_mut(index);
            let (marks, fixed) = (piece.order & (FOUND | STORED), piece.order >> MARKS);
            let marks = if marks & STORED == 0 { FOUND } else { marks };
            piece.order = (fixed.max(now) << MARKS) | marks;
        }
        let (chunks, free) = (total(&wanted), self.free());
        if chunks > free && !self.evict(chunks - free) {
            self.missed.extend(wanted.iter().map(|(group, (_, from, to))| (*group, (*from, *to))));
            return false;
        }
        self.stored += chunks;
        wanted.iter().for_each(|run| self.store(*run));
        self.path.runs = wanted;
        true
    }

    fn leave(&mut self) {
        for index in 0..self.path.nodes.len() {
            let pieces = self.path.tree.pieces(self.path.nodes[index]).map(|(_, piece)| piece);
            for piece in pieces.filter(|piece| is_own(piece)) {
                self.keys[list_of(piece.tag) as usize] -= keys(piece);
            }
        }
        for list in [ONCE, AGAIN] {
            let stays = |piece: &Piece| is_own(piece) && used_as(piece) == list;
            self.keys[list as usize] += self.path.join(stays, (list, self.lists[list as usize]));
        }
        self.path.leave();
    }

    fn stored(&self) -> u64 {
        self.stored
    }

    fn held(&self) -> u64 {
        self.keys[ONCE as usize] + self.keys[AGAIN as usize]
    }

    fn save(&self, saved: &mut SavedOffload) {
        (saved.stored, saved.runs) = (self.stored, self.path.tree.save(self.lists));
        saved.wanted_once = self.wanted_once;
    }

    fn restore(&mut self, saved: &SavedOffload, groups: GroupSet) -> Result<(), StateFault> {
        if !(0.0..=self.capacity as f64).contains(&saved.wanted_once) {
            return Err(fault("wants more than its capacity"));
        }
        (self.stored, self.wanted_once) = (saved.stored, saved.wanted_once);
        let Some((tree, lists)) = restore_lists(&saved.runs, groups)? else { return Ok(()) };
        self.path.tree = tree;
        (self.lists, self.keys) = (lists.map(|(list, _)| list), lists.map(|(_, keys)| keys));
        let ghosts = [ONCE_GHOSTS, AGAIN_GHOSTS].map(|list| self.keys[list as usize]);
        if [self.held(), ghosts[0], ghosts[1]].into_iter().any(|keys| keys > self.capacity) {
            return Err(fault("holds more than its capacity"));
        }
        Ok(())
    }
}
