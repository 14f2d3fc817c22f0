//! Step 1 of the rules: how far the groups know a prompt.

use super::rules::{HybridLookup, RequestShape};
use super::{GroupKind, HybridCache, groups_of};
use crate::engines::groups::GroupSet;
use crate::stack::runs::RunIndex;

impl HybridCache {
    /// The leading pages, of the first `known`, that every full group holds, and how many of them all groups can be
    /// resumed behind. Groups with layers of a draft head look one page further and lose the last one that they find;
    /// windows look for it behind what the full groups have left.
    pub(super) fn lookup(&self, shape: &RequestShape, known: u32) -> HybridLookup {
        let lost = self.rules.lost(GroupKind::Full);
        let in_full = if lost > 0 { shape.looked_up } else { shape.findable(&self.rules) };
        // At most the pages with ids, which are counted in 32 bits.
        let [looked_up, in_full] = [shape.looked_up, in_full].map(|pages| pages.min(u64::from(known)) as u32);
        let full = self.groups(true);
        let leading = full.fold(in_full, |limit, group| {
            self.tree.leading(&self.path, |tag| GroupSet::of_bits(tag).has(group), limit)
        });
        let leading = leading.saturating_sub(lost);
        let Some(other) = self.rules.attention.other() else {
            return HybridLookup { hits: u64::from(leading), junction: 0 };
        };
        let lost = self.rules.lost(other);
        let found = self.resumable(looked_up.min(leading + lost), self.rules.need() + u64::from(lost));
        let hits = found.saturating_sub(lost);
        let junction = if leading > hits { leading } else { 0 };
        HybridLookup { hits: u64::from(hits), junction: u64::from(junction) }
    }

    /// The groups that are full, or those that are not.
    fn groups(&self, full: bool) -> impl Iterator<Item = u32> + '_ {
        let groups = self.rules.attention.groups().iter().zip(0..);
        groups.filter(move |(kind, _)| (**kind == GroupKind::Full) == full).map(|(_, group)| group)
    }

    /// The largest number of leading pages, at most `leading`, whose last ones all groups alongside the full ones hold:
    /// as many as `need` says, or, for windows, fewer where they reach the start.
    fn resumable(&self, leading: u32, need: u64) -> u32 {
        let (mut top, mut at) = (leading, leading);
        let mut nodes = self.path.iter().rev().copied().peekable();
        while at > 0 {
            let Some(node) = nodes.peek().copied() else { break };
            let first = self.tree.span(node).0;
            if at <= first {
                nodes.next();
                continue;
            }
            let low = self
                .groups(false)
                .map(|group| self.tree.covered_down_to(node, |tag| GroupSet::of_bits(tag).has(group), at))
                .max()
                .unwrap_or(at);
            if low < at {
                at = low;
                if u64::from(top - at) >= need {
                    return top;
                }
            } else {
                at = self.groups(false).map(|group| self.next_below(node, group, at)).min().unwrap_or(first);
                top = at;
            }
        }
        if self.rules.attention.other() == Some(GroupKind::Mamba) { 0 } else { top }
    }

    /// Where a search from `at` down may go on: at the end of the highest run of the node that lies below,
    /// at its start where there is none; `at` itself where the group holds the page before it.
    fn next_below(&self, node: RunIndex, group: u32, at: u32) -> u32 {
        let first = self.tree.span(node).0;
        let below =
            self.tree.pieces(node).filter(|(_, piece)| groups_of(piece).has(group) && piece.from < at);
        below.map(|(_, piece)| piece.to.min(at)).max().unwrap_or(first)
    }
}
