//! What single requests of a pool would lose of their hits by a restart, and what a window of them says.

use super::estimate::{RestartsEstimate, estimate};
use super::tally::{LostHits, RestartsShare, RestartsTally};
use super::{HOUR_MS, HOURS_A_DAY};
use crate::engines::one_pass::Engine;
use crate::questions::costs::PrefillCosts;
use crate::questions::question::{
    Accepted, Answerable, Horizon, Question, QuestionFigures, QuestionNeeds, QuestionPool, QuestionsError,
};
use crate::request::event::RequestEvent;
use crate::request::outcome::{Outcome, Run};
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
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
    /// Sizes that windows have room for, and whether the log ends.
    #[serde(skip)]
    counted: usize,
    #[serde(skip)]
    horizon: Horizon,
    /// Hours in which requests came, ascending, each with the number of its first request: at most those of a day.
    hours: VecDeque<(i64, u64)>,
    /// When the latest request came, in milliseconds.
    latest_ms: Option<i64>,
}

heap_bytes!(RestartsObserver { sizes, hours; worth, counted, horizon, latest_ms });

impl RestartsObserver {
    /// Nothing seen yet, at capacities that can be known, in pages.
    pub(super) fn at(pool: QuestionPool<'_>) -> Self {
        let QuestionPool { cache, costs, capacities, page_size, horizon, .. } = pool;
        let mut sizes: Vec<u64> = capacities.iter().copied().chain(cache.pages(page_size)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        // What is provisioned is one more size.
        let counted = capacities.len() + 1;
        Self { worth: costs.cloned(), sizes, counted, horizon, hours: VecDeque::new(), latest_ms: None }
    }

    /// What a request adds; one that came before the one before it counts as if it had come with that.
    pub(super) fn observe(
        &mut self,
        event: &RequestEvent<'_>,
        number: u64,
        page_size: PageSize,
        outcome: &Outcome,
    ) -> RestartsShare {
        let page = u64::from(page_size.get());
        let prompt = event.input_tokens.unwrap_or_else(|| outcome.page_accesses * page);
        let token = |place: u64| (place * page).min(prompt);
        let arrival_ms = event.event_time.0;
        let time_ms = self.latest_ms.map_or(arrival_ms, |latest| latest.max(arrival_ms));
        self.latest_ms = Some(time_ms);
        let now = time_ms.div_euclid(HOUR_MS);
        while self.hours.front().is_some_and(|(hour, _)| now.saturating_sub(*hour) >= HOURS_A_DAY) {
            self.hours.pop_front();
        }
        if self.hours.back().is_none_or(|(hour, _)| *hour < now) {
            self.hours.push_back((now, number));
        }
        let mut lost = Vec::new();
        let mut above = 0;
        for run in &outcome.runs {
            let hours = self.hours_since(run.last_touched_by, now);
            // What was touched in this hour no restart at a full hour takes away.
            if hours > 0 {
                self.add_run(run, (above, hours), token, &mut lost);
            }
            above += u64::from(run.pages);
        }
        RestartsShare { time_ms, lost }
    }

    /// Full hours between this request and now: at most those of a day.
    fn hours_since(&self, number: u64, now: i64) -> u8 {
        let later = self.hours.partition_point(|(_, first)| *first <= number);
        let used = later.checked_sub(1).map(|at| self.hours[at].0);
        // All that are kept are within a day.
        used.map_or(HOURS_A_DAY, |hour| now - hour) as u8
    }

    /// Adds a run with so many pages of the prompt before it, used so many full hours ago.
    fn add_run(
        &self,
        run: &Run,
        (above, hours): (u64, u8),
        token: impl Fn(u64) -> u64,
        lost: &mut Vec<LostHits>,
    ) {
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
        let newest = self.hours.back().map(|(hour, _)| *hour);
        let oldest = self.hours.front().map(|(hour, _)| *hour);
        let is_of_a_day =
            now.zip(oldest).is_none_or(|(now, oldest)| now.saturating_sub(oldest) < HOURS_A_DAY);
        let mut pairs = self.hours.iter().zip(self.hours.iter().skip(1));
        now == newest && is_of_a_day && pairs.all(|(one, next)| one.0 < next.0 && one.1 < next.1)
    }
}

impl Question for RestartsObserver {
    type Setting = bool;
    type Kept = Self;
    type Tally = RestartsTally;
    type Answer = Option<RestartsEstimate>;

    const NEEDS: QuestionNeeds = QuestionNeeds::all("restarts");

    fn check(is_enabled: &bool, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
        match *is_enabled && pool.is_sampled {
            true => Err(QuestionsError::Sampled { asked: Self::NEEDS.setting }),
            false => Ok(()),
        }
    }

    fn new(is_enabled: &bool, pool: QuestionPool<'_>) -> Option<Self> {
        is_enabled.then(|| Self::at(pool))
    }

    fn shape(&self) -> (usize, Horizon) {
        (self.counted, self.horizon)
    }

    fn follow(&mut self, request: &Accepted<'_>, room: &mut RestartsShare) {
        let Accepted { event, outcome, page_size, index, .. } = *request;
        *room = self.observe(event, index, page_size, outcome);
    }

    fn kept(&self) -> &Self {
        self
    }

    fn resumed(self, kept: Self, _: QuestionPool<'_>, _: &Engine) -> Option<Self> {
        let Self { worth, sizes, counted, horizon, .. } = self;
        Some(Self { worth, sizes, counted, horizon, ..kept }).filter(Self::is_sound)
    }

    fn answer(&self, tally: &RestartsTally, figures: &QuestionFigures<'_>) -> Option<RestartsEstimate> {
        estimate(self.worth.as_ref(), |pages| self.sizes.binary_search(&pages).ok(), tally, figures)
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
