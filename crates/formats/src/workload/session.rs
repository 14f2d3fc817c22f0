//! One session: a context that grows, is cut, retried and compacted.

use super::chance::Chance;
use super::params::Workload;
use kvset_core::units::PageSize;

/// Most turns an edit cuts.
const EDITED_TURNS: u64 = 4;

/// A session or sub-agent that is alive.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub name: String,
    /// Index of its system prompt.
    pub prompt: usize,
    /// The session that waits for this sub-agent.
    pub parent: Option<usize>,
    /// Sub-agents it started.
    pub agents: u64,
    pub turns_left: u64,
    /// Ids of the context's full pages.
    pub pages: Vec<u64>,
    /// Tokens of the context.
    pub tokens: u64,
    page_size: PageSize,
    /// Context lengths, in tokens, before each turn that is still in it.
    turn_starts: Vec<u64>,
    /// Tokens of the last answer, which the next turn takes into the context.
    pub answer_tokens: u64,
}

impl Session {
    /// A session over a shared system prompt.
    pub fn new(
        name: String,
        prompt: usize,
        prompt_pages: &[u64],
        page_size: PageSize,
        turns: u64,
        parent: Option<usize>,
    ) -> Self {
        let pages = prompt_pages.to_vec();
        let tokens = pages.len() as u64 * u64::from(page_size.get());
        Self {
            name,
            prompt,
            parent,
            agents: 0,
            turns_left: turns,
            pages,
            tokens,
            page_size,
            turn_starts: Vec::new(),
            answer_tokens: 0,
        }
    }

    /// Changes the context into the next prompt and draws the answer to it.
    pub fn take_turn(&mut self, params: &Workload, prompt_pages: &[u64], chance: &mut Chance) {
        let is_first = self.turn_starts.is_empty();
        if is_first || !chance.permille(params.retry_permille) {
            if chance.permille(params.edit_permille) {
                self.cut_turns(chance.between(1, EDITED_TURNS));
            } else {
                self.append(self.answer_tokens, chance);
            }
            self.add_turn(params, prompt_pages, chance);
        }
        self.turns_left = self.turns_left.saturating_sub(1);
        self.answer_tokens = drawn(chance, params.mean_output_tokens);
    }

    /// How long the turn taken last lasts.
    pub fn duration_ms(&self) -> u64 {
        300 + self.answer_tokens * 15
    }

    /// Adds a user's or a tool's words, after a compaction where the context would grow too long.
    fn add_turn(&mut self, params: &Workload, prompt_pages: &[u64], chance: &mut Chance) {
        let tokens = drawn(chance, params.mean_turn_tokens);
        if self.tokens + tokens > params.max_context_tokens {
            self.cut_to(prompt_pages.len() as u64 * u64::from(self.page_size.get()));
            self.turn_starts.clear();
            let summary_tokens = drawn(chance, params.mean_turn_tokens);
            self.append(summary_tokens, chance);
        }
        self.turn_starts.push(self.tokens);
        self.append(tokens, chance);
    }

    /// Forgets the last turns, but never the system prompt.
    fn cut_turns(&mut self, turns: u64) {
        let kept = self.turn_starts.len().saturating_sub(turns as usize);
        if let Some(tokens) = self.turn_starts.get(kept).copied() {
            self.turn_starts.truncate(kept);
            self.cut_to(tokens);
        }
    }

    fn cut_to(&mut self, tokens: u64) {
        self.tokens = tokens;
        self.pages.truncate(self.full_pages());
    }

    /// Adds new tokens; every page they fill is new.
    fn append(&mut self, tokens: u64, chance: &mut Chance) {
        self.tokens += tokens;
        let pages = self.full_pages();
        self.pages.resize_with(pages, || chance.page_id());
    }

    fn full_pages(&self) -> usize {
        (self.tokens / u64::from(self.page_size.get())) as usize
    }
}

/// A number of tokens with the given mean, at most ten times as many.
fn drawn(chance: &mut Chance, mean: u64) -> u64 {
    (1 + chance.waiting(mean)).min(mean * 10)
}
