//! Synthetic agentic traffic from a seed.
//!
//! Sessions begin at random over a daily rhythm and grow turn by turn over system prompts that many of
//! them share. A turn may be a retry of the same prompt, an edit that cuts the last turns and goes on
//! differently, or a compaction that keeps the system prompt and a summary and grows again. A session
//! may hand work to a sub-agent with a context of its own. Users leave when their turns are done, so at
//! night the working set falls again.
//!
//! All arithmetic is on integers and the generator is ChaCha8, so a seed gives the same requests on
//! every platform. Memory is bounded by the sessions alive at once times the largest context.

mod chance;
mod params;
mod session;

pub use params::{Workload, WorkloadError};

use crate::trace::TraceRow;
use chance::Chance;
use kvset_core::request::event::RequestEvent;
use kvset_core::units::pages::{PageIds, Scope};
use kvset_core::units::{EventTime, PageSize};
use session::Session;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One generated request. Its page ids are unique within the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedRequest {
    /// When it arrives.
    pub event_time: EventTime,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Ids of its full pages.
    pub page_ids: Vec<u64>,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens generated.
    pub output_tokens: u64,
    /// From arrival to last token, in milliseconds.
    pub duration_ms: u64,
    /// The session, and within it the sub-agent (`session-7/agent-2`).
    pub session: String,
}

impl GeneratedRequest {
    /// The request as the core and the trace writer take it.
    pub fn as_row(&self) -> TraceRow<'_> {
        TraceRow {
            event: RequestEvent {
                event_time: self.event_time,
                page_size: Some(self.page_size),
                scope: Scope::GLOBAL,
                page_ids: PageIds::from_slice(&self.page_ids),
                // No page gets an id that another has, and what follows a page is made for it.
                ids_chained: true,
                input_tokens: Some(self.input_tokens),
                output_tokens: Some(self.output_tokens),
                duration_ms: Some(self.duration_ms),
                ..RequestEvent::default()
            },
            session: Some(&self.session),
            ..TraceRow::default()
        }
    }
}

/// What happens next, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// A user may come.
    Arrival,
    /// The session in this place takes its next turn.
    Turn(usize),
}

/// An endless stream of requests in the order of their event time.
#[derive(Debug, Clone)]
pub struct Generator {
    params: Workload,
    chance: Chance,
    /// Page ids of the shared system prompts: those of users first, then those of sub-agents.
    prompts: Vec<Vec<u64>>,
    /// Events by time; the number breaks ties in the order they were planned.
    agenda: BinaryHeap<Reverse<(i64, u64, Happening)>>,
    planned: u64,
    places: Vec<Option<Session>>,
    free: Vec<usize>,
    sessions_begun: u64,
}

impl Generator {
    /// A generator for valid parameters.
    ///
    /// # Errors
    ///
    /// [`WorkloadError`] names the parameter out of range.
    pub fn new(params: Workload) -> Result<Self, WorkloadError> {
        params.check()?;
        let mut chance = Chance::new(params.seed);
        let page_tokens = u64::from(params.page_size.get());
        let prompt_kinds = params.system_prompts + params.agent_prompts;
        let prompts = (0..prompt_kinds)
            .map(|_| {
                let tokens = chance.between(params.system_tokens / 2, params.system_tokens * 3 / 2);
                (0..tokens / page_tokens).map(|_| chance.page_id()).collect()
            })
            .collect();
        let mut this = Self {
            params,
            chance,
            prompts,
            agenda: BinaryHeap::new(),
            planned: 0,
            places: Vec::new(),
            free: Vec::new(),
            sessions_begun: 0,
        };
        this.plan(this.params.start_ms, Happening::Arrival);
        Ok(this)
    }

    /// Sessions and sub-agents alive now.
    pub fn live_sessions(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn plan(&mut self, time_ms: i64, happening: Happening) {
        self.agenda.push(Reverse((time_ms, self.planned, happening)));
        self.planned += 1;
    }

    /// A user comes with the likelihood of the hour, and the next possible arrival is planned: thinning
    /// of a stream at the day's peak rate.
    fn arrive(&mut self, now_ms: i64) {
        let gap_ms = self.chance.waiting(self.params.peak_gap_ms());
        self.plan(later(now_ms, gap_ms.max(1)), Happening::Arrival);
        let comes = self.chance.permille(self.params.activity_permille(now_ms));
        if comes && self.live_sessions() < self.params.max_sessions {
            self.sessions_begun += 1;
            let name = format!("session-{}", self.sessions_begun);
            // The square favours the first prompts: a few tools serve most users.
            let pick = self.chance.between(0, 999).pow(2) * self.params.system_prompts / 1_000_000;
            let turns = 1 + self.chance.waiting(self.params.mean_turns).min(self.params.mean_turns * 8);
            let place = self.enter(name, pick as usize, turns, None);
            self.plan(now_ms, Happening::Turn(place));
        }
    }

    /// Gives a new session a place.
    fn enter(&mut self, name: String, prompt: usize, turns: u64, parent: Option<usize>) -> usize {
        let page_size = self.params.page_size;
        let session = Session::new(name, prompt, &self.prompts[prompt], page_size, turns, parent);
        match self.free.pop() {
            Some(place) => {
                self.places[place] = Some(session);
                place
            }
            None => {
                self.places.push(Some(session));
                self.places.len() - 1
            }
        }
    }

    /// Takes a session's turn and plans what follows it.
    fn take_turn(&mut self, now_ms: i64, place: usize) -> Option<GeneratedRequest> {
        let mut session = self.places.get_mut(place)?.take()?;
        session.take_turn(&self.params, &self.prompts[session.prompt], &mut self.chance);
        let request = request(now_ms, self.params.page_size, &session);
        let done_ms = later(now_ms, request.duration_ms);
        if session.turns_left == 0 {
            self.free.push(place);
            if let Some(parent) = session.parent {
                self.plan(done_ms, Happening::Turn(parent));
            }
            return Some(request);
        }
        let delegates = session.parent.is_none() && self.chance.permille(self.params.agent_permille);
        if delegates && self.live_sessions() < self.params.max_sessions {
            let agent = self.enter_agent(&mut session, place);
            self.plan(done_ms, Happening::Turn(agent));
        } else {
            let pause_ms = self.chance.waiting(self.params.mean_pause_ms);
            self.plan(later(done_ms, pause_ms), Happening::Turn(place));
        }
        self.places[place] = Some(session);
        Some(request)
    }

    /// Starts a sub-agent; its parent goes on when it is done.
    fn enter_agent(&mut self, parent: &mut Session, place: usize) -> usize {
        parent.agents += 1;
        let name = format!("{}/agent-{}", parent.name, parent.agents);
        let pick = self.params.system_prompts + self.chance.between(0, self.params.agent_prompts - 1);
        let turns =
            1 + self.chance.waiting(self.params.mean_agent_turns).min(self.params.mean_agent_turns * 8);
        self.enter(name, pick as usize, turns, Some(place))
    }
}

/// A moment `ms` later.
fn later(time_ms: i64, ms: u64) -> i64 {
    time_ms.saturating_add_unsigned(ms)
}

/// The turn that a session took last.
fn request(now_ms: i64, page_size: PageSize, session: &Session) -> GeneratedRequest {
    GeneratedRequest {
        event_time: EventTime(now_ms),
        page_size,
        page_ids: session.pages.clone(),
        input_tokens: session.tokens,
        output_tokens: session.answer_tokens,
        duration_ms: session.duration_ms(),
        session: session.name.clone(),
    }
}

impl Iterator for Generator {
    type Item = GeneratedRequest;

    /// The next request; there always is one.
    fn next(&mut self) -> Option<GeneratedRequest> {
        loop {
            let Reverse((now_ms, _, happening)) = self.agenda.pop()?;
            match happening {
                Happening::Arrival => self.arrive(now_ms),
                Happening::Turn(place) => {
                    if let Some(request) = self.take_turn(now_ms, place) {
                        return Some(request);
                    }
                }
            }
        }
    }
}
