//! Named pages against a model that goes page by page and knows every page as an object of its own.

use super::*;
use crate::engines::one_pass::{Engine, EngineConfig};
use crate::engines::profile::Profile;
use crate::estimate::config::PoolConfig;
use crate::request::event::CachedTokens;
use crate::request::outcome::Outcome;
use proptest::prelude::*;
use std::collections::HashMap as Map;

const SIZE: u64 = 4;

fn page_size() -> PageSize {
    PageSize::new(SIZE as u32).expect("not zero")
}

fn config() -> PoolConfig {
    PoolConfig {
        cache: CacheConfig { profile: Profile::Vllm, page_size: Some(page_size()), ..CacheConfig::default() },
        ..PoolConfig::default()
    }
}

/// One request of a log.
#[derive(Debug, Clone)]
struct Logged {
    scope: Scope,
    ids: Vec<u64>,
    partial: u64,
    output_tokens: u64,
    cached_tokens: CachedTokens,
}

impl Logged {
    fn event(&self) -> RequestEvent<'_> {
        RequestEvent {
            scope: self.scope,
            page_ids: PageIds::from_slice(&self.ids),
            input_tokens: Some(self.ids.len() as u64 * SIZE + self.partial),
            output_tokens: Some(self.output_tokens),
            cached_tokens: self.cached_tokens,
            ..RequestEvent::default()
        }
    }

    /// Full pages of its answer, the last token not stored.
    fn answer_pages(&self) -> u64 {
        (self.partial + self.output_tokens.saturating_sub(1)) / SIZE
    }
}

/// A cache without limit that has every page once, the most recent ones last, and which of them prompts have where.
#[derive(Default)]
struct Model {
    /// Pages by the prefix that they end.
    prompts: Map<(Scope, Vec<u64>), u64>,
    /// Answers that nobody brought back, by the prefix they follow.
    answers: Map<(Scope, Vec<u64>), Vec<Vec<u64>>>,
    recent: Vec<u64>,
    pages: u64,
    partial: bool,
}

impl Model {
    /// What each page of the reusable prefix needs, and how many pages came back.
    fn access(&mut self, request: &Logged) -> (Vec<u64>, usize) {
        let prefix = |pages: usize| (request.scope, request.ids[..pages].to_vec());
        let count = request.ids.len();
        let known = (1..=count).take_while(|pages| self.prompts.contains_key(&prefix(*pages))).count();
        let found = request.cached_tokens.count().map(|tokens| (tokens / SIZE) as usize);
        let upto = match found {
            Some(found) if found > known => found.min(count),
            Some(found) if found == known => known,
            _ if known == 0 => 0,
            _ => count,
        };
        let mut come = Vec::new();
        let waiting = self.answers.entry(prefix(known)).or_default();
        if upto > known && !waiting.is_empty() {
            let wanted = if found.is_some_and(|found| found > known) { upto - known } else { 0 };
            let long_enough = waiting.iter().rposition(|answer| answer.len() >= wanted);
            let longest = waiting.iter().map(Vec::len).max();
            let at = long_enough.or_else(|| waiting.iter().rposition(|answer| Some(answer.len()) == longest));
            come = waiting.remove(at.expect("one waits"));
            let left = come.split_off((upto - known).min(come.len()));
            if !left.is_empty() {
                self.answers.entry(prefix(known + come.len())).or_default().push(left);
            }
        }
        let brought = come.len();
        let mut touched = Vec::new();
        for pages in 1..=count {
            let page = match (self.prompts.get(&prefix(pages)), pages > known && pages <= known + brought) {
                (_, true) => come[pages - known - 1],
                (Some(page), false) => *page,
                (None, false) => self.new_page(),
            };
            self.prompts.insert(prefix(pages), page);
            touched.push(page);
        }
        let limit = ((count as u64 * SIZE + request.partial).saturating_sub(1) / SIZE) as usize;
        let mut needs = Vec::new();
        for page in touched.iter().take(limit) {
            let Some(above) = self.recent.iter().rev().position(|held| held == page) else { break };
            let need = above as u64 + 1 + u64::from(self.partial);
            needs.push(need.max(needs.last().copied().unwrap_or(0)));
        }
        let answer: Vec<u64> = (0..request.answer_pages()).map(|_| self.new_page()).collect();
        if !answer.is_empty() {
            self.answers.entry(prefix(count)).or_default().push(answer.clone());
        }
        touched.extend(answer);
        for page in touched.iter().rev() {
            self.recent.retain(|held| held != page);
            self.recent.push(*page);
        }
        self.partial = !(request.partial + request.output_tokens.saturating_sub(1)).is_multiple_of(SIZE);
        (needs, brought)
    }

    fn new_page(&mut self) -> u64 {
        self.pages += 1;
        self.pages
    }
}

/// What a request does: which earlier one it goes on behind, whether it has that one's answer and how much of it, new
/// pages, tokens of a partial page, tokens generated, and what the log says was found.
type Step = (prop::sample::Index, u8, u8, u64, u64, Option<u8>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cached = prop::option::weighted(0.6, any::<u8>());
    let step = (any::<prop::sample::Index>(), 0..6u8, 0..3u8, 0..SIZE, 0u64..24, cached);
    prop::collection::vec(step, 1..60)
}

/// Conversations that go on, are sent again, branch off, and are split into other tokens.
fn log(steps: &[Step]) -> Vec<Logged> {
    let mut log: Vec<Logged> = Vec::new();
    // The ids that prompts have for the answer to each of them.
    let mut answers: Vec<Vec<u64>> = Vec::new();
    let mut next = 0..;
    for (of, how, new, partial, output_tokens, cached) in steps {
        let before = (!log.is_empty() && *how < 5).then(|| of.index(log.len()));
        let mut ids = before.map_or_else(Vec::new, |before| log[before].ids.clone());
        if let Some(before) = before.filter(|_| *how > 0) {
            let answer = &answers[before];
            match how {
                // The rest of it is split into other tokens.
                1 => ids.extend(answer.iter().take(answer.len() / 2)),
                2 => {}
                _ => ids.extend(answer),
            }
        }
        ids.extend(next.by_ref().take(usize::from(*new)));
        let scope = before.map_or(Scope::GLOBAL, |before| log[before].scope);
        let scope = if before.is_none() && new % 2 == 1 { Scope::named(b"other") } else { scope };
        let cached_tokens = cached.map(|cached| u64::from(cached) % (ids.len() as u64 * SIZE + partial + 1));
        let (output_tokens, partial) = (*output_tokens, *partial);
        let cached_tokens = cached_tokens.into();
        let request = Logged { scope, ids, partial, output_tokens, cached_tokens };
        answers.push(next.by_ref().take(request.answer_pages() as usize).collect());
        log.push(request);
    }
    log
}

/// Follows a request, and has the engine take it as it is named.
fn take(pages: &mut GeneratedPages, engine: &mut Engine, request: &Logged) -> Outcome {
    let (event, mut outcome) = (request.event(), Outcome::default());
    pages.follow(&event, page_size(), Ratio::ONE, |prompt| {
        engine.known_pages(prompt, page_size(), &mut Outcome::default())
    });
    engine.observe(&pages.named(&event), page_size(), &mut outcome).expect("its ids fit its tokens");
    outcome
}

fn engine() -> Engine {
    Engine::new(EngineConfig { profile: Profile::Vllm, ..EngineConfig::default() })
}

proptest! {
    #[test]
    fn named_pages_need_what_a_cache_needs_that_has_every_page_once(steps in steps()) {
        let (mut pages, mut engine, mut model) = (GeneratedPages::new(&config().cache), engine(), Model::default());
        for request in log(&steps) {
            let outcome = take(&mut pages, &mut engine, &request);
            let (needs, brought) = model.access(&request);
            let found: Vec<_> =
                (1..=outcome.reusable_prefix()).map(|pages| outcome.need_of_prefix(pages)).collect();
            prop_assert_eq!(&found, &needs, "{:?}", request);
            prop_assert_eq!(engine.stack().tracked_pages().0, model.recent.len() as u64);
            let known = pages.known().expect("pages get names");
            prop_assert_eq!(outcome.known_pages() - known, brought as u64);
        }
    }

    /// A snapshot at any moment changes nothing of what follows, and two of one state are the same bytes.
    #[test]
    fn what_is_read_back_goes_on_as_what_was_written(steps in steps(), limit in 4u64..400) {
        let config = PoolConfig { cache: CacheConfig { max_tracked_pages: crate::units::PageCount(limit), ..config().cache }, ..config() };
        let (mut pages, mut engine) = (GeneratedPages::new(&config.cache), engine());
        for request in log(&steps) {
            let bytes = postcard::to_allocvec(&pages).expect("memory");
            let mut restored: GeneratedPages = postcard::from_bytes(&bytes).expect("what was written");
            prop_assert!(restored.is_like(&GeneratedPages::new(&config.cache)));
            let event = request.event();
            restored.follow(&event, page_size(), Ratio::ONE, |prompt| {
                engine.known_pages(prompt, page_size(), &mut Outcome::default())
            });
            take(&mut pages, &mut engine, &request);
            prop_assert!(pages.weight() <= limit.max(1), "{} of {}", pages.weight(), limit);
            let [one, other] = [&pages, &restored].map(|pages| postcard::to_allocvec(pages).expect("memory"));
            prop_assert_eq!(one, other);
            let ids = |pages: &GeneratedPages| {
                let named = pages.named(&event);
                named.page_ids.iter().chain(named.output_page_ids.iter()).collect::<Vec<_>>()
            };
            prop_assert_eq!(ids(&pages), ids(&restored));
        }
    }

    /// Counted page by page, whatever sample is followed: from the root on, up to the farthest answer to a prompt that
    /// the request goes on behind.
    #[test]
    fn an_answer_explains_the_pages_up_to_its_end(
        steps in steps(), at in any::<prop::sample::Index>(), rate in prop::sample::select(vec![1000u16, 300]),
    ) {
        let (log, rate) = (log(&steps), Ratio::per_mille(rate));
        let mut pages = GeneratedPages::new(&CacheConfig { profile: Profile::Paper, ..config().cache });
        prop_assert!(!pages.is_naming());
        for (number, request) in log.iter().enumerate() {
            let event = request.event();
            pages.follow(&event, page_size(), rate, |_| 0);
            let reusable = at.index(request.ids.len() + 1);
            let count = |to: usize| {
                let ids = PageIds::from_slice(&request.ids[..to]);
                Sample::at(rate).followed(request.scope, ids).count()
            };
            // Of pages that are not followed nobody knows whether they were reused.
            let deepest = (reusable..=request.ids.len()).rfind(|to| count(*to) == count(reusable));
            let deepest = deepest.expect("as many as these");
            let reaches = log[..=number].iter().filter(|before| {
                before.scope == request.scope
                    && before.answer_pages() > 0
                    && before.ids.len() <= deepest
                    && request.ids.starts_with(&before.ids)
            });
            let reach = reaches.map(|before| before.ids.len() + before.answer_pages() as usize).max();
            let expected = reach.map_or(0, |reach| count(reach.min(request.ids.len()))).max(count(reusable));
            let explained = pages.explained(&event, page_size(), count(reusable) as u64, rate);
            prop_assert_eq!(explained, expected as u64, "{:?}", request);
        }
    }
}

#[test]
fn a_log_longer_than_what_is_kept_forgets_what_was_used_longest_ago() {
    let config = PoolConfig {
        cache: CacheConfig { max_tracked_pages: crate::units::PageCount(60), ..config().cache },
        ..config()
    };
    let (mut pages, mut engine) = (GeneratedPages::new(&config.cache), engine());
    let request = |ids: &[u64], output_tokens| Logged {
        scope: Scope::GLOBAL,
        ids: ids.to_vec(),
        partial: 0,
        output_tokens,
        cached_tokens: CachedTokens::Unstated,
    };
    take(&mut pages, &mut engine, &request(&[1], 9));
    for session in 0..1000 {
        // One conversation stays in use while a thousand come and go.
        let outcome = take(&mut pages, &mut engine, &request(&[1, 2, 3, 4], 1));
        assert_eq!(outcome.known_pages(), if session == 0 { 3 } else { 4 });
        take(&mut pages, &mut engine, &request(&[100 + session], 9));
        assert!(pages.weight() <= 60);
    }
    let back = take(&mut pages, &mut engine, &request(&[1099, 7, 8], 1));
    assert_eq!(back.known_pages(), 3, "the last answer comes back");
    let gone = take(&mut pages, &mut engine, &request(&[100, 7, 8], 1));
    assert_eq!(gone.known_pages(), 1, "the first one was forgotten");
}
