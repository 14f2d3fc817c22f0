//! How far a request that is being served has come, and what of the pools it holds itself.

/// Tokens that a window passes before they are given back while an answer is made: SGLang's
/// `SGLANG_SWA_EVICTION_INTERVAL`.
const INTERVAL: u64 = 128;

/// A request on its way, in pages from its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageProgress {
    /// Pages found or taken.
    pub allocated: u64,
    /// Pages that the tree has, and those that the request inserted.
    pub protected: u64,
    pub inserted: u64,
    /// Pages that the window has passed, as far as they were given back.
    pub passed: u64,
    /// Where the pool of full attention has more of the prompt than can be gone on from, until that is inserted.
    pub junction: Option<u64>,
}

impl PageProgress {
    /// At its start, with so many pages found.
    pub(super) fn new(hits: u64, junction: Option<u64>) -> Self {
        Self { allocated: hits, protected: hits, inserted: 0, passed: 0, junction }
    }

    /// Pages that belong to the request alone, in the pool of full attention and in that of windows.
    pub(super) fn own_pages(&self) -> (u64, u64) {
        let own = |from: u64| self.allocated.saturating_sub(from);
        (own(self.protected), own(self.protected.max(self.passed)))
    }

    /// Whether pages are given back before the token after `computed` ones, while an answer is made.
    pub(super) fn is_due(&self, computed: u64, window: u64, page: u64) -> bool {
        computed >= window + self.passed * page + INTERVAL
    }

    /// The fewest tokens computed with which pages are given back next.
    pub(super) fn next_due(&self, window: u64, page: u64) -> u64 {
        window + self.passed * page + INTERVAL
    }

    /// Gives back what the window has passed after `computed` tokens, where it has passed any since the last time.
    pub(super) fn slide_if_due(&mut self, computed: u64, window: u64, page: u64) {
        if computed > window + self.passed * page {
            self.slide(computed, window, page);
        }
    }

    /// Gives back what the window has passed after `computed` tokens: at least a page, and a window in whole pages,
    /// stays.
    pub(super) fn slide(&mut self, computed: u64, window: u64, page: u64) {
        let kept = window.max(page).next_multiple_of(page);
        let passed = computed.saturating_sub(kept) / page;
        self.passed = self.passed.max(self.protected).max(passed);
    }
}
