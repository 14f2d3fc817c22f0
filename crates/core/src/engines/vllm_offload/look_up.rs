//! How far the tier has a prompt in every group, behind the device's pages.

use super::OffloadTier;
use super::residents::GroupSpan;
use crate::engines::hybrid::{GroupKind, LookedUpPrompt};

impl OffloadTier {
    /// The tokens that are there with what the tier has, device's included; `None` where that is less than a chunk
    /// more.
    ///
    /// Full groups say how far, from their first chunk on, and each of the others draws that back to the last place
    /// that it can be gone on from, until all of them agree. Groups with layers of a draft head lose once the last
    /// chunk that they find, and look for it behind what the groups before them have left.
    pub(super) fn look_up(&self, prompt: &LookedUpPrompt) -> Option<u64> {
        let size = self.chunk_tokens();
        let computed = prompt.hits * u64::from(self.rules.page_size.get());
        let first = (computed / size).min(u64::from(self.chunk_count)) as u32;
        let other = self.attention.other();
        // That the prompt's last token is computed full attention alone sees to itself.
        let most = if other.is_some() { prompt.findable } else { prompt.prompt };
        let mut most = if other == Some(GroupKind::Mamba) { most / size * size } else { most };
        let groups = || (0u32..).zip(self.attention.groups().iter().copied());
        let of_kind = |is_full: bool| groups().filter(move |(_, kind)| (*kind == GroupKind::Full) == is_full);
        for (group, kind) in of_kind(true) {
            most = self.found_in(group, kind, (first, computed), (most, self.lost(kind)))?;
        }
        for (group, kind) in of_kind(false) {
            most = self.found_in(group, kind, (first, computed), (most, self.lost(kind)))?;
        }
        loop {
            let before = most;
            for (group, kind) in of_kind(false) {
                most = self.found_in(group, kind, (first, computed), (most, 0))?;
            }
            if most == before {
                return Some(most);
            }
        }
    }

    /// Chunks that a group of this kind loses: the state of a draft in the last one depends on the token behind it.
    fn lost(&self, kind: GroupKind) -> u32 {
        u32::from(self.head.is_in(kind))
    }

    /// The tokens up to which a group has what it needs, at most so many, with so many chunks behind them that it
    /// loses; `None` where that is less than a chunk.
    fn found_in(
        &self,
        group: u32,
        kind: GroupKind,
        (first, computed): (u32, u64),
        (most, lost): (u64, u32),
    ) -> Option<u64> {
        let size = self.chunk_tokens();
        let most = most.min(u64::from(self.chunk_count) * size);
        let is_enough = |tokens: u64| tokens >= computed + size;
        if !is_enough(most) {
            return None;
        }
        let chunks = (most.div_ceil(size) as u32 + lost).min(self.chunk_count);
        let end = match kind {
            GroupKind::Full => self.residents.found((group, (first, chunks))),
            GroupKind::Mamba => self.window_end(group, (first, chunks), [1, 1]),
            GroupKind::Window(tokens) => {
                // Where it would end.
                let most_behind = most.min(u64::from(chunks - lost) * size);
                let behind = most_behind.next_multiple_of(size) - most_behind;
                let usual = u64::from(tokens).div_ceil(size);
                let at_first = usual.max((u64::from(tokens) - 1 + behind).div_ceil(size));
                self.window_end(group, (first, chunks), [usual, at_first].map(|run| run + u64::from(lost)))
            }
        };
        let end = end.saturating_sub(lost);
        let most = most.min(u64::from(end) * size);
        (end > first && is_enough(most)).then_some(most)
    }

    /// The last end of so many chunks in a row, or of fewer that reach down to the first one; the run at the very end
    /// may need more of them than others.
    fn window_end(&self, group: u32, (first, end): (u32, u32), [usual, at_first]: [u64; 2]) -> u32 {
        let (mut at, mut needed) = (end, at_first);
        while at > first {
            let low = self.residents.found_down((group, (first, at)));
            if at > low && (u64::from(at - low) >= needed || low == first) {
                return at;
            }
            needed = usual;
            at = if low < at { low - 1 } else { self.residents.last_found((group, (first, at))) };
        }
        first
    }

    /// The chunks that are loaded: of full groups all behind the device's, of others those that the next token needs.
    pub(super) fn loaded(&self) -> Vec<GroupSpan> {
        let (page, pages) = (u64::from(self.rules.page_size.get()), self.chunk_pages());
        let end = self.computed.div_ceil(self.chunk_tokens()) as u32;
        let of_group = |(group, kind): (u32, &GroupKind)| {
            let from = self.prompt.hits.max(match kind {
                GroupKind::Full => 0,
                GroupKind::Mamba => self.computed.div_ceil(page) - 1,
                GroupKind::Window(tokens) => (self.computed + 1).saturating_sub(u64::from(*tokens)) / page,
            });
            (group, ((from / pages) as u32, end))
        };
        (0u32..).zip(self.attention.groups()).map(of_group).collect()
    }
}
