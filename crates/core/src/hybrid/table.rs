//! What one request holds of each group, and how it comes and goes (steps 2 and 3 of the rules).

use super::rules::{Found, Steps};
use super::{GroupKind, HybridCache, Retention};
use crate::runs::PieceIndex;
use std::collections::VecDeque;

/// The blocks of one group that a request holds: pages `low..len`, of which those before `hits` were found.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// The pages that were found, in prefix order; they keep their names.
    pinned: VecDeque<PieceIndex>,
    hits: u64,
    low: u64,
    len: u64,
    /// The page of the state before the last one, until the next step gives it back.
    previous: Option<u64>,
}

impl HybridCache {
    /// Takes what was found out of the free order: all of it in full groups, in others what a hit needs.
    pub(super) fn pin(&mut self, found: Found) {
        for group in 0..self.tables.len() {
            let low = self.begin(group, found);
            let mut pinned = std::mem::take(&mut self.tables[group].pinned);
            self.pin_run(group as u32, (low as u32, found.hits as u32), &mut pinned);
            self.tables[group].pinned = pinned;
        }
    }

    /// A group's table as a request finds it; gives the first page that is kept of what was found.
    pub(super) fn begin(&mut self, group: usize, found: Found) -> u64 {
        let low = match self.rules.attention.groups()[group] {
            GroupKind::Full => 0,
            GroupKind::Window(_) | GroupKind::Mamba => found.hits.saturating_sub(self.rules.need()),
        };
        let table = &mut self.tables[group];
        table.pinned.clear();
        (table.hits, table.low, table.len, table.previous) = (found.hits, low, found.hits, None);
        low
    }

    /// Takes the pages `from..to` of a group out of the free order; of several blocks that carry one name,
    /// the one named first.
    fn pin_run(&mut self, group: u32, (from, to): (u32, u32), pinned: &mut VecDeque<PieceIndex>) {
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
    fn pin_piece(&mut self, piece: PieceIndex, at: u32, end: u32, pinned: &mut VecDeque<PieceIndex>) -> u32 {
        let from = self.tree.arena.get(piece).from;
        let piece = if from < at { self.tree.cut(piece, at) } else { piece };
        if self.tree.arena.get(piece).to > end {
            self.tree.cut(piece, end);
        }
        self.tree.arena.unlink(piece);
        pinned.push_back(piece);
        self.tree.arena.get(piece).to
    }

    /// Takes blocks for all pages begun by `next` tokens; a state takes one.
    pub(super) fn take_up_to(&mut self, steps: &Steps<'_>, next: u64) {
        let wanted = next.div_ceil(steps.rules.page());
        let mut blocks = 0;
        for (table, kind) in self.tables.iter_mut().zip(steps.rules.attention.groups()) {
            if table.len >= wanted {
                continue;
            }
            if *kind == GroupKind::Mamba {
                table.previous = table.len.checked_sub(1);
                blocks += 1;
            } else {
                blocks += wanted - table.len;
            }
            table.len = wanted;
        }
        if !self.never_evicts {
            self.take(blocks);
        }
    }

    /// Gives back, with `done` tokens computed, what windows have passed and states have left behind.
    pub(super) fn free_passed(&mut self, steps: &Steps<'_>, done: u64) {
        let full = done / steps.rules.page();
        for (group, kind) in steps.rules.attention.groups().iter().enumerate() {
            let (low, len) = (self.tables[group].low, self.tables[group].len);
            match kind {
                GroupKind::Full => {}
                GroupKind::Window(tokens) => {
                    let passed = steps.rules.passed(*tokens, done).min(len);
                    if passed > low {
                        self.free(steps, group, (low, passed), full);
                        self.tables[group].low = passed;
                    }
                }
                GroupKind::Mamba => {
                    if let Some(state) = self.tables[group].previous.take() {
                        self.free(steps, group, (state, state + 1), full);
                    }
                }
            }
        }
    }

    /// Gives back all of it, group by group.
    pub(super) fn finish(&mut self, steps: &Steps<'_>) {
        let full = steps.shape.stored / steps.rules.page();
        for (group, kind) in steps.rules.attention.groups().iter().enumerate() {
            let (low, len) = (self.tables[group].low, self.tables[group].len);
            if *kind != GroupKind::Mamba {
                self.free(steps, group, (low, len), full);
                continue;
            }
            self.free(steps, group, (len.saturating_sub(1), len), full);
            if let Some(state) = self.tables[group].previous.take() {
                self.free(steps, group, (state, state + 1), full);
            }
        }
    }

    /// Gives back the blocks of pages `from..to`, the last one first. Of those the request computed, the full
    /// ones (the first `full`) have names where they are kept.
    fn free(&mut self, steps: &Steps<'_>, group: usize, (from, to): (u64, u64), full: u64) {
        let hits = self.tables[group].hits;
        let computed = (from.max(hits), to);
        if computed.0 < computed.1 {
            let mut end = to.min(full).max(computed.0);
            let mut unnamed = to - end;
            while end > computed.0 {
                let (low, high) = self.kept_below(steps, group, end);
                let (low, high) = (low.max(computed.0), high.max(computed.0));
                unnamed += end - high;
                if low < high {
                    self.free_named(group as u32, low, high);
                }
                end = low.min(high);
            }
            if !self.never_evicts {
                self.unnamed += unnamed;
            }
        }
        self.free_pinned(group, (from as u32, to.min(hits) as u32));
    }

    /// The highest run of pages below `end` that keep their names, with its own end; empty at 0 where there
    /// is none.
    fn kept_below(&self, steps: &Steps<'_>, group: usize, end: u64) -> (u64, u64) {
        let need = steps.rules.need();
        let tail = |at: u64| {
            let low = at.saturating_sub(need);
            if low < end { (low, at.min(end)) } else { (0, 0) }
        };
        let ends = [tail(steps.shape.limit), tail(steps.found.junction)];
        let highest =
            |runs: &[(u64, u64)]| runs.iter().copied().max_by_key(|(_, high)| *high).unwrap_or((0, 0));
        match (steps.rules.attention.groups()[group], steps.rules.retention) {
            (GroupKind::Full, _) | (_, Retention::All) => (0, end),
            (_, Retention::Ends) => highest(&ends),
            (_, Retention::Every(tokens)) => {
                let every = u64::from(tokens) / steps.rules.page();
                let above = end.div_ceil(every) * every;
                let multiples = [tail(above), tail(above - every)];
                highest(&[ends[0], ends[1], multiples[0], multiples[1]])
            }
        }
    }

    /// Puts found pages `from..to` back into the free order, the last one first.
    fn free_pinned(&mut self, group: usize, (from, to): (u32, u32)) {
        let mut pinned = std::mem::take(&mut self.tables[group].pinned);
        let mut kept = VecDeque::new();
        while let Some(piece) = pinned.pop_back() {
            let (start, end) = (self.tree.arena.get(piece).from, self.tree.arena.get(piece).to);
            if start >= to {
                kept.push_front(piece);
                continue;
            }
            if end <= from {
                pinned.push_back(piece);
                break;
            }
            if end > to {
                kept.push_front(self.tree.cut(piece, to));
            }
            self.queue(piece);
        }
        pinned.append(&mut kept);
        self.tables[group].pinned = pinned;
    }
}
