//! What a request gives back: blocks with names as the youngest of the free ones, others as the next to be taken
//! (steps 2a and 3 of the rules).

use super::{FULL, Hold, OTHERS, PRIVATE, Tables, each_group};
use crate::engines::groups::GroupSet;
use crate::engines::hybrid::rules::RequestSteps;
use crate::engines::hybrid::{GroupKind, HybridCache, groups_of};

impl HybridCache {
    /// Gives back, with `done` tokens computed, what windows have passed and states have left behind.
    pub(in crate::engines::hybrid) fn free_passed(
        &mut self,
        steps: &RequestSteps<'_>,
        tables: &mut Tables,
        done: u64,
    ) {
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
    pub(in crate::engines::hybrid) fn free_all(&mut self, steps: &RequestSteps<'_>, tables: &mut Tables) {
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
    pub(in crate::engines::hybrid) fn take_loose(&mut self, blocks: u64) {
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
    pub(in crate::engines::hybrid) fn is_loose(&self, group: u32, page: u32) -> bool {
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
}

/// Puts what is given back in the order in which it is: group by group, of each the last page first. What several
/// groups share stays one where nothing else of theirs comes between.
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
