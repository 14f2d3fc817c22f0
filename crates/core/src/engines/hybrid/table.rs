//! What one request holds of each group, and how it comes and goes (steps 2 and 3 of the rules).
//!
//! The groups alongside the full ones are of one kind, so groups of a kind hold the same pages at every step. What is taken and
//! given back is found once a kind; pages that stand by themselves are held once a kind, too ([`GroupSet`]), runs once a group.

use super::rules::{HybridLookup, RequestShape, RequestSteps};
use super::{BlockRetention, GroupKind, HybridCache};
use super::{blocks_of, groups_of};
use crate::engines::groups::GroupSet;
use crate::stack::runs::{Piece, PieceIndex, RunIndex};
use crate::units::heap::{flat, heap_bytes};
use serde::{Deserialize, Serialize};

/// The place of the full groups in what is kept a kind.
pub(super) const FULL: usize = 0;
/// The place of the other groups.
pub(super) const OTHERS: usize = 1;

/// The order of pages that nobody can ask for.
const PRIVATE: u64 = u64::MAX;

/// Where pages lie that nobody has looked for yet; that a piece is there by chance costs nothing.
const NOWHERE: PieceIndex = 0;

pub(super) fn side(kind: GroupKind) -> usize {
    if kind == GroupKind::Full { FULL } else { OTHERS }
}

/// A request in flight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engines) struct HybridRequest {
    /// Where its pages with ids end; of a snapshot's no use.
    #[serde(skip)]
    pub(super) tail: RunIndex,
    /// The ids of those pages, in a snapshot alone.
    pub(super) ids: Vec<u64>,
    /// How many they are.
    pub(super) known: u32,
    pub(super) shape: RequestShape,
    pub(super) found: HybridLookup,
    /// Tokens computed before the step that comes next.
    pub(super) done: u64,
    /// Whether that step is the first one.
    pub(super) is_first: bool,
    /// Whether nobody else is served before it ends.
    pub(super) is_alone: bool,
    /// What its blocks are named with: when it last gave names.
    pub(super) order: u64,
    pub(super) tables: Tables,
}

heap_bytes!(HybridRequest { ids, tables; tail, known, shape, found, done, is_first, is_alone, order });

/// The pages of a request that each group of a kind holds: `low..len`, of which those before `hits` were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KindPages {
    hits: u64,
    low: u64,
    len: u64,
    /// The page of the state before the last one, until the next step gives it back.
    previous: Option<u64>,
}

/// A run of pages with names that a request holds of one group, or one page of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    groups: GroupSet,
    from: u32,
    to: u32,
    /// When they got their names, which tells these blocks apart from others of the same names.
    order: u64,
    /// Where the last of them lies, or lay before that piece was cut: what is asked first where it is.
    #[serde(skip)]
    piece: PieceIndex,
}

flat!(Hold);

impl Hold {
    /// Blocks of all its groups.
    fn blocks(&self) -> u64 {
        u64::from(self.to.saturating_sub(self.from)) * self.groups.len()
    }
}

/// Pages of one group, up to the second one.
pub(super) type PageRun = (u32, u32, u32);

/// What a request holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tables {
    held: [KindPages; 2],
    /// The pages before this one are full, and have names where they are kept.
    named: u64,
    holds: Vec<Hold>,
}

heap_bytes!(Tables { holds; held, named });

impl Tables {
    /// As a request finds them.
    pub(super) fn begin(&mut self, found: HybridLookup, need: u64) {
        let held = KindPages { hits: found.hits, low: 0, len: found.hits, previous: None };
        self.held = [held, KindPages { low: found.hits.saturating_sub(need), ..held }];
        self.named = found.hits;
        self.holds.clear();
    }

    /// Lets the groups alongside the full ones begin at a later page: what they held before it is not needed.
    pub(super) fn pass_to(&mut self, low: u64) {
        self.held[OTHERS].low = low;
    }

    /// The pages before this one are full, and have names where they are kept.
    pub(super) fn named(&self) -> u64 {
        self.named
    }

    /// The end of the pages with names that nobody can ask for; `None` where there are none.
    pub(super) fn private_end(&self) -> Option<u32> {
        self.holds.iter().filter(|hold| hold.order == PRIVATE).map(|hold| hold.to).max()
    }

    /// The same, each hold of one group, as snapshots have them.
    pub(super) fn each_group(&self) -> Self {
        Self { holds: each_group(&self.holds), ..*self }
    }

    /// Pages that each group of a kind keeps of what was found.
    pub(super) fn found_pages(&self, side: usize) -> u64 {
        self.held[side].hits - self.held[side].low
    }

    /// Blocks that each group of a kind holds, with states or without.
    fn blocks(&self, side: usize, states: bool) -> u64 {
        let KindPages { low, len, previous, .. } = self.held[side];
        match states && side == OTHERS {
            true => u64::from(len > 0) + u64::from(previous.is_some()),
            false => len.saturating_sub(low),
        }
    }
}

impl HybridCache {
    /// Takes what was found out of the free order: all of it in full groups, in others what a hit needs.
    pub(super) fn pin(&mut self, tables: &mut Tables, found: HybridLookup) {
        for index in 0..self.path.len() {
            let node = self.path[index];
            let (first, end) = self.tree.span(node);
            let end = end.min(found.hits as u32);
            let (before, mut together) = (tables.holds.len(), GroupSet::default());
            for group in 0..self.rules.attention.groups().len() as u32 {
                let mut at = first.max(self.first_found(tables, group) as u32);
                while at < end {
                    // What another group shares with this one is pinned already.
                    let is_it = |hold: &Hold| hold.from == at && hold.groups.has(group);
                    if together.has(group) && tables.holds[before..].iter().any(is_it) {
                        at += 1;
                        continue;
                    }
                    let Some((piece, stop)) = self.oldest_copy(node, group, at, end) else { break };
                    let piece = self.of_all_or_one(piece, (node, group), at);
                    let groups = groups_of(self.tree.arena.get(piece));
                    together = if groups.is_shared() { together.with(groups) } else { together };
                    at = self.pin_piece(piece, at, stop, &mut tables.holds);
                }
            }
        }
    }

    /// A piece for the page `at` where it is the oldest copy for all of its groups; else that of this group, parted from the
    /// others.
    fn of_all_or_one(&mut self, piece: PieceIndex, (node, group): (RunIndex, u32), at: u32) -> PieceIndex {
        let groups = groups_of(self.tree.arena.get(piece));
        let is_oldest =
            |group| self.oldest_copy(node, group, at, at + 1).is_some_and(|(oldest, _)| oldest == piece);
        if !groups.is_shared() || groups.iter().all(is_oldest) {
            return piece;
        }
        self.part(piece, group)
    }

    /// Parts the groups of a piece, each one at its place in the free order; that of this one.
    fn part(&mut self, piece: PieceIndex, group: u32) -> PieceIndex {
        let groups = groups_of(self.tree.arena.get(piece));
        let mut meant = piece;
        for other in groups.iter().filter(|other| *other != groups.last()) {
            let mut own = self.tree.arena.get(piece).clone();
            own.tag = GroupSet::of(other).bits();
            let own = self.tree.add_piece(own);
            self.tree.arena.push_before(own, piece);
            meant = if other == group { own } else { meant };
        }
        self.tree.arena.get_mut(piece).tag = GroupSet::of(groups.last()).bits();
        meant
    }

    /// The first page that a group keeps of what was found.
    pub(super) fn first_found(&self, tables: &Tables, group: u32) -> u64 {
        tables.held[side(self.rules.attention.groups()[group as usize])].low
    }

    /// The same of the groups alongside the full ones.
    pub(super) fn first_other(&self, tables: &Tables) -> u64 {
        tables.held[OTHERS].low
    }

    /// Of several blocks that carry one name, the one named first: the piece of a node that has it for the page `at`, and where
    /// another takes over, at `end` at most.
    fn oldest_copy(&self, node: RunIndex, group: u32, at: u32, end: u32) -> Option<(PieceIndex, u32)> {
        let mine = || self.tree.pieces(node).filter(|(_, piece)| groups_of(piece).has(group));
        let covering = mine().filter(|(_, piece)| piece.from <= at && at < piece.to);
        let oldest = covering.map(|(index, piece)| (index, piece.order)).min_by_key(|(_, order)| *order);
        // The lookup saw every page, and nothing has moved since.
        debug_assert!(oldest.is_some(), "a page that was found is there");
        let (oldest, order) = oldest?;
        let older = mine().filter(|(_, piece)| piece.order < order && piece.from > at);
        let next = older.map(|(_, piece)| piece.from).min().unwrap_or(end);
        Some((oldest, next.min(end)))
    }

    /// Holds the pages of a piece from `at` up to `end` at most; returns where they end.
    fn pin_piece(&mut self, piece: PieceIndex, at: u32, end: u32, holds: &mut Vec<Hold>) -> u32 {
        let from = self.tree.arena.get(piece).from;
        let piece = if from < at { self.tree.cut(piece, at) } else { piece };
        if self.tree.arena.get(piece).to > end {
            self.tree.cut(piece, end);
        }
        if self.tree.arena.get(piece).holders == 0 {
            self.queued -= blocks_of(self.tree.arena.get(piece));
            self.tree.arena.unlink(piece);
            self.tree.arena.push(self.held, piece);
        }
        let index = piece;
        let piece = self.tree.arena.get_mut(index);
        piece.holders += 1;
        let (from, to) = (piece.from, piece.to);
        holds.push(Hold { groups: groups_of(piece), from, to, order: piece.order, piece: index });
        to
    }

    /// Blocks of the found pages `from..hits` that requests in flight hold already, in groups of a kind.
    pub(super) fn shared(&self, of: usize, (from, hits): (u32, u32)) -> u64 {
        let mut shared = 0;
        for (group, kind) in self.rules.attention.groups().iter().enumerate() {
            let mut at = from;
            for node in self.path.iter().copied().filter(|_| side(*kind) == of) {
                let end = self.tree.span(node).1.min(hits);
                while at < end
                    && let Some((piece, stop)) = self.oldest_copy(node, group as u32, at, end)
                {
                    let piece = self.tree.arena.get(piece);
                    let stop = piece.to.min(stop);
                    shared += if piece.holders > 0 { u64::from(stop - at) } else { 0 };
                    at = stop;
                }
            }
        }
        shared
    }

    /// Takes blocks for all pages begun by `next` tokens; a state takes one. Whether there are so many.
    pub(super) fn take_up_to(&mut self, steps: &RequestSteps<'_>, tables: &mut Tables, next: u64) -> bool {
        let states = steps.other == Some(GroupKind::Mamba);
        let (mut held, mut blocks) = (tables.held, 0);
        for side in [FULL, OTHERS] {
            // Drafts have no states.
            let is_state = side == OTHERS && states;
            let wanted = if is_state { next.div_ceil(steps.rules.page()) } else { steps.rules.begun(next) };
            let held = &mut held[side];
            if held.len >= wanted {
                continue;
            }
            let mut each = wanted - held.len;
            if is_state {
                held.previous = held.len.checked_sub(1);
                each = 1;
            }
            held.len = wanted;
            blocks += each * self.counts[side];
        }
        if !self.never_evicts {
            if blocks > self.unnamed + self.queued {
                return false;
            }
            self.take(blocks);
        }
        tables.held = held;
        true
    }

    /// Takes blocks for the pages behind those found, up to the first step's: a state takes one.
    pub(super) fn take_loaded(&mut self, steps: &RequestSteps<'_>, tables: &mut Tables) {
        let end = steps.start.div_ceil(steps.rules.page());
        let mut blocks = 0;
        for (held, groups) in tables.held.iter_mut().zip(self.counts) {
            blocks += groups * end.saturating_sub(held.len.max(held.low));
            held.len = end;
        }
        self.take(blocks);
    }

    /// The pages of states that got names since so many pages had.
    pub(super) fn states_named(
        &self,
        steps: &RequestSteps<'_>,
        tables: &Tables,
        from: u64,
    ) -> impl Iterator<Item = u64> + use<> {
        let KindPages { len, previous, .. } = tables.held[OTHERS];
        let states = [previous, len.checked_sub(1)].into_iter().flatten();
        let is_kept = |page: &u64| {
            let (low, high) = kept_below(steps, OTHERS, page + 1);
            (from..tables.named).contains(page) && (low..high).contains(page)
        };
        let states: Vec<u64> = match steps.other {
            Some(GroupKind::Mamba) => states.filter(is_kept).collect(),
            _ => Vec::new(),
        };
        states.into_iter()
    }

    /// Gives names to the pages that are full with so many tokens, where they are kept.
    pub(super) fn name_up_to(&mut self, steps: &RequestSteps<'_>, request: &mut HybridRequest, tokens: u64) {
        let (from, full) = (request.tables.named, tokens / steps.rules.page());
        if from >= full {
            return;
        }
        request.tables.named = full;
        if request.order + 1 != self.requests {
            // Others have given names since.
            request.order = self.requests;
            self.requests += 1;
        }
        self.name(steps, request, FULL, (from, full));
        let others = request.tables.held[OTHERS];
        if steps.other == Some(GroupKind::Mamba) {
            let states = [others.previous, others.len.checked_sub(1)].into_iter().flatten();
            for state in states.filter(|state| (from..full).contains(state)) {
                self.name(steps, request, OTHERS, (state, state + 1));
            }
        } else {
            self.name(steps, request, OTHERS, (from.max(others.low), full.min(others.len)));
        }
    }

    /// Gives names to those of the pages `from..to` that groups of a kind keep.
    fn name(
        &mut self,
        steps: &RequestSteps<'_>,
        request: &mut HybridRequest,
        of: usize,
        (from, to): (u64, u64),
    ) {
        let known = u64::from(request.known);
        let mut end = to;
        while end > from && !self.groups[of].is_empty() {
            let (low, high) = kept_below(steps, of, end);
            let (low, high) = (low.max(from), high.max(from));
            self.hold(request, of, (low.max(known), high), PRIVATE);
            self.hold(request, of, (low, high.min(known)), request.order);
            end = low.min(high);
        }
    }

    /// Holds named pages in all groups of a kind: one page as one, more of them a group.
    fn hold(&mut self, request: &mut HybridRequest, of: usize, (from, to): (u64, u64), order: u64) {
        if from >= to || (order == PRIVATE && self.never_evicts) {
            return;
        }
        let all = self.groups[of];
        let hold = Hold { groups: all, from: from as u32, to: to as u32, order, piece: NOWHERE };
        if to - from == 1 && !self.never_evicts {
            self.hold_in(&mut request.tables.holds, hold);
        } else {
            let groups = all.iter().map(GroupSet::of);
            groups.for_each(|groups| self.hold_in(&mut request.tables.holds, Hold { groups, ..hold }));
        }
    }

    /// Names pages and holds them, joined to those of the same group that they continue.
    fn hold_in(&mut self, holds: &mut Vec<Hold>, hold: Hold) {
        if hold.order == PRIVATE {
            holds.push(hold);
            return;
        }
        let last = holds.iter_mut().rev().find(|last| last.groups.meets(hold.groups));
        let continued = |last: &&mut Hold| {
            (last.groups, last.to, last.order) == (hold.groups, hold.from, hold.order)
                && !hold.groups.is_shared()
        };
        match last.filter(continued) {
            Some(last) => {
                last.piece = self.name_known(hold, Some(*last));
                last.to = hold.to;
            }
            None => holds.push(Hold { piece: self.name_known(hold, None), ..hold }),
        }
    }

    /// Gives names to pages with ids, which may continue others; where the last of them lies. Where nothing is evicted, they
    /// get them as they are given back.
    fn name_known(&mut self, hold: Hold, before: Option<Hold>) -> PieceIndex {
        let mut deepest = NOWHERE;
        if self.never_evicts {
            return deepest;
        }
        for index in (0..self.path.len()).rev() {
            let node = self.path[index];
            let (first, end) = self.tree.span(node);
            if end <= hold.from {
                break;
            }
            let (from, to) = (hold.from.max(first), hold.to.min(end));
            if from >= to {
                continue;
            }
            let before =
                before.filter(|_| first < from).and_then(|before| self.copy_below(node, before, from));
            let piece = match before.filter(|piece| self.tree.arena.get(*piece).holders == 1) {
                Some(piece) => {
                    self.tree.arena.get_mut(piece).to = to;
                    piece
                }
                None => {
                    let piece = Piece::new(node, hold.groups.bits(), (from, to), hold.order).held_once();
                    let piece = self.tree.add_piece(piece);
                    self.tree.arena.push(self.held, piece);
                    piece
                }
            };
            deepest = if deepest == NOWHERE { piece } else { deepest };
        }
        deepest
    }

    /// Whether groups alongside the full ones hold pages with names that nobody can ask for.
    pub(super) fn has_private_others(&self, tables: &Tables) -> bool {
        let is_other = |hold: &Hold| hold.groups.meets(self.groups[OTHERS]);
        tables.holds.iter().any(|hold| hold.order == PRIVATE && is_other(hold))
    }

    /// Gives pages that nobody could ask for the names of the path, which has ids for them now.
    pub(super) fn name_private_holds(&mut self, tables: &mut Tables, order: u64) {
        for hold in tables.holds.iter_mut().filter(|hold| hold.order == PRIVATE) {
            hold.order = order;
            hold.piece = self.name_known(*hold, None);
        }
    }

    /// Gives back, with `done` tokens computed, what windows have passed and states have left behind.
    pub(super) fn free_passed(&mut self, steps: &RequestSteps<'_>, tables: &mut Tables, done: u64) {
        let held = &mut tables.held[OTHERS];
        let passed = match steps.other {
            None | Some(GroupKind::Full) => return,
            Some(GroupKind::Window(tokens)) => {
                let passed = (held.low, steps.rules.passed(tokens, done).min(held.len));
                held.low = held.low.max(passed.1);
                passed
            }
            Some(GroupKind::Mamba) => held.previous.take().map_or((0, 0), |state| (state, state + 1)),
        };
        if passed.0 < passed.1 {
            let blocks = (passed.1 - passed.0) * self.counts[OTHERS];
            self.give_back(tables, blocks, [(0, 0), (passed.0 as u32, passed.1 as u32)]);
        }
    }

    /// Gives back all of it, group by group.
    pub(super) fn free_all(&mut self, steps: &RequestSteps<'_>, tables: &mut Tables) {
        let states = steps.other == Some(GroupKind::Mamba);
        let blocks = [FULL, OTHERS].map(|side| tables.blocks(side, states) * self.counts[side]);
        self.give_back(tables, blocks.iter().sum(), [(0, u32::MAX); 2]);
        tables.held = Default::default();
    }

    /// Gives back so many blocks: the pages between these of each kind, group by group, the last page first.
    fn give_back(&mut self, tables: &mut Tables, blocks: u64, pages: [(u32, u32); 2]) {
        let mut freed = std::mem::take(&mut self.freed);
        freed.clear();
        let full = self.groups[FULL];
        tables.holds.retain_mut(|hold| {
            let (from, to) = pages[if hold.groups.meets(full) { FULL } else { OTHERS }];
            if hold.from >= to || hold.to <= from {
                return true;
            }
            let end = hold.to.min(to);
            freed.push(Hold { to: end, ..*hold });
            hold.from = end;
            hold.from < hold.to
        });
        by_group(&mut freed);
        if self.notes_loose {
            self.note_loose(&freed, pages[OTHERS]);
        }
        for hold in &freed {
            match hold.order {
                PRIVATE => self.queue_private(hold.blocks() as u32),
                _ => self.let_go(*hold),
            }
        }
        if !self.never_evicts {
            self.unnamed += blocks.saturating_sub(freed.iter().map(Hold::blocks).sum());
        }
        self.freed = freed;
    }

    /// Notes which of these pages of the groups alongside the full ones had no name, in the order of their return.
    fn note_loose(&mut self, named: &[Hold], (from, to): (u32, u32)) {
        let loose = &mut self.loose;
        for group in self.groups[OTHERS].iter() {
            let mut note = |from, to| loose.extend((from < to).then_some((group, from, to)));
            let mut end = to;
            for hold in named.iter().filter(|hold| hold.groups.has(group)) {
                note(hold.to, end);
                end = hold.from;
            }
            note(from, end);
        }
    }

    /// Blocks without a name are taken, those that came back last first.
    pub(super) fn take_loose(&mut self, blocks: u64) {
        let mut left = blocks;
        while left > 0
            && let Some((_, from, to)) = self.loose.last_mut()
        {
            let taken = left.min(u64::from(to.saturating_sub(*from)));
            // At most the pages of the run.
            *from += taken as u32;
            left -= taken;
            if *from >= *to {
                self.loose.pop();
            }
        }
    }

    /// Whether a page lies in a block that came back without a name, and that nobody has taken since.
    pub(super) fn is_loose(&self, group: u32, page: u32) -> bool {
        self.loose.iter().any(|(other, from, to)| *other == group && (*from..*to).contains(&page))
    }

    /// Holds pages once less; those that nobody holds then are free, group by group, the last one first.
    fn let_go(&mut self, hold: Hold) {
        let mut gone = GroupSet::default();
        for group in hold.groups.iter() {
            if !gone.has(group) {
                gone = gone.with(self.let_go_in(group, hold));
            }
        }
    }

    /// The same in one group of a hold, and in those that share its piece; which these are.
    fn let_go_in(&mut self, group: u32, hold: Hold) -> GroupSet {
        let (all, hold) = (hold.groups, Hold { groups: GroupSet::of(group), ..hold });
        let mut gone = hold.groups;
        for index in (0..self.path.len()).rev() {
            let node = self.path[index];
            let (first, end) = self.tree.span(node);
            if end <= hold.from {
                break;
            }
            let (low, mut at) = (hold.from.max(first), hold.to.min(end));
            if self.never_evicts && low < at {
                self.keep_once(node, group, (low, at));
                continue;
            }
            while low < at
                && let Some(piece) = self.copy_below(node, hold, at)
            {
                let groups = groups_of(self.tree.arena.get(piece));
                let is_whole = groups.is_in(all);
                let piece = if is_whole { piece } else { self.part(piece, group) };
                gone = if is_whole { gone.with(groups) } else { gone };
                let piece = self.cut_to(piece, (low, at));
                at = self.tree.arena.get(piece).from;
                let held = self.tree.arena.get_mut(piece);
                held.holders -= 1;
                if held.holders == 0 {
                    self.tree.arena.unlink(piece);
                    self.queue(piece);
                }
            }
        }
        gone
    }

    /// The piece of a node with the page before `at` of these blocks.
    fn copy_below(&self, node: RunIndex, hold: Hold, at: u32) -> Option<PieceIndex> {
        let is_it = |piece: &Piece| {
            groups_of(piece).meets(hold.groups)
                && piece.order == hold.order
                && piece.from < at
                && at <= piece.to
        };
        let likely = self.tree.arena.get(hold.piece);
        if likely.node == node && is_it(likely) {
            return Some(hold.piece);
        }
        self.tree.pieces(node).find(|(_, piece)| is_it(piece)).map(|(index, _)| index)
    }

    /// The part of a piece that lies in `low..at`.
    fn cut_to(&mut self, piece: PieceIndex, (low, at): (u32, u32)) -> PieceIndex {
        if self.tree.arena.get(piece).to > at {
            self.tree.cut(piece, at);
        }
        if self.tree.arena.get(piece).from < low { self.tree.cut(piece, low) } else { piece }
    }

    /// Takes again what a request held that was read back from a snapshot, which stands among the free blocks; whether all
    /// of it was there.
    pub(super) fn hold_again(&mut self, steps: &RequestSteps<'_>, tables: &Tables) -> bool {
        let states = steps.other == Some(GroupKind::Mamba);
        let blocks: u64 = [FULL, OTHERS]
            .map(|side| tables.blocks(side, states).saturating_mul(self.counts[side]))
            .iter()
            .sum();
        let groups = self.rules.attention.groups().len() as u32;
        let mut named = 0u64;
        for hold in &tables.holds {
            if hold.from >= hold.to || hold.groups.last() >= groups {
                return false;
            }
            named = named.saturating_add(hold.blocks());
            if hold.order == PRIVATE {
                continue;
            }
            let mut left = hold.blocks();
            for index in (0..self.path.len()).rev() {
                let node = self.path[index];
                let (first, end) = self.tree.span(node);
                let (low, mut at) = (hold.from.max(first), hold.to.min(end));
                while low < at
                    && let Some(piece) = self.copy_below(node, *hold, at)
                {
                    let piece = self.cut_to(piece, (low, at));
                    let Piece { from, to, holders, .. } = *self.tree.arena.get(piece);
                    if holders == 0 {
                        self.queued -= u64::from(to - from) * hold.groups.len();
                        self.tree.arena.unlink(piece);
                        self.tree.arena.push(self.held, piece);
                    }
                    self.tree.arena.get_mut(piece).holders += 1;
                    left -= u64::from(at - from);
                    at = from;
                }
            }
            if left > 0 {
                return false;
            }
        }
        let private: u64 = tables.holds.iter().filter(|hold| hold.order == PRIVATE).map(Hold::blocks).sum();
        let Some(unnamed) = blocks.checked_sub(named) else { return false };
        match self.unnamed.checked_sub(unnamed.saturating_add(private)) {
            Some(left) => self.unnamed = left,
            None => return false,
        }
        true
    }
}

/// The same pages, each hold of one group.
fn each_group(holds: &[Hold]) -> Vec<Hold> {
    let alone =
        |hold: Hold| hold.groups.iter().map(move |group| Hold { groups: GroupSet::of(group), ..hold });
    holds.iter().copied().flat_map(alone).collect()
}

/// Puts what is given back in the order in which it is: group by group, of each the last page first. What several groups
/// share stays one where nothing else of theirs comes between.
fn by_group(freed: &mut Vec<Hold>) {
    let place = |hold: &Hold| (hold.groups.first(), std::cmp::Reverse(hold.from));
    freed.sort_unstable_by_key(place);
    let crosses = |pair: &[Hold]| pair[0].groups.last() >= pair[1].groups.first();
    if freed.iter().any(|hold| hold.groups.is_shared()) && freed.windows(2).any(crosses) {
        *freed = each_group(freed);
        freed.sort_unstable_by_key(place);
    }
    freed.dedup_by(|above, below| {
        let is_one_run = above.to == below.from
            && (above.groups, above.order) == (below.groups, below.order)
            && !above.groups.is_shared();
        below.from = if is_one_run { above.from } else { below.from };
        is_one_run
    });
}

/// The highest run of pages below `end` that groups of a kind keep the names of, with its own end; empty at 0 where
/// there is none.
fn kept_below(steps: &RequestSteps<'_>, side: usize, end: u64) -> (u64, u64) {
    let retention = steps.rules.retention;
    if side == FULL || retention == BlockRetention::All {
        return (0, end);
    }
    let need = steps.rules.need();
    // Windows with layers of a draft head keep the page behind a place to go on from, too: it is found, and lost.
    let behind = steps.other.map_or(0, |kind| u64::from(steps.rules.lost(kind)));
    let tail = |at: u64| {
        let low = at.saturating_sub(need);
        if low < end { (low, (at + behind).min(end)) } else { (0, 0) }
    };
    let higher = |a: (u64, u64), b: (u64, u64)| if b.1 >= a.1 { b } else { a };
    let (same, longer) = steps.resumed_from();
    let mut ends = higher(tail(same), tail(longer));
    if steps.found.junction > 0 {
        ends = higher(ends, tail(steps.found.junction));
        if behind > 0 || (steps.rules.head.drafts() && steps.other == Some(GroupKind::Mamba)) {
            ends = higher(ends, tail(steps.found.junction - 1));
        }
    }
    let BlockRetention::Every(tokens) = retention else { return ends };
    let every = u64::from(tokens) / steps.rules.page();
    if behind > 0 && need + behind >= every {
        return (0, end);
    }
    let above = (end - behind).div_ceil(every) * every;
    let of_interval = [above, above.saturating_sub(every)].into_iter().filter(|at| *at > 0);
    of_interval.fold(ends, |ends, at| higher(ends, tail(at)))
}
