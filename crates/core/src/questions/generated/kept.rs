//! What a snapshot keeps of the pages that requests generated, in an order that depends on the log alone.

use super::{AnswerPages, GeneratedPages, PromptEnd, Request, Return};
use crate::units::is_countable;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize, Serializer};

/// What is written and read back. Both lists are sorted by digest.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedGenerated<E = PromptEnd, I = Vec<u64>> {
    naming: bool,
    limit: u64,
    requests: u64,
    ends: Vec<(u64, E)>,
    returns: Vec<(u64, SavedReturn<I>)>,
}

/// Pages of an answer with the ids that a prompt has for them.
#[derive(Serialize, Deserialize)]
struct SavedReturn<I> {
    request: u64,
    from: u32,
    used: u64,
    ids: I,
}

impl Serialize for GeneratedPages {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let returned = |found: &Return| {
            let AnswerPages { request, from, pages } = found.answer;
            let ids = &self.returned_ids[found.at..found.at + pages as usize];
            SavedReturn { request, from, used: found.used, ids }
        };
        let mut ends: Vec<_> = self.ends.iter().map(|(digest, end)| (*digest, end)).collect();
        let returns = self.returns.iter().map(|(digest, found)| (*digest, returned(found)));
        let mut returns: Vec<_> = returns.collect();
        ends.sort_unstable_by_key(|(digest, _)| *digest);
        returns.sort_unstable_by_key(|(digest, _)| *digest);
        let Self { naming, limit, requests, .. } = *self;
        SavedGenerated { naming, limit, requests, ends, returns }.serialize(to)
    }
}

impl From<SavedGenerated> for GeneratedPages {
    fn from(kept: SavedGenerated) -> Self {
        let SavedGenerated { naming, limit, requests, ends, returns } = kept;
        let answers = ends.iter().map(|(_, end)| end.answers.len() as u64).sum();
        let mut returned_ids = Vec::new();
        let placed = |(digest, found): (u64, SavedReturn<Vec<u64>>)| {
            let SavedReturn { request, from, used, ids } = found;
            let at = returned_ids.len();
            returned_ids.extend_from_slice(&ids);
            // A request's pages are counted in 32 bits.
            (digest, Return { answer: AnswerPages { request, from, pages: ids.len() as u32 }, at, used })
        };
        let returns: HashMap<_, _, _> = returns.into_iter().map(placed).collect();
        Self {
            naming,
            limit,
            requests,
            ends: ends.into_iter().collect(),
            returns,
            answers,
            returned: returned_ids.len() as u64,
            returned_ids,
            request: Request::default(),
        }
    }
}

impl GeneratedPages {
    /// Whether this, read back from a snapshot, is kept as the `fresh` one and can go on.
    pub fn is_like(&self, fresh: &Self) -> bool {
        let is_past = |request: u64| request <= self.requests;
        let mut ends = self.ends.values();
        let mut returns = self.returns.values();
        (self.naming, self.limit) == (fresh.naming, fresh.limit)
            && is_countable(self.requests)
            && ends.all(|end| is_past(end.used) && end.answers.iter().all(AnswerPages::is_sound))
            && returns.all(|found| is_past(found.used) && found.answer.is_sound())
    }
}

impl AnswerPages {
    /// Whether it has pages, all of which can be named.
    fn is_sound(&self) -> bool {
        self.pages > 0 && self.from.checked_add(self.pages).is_some() && self.request < 1 << 40
    }
}
