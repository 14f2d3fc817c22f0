//! Which pages of a request get names, under which later requests find them (step 2d of the rules).

use super::{FULL, Hold, HybridRequest, KindPages, NOWHERE, OTHERS, PRIVATE, Tables};
use crate::engines::groups::GroupSet;
use crate::engines::hybrid::rules::RequestSteps;
use crate::engines::hybrid::{BlockRetention, GroupKind, HybridCache};
use crate::stack::runs::{Piece, PieceIndex};

impl HybridCache {
    /// The pages of states that got names since so many pages had.
    pub(in crate::engines::hybrid) fn states_named(
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
    pub(in crate::engines::hybrid) fn name_up_to(
        &mut self,
        steps: &RequestSteps<'_>,
        request: &mut HybridRequest,
        tokens: u64,
    ) {
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

    /// Holds named pages in all groups of a kind: a single page as one hold, a longer run as one hold per group.
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

    /// Gives names to pages with ids, which may continue others; where the last of them lies. Where nothing is
    /// evicted, they get them as they are given back.
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
    pub(in crate::engines::hybrid) fn has_private_others(&self, tables: &Tables) -> bool {
        let is_other = |hold: &Hold| hold.groups.meets(self.groups[OTHERS]);
        tables.holds.iter().any(|hold| hold.order == PRIVATE && is_other(hold))
    }

    /// Gives pages that nobody could ask for the names of the path, which has ids for them now.
    pub(in crate::engines::hybrid) fn name_private_holds(&mut self, tables: &mut Tables, order: u64) {
        for hold in tables.holds.iter_mut().filter(|hold| hold.order == PRIVATE) {
            hold.order = order;
            hold.piece = self.name_known(*hold, None);
        }
    }
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
        if behind > 0 {
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
