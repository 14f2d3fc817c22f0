//! The recommendation: how much cache to have, and what a cache of exactly that size finds.
//!
//! [`recommend`] makes it, and nothing else does: the estimate carries it, and every table, page, metric and alert
//! shows what the estimate carries.
//!
//! 1. There is one entry for each target ratio and coverage. The one to act on is that of the first target ratio at
//!    99 % of requests, else at the next smaller coverage configured, else at the smallest.
//! 2. The recommended capacity is the requirement, with room for what is in flight, because a live engine cannot
//!    evict that. Where requests that overlap are modelled, it is the larger of what the hits require and of the room
//!    that so many of the requests want; else the most that others hold is added.
//! 3. A window with fewer requests than `min_requests` recommends nothing. It says so, and what is required so far.
//! 4. What lies beyond the tracked bound has no number.
//! 5. The hit rate is that of the curve at exactly the recommended capacity, where it was counted.

use crate::families::certainty::{FigureStanding, Interval};
use crate::sizing::figures::{CapacityPoint, CoverageCapacity, InFlightFigures, RequiredCapacity, is_false};
use crate::sizing::tiers::Settled;
use crate::units::ratio::{Ratio, percentile};
use crate::units::{PageBytes, PageCount};
use serde::{Deserialize, Serialize};

/// The coverage to act on, where it is configured.
const COVERAGE_TO_ACT_ON: Ratio = Ratio::per_mille(990);

/// Whether there is a number to act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecommendationStatus {
    /// There is.
    Ready,
    /// The window holds fewer requests than `min_requests`.
    TooFew,
    /// More is needed than the tracked bound can tell.
    BeyondBound,
}

impl RecommendationStatus {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Ready, Self::TooFew, Self::BeyondBound];

    /// Its name, as records have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::TooFew => "too_few",
            Self::BeyondBound => "beyond_bound",
        }
    }
}

/// The capacity recommended for a share of a window's requests. Pages are pages of the pool, bytes are bytes of KV
/// state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// The share of the requests, as the name of a percentile (`p99`).
    #[serde(with = "percentile")]
    pub coverage: Ratio,
    /// Share of its reusable prefix that each of them finds.
    pub target_ratio: Ratio,
    /// This is the number to act on: that of the window to act on, at the coverage to act on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub act_on: bool,
    /// Whether there is a number.
    pub status: RecommendationStatus,
    /// The capacity to have; only where the status is `ready`.
    pub pages: Option<u64>,
    /// The same in bytes, where a cost per token is configured.
    pub bytes: Option<u64>,
    /// What to hold while `pages` moves with the hour: it rises with `pages` at once, and falls to the most of
    /// `plan.hold` steps in a row that ask for less ([`Hysteresis`](super::tiers::Hysteresis)). Of the entry to act on
    /// alone, and in a service alone; it stays where a window has no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_pages: Option<u64>,
    /// The same in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_bytes: Option<u64>,
    /// What the hits require; absent beyond the tracked bound.
    pub required_pages: Option<u64>,
    /// Room for the pages that requests in flight hold, beyond that; absent where the log says no durations, and
    /// where what the hits require has that room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_pages: Option<u64>,
    /// Prefix hits as a share of page accesses, in a cache of exactly this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate: Option<f64>,
    /// The same by tokens, as a share of all tokens of the prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate_tokens: Option<f64>,
    /// `1/(1-r)` at that hit rate (paper, equation 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_prefill_throughput: Option<f64>,
    /// Whether the requirement has settled.
    pub convergence: Settled,
    /// Its mean growth from step to step, as a share; absent where too little is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_per_window: Option<f64>,
    /// Why there is no number, for people; absent where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The lower end of its 90 % interval, in pages; absent, like all that follows, where certainty is not asked, and
    /// where nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<u64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
    /// How much stands behind the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_status: Option<FigureStanding>,
    /// Conversations with a request that needs more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversations_above: Option<u64>,
}

/// What recommendations follow from, alongside the requirement.
#[derive(Debug, Clone, Copy)]
pub struct RecommendationBasis<'a> {
    /// What requests met in flight; absent where the log says no durations.
    pub in_flight: Option<&'a InFlightFigures>,
    /// Where requests that overlap are modelled, the room that so many of them want, one entry a coverage.
    pub room: &'a [(Ratio, Option<u64>)],
    /// Bytes per page, where a cost per token is configured.
    pub page_bytes: Option<PageBytes>,
    /// Requests of the window.
    pub requests: u64,
    /// The least it must have.
    pub min_requests: u64,
    /// The largest capacity that can be known.
    pub bound: PageCount,
    /// This is the window to act on.
    pub act_on: bool,
}

/// Recommends a capacity for each target ratio and coverage, in their order.
pub fn recommend(required: &[RequiredCapacity], basis: &RecommendationBasis<'_>) -> Vec<Recommendation> {
    let entries = required
        .iter()
        .flat_map(|required| required.coverage.iter().map(|own| basis.recommend(required.target_ratio, own)));
    let mut all: Vec<Recommendation> = entries.collect();
    let to_act_on = chosen(&all).map(|entry| (entry.target_ratio, entry.coverage)).filter(|_| basis.act_on);
    for entry in &mut all {
        entry.act_on = to_act_on == Some((entry.target_ratio, entry.coverage));
    }
    all
}

/// The recommendation at the coverage to act on; `None` where nothing is required of any capacity.
pub fn chosen(all: &[Recommendation]) -> Option<&Recommendation> {
    let first = by_target(all).next()?;
    let upto = first.iter().filter(|entry| entry.coverage <= COVERAGE_TO_ACT_ON);
    upto.max_by_key(|entry| entry.coverage).or_else(|| first.iter().min_by_key(|entry| entry.coverage))
}

/// The recommendations of each target ratio.
pub fn by_target(all: &[Recommendation]) -> impl Iterator<Item = &[Recommendation]> {
    all.chunk_by(|a, b| a.target_ratio == b.target_ratio)
}

impl RecommendationBasis<'_> {
    fn recommend(&self, target_ratio: Ratio, own: &CoverageCapacity) -> Recommendation {
        let room = self.further_room(own);
        let pages = room.map_or(own.pages, |room| with_room(own.pages, room));
        let (status, why) = self.status(pages);
        let pages = pages.filter(|_| status == RecommendationStatus::Ready);
        Recommendation {
            coverage: own.coverage,
            target_ratio,
            act_on: false,
            status,
            pages,
            bytes: pages.zip(self.page_bytes).map(|(pages, page)| PageCount(pages).bytes(page).0),
            held_pages: None,
            held_bytes: None,
            required_pages: own.pages,
            in_flight_pages: room.flatten(),
            hit_rate: None,
            hit_rate_tokens: None,
            relative_prefill_throughput: None,
            convergence: own.convergence,
            growth_per_window: own.growth_per_window,
            why,
            low: None,
            high: None,
            interval_status: None,
            conversations_above: None,
        }
    }

    /// The room for requests in flight beyond what hits require: unknown beyond the tracked bound, none where there
    /// is none.
    fn further_room(&self, own: &CoverageCapacity) -> Option<Option<u64>> {
        let found = self.in_flight?;
        if !found.modelled {
            return Some(found.room());
        }
        let (_, room) = self.room.iter().find(|(coverage, _)| *coverage == own.coverage)?;
        let further = room.zip(own.pages).map(|(room, required)| room.saturating_sub(required));
        (further != Some(0)).then_some(further)
    }

    fn status(&self, pages: Option<u64>) -> (RecommendationStatus, Option<String>) {
        if self.requests < self.min_requests {
            let (requests, least) = (self.requests, self.min_requests);
            let why = format!("{requests} requests, at least {least} are needed (min_requests)");
            return (RecommendationStatus::TooFew, Some(why));
        }
        match pages {
            Some(_) => (RecommendationStatus::Ready, None),
            None => {
                let why =
                    format!("more than the {} pages that are tracked (max_tracked_pages)", self.bound.0);
                (RecommendationStatus::BeyondBound, Some(why))
            }
        }
    }
}

/// A requirement with room for the pages that other requests hold; `None` where either is not known.
pub fn with_room(required: Option<u64>, in_flight: Option<u64>) -> Option<u64> {
    required.zip(in_flight).map(|(own, others)| own.saturating_add(others))
}

impl Recommendation {
    /// Takes in what is held of it.
    pub fn hold(&mut self, held: Option<PageCount>, page_bytes: Option<PageBytes>) {
        self.held_pages = held.map(|held| held.0);
        self.held_bytes = held.zip(page_bytes).map(|(held, page)| held.bytes(page).0);
    }

    /// What to have by it: what is held, where that is more.
    pub fn to_hold(&self) -> Option<u64> {
        self.held_pages.max(self.pages)
    }

    /// Takes in how certain it is.
    pub fn take_interval(&mut self, found: &Interval) {
        (self.low, self.high, self.interval_status) = (found.low, found.high, Some(found.standing));
        self.conversations_above = Some(found.conversations_above);
    }

    /// The ends of its interval, where it is stated.
    pub fn stated_ends(&self) -> Option<(u64, u64)> {
        self.low.zip(self.high).filter(|_| self.interval_status == Some(FigureStanding::Stated))
    }

    /// What is known of a requirement that had not settled.
    pub fn movement(&self) -> &'static str {
        match self.growth_per_window {
            None => "is not known to have settled",
            Some(growth) if growth < 0.0 => "was still falling",
            Some(_) => "was still growing",
        }
    }

    /// What the window asks for so far: the recommended capacity, or what it would be of more requests; absent beyond
    /// the tracked bound.
    pub fn so_far(&self) -> Option<u64> {
        match (self.status, self.in_flight_pages) {
            (RecommendationStatus::Ready, _) => self.pages,
            (RecommendationStatus::TooFew, Some(room)) => with_room(self.required_pages, Some(room)),
            (RecommendationStatus::TooFew, None) => self.required_pages,
            (RecommendationStatus::BeyondBound, _) => None,
        }
    }

    /// Takes the hits of a cache of exactly the recommended size, where they are among these points.
    pub fn take_hits(&mut self, counted: &[CapacityPoint]) {
        let Some(point) = counted.iter().find(|point| Some(point.pages) == self.pages) else { return };
        (self.hit_rate, self.hit_rate_tokens) = (point.prefix_hit_rate, point.hit_rate_tokens);
        self.relative_prefill_throughput = point.relative_prefill_throughput;
    }
}

/// The answer to how much cache is needed: the recommendation at the coverage to act on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Share of the reusable prefix that a request must find.
    pub target_ratio: Ratio,
    /// Share of the requests that do.
    pub coverage: Ratio,
    /// Whether there is a number.
    pub status: RecommendationStatus,
    /// The recommended capacity; only where the status is `ready`.
    pub pages: Option<u64>,
    /// The same in bytes, where a cost per token is configured.
    pub bytes: Option<u64>,
    /// Pages of it that are room for requests in flight; absent where the log says no durations, and where the
    /// requirement counts them.
    pub in_flight_pages: Option<u64>,
    /// It is larger than the tracked bound.
    pub beyond_bound: bool,
    /// Prefix hits as a share of page accesses in a cache of exactly this size.
    pub hit_rate: Option<f64>,
    /// The same by tokens, as a share of all tokens of the prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_rate_tokens: Option<f64>,
    /// `1/(1-r)` at that hit rate (paper, equation 1).
    pub relative_prefill_throughput: Option<f64>,
}

impl From<&Recommendation> for Answer {
    fn from(entry: &Recommendation) -> Self {
        Self {
            target_ratio: entry.target_ratio,
            coverage: entry.coverage,
            status: entry.status,
            pages: entry.pages,
            bytes: entry.bytes,
            in_flight_pages: entry.in_flight_pages,
            beyond_bound: entry.status == RecommendationStatus::BeyondBound,
            hit_rate: entry.hit_rate,
            hit_rate_tokens: entry.hit_rate_tokens,
            relative_prefill_throughput: entry.relative_prefill_throughput,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(coverage: &str, pages: Option<u64>) -> CoverageCapacity {
        CoverageCapacity {
            beyond_bound: pages.is_none(),
            convergence: Settled::Converged,
            ..CoverageCapacity::of(coverage.parse().expect("a share"), pages)
        }
    }

    fn required(target: &str, coverage: Vec<CoverageCapacity>) -> RequiredCapacity {
        let target_ratio = target.parse().expect("a share");
        RequiredCapacity { target_ratio, mean_pages: None, max_pages: None, coverage }
    }

    fn in_flight(max_pages: Option<u64>) -> InFlightFigures {
        let (max_bytes, mean_pages, p99_pages) = (None, None, None);
        InFlightFigures {
            modelled: false,
            max_requests: 3,
            max_pages,
            max_bytes,
            mean_pages,
            p99_pages,
            required: Vec::new(),
            without_room: Vec::new(),
        }
    }

    const BASIS: RecommendationBasis<'_> = RecommendationBasis {
        in_flight: None,
        room: &[],
        page_bytes: Some(PageBytes(10)),
        requests: 100,
        min_requests: 100,
        bound: PageCount(5000),
        act_on: true,
    };

    #[test]
    fn the_coverage_to_act_on_is_99_percent_else_the_next_smaller_else_the_smallest() {
        let acted_on = |coverages: &[&str]| {
            let entries = || coverages.iter().map(|coverage| covered(coverage, Some(1))).collect();
            let all = recommend(&[required("1", entries()), required("0.5", entries())], &BASIS);
            let acted_on: Vec<_> = all.iter().filter(|entry| entry.act_on).collect();
            assert!(acted_on.len() <= 1 && acted_on.iter().all(|entry| entry.target_ratio == Ratio::ONE));
            assert_eq!(acted_on.first().copied(), chosen(&all));
            acted_on.first().map(|entry| entry.coverage.percentile_name())
        };
        assert_eq!(acted_on(&["0.5", "0.99", "0.999"]).as_deref(), Some("p99"));
        assert_eq!(acted_on(&["0.5", "0.9", "0.999"]).as_deref(), Some("p90"));
        assert_eq!(acted_on(&["0.999", "1"]).as_deref(), Some("p99.9"));
        assert_eq!(acted_on(&[]), None);
        let other = RecommendationBasis { act_on: false, ..BASIS };
        let all = recommend(&[required("1", vec![covered("0.99", Some(1))])], &other);
        assert!(all.iter().all(|entry| !entry.act_on) && chosen(&all).is_some(), "another window");
    }

    #[test]
    fn there_is_room_for_requests_in_flight_where_durations_are_known() {
        let required = [required("1", vec![covered("0.99", Some(100))])];
        let alone = &recommend(&required, &BASIS)[0];
        assert_eq!((alone.pages, alone.bytes, alone.in_flight_pages), (Some(100), Some(1000), None));
        let room = in_flight(Some(40));
        let found = &recommend(&required, &RecommendationBasis { in_flight: Some(&room), ..BASIS })[0];
        assert_eq!((found.pages, found.bytes, found.in_flight_pages), (Some(140), Some(1400), Some(40)));
        assert_eq!(found.required_pages, Some(100));
    }

    #[test]
    fn where_overlap_is_modelled_the_requirement_is_what_is_recommended() {
        let required = [required("1", vec![covered("0.99", Some(100))])];
        let modelled = |max_pages| InFlightFigures { modelled: true, ..in_flight(max_pages) };
        for max_pages in [Some(40), None] {
            let basis = RecommendationBasis { in_flight: Some(&modelled(max_pages)), ..BASIS };
            let found = &recommend(&required, &basis)[0];
            assert_eq!((found.pages, found.in_flight_pages, found.so_far()), (Some(100), None, Some(100)));
        }
    }

    /// What hits require and the room for what is in flight are two numbers, and the larger one is recommended.
    #[test]
    fn where_overlap_is_modelled_the_larger_of_hits_and_room_is_recommended() {
        let required = [required("1", vec![covered("0.9", Some(100)), covered("0.99", Some(100))])];
        let modelled = InFlightFigures { modelled: true, ..in_flight(Some(300)) };
        let room = ["0.9", "0.99"].map(|coverage| coverage.parse().expect("a share"));
        let room = [(room[0], Some(80)), (room[1], Some(130))];
        let all =
            recommend(&required, &RecommendationBasis { in_flight: Some(&modelled), room: &room, ..BASIS });
        let pages = |at: usize| (all[at].pages, all[at].required_pages, all[at].in_flight_pages);
        assert_eq!(pages(0), (Some(100), Some(100), None));
        assert_eq!((pages(1), all[1].so_far()), ((Some(130), Some(100), Some(30)), Some(130)));
        let untracked = room.map(|(coverage, _)| (coverage, None));
        let basis = RecommendationBasis { in_flight: Some(&modelled), room: &untracked, ..BASIS };
        assert_eq!(recommend(&required, &basis)[0].status, RecommendationStatus::BeyondBound);
    }

    #[test]
    fn room_that_was_not_tracked_leaves_the_recommendation_beyond_the_bound() {
        let room = in_flight(None);
        let basis = RecommendationBasis { in_flight: Some(&room), ..BASIS };
        let found = &recommend(&[required("1", vec![covered("0.99", Some(100))])], &basis)[0];
        assert_eq!((found.pages, found.status), (None, RecommendationStatus::BeyondBound));
        assert!(found.why.as_ref().is_some_and(|why| why.contains("5000 pages")), "{found:?}");
    }

    /// A pool that needs 56 GiB recommended 4.3 after its first 39 requests.
    #[test]
    fn too_few_requests_recommend_nothing_and_say_why() {
        let required = [required("1", vec![covered("0.99", Some(100)), covered("0.999", None)])];
        let room = in_flight(Some(40));
        let basis = RecommendationBasis { requests: 99, in_flight: Some(&room), ..BASIS };
        let all = recommend(&required, &basis);
        for found in &all {
            assert_eq!((found.pages, found.bytes, found.hit_rate), (None, None, None));
            assert_eq!(found.status, RecommendationStatus::TooFew);
            let why = "99 requests, at least 100 are needed (min_requests)";
            assert_eq!(found.why.as_deref(), Some(why));
        }
        assert_eq!((all[0].so_far(), all[1].so_far()), (Some(140), None));
    }

    #[test]
    fn the_hit_rate_is_never_that_of_another_capacity() {
        let point =
            |pages, rate| CapacityPoint { pages, prefix_hit_rate: Some(rate), ..CapacityPoint::default() };
        let mut found = recommend(&[required("1", vec![covered("0.99", Some(100))])], &BASIS).remove(0);
        found.take_hits(&[point(99, 0.4), point(101, 0.6)]);
        assert_eq!(found.hit_rate, None);
        found.take_hits(&[point(99, 0.4), point(100, 0.5)]);
        assert_eq!(found.hit_rate, Some(0.5));
    }

    #[test]
    fn a_recommendation_reads_as_a_person_would_write_it() {
        let found = recommend(&[required("0.99", vec![covered("0.999", Some(7))])], &BASIS).remove(0);
        let json = serde_json::to_value(&found).expect("JSON");
        assert_eq!((&json["coverage"], &json["status"]), (&"p99.9".into(), &"ready".into()));
        assert_eq!(serde_json::from_value::<Recommendation>(json).expect("it reads back"), found);
    }

    /// Unknown was told as falling, for none is less than any number.
    #[test]
    fn a_movement_that_is_not_known_is_no_fall() {
        let mut found = recommend(&[required("1", vec![covered("0.99", Some(7))])], &BASIS);
        let entry = found.first_mut().expect("one");
        let mut told = |growth| {
            entry.growth_per_window = growth;
            entry.movement()
        };
        assert_eq!(told(None), "is not known to have settled");
        assert_eq!([told(Some(-0.1)), told(Some(0.1))], ["was still falling", "was still growing"]);
    }
}
