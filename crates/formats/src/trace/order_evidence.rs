//! What the order of a trace is that of, where no row says when its request came: of sessions one after another, of
//! lengths, or nobody's. No cache saw such an order.

use crate::record::row::{Draft, RowBatch};

use kvset_core::units::pages::Scope;
use std::collections::HashMap;

/// Conversations that are followed, and those of them whose last prompts are kept.
const MOST_CONVERSATIONS: usize = 1 << 16;
const MOST_PROMPTS: usize = 1 << 12;
/// Pages of a prompt that are kept.
const KEPT_PAGES: usize = 256;
/// Fewest conversations that stand in blocks, lengths that rise or fall, and turns that go back.
const FEWEST_CONVERSATIONS: usize = 3;
const FEWEST_LENGTHS: u64 = 20;
const FEWEST_BACK: u64 = 3;

/// Follows the rows of a trace without times.
#[derive(Debug, Default)]
pub(super) struct OrderEvidence {
    conversations: HashMap<u64, Conversation>,
    /// Rows of a conversation, and of none; rows of another conversation than the row before.
    named: u64,
    unnamed: u64,
    blocks: u64,
    /// Conversations of several rows.
    several: usize,
    before: Option<(Option<u64>, PromptBegin)>,
    /// Prompts longer and shorter than the one before, and those of them that go on with it, or that it goes on with.
    longer: u64,
    shorter: u64,
    going_on: u64,
    /// The pages of the first prompt, and how many of them prompts of other conversations have.
    first: Option<(Option<u64>, PromptBegin)>,
    common: usize,
    /// Later rows of a conversation whose prompts go on with the one before, and those that the one before goes on with.
    on: u64,
    back: u64,
}

#[derive(Debug, Default)]
struct Conversation {
    rows: u64,
    last: Option<PromptBegin>,
}

/// The first pages of a prompt, and its length in tokens.
#[derive(Debug, Clone, Default)]
struct PromptBegin {
    pages: Box<[u64]>,
    tokens: u64,
}

impl PromptBegin {
    fn of(draft: &Draft, batch: &RowBatch) -> Self {
        let ids = &batch.ids[draft.ids.clone()];
        let tokens = draft.input_tokens.unwrap_or(ids.len() as u64);
        Self { pages: ids.iter().copied().take(KEPT_PAGES).collect(), tokens }
    }

    /// Whether this one begins with all of the other, which has pages that not all have.
    fn goes_on_with(&self, other: &Self, common: usize) -> bool {
        // A last page that is not full goes on.
        let known = other.pages.len().min(self.pages.len().saturating_sub(1)).min(other.full_pages());
        other.tokens < self.tokens && known > common && self.pages[..known] == other.pages[..known]
    }

    /// Pages that are surely full.
    fn full_pages(&self) -> usize {
        self.pages.len().saturating_sub(usize::from(self.pages.len() < KEPT_PAGES))
    }

    fn common_pages(&self, other: &Self) -> usize {
        self.pages.iter().zip(&other.pages).take_while(|(one, other)| one == other).count()
    }
}

impl OrderEvidence {
    /// Takes the next row in.
    pub fn note(&mut self, draft: &Draft, batch: &RowBatch, session: Option<Scope>) {
        let name = session.map(Scope::value).or(draft.opening);
        let prompt = PromptBegin::of(draft, batch);
        let (first_name, first) = self.first.get_or_insert_with(|| (name, prompt.clone()));
        if *first_name != name {
            self.common = self.common.max(prompt.common_pages(first));
        }
        if let Some((before_name, before)) = self.before.replace((name, prompt.clone())) {
            self.longer += u64::from(prompt.tokens > before.tokens);
            self.shorter += u64::from(prompt.tokens < before.tokens);
            let is_one = prompt.goes_on_with(&before, 0) || before.goes_on_with(&prompt, 0);
            self.going_on += u64::from(is_one && before_name == name);
            self.blocks += u64::from(before_name != name);
        }
        match name {
            Some(name) => self.note_conversation(name, prompt),
            None => self.unnamed += 1,
        }
    }

    fn note_conversation(&mut self, name: u64, prompt: PromptBegin) {
        self.named += 1;
        let count = self.conversations.len();
        if count >= MOST_CONVERSATIONS && !self.conversations.contains_key(&name) {
            self.unnamed += 1;
            return;
        }
        let known = self.conversations.entry(name).or_default();
        known.rows += 1;
        self.several += usize::from(known.rows == 2);
        let is_kept = known.last.is_some() || count < MOST_PROMPTS;
        let last = known.last.replace(prompt.clone()).filter(|_| is_kept);
        if let Some(last) = last {
            self.on += u64::from(prompt.goes_on_with(&last, self.common));
            self.back += u64::from(last.goes_on_with(&prompt, self.common));
        }
        known.last = known.last.take().filter(|_| is_kept);
    }

    /// In a few words, what the rows are sorted by, where that is not when requests came.
    pub fn disorder(&self) -> Option<String> {
        self.by_length().or_else(|| self.turned()).or_else(|| self.in_blocks())
    }

    fn by_length(&self) -> Option<String> {
        let most = self.longer.max(self.shorter);
        let is_sorted =
            self.longer.min(self.shorter) == 0 && most >= FEWEST_LENGTHS && self.going_on * 2 < most;
        let way = if self.longer > 0 { "shortest" } else { "longest" };
        is_sorted.then(|| format!("rows stand by the length of their prompts, the {way} first"))
    }

    fn turned(&self) -> Option<String> {
        let Self { on, back, .. } = *self;
        // What goes back throughout is newest first.
        let is_mixed = back >= FEWEST_BACK && back * 4 >= on + back && back < on * 9;
        is_mixed.then(|| {
            format!("{back} of {} later turns stand before the turns that they go on with", on + back)
        })
    }

    fn in_blocks(&self) -> Option<String> {
        let count = self.conversations.len();
        let are_blocks = count >= FEWEST_CONVERSATIONS
            && self.unnamed == 0
            && self.blocks + 1 == count as u64
            && self.several * 2 >= count
            && self.on > self.back;
        are_blocks.then(|| format!("rows stand conversation by conversation, {count} one after another"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns, each a conversation and how many turns it has: of five pages that all have, and two a turn.
    fn disorder_of(turns: &[(u64, u64)]) -> Option<String> {
        let mut found = OrderEvidence::default();
        for (name, length) in turns {
            let pages = 5 + 2 * length;
            let id = |at: u64| if at < 5 { at } else { 1000 * name + at };
            let mut batch = RowBatch::default();
            batch.ids.extend((0..pages).map(id));
            let tokens = Some(pages * 16 + name % 7);
            let draft = Draft { ids: 0..batch.ids.len(), input_tokens: tokens, ..Draft::default() };
            found.note(&draft, &batch, Some(Scope::named(&name.to_le_bytes())));
        }
        found.disorder()
    }

    #[test]
    fn rows_by_conversation_by_length_or_at_random_are_recognised() {
        let all: Vec<_> = (0..8).flat_map(|name| (1..6).map(move |turn| (name, turn))).collect();
        assert!(disorder_of(&all).is_some_and(|said| said.contains("8 one after another")));
        let mut side_by_side = all.clone();
        side_by_side.sort_by_key(|(name, turn)| (turn + name % 3, *name));
        assert_eq!(disorder_of(&side_by_side), None);
        let mut shuffled = all.clone();
        shuffled.sort_by_key(|(name, turn)| (name * 31 + turn * 17) % 23);
        assert!(disorder_of(&shuffled).is_some_and(|said| said.contains("later turns stand before")));
        let by_length: Vec<_> = (0..40).map(|at| (at * 7 % 8, 1 + at)).collect();
        assert!(disorder_of(&by_length).is_some_and(|said| said.contains("shortest first")));
        assert!(
            disorder_of(&by_length.iter().rev().copied().collect::<Vec<_>>())
                .is_some_and(|said| said.contains("longest"))
        );
        assert_eq!(disorder_of(&(1..40).map(|turn| (1, turn)).collect::<Vec<_>>()), None, "one conversation");
        assert_eq!(disorder_of(&(0..40).map(|at| (at % 5, 1)).collect::<Vec<_>>()), None, "single calls");
    }
}
