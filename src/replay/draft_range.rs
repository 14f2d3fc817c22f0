//! The other model of SGLang with a draft head, where a log has page ids.
//!
//! SGLang's tree is then one of pairs of tokens: a page that is found loses nothing where the token behind it is the same,
//! too. Page ids do not say that token. The engine's own model takes two different pages to begin with different tokens,
//! which is the lower end; here they always begin alike. Without limit SGLang lies between the two. At a capacity they are
//! two models: leaves are evicted whole, and a tree that shares more has others. At pages of one token a page and the one
//! behind it are the pair, so the engine's own model is exact, and there is no other. A page of pairs has one token more than a page, so a sequence has
//! as many pages as a plain one that is a token shorter.

use kvset_core::engines::profile::Profile;
use kvset_core::engines::rules::EngineRules;
use kvset_core::estimate::Estimate;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::pool::{Arrival, Pool, ShownMoment};
use kvset_core::questions::enabled::Questions;
use kvset_core::request::event::{CachedTokens, RequestEvent};
use kvset_core::units::pages::PageIds;
use kvset_core::units::window::WindowKind;
use kvset_core::units::{Offset, PageSize};
use std::sync::Arc;

/// Follows a replay of SGLang with a draft head.
#[derive(Debug)]
pub(super) struct DraftUpperEnd {
    pool: Pool,
    /// It has taken every request.
    is_whole: bool,
    /// Room for the pages behind a prompt.
    behind: Vec<u64>,
}

impl DraftUpperEnd {
    /// Beside a pool of this configuration; `None` of another engine, and without a draft head.
    pub(super) fn new(config: &PoolConfig) -> Option<Self> {
        let rules = &config.cache.rules;
        if config.cache.profile != Profile::Sglang || rules.draft_tokens == 0 {
            return None;
        }
        let mut plain = config.clone();
        plain.cache.rules = EngineRules { draft_tokens: 0, ..rules.clone() };
        plain.questions = Questions::default();
        plain.windows = vec![WindowKind::All];
        let pool = Pool::new("", 0, Arc::new(plain)).ok()?;
        Some(Self { pool, is_whole: true, behind: Vec::new() })
    }

    /// Follows a request that the engine's own pool has taken.
    pub(super) fn observe(&mut self, event: &RequestEvent<'_>, page_size: PageSize, counted: bool) {
        let Self { pool, is_whole, behind } = self;
        *is_whole &= page_size.get() > 1;
        let arrival = Arrival { offset: Offset(0), counted, watermark: None };
        *is_whole &= pool.observe(&a_token_shorter(event, page_size, behind), arrival).is_ok();
    }

    /// Pages that the last request would have found without limit, and those at each capacity.
    pub(super) fn last_hits(&self) -> Option<(u64, &[u64])> {
        let (outcome, _) = self.pool.last_request().filter(|_| self.is_whole)?;
        Some((outcome.reusable_prefix(), self.pool.caches()?.last_hits()))
    }

    /// The estimate over every request that counts.
    pub(super) fn result(&self, at: impl Into<ShownMoment>) -> Option<Estimate> {
        self.pool.counted_so_far(WindowKind::All, at).filter(|_| self.is_whole)
    }
}

/// The request without the last token of its prompt; a page that it fills is then one of its output. Where the prompt's
/// tokens are not counted, more may follow its last page.
fn a_token_shorter<'a>(
    event: &RequestEvent<'a>,
    page_size: PageSize,
    behind: &'a mut Vec<u64>,
) -> RequestEvent<'a> {
    let cached_tokens = CachedTokens::Unstated;
    let Some(tokens) = event.input_tokens else { return RequestEvent { cached_tokens, ..*event } };
    let page = u64::from(page_size.get());
    let shorter = tokens.saturating_sub(1);
    // A prompt's pages are counted in 32 bits.
    let page_ids = event.page_ids.first((shorter / page) as usize);
    behind.clear();
    if tokens > 0 && tokens.is_multiple_of(page) {
        behind.extend(event.page_ids.len().checked_sub(1).and_then(|last| event.page_ids.get(last)));
    }
    behind.extend(event.output_page_ids.iter());
    let output_page_ids = PageIds::from_slice(behind);
    RequestEvent { input_tokens: Some(shorter), page_ids, output_page_ids, cached_tokens, ..*event }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_a_prompt_fills_is_found_with_the_token_behind_it() {
        let page_size = PageSize::new(16).expect("not zero");
        let shorter = |ids: &[u64], tokens, answer: &[u64]| {
            let event = RequestEvent {
                page_ids: PageIds::from_slice(ids),
                input_tokens: tokens,
                output_page_ids: PageIds::from_slice(answer),
                ..RequestEvent::default()
            };
            let mut behind = Vec::new();
            let event = a_token_shorter(&event, page_size, &mut behind);
            let list = |ids: PageIds<'_>| ids.iter().collect::<Vec<_>>();
            (list(event.page_ids), event.input_tokens, list(event.output_page_ids))
        };
        assert_eq!(shorter(&[1, 2], Some(32), &[3]), (vec![1], Some(31), vec![2, 3]));
        assert_eq!(shorter(&[1, 2], Some(33), &[3]), (vec![1, 2], Some(32), vec![3]));
        assert_eq!(shorter(&[1, 2, 9], Some(40), &[]), (vec![1, 2], Some(39), vec![]), "9 is not full");
        assert_eq!(shorter(&[1, 2], None, &[3]), (vec![1, 2], None, vec![3]));
        assert_eq!(shorter(&[], Some(0), &[]), (vec![], Some(0), vec![]));
    }
}
