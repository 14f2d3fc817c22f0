//! What one request holds of each group, and how it comes and goes (steps 2 and 3 of the rules).
//!
//! The groups alongside the full ones are of one kind, so groups of a kind hold the same pages at every step. What is taken and
//! given back is found once a kind and done once a group, for the blocks are each group's own.

use super::rules::{Found, Steps};
use super::{Attention, GroupKind, HybridCache, Retention};
use crate::stack::runs::{NONE, NodeIndex, Piece, PieceIndex};

/// The place of the full groups in what is kept a kind.
const FULL: usize = 0;
/// The place of the other groups.
const OTHERS: usize = 1;

fn side(kind: GroupKind) -> usize {
    if kind == GroupKind::Full { FULL } else { OTHERS }
}

/// The pages of a request that each group of a kind holds: `low..len`, of which those before `hits` were found.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    hits: u64,
    low: u64,
    len: u64,
    /// The page of the state before the last one, until the next step gives it back.
    previous: Option<u64>,
}

/// Pages that each group of a kind gives back.
#[derive(Debug, Clone, Copy)]
enum Back {
    /// Pages of a node that the request computed and that keep their names; of [`NONE`] nobody can ask for them.
    Named(NodeIndex, (u32, u32)),
    /// Pages that were found.
    Found((u32, u32)),
}

/// What a request holds; kept between requests for its memory.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    held: [Held; 2],
    /// What a step gives back, in this order.
    back: [Vec<Back>; 2],
    /// How many groups there are of the kind.
    groups: [u64; 2],
    /// The pages that were found, a list per group in prefix order; they keep their names.
    pinned: Vec<Vec<PieceIndex>>,
}

impl Tables {
    pub(super) fn of(attention: &Attention) -> Self {
        let all = attention.groups().len();
        let full = attention.groups().iter().filter(|kind| side(**kind) == FULL).count();
        Self {
            held: Default::default(),
            back: Default::default(),
            groups: [full as u64, (all - full) as u64],
            pinned: vec![Vec::new(); all],
        }
    }
}

impl HybridCache {
    /// Takes what was found out of the free order: all of it in full groups, in others what a hit needs.
    pub(super) fn pin(&mut self, found: Found) {
        self.begin(found);
        for group in 0..self.tables.pinned.len() {
            let from = self.first_found(group) as u32;
            let mut pinned = std::mem::take(&mut self.tables.pinned[group]);
            pinned.clear();
            self.pin_run(group as u32, (from, found.hits as u32), &mut pinned);
            self.tables.pinned[group] = pinned;
        }
    }

    /// The tables as a request finds them.
    pub(super) fn begin(&mut self, found: Found) {
        let low = found.hits.saturating_sub(self.rules.need());
        let held = Held { hits: found.hits, low: 0, len: found.hits, previous: None };
        self.tables.held = [held, Held { low, ..held }];
    }

    /// The first page that a group keeps of what was found.
    pub(super) fn first_found(&self, group: usize) -> u64 {
        self.tables.held[side(self.rules.attention.groups()[group])].low
    }

    /// Takes the pages `from..to` of a group out of the free order; of several blocks that carry one name,
    /// the one named first.
    fn pin_run(&mut self, group: u32, (from, to): (u32, u32), pinned: &mut Vec<PieceIndex>) {
        let mut at = from;
        for index in 0..self.path.len() {
            let node = self.path[index];
            let end = self.tree.span(node).1.min(to);
            while at < end {
                let mine = || self.tree.pieces(node).filter(|(_, piece)| piece.tag == group);
                let covering = mine().filter(|(_, piece)| piece.from <= at && at < piece.to);
                let Some((oldest, order)) =
                    covering.map(|(index, piece)| (index, piece.order)).min_by_key(|(_, order)| *order)
                else {
                    // The lookup saw every page, and nothing has moved since.
                    debug_assert!(false, "a page that was found is there");
                    return;
                };
                let older = mine().filter(|(_, piece)| piece.order < order && piece.from > at);
                let next = older.map(|(_, piece)| piece.from).min().unwrap_or(end);
                at = self.pin_piece(oldest, at, next.min(end), pinned);
            }
        }
    }

    /// Takes the pages of a piece from `at` up to `end` at most out of the free order; returns where they end.
    fn pin_piece(&mut self, piece: PieceIndex, at: u32, end: u32, pinned: &mut Vec<PieceIndex>) -> u32 {
        let from = self.tree.arena.get(piece).from;
        let piece = if from < at { self.tree.cut(piece, at) } else { piece };
        if self.tree.arena.get(piece).to > end {
            self.tree.cut(piece, end);
        }
        self.tree.arena.unlink(piece);
        pinned.push(piece);
        self.tree.arena.get(piece).to
    }

    /// Takes blocks for all pages begun by `next` tokens; a state takes one.
    pub(super) fn take_up_to(&mut self, steps: &Steps<'_>, next: u64) {
        let states = steps.other == Some(GroupKind::Mamba);
        let mut blocks = 0;
        for side in [FULL, OTHERS] {
            // Drafts have no states.
            let is_state = side == OTHERS && states;
            let wanted = if is_state { next.div_ceil(steps.rules.page()) } else { steps.rules.begun(next) };
            let held = &mut self.tables.held[side];
            if held.len >= wanted {
                continue;
            }
            let mut each = wanted - held.len;
            if is_state {
                held.previous = held.len.checked_sub(1);
                each = 1;
            }
            held.len = wanted;
            blocks += each * self.tables.groups[side];
        }
        if !self.never_evicts {
            self.take(blocks);
        }
    }

    /// Gives back, with `done` tokens computed, what windows have passed and states have left behind.
    pub(super) fn free_passed(&mut self, steps: &Steps<'_>, done: u64) {
        let full = done / steps.rules.page();
        let held = &mut self.tables.held[OTHERS];
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
            self.free(steps, OTHERS, passed, full);
            self.give_back(steps);
        }
    }

    /// Gives back all of it, group by group.
    pub(super) fn finish(&mut self, steps: &Steps<'_>) {
        let full = steps.shape.stored / steps.rules.page();
        let [all, others] = self.tables.held;
        self.free(steps, FULL, (all.low, all.len), full);
        if steps.other == Some(GroupKind::Mamba) {
            self.free(steps, OTHERS, (others.len.saturating_sub(1), others.len), full);
            if let Some(state) = self.tables.held[OTHERS].previous.take() {
                self.free(steps, OTHERS, (state, state + 1), full);
            }
        } else {
            self.free(steps, OTHERS, (others.low, others.len), full);
        }
        self.give_back(steps);
    }

    /// Finds what the groups of a kind give back of pages `from..to`, the last one first. Of those the request
    /// computed, the full ones (the first `full`) have names where they are kept.
    fn free(&mut self, steps: &Steps<'_>, side: usize, (from, to): (u64, u64), full: u64) {
        let hits = self.tables.held[side].hits;
        let first = from.max(hits);
        if first < to {
            let mut end = to.min(full).max(first);
            let mut unnamed = to - end;
            while end > first {
                let (low, high) = kept_below(steps, side, end);
                let (low, high) = (low.max(first), high.max(first));
                unnamed += end - high;
                if low < high {
                    self.free_named(side, low, high);
                }
                end = low.min(high);
            }
            if !self.never_evicts {
                self.unnamed += unnamed * self.tables.groups[side];
            }
        }
        let found = (from as u32, to.min(hits) as u32);
        if found.0 < found.1 {
            self.tables.back[side].push(Back::Found(found));
        }
    }

    /// The same of pages `from..to` that the request computed and that keep their names.
    fn free_named(&mut self, side: usize, from: u64, to: u64) {
        let known = self.ids.len() as u64;
        let back = &mut self.tables.back[side];
        let private = to.saturating_sub(from.max(known));
        if private > 0 && !self.never_evicts {
            back.push(Back::Named(NONE, (0, private as u32)));
        }
        let (from, to) = (from as u32, to.min(known) as u32);
        for node in self.path.iter().rev() {
            let (first, end) = self.tree.span(*node);
            let part = (from.max(first), to.min(end));
            if part.0 < part.1 {
                back.push(Back::Named(*node, part));
            }
            if first <= from {
                break;
            }
        }
    }

    /// Gives back what was found to be, group by group.
    fn give_back(&mut self, steps: &Steps<'_>) {
        let mut back = std::mem::take(&mut self.tables.back);
        for (group, kind) in steps.rules.attention.groups().iter().enumerate() {
            for each in &back[side(*kind)] {
                match *each {
                    Back::Found(pages) => self.free_found(group, pages),
                    Back::Named(NONE, pages) => self.queue_new(Piece::new(NONE, 0, pages, 0)),
                    Back::Named(node, pages) if self.never_evicts => {
                        self.keep_once(node, group as u32, pages);
                    }
                    Back::Named(node, pages) => {
                        self.queue_new(Piece::new(node, group as u32, pages, self.requests));
                    }
                }
            }
        }
        back.iter_mut().for_each(Vec::clear);
        self.tables.back = back;
    }

    /// Puts found pages `from..to` back into the free order, the last one first.
    fn free_found(&mut self, group: usize, (from, to): (u32, u32)) {
        let mut pinned = std::mem::take(&mut self.tables.pinned[group]);
        let start = pinned.partition_point(|piece| self.tree.arena.get(*piece).to <= from);
        let end = pinned.partition_point(|piece| self.tree.arena.get(*piece).from < to);
        let mut beyond = None;
        for piece in pinned[start..end].iter().rev().copied() {
            if self.tree.arena.get(piece).to > to {
                beyond = Some(self.tree.cut(piece, to));
            }
            self.queue(piece);
        }
        pinned.drain(start..end);
        if let Some(beyond) = beyond {
            pinned.insert(start, beyond);
        }
        self.tables.pinned[group] = pinned;
    }
}

/// The highest run of pages below `end` that groups of a kind keep the names of, with its own end; empty at 0 where
/// there is none.
fn kept_below(steps: &Steps<'_>, side: usize, end: u64) -> (u64, u64) {
    let retention = steps.rules.retention;
    if side == FULL || retention == Retention::All {
        return (0, end);
    }
    let need = steps.rules.need();
    // Windows of a model with a draft head keep the page behind a place to go on from, too: it is found, and lost.
    let behind = u64::from(steps.rules.drafts() && steps.other != Some(GroupKind::Mamba));
    let tail = |at: u64| {
        let low = at.saturating_sub(need);
        if low < end { (low, (at + behind).min(end)) } else { (0, 0) }
    };
    let higher = |a: (u64, u64), b: (u64, u64)| if b.1 >= a.1 { b } else { a };
    let (same, longer) = steps.resumed_from();
    let mut ends = higher(tail(same), tail(longer));
    if steps.found.junction > 0 {
        ends = higher(ends, tail(steps.found.junction));
        if steps.rules.drafts() {
            ends = higher(ends, tail(steps.found.junction - 1));
        }
    }
    let Retention::Every(tokens) = retention else { return ends };
    let every = u64::from(tokens) / steps.rules.page();
    if behind > 0 && need + behind >= every {
        return (0, end);
    }
    let above = (end - behind).div_ceil(every) * every;
    let of_interval = [above, above.saturating_sub(every)].into_iter().filter(|at| *at > 0);
    of_interval.fold(ends, |ends, at| higher(ends, tail(at)))
}
