//! What single requests of a pool would lose of their hits by a restart, and what a window of them says.

use super::estimate::{RestartsEstimate, estimate};
use super::tally::{LostHits, RestartsShape, RestartsShare, RestartsTally};
use super::{HOUR_MS, HOURS_A_DAY};
use crate::engines::bank::CacheBank;
use crate::questions::costs::PrefillCosts;
use crate::questions::measured::Accepted;
use crate::questions::provisioned::ProvisionedCache;
use crate::questions::question::{
    Answerable, Horizon, Question, QuestionFigures, QuestionNeeds, QuestionPool, QuestionsError,
};
use crate::request::event::RequestEvent;
use crate::request::outcome::{Outcome, Run};
use crate::units::PageSize;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Follows the requests of a pool: it knows in which of the latest 24 hours a page was used last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestartsObserver {
    /// What computing costs, where that is known.
    #[serde(skip)]
    worth: Option<PrefillCosts>,
    /// In pages, ascending.
    #[serde(skip)]
    sizes: Vec<u64>,
    /// Hours in which requests came, ascending: at most those of a day.
    hours: VecDeque<HourStart>,
    /// When the latest request came, in milliseconds.
    latest_ms: Option<i64>,
}

/// An hour in which requests came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct HourStart {
    /// Hours since the times began to count.
    hour: i64,
    /// Number of its first request.
    first: u64,
}

/// A request and what it found in the stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct RestartsRequest<'a> {
    /// When it came, in milliseconds.
    pub(super) arrival_ms: i64,
    /// Its number in its pool: what [`Run::last_touched_by`] refers to.
    pub(super) number: u64,
    /// Tokens of its prompt.
    pub(super) prompt_tokens: u64,
    /// Tokens per page.
    pub(super) page_size: PageSize,
    /// What it found.
    pub(super) outcome: &'a Outcome,
}

impl<'a> RestartsRequest<'a> {
    /// What a request with this number found.
    fn of(event: &RequestEvent<'_>, number: u64, page_size: PageSize, outcome: &'a Outcome) -> Self {
        let of_pages = || outcome.page_accesses * u64::from(page_size.get());
        let prompt_tokens = event.input_tokens.unwrap_or_else(of_pages);
        Self { arrival_ms: event.event_time.0, number, prompt_tokens, page_size, outcome }
    }
}

impl RestartsObserver {
    /// Nothing seen yet, at capacities that can be known, in pages.
    pub(super) fn at(pool: QuestionPool<'_>) -> Self {
        let QuestionPool { cache, costs, capacities, page_size } = pool;
        let mut sizes: Vec<u64> = capacities.iter().copied().chain(cache.pages(page_size)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        Self { worth: costs.cloned(), sizes, hours: VecDeque::new(), latest_ms: None }
    }

    /// What a request adds; one that came before the one before it counts as if it had come with that.
    pub(super) fn observe(&mut self, request: RestartsRequest<'_>) -> RestartsShare {
        let time_ms = self.latest_ms.map_or(request.arrival_ms, |latest| latest.max(request.arrival_ms));
        self.latest_ms = Some(time_ms);
        let now = time_ms.div_euclid(HOUR_MS);
        while self.hours.front().is_some_and(|start| now.saturating_sub(start.hour) >= HOURS_A_DAY) {
            self.hours.pop_front();
        }
        if self.hours.back().is_none_or(|start| start.hour < now) {
            self.hours.push_back(HourStart { hour: now, first: request.number });
        }
        let mut lost = Vec::new();
        let mut above = 0;
        for run in &request.outcome.runs {
            let hours = self.hours_since(run.last_touched_by, now);
            // What was touched in this hour no restart at a full hour takes away.
            if hours > 0 {
                self.add_run(run, (above, hours), &request, &mut lost);
            }
            above += u64::from(run.pages);
        }
        RestartsShare { time_ms, lost }
    }

    /// Full hours between this request and now: at most those of a day.
    fn hours_since(&self, number: u64, now: i64) -> u8 {
        let later = self.hours.partition_point(|start| start.first <= number);
        let used = later.checked_sub(1).map(|at| self.hours[at].hour);
        // All that are kept are within a day.
        used.map_or(HOURS_A_DAY, |hour| now - hour) as u8
    }

    /// Adds a run with so many pages of the prompt before it, used so many full hours ago.
    fn add_run(
        &self,
        run: &Run,
        (above, hours): (u64, u8),
        request: &RestartsRequest<'_>,
        lost: &mut Vec<LostHits>,
    ) {
        let token = |page: u64| (page * u64::from(request.page_size.get())).min(request.prompt_tokens);
        let mut hits = 0;
        for place in self.sizes.partition_point(|pages| *pages < run.need)..self.sizes.len() {
            let more = u64::from(run.hits_at(self.sizes[place]));
            if more > hits {
                let (from, end) = (token(above + hits), token(above + more));
                let nanoseconds =
                    self.worth.as_ref().map_or(0, |worth| nanoseconds(worth.prefill_rate.seconds(from, end)));
                lost.push(LostHits { hours, place: place as u32, tokens: end - from, nanoseconds });
                hits = more;
            }
            if hits == u64::from(run.pages) {
                break;
            }
        }
    }

    /// Whether hours and numbers ascend, and hours are those of a day.
    fn is_sound(&self) -> bool {
        let now = self.latest_ms.map(|latest| latest.div_euclid(HOUR_MS));
        let newest = self.hours.back().map(|start| start.hour);
        let oldest = self.hours.front().map(|start| start.hour);
        let is_of_a_day =
            now.zip(oldest).is_none_or(|(now, oldest)| now.saturating_sub(oldest) < HOURS_A_DAY);
        let mut pairs = self.hours.iter().zip(self.hours.iter().skip(1));
        now == newest
            && is_of_a_day
            && pairs.all(|(one, next)| one.hour < next.hour && one.first < next.first)
    }
}

impl Question for RestartsObserver {
    type Setting = bool;
    type Kept = Self;
    type Tally = RestartsTally;
    type Estimate = RestartsEstimate;

    const NEEDS: QuestionNeeds =
        QuestionNeeds { setting: "restarts", revision: 0, one_stack: true, few_capacities: true };

    fn check(is_enabled: &bool, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
        match *is_enabled && pool.is_sampled {
            true => Err(QuestionsError::Sampled { asked: Self::NEEDS.setting }),
            false => Ok(()),
        }
    }

    fn new(is_enabled: &bool, pool: QuestionPool<'_>) -> Option<Self> {
        is_enabled.then(|| Self::at(pool))
    }

    fn shape(
        is_enabled: &bool,
        _: ProvisionedCache<'_>,
        capacities: &[u64],
        horizon: Horizon,
    ) -> Option<RestartsShape> {
        is_enabled.then(|| RestartsShape::new(capacities.len(), horizon))
    }

    fn follow(&mut self, request: &Accepted<'_>, _: ProvisionedCache<'_>, _: &CacheBank) -> RestartsShare {
        let Accepted { event, outcome, page_size, index, .. } = *request;
        self.observe(RestartsRequest::of(event, index, page_size, outcome))
    }

    fn kept(&self) -> &Self {
        self
    }

    fn resumed(self, kept: Self) -> Option<Self> {
        let Self { worth, sizes, .. } = self;
        Some(Self { worth, sizes, ..kept }).filter(Self::is_sound)
    }

    fn estimate(&self, tally: &RestartsTally, figures: &QuestionFigures<'_>) -> Option<RestartsEstimate> {
        estimate(self.worth.as_ref(), |pages| self.sizes.binary_search(&pages).ok(), tally, figures)
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
