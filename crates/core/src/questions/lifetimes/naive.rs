//! A log for the tests of this module and its neighbours, and the obvious stack it moves: one page at a time.

use crate::engines::one_pass::{Engine, EngineConfig};
use crate::engines::profile::Profile;
use crate::request::event::RequestEvent;
use crate::request::outcome::Outcome;
use crate::stack::naive::{NaivePage, chained_requests};
use crate::units::pages::PageIds;
use crate::units::{EventTime, PageCount, PageSize};
use proptest::prelude::*;

/// Tokens per page.
const SIZE: u64 = 4;

/// A request of a random log.
#[derive(Debug, Clone)]
pub(crate) struct TimedRequest {
    pub ids: Vec<u64>,
    /// Milliseconds after the request before; negative where the log is out of order.
    pub after_ms: i64,
    /// Prompt tokens beyond the full pages.
    pub rest: u64,
    pub output: u64,
    pub tenant: Option<u8>,
}

/// Chained requests with times.
pub(crate) fn timed_requests(most: usize) -> impl Strategy<Value = Vec<TimedRequest>> {
    let when = prop_oneof![4 => 0i64..20, 1 => Just(0), 1 => -10i64..0, 1 => 50i64..200];
    let detail = (when, 0..SIZE, 0u64..11, prop::option::of(0u8..4));
    (chained_requests(most), prop::collection::vec(detail, most)).prop_map(|(requests, details)| {
        let all = requests.into_iter().zip(details);
        let timed = all.map(|(ids, (after_ms, rest, output, tenant))| TimedRequest {
            ids,
            after_ms,
            rest,
            output,
            tenant,
        });
        timed.collect()
    })
}

/// A page as the list has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListedPage {
    pub page: NaivePage,
    pub touched: i64,
    pub tenant: Option<u8>,
}

/// What the list says of one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Looked {
    /// Every page the request touches, in prefix order, with the need and the time of its last touch if it was there.
    pub pages: Vec<(NaivePage, Option<(u64, i64)>)>,
    /// Pages that can be hits.
    pub limit: usize,
    /// Prompt pages.
    pub prompt: usize,
}

impl Looked {
    /// Leading pages that were there and can be hits: need and time of each.
    pub(crate) fn reusable(&self) -> Vec<(u64, i64)> {
        self.pages[..self.limit].iter().map_while(|(_, found)| *found).collect()
    }
}

/// The stack as a list, and the engine alongside it.
#[derive(Debug)]
pub(crate) struct StackModel {
    pub profile: Profile,
    engine: Engine,
    /// Most recent first.
    pub list: Vec<ListedPage>,
    pub now: Option<i64>,
    clock: i64,
    pub partial: bool,
    fresh: u64,
}

impl StackModel {
    pub(crate) fn new(profile: Profile, bound: u64) -> Self {
        let config = EngineConfig { profile, max_tracked_pages: PageCount(bound), ..EngineConfig::default() };
        Self {
            profile,
            engine: Engine::new(config),
            list: Vec::new(),
            now: None,
            clock: 0,
            partial: false,
            fresh: 0,
        }
    }

    /// Takes a request in: the event time, what the engine says, and what the list does.
    pub(crate) fn observe(&mut self, request: &TimedRequest) -> (EventTime, Outcome, Looked) {
        self.clock += request.after_ms;
        let time = EventTime(self.clock);
        let event = RequestEvent {
            event_time: time,
            page_ids: PageIds::from_slice(&request.ids),
            input_tokens: Some(request.ids.len() as u64 * SIZE + request.rest),
            output_tokens: Some(request.output),
            ..RequestEvent::default()
        };
        let mut outcome = Outcome::default();
        let page_size = PageSize::new(SIZE as u32).expect("not zero");
        self.engine.observe(&event, page_size, &mut outcome).expect("chained");
        (time, outcome, self.touch(request))
    }

    fn touch(&mut self, request: &TimedRequest) -> Looked {
        let now = self.now.map_or(self.clock, |now| now.max(self.clock));
        self.now = Some(now);
        let mut pages: Vec<NaivePage> =
            (1..=request.ids.len()).map(|end| request.ids[..end].to_vec()).collect();
        let (prompt, mut limit) = (pages.len(), pages.len());
        let room = u64::from(self.partial);
        if self.profile == Profile::Vllm {
            let tokens = prompt as u64 * SIZE + request.rest;
            let stored = tokens + request.output.saturating_sub(1);
            limit = (tokens.saturating_sub(1) / SIZE).min(prompt as u64) as usize;
            for _ in tokens / SIZE..stored / SIZE {
                self.fresh += 1;
                pages.push(vec![0, self.fresh]);
            }
            self.partial = !stored.is_multiple_of(SIZE);
        }
        let held = |page: &NaivePage| ListedPage { page: page.clone(), touched: now, tenant: request.tenant };
        let mut looked = Looked { limit, prompt, ..Looked::default() };
        for page in &pages {
            let depth = self.list.iter().position(|held| held.page == *page);
            let found = depth.map(|depth| (depth as u64 + 1 + room, self.list[depth].touched));
            looked.pages.push((page.clone(), found));
            if self.profile == Profile::Paper {
                self.list.retain(|held| held.page != *page);
                self.list.insert(0, held(page));
            }
        }
        if self.profile != Profile::Paper {
            for page in pages.iter().rev() {
                self.list.retain(|held| held.page != *page);
                self.list.insert(0, held(page));
            }
        }
        looked
    }
}

/// The profiles that have one curve.
pub(crate) fn profiles() -> impl Strategy<Value = Profile> {
    prop_oneof![Just(Profile::Paper), Just(Profile::LeafFirst), Just(Profile::Vllm)]
}
