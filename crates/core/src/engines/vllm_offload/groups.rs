//! The tier under a pool that several groups of layers share: what each of them offers in a step.

use super::OffloadTier;
use super::residents::{ChunkSpan, GroupSpan};
use crate::engines::hybrid::{BlockRetention, GroupKind, LookedUpPrompt, LowerTier, PromptStep};
use crate::request::event::RequestEvent;

impl LowerTier for OffloadTier {
    fn look_up(&mut self, event: &RequestEvent<'_>, prompt: LookedUpPrompt) -> u64 {
        self.enter(event, prompt);
        self.computed
    }

    fn load(&mut self) {
        Self::load(self);
    }

    /// States are offered one by one as they get their names, and not again; then come full groups and windows, all
    /// at once.
    fn store(&mut self, step: &PromptStep<'_>) -> bool {
        let end = self.chunks_of(step.tokens);
        let groups: Vec<(u32, GroupKind)> = (0u32..).zip(self.attention.groups().iter().copied()).collect();
        let size = self.chunk_pages();
        self.residents.step();
        for (group, _) in groups.iter().filter(|(_, kind)| *kind == GroupKind::Mamba) {
            for state in step.states.iter().filter(|page| (**page + 1).is_multiple_of(size)) {
                let chunk = self.chunks_of((state + 1) * u64::from(self.rules.page_size.get()));
                self.offer(&[(*group, (chunk - 1, chunk))]);
            }
        }
        let mut spans: Vec<GroupSpan> = Vec::new();
        for (group, kind) in groups {
            match kind {
                GroupKind::Full if self.first < end => spans.push((group, (self.first, end))),
                GroupKind::Window(tokens) => {
                    let chunks = self.window_chunks(group, tokens, end, step);
                    spans.extend(chunks.into_iter().map(|span| (group, span)));
                }
                GroupKind::Full | GroupKind::Mamba => {}
            }
        }
        let is_stored = self.offer(&spans);
        if is_stored {
            self.first = self.first.max(end);
        }
        is_stored
    }

    fn leave(&mut self) {
        Self::leave(self);
    }
}

impl OffloadTier {
    /// The chunks of a window, up to this one, that are not stored yet, that can be gone on from, and whose pages the
    /// device has.
    fn window_chunks(&self, group: u32, tokens: u32, end: u32, step: &PromptStep<'_>) -> Vec<ChunkSpan> {
        let kept = KeptPages::of(self, tokens);
        let size = self.chunk_pages();
        // From here on the device has all pages of a chunk.
        let whole = step.low.div_ceil(size).min(u64::from(end)) as u32;
        let mut spans: Vec<ChunkSpan> = Vec::new();
        let mut push = |(from, to): ChunkSpan| match spans.last_mut() {
            _ if from >= to => {}
            Some((_, last)) if *last >= from => *last = to.max(*last),
            _ => spans.push((from, to)),
        };
        let is_there = |page: u64| page >= step.low || (page >= step.first && (step.is_there)(group, page));
        for (from, to) in kept.chunks((self.first, end)) {
            // Before these the device has none.
            let from = from.max((step.first / size) as u32);
            for chunk in from..to.min(whole) {
                let mut pages = u64::from(chunk) * size..u64::from(chunk + 1) * size;
                let has_last = is_there(pages.end - 1);
                if has_last && pages.all(|page| !kept.has(page) || is_there(page)) {
                    push((chunk, chunk + 1));
                }
            }
            push((from.max(whole), to));
        }
        spans
    }
}

/// The pages of a window that a later request can go on from.
struct KeptPages {
    need: u64,
    /// Pages a chunk: places to go on from are ends of chunks.
    size: u64,
    /// Places at which something is kept at any rate, in pages.
    ends: [Option<u64>; 2],
    /// Pages between places that are kept besides, the first one behind as many; 0 where there are none.
    every: u64,
    /// Pages behind each place that are kept with it: with a draft head the one that is lost.
    behind: u64,
}

impl KeptPages {
    fn of(tier: &OffloadTier, tokens: u32) -> Self {
        let (page, size) = (u64::from(tier.rules.page_size.get()), tier.chunk_pages());
        let LookedUpPrompt { findable, junction, .. } = tier.prompt;
        let ends = [Some(findable / page), Some(junction).filter(|pages| *pages > 0)];
        let ends = ends.map(|pages| Some(pages? / size * size));
        let (ends, every) = match tier.retention {
            BlockRetention::All => ([None; 2], size),
            BlockRetention::Ends => (ends, 0),
            BlockRetention::Every(tokens) => (ends, u64::from(tokens) / page),
        };
        let behind = u64::from(tier.head.is_in(GroupKind::Window(tokens)));
        Self { need: u64::from(tokens - 1).div_ceil(page) + behind, size, ends, every, behind }
    }

    /// Whether all pages are kept.
    fn is_dense(&self) -> bool {
        self.every > 0 && self.need >= self.every
    }

    fn has(&self, page: u64) -> bool {
        let is_before = |end: &u64| page < *end + self.behind && page + self.need >= *end + self.behind;
        let of_interval = |page: u64| self.every > 0 && page % self.every + self.need >= self.every;
        self.is_dense()
            || page.checked_sub(self.behind).is_some_and(of_interval)
            || self.ends.iter().flatten().any(is_before)
    }

    /// The chunks of a span with such pages, in ascending order.
    fn chunks(&self, (first, end): ChunkSpan) -> Vec<ChunkSpan> {
        if self.is_dense() || self.every == self.size {
            return vec![(first, end)];
        }
        let (low, high) = (u64::from(first) * self.size, u64::from(end) * self.size);
        let mut ends: Vec<u64> = self.ends.into_iter().flatten().collect();
        if let Some(begun) = low.saturating_sub(self.behind).checked_div(self.every) {
            ends.extend(
                (begun..).map(|count| (count + 1) * self.every).take_while(|at| *at < high + self.every),
            );
        }
        ends.sort_unstable();
        let chunks = ends.into_iter().map(|end| {
            let end = end + self.behind;
            let from = end.saturating_sub(self.need) / self.size;
            ((from as u32).max(first), (end.div_ceil(self.size).min(high / self.size)) as u32)
        });
        chunks.filter(|(from, to)| from < to).collect()
    }
}
