//! The answer: how much cache is recommended, and what hits at exactly that size.
//!
//! Which of an estimate's numbers is the recommended one is decided here and nowhere else, so that every
//! output gives the same answer to the same question:
//!
//! 1. The coverage recommended from is 99 % of requests, else the next smaller one configured, else the
//!    smallest; the target ratio is the first one configured.
//! 2. Where the log tells durations, the recommended capacity is the requirement with room for the pages
//!    that other requests in flight hold, because a live engine cannot evict them
//!    ([`in_flight`](super::in_flight)). Where it tells none, it is the requirement alone.
//! 3. The hit rate is that of the curve at exactly the recommended capacity, or is not told: never that
//!    of another capacity.

use super::estimate::{CapacityPoint, CoverageCapacity, Estimate, InFlight, RequiredCapacity};
use super::ratio::Ratio;
use super::tiers::Settled;
use serde::Serialize;

/// The coverage recommended from, where it is configured.
const RECOMMENDED_COVERAGE: Ratio = Ratio::per_mille(990);

/// What an answer is made from: the parts of an estimate, and further points of its curve.
#[derive(Debug, Clone, Copy)]
pub struct Basis<'a> {
    /// The requirements, one entry a target ratio.
    pub required: &'a [RequiredCapacity],
    /// What requests met in flight; absent where the log tells no durations.
    pub in_flight: Option<&'a InFlight>,
    /// The curve.
    pub capacities: &'a [CapacityPoint],
    /// Points of the curve beside the asked ones, counted at recommended capacities.
    pub counted: &'a [CapacityPoint],
    /// Each point was modelled on its own, so nothing follows for the capacities in between.
    pub pointwise: bool,
}

/// The capacity recommended for a share of the requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recommended {
    /// The share of the requests.
    pub coverage: Ratio,
    /// The capacity in pages, room for requests in flight included; absent where it is not known.
    pub pages: Option<u64>,
    /// The same in bytes, where a cost a token is configured.
    pub bytes: Option<u64>,
    /// It is larger than the tracked bound.
    pub beyond_bound: bool,
    /// The requirement alone, of one request after another.
    pub without_room: Option<u64>,
    /// Whether the requirement has settled, and by how much it grows.
    pub convergence: Settled,
    /// Its mean growth, as a share; absent where it cannot be told.
    pub growth_per_window: Option<f64>,
}

/// The answer of an estimate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Share of the reusable prefix that a request must find.
    pub target_ratio: Ratio,
    /// Share of the requests that do.
    pub coverage: Ratio,
    /// The recommended capacity; absent beyond the tracked bound.
    pub pages: Option<u64>,
    /// The same in bytes, where a cost a token is configured.
    pub bytes: Option<u64>,
    /// Pages of it that are room for requests in flight; absent where the log tells no durations.
    pub in_flight_pages: Option<u64>,
    /// It is larger than the tracked bound.
    pub beyond_bound: bool,
    /// Prefix hits a page access in a cache of exactly this size that serves one request after another;
    /// absent where that was not counted.
    pub hit_rate: Option<f64>,
    /// `1/(1-r)` at that hit rate (paper, equation 1).
    pub relative_prefill_throughput: Option<f64>,
}

impl Estimate {
    /// What its answer is made from.
    pub fn basis(&self) -> Basis<'_> {
        Basis {
            required: &self.required,
            in_flight: self.in_flight.as_ref(),
            capacities: &self.capacities,
            counted: &[],
            pointwise: self.is_pointwise(),
        }
    }
}

impl<'a> Basis<'a> {
    /// The recommended capacities at a target ratio, by its place in the configuration: one a coverage,
    /// in their order.
    pub fn recommended(&self, target: usize) -> Vec<Recommended> {
        let Some(required) = self.required.get(target) else { return Vec::new() };
        let of = |(at, own): (usize, &CoverageCapacity)| self.with_room(target, at, own);
        required.coverage.iter().enumerate().map(of).collect()
    }

    /// The answer; `None` where nothing is required of any capacity.
    pub fn answer(&self) -> Option<Answer> {
        let all = self.recommended(0);
        let entry = Recommended::chosen(&all)?;
        let point = entry.pages.and_then(|pages| self.point_at(pages));
        Some(Answer {
            target_ratio: self.required.first()?.target_ratio,
            coverage: entry.coverage,
            pages: entry.pages,
            bytes: entry.bytes,
            in_flight_pages: self.in_flight.and_then(|found| found.max_pages),
            beyond_bound: entry.beyond_bound,
            hit_rate: point.and_then(|point| point.prefix_hit_rate),
            relative_prefill_throughput: point.and_then(|point| point.relative_prefill_throughput),
        })
    }

    /// A point of the curve with the hits of a cache of exactly so many pages: one of that size or, as
    /// hits never decrease with the capacity, one on either side if both have the same hits.
    pub fn point_at(&self, pages: u64) -> Option<&'a CapacityPoint> {
        let known = || self.capacities.iter().chain(self.counted).filter(|point| point.prefix_hits.is_some());
        if let Some(exact) = known().find(|point| point.pages == pages) {
            return Some(exact);
        }
        let below = known().filter(|point| point.pages < pages).max_by_key(|point| point.pages)?;
        let above = known().filter(|point| point.pages > pages).min_by_key(|point| point.pages)?;
        (!self.pointwise && below.prefix_hits == above.prefix_hits).then_some(above)
    }

    fn with_room(&self, target: usize, at: usize, own: &CoverageCapacity) -> Recommended {
        let (pages, bytes, beyond) = match self.in_flight {
            None => (own.pages, own.bytes, own.beyond_bound),
            Some(found) => {
                let sum = found.required.get(target).and_then(|required| required.coverage.get(at));
                let pages = sum.and_then(|sum| sum.pages);
                let untold = own.pages.is_some() && pages.is_none();
                (pages, sum.and_then(|sum| sum.bytes), own.beyond_bound || untold)
            }
        };
        Recommended {
            coverage: own.coverage,
            pages,
            bytes,
            beyond_bound: beyond,
            without_room: own.pages,
            convergence: own.convergence,
            growth_per_window: own.growth_per_window,
        }
    }
}

impl Recommended {
    /// Whether there is anything to say of it.
    pub fn is_told(&self) -> bool {
        self.pages.is_some() || self.beyond_bound
    }

    /// The one to recommend: at 99 % of requests, else at the next smaller coverage, else at the smallest.
    pub fn chosen(all: &[Self]) -> Option<&Self> {
        let told = || all.iter().filter(|entry| entry.is_told());
        let upto = told().filter(|entry| entry.coverage <= RECOMMENDED_COVERAGE);
        upto.max_by_key(|entry| entry.coverage).or_else(|| told().min_by_key(|entry| entry.coverage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{CoverageInFlight, RequiredInFlight};

    fn covered(coverage: &str, pages: Option<u64>) -> CoverageCapacity {
        CoverageCapacity {
            coverage: coverage.parse().expect("a share"),
            pages,
            bytes: pages.map(|pages| pages * 10),
            tokens: None,
            pages_with_reuse: None,
            beyond_bound: pages.is_none(),
            convergence: Settled::Converged,
            growth_per_window: None,
        }
    }

    fn required(coverage: Vec<CoverageCapacity>) -> Vec<RequiredCapacity> {
        vec![RequiredCapacity { target_ratio: Ratio::ONE, mean_pages: None, max_pages: None, coverage }]
    }

    fn in_flight(room: Option<u64>, required: &[RequiredCapacity]) -> InFlight {
        let sum = |own: &CoverageCapacity| {
            let pages = own.pages.zip(room).map(|(own, room)| own + room);
            CoverageInFlight { coverage: own.coverage, pages, bytes: pages.map(|pages| pages * 10) }
        };
        let at = |required: &RequiredCapacity| RequiredInFlight {
            target_ratio: required.target_ratio,
            coverage: required.coverage.iter().map(sum).collect(),
        };
        InFlight {
            max_requests: 3,
            max_pages: room,
            max_bytes: room.map(|room| room * 10),
            mean_pages: None,
            required: required.iter().map(at).collect(),
        }
    }

    fn point(pages: u64, hits: u64) -> CapacityPoint {
        let rate = hits as f64 / 100.0;
        CapacityPoint {
            label: None,
            pages,
            bytes: None,
            page_hits: Some(hits),
            prefix_hits: Some(hits),
            page_hit_rate: Some(rate),
            reuse_hit_rate: None,
            prefix_hit_rate: Some(rate),
            relative_prefill_throughput: None,
            beyond_bound: false,
            ..CapacityPoint::default()
        }
    }

    fn basis<'a>(required: &'a [RequiredCapacity], capacities: &'a [CapacityPoint]) -> Basis<'a> {
        Basis { required, in_flight: None, capacities, counted: &[], pointwise: false }
    }

    #[test]
    fn the_coverage_is_99_percent_else_the_next_smaller_else_the_smallest() {
        let chosen = |coverages: &[&str]| {
            let entries = coverages.iter().map(|coverage| covered(coverage, Some(1))).collect();
            let required = required(entries);
            basis(&required, &[]).answer().map(|answer| answer.coverage.to_string())
        };
        assert_eq!(chosen(&["0.5", "0.99", "0.999"]).as_deref(), Some("0.99"));
        assert_eq!(chosen(&["0.5", "0.9", "0.999"]).as_deref(), Some("0.9"));
        assert_eq!(chosen(&["0.999", "1"]).as_deref(), Some("0.999"));
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn the_answer_has_room_for_requests_in_flight_where_durations_are_known() {
        let required = required(vec![covered("0.99", Some(100))]);
        let alone = basis(&required, &[]).answer().expect("an answer");
        assert_eq!((alone.pages, alone.bytes, alone.in_flight_pages), (Some(100), Some(1000), None));
        let room = in_flight(Some(40), &required);
        let basis = Basis { in_flight: Some(&room), ..basis(&required, &[]) };
        let answer = basis.answer().expect("an answer");
        assert_eq!((answer.pages, answer.bytes, answer.in_flight_pages), (Some(140), Some(1400), Some(40)));
        assert_eq!(basis.recommended(0)[0].without_room, Some(100));
    }

    #[test]
    fn room_that_was_not_tracked_leaves_the_answer_beyond_the_bound() {
        let required = required(vec![covered("0.99", Some(100))]);
        let room = in_flight(None, &required);
        let basis = Basis { in_flight: Some(&room), ..basis(&required, &[]) };
        let answer = basis.answer().expect("an answer");
        assert_eq!((answer.pages, answer.beyond_bound), (None, true));
    }

    #[test]
    fn the_hit_rate_is_never_that_of_another_capacity() {
        let required = required(vec![covered("0.99", Some(100))]);
        let rate = |points: &[CapacityPoint], counted: &[CapacityPoint], pointwise| {
            let basis = Basis { counted, pointwise, ..basis(&required, points) };
            basis.answer().and_then(|answer| answer.hit_rate)
        };
        assert_eq!(rate(&[point(90, 50), point(110, 60)], &[], false), None, "it lies somewhere in between");
        assert_eq!(rate(&[point(90, 50)], &[], false), None, "a larger cache may hit more");
        assert_eq!(rate(&[point(90, 50), point(110, 60)], &[point(100, 55)], false), Some(0.55));
        assert_eq!(
            rate(&[point(90, 50), point(110, 50)], &[], false),
            Some(0.5),
            "there is no room in between"
        );
        assert_eq!(rate(&[point(90, 50), point(110, 50)], &[], true), None, "hits may fall and rise again");
    }
}
