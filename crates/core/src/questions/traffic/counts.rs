//! What passes between tiers: reads and writes of each below the first, per request, at the busiest moment and a day.
//!
//! What is above a tier holds the pages with a need up to its reach. A page found below is read; what does not lie
//! above enters there, and what entered less what the tiers above grew by was dropped from them: an exclusive tier
//! stores that. An inclusive one stores what it does not hold itself.
//!
//! Where tiers end is known once a log or a window has ended, so its runs are kept ([`RunLog`]).

use crate::questions::request_runs::{LoggedRun, NumberedRequest, RunLog};
use crate::sizing::tiers::Inclusion;
use crate::units::EventTime;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// The spans over which the busiest moment is looked for, in milliseconds.
const PEAK_SPANS_MS: [u64; 2] = [1_000, 60_000];

/// Where a tier lies, in followed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierSpan {
    /// What the tiers above hold together.
    pub above: u64,
    /// What this one holds by itself.
    pub own: u64,
    /// Whether it repeats what they hold.
    pub inclusion: Inclusion,
}

impl TierSpan {
    fn reach(self) -> u64 {
        match self.inclusion {
            Inclusion::Exclusive => self.above.saturating_add(self.own),
            Inclusion::Inclusive => self.above.max(self.own),
        }
    }
}

/// What passes between a tier and those above, in followed pages.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Requests.
    pub requests: u64,
    /// From the first of them to the last, in milliseconds.
    pub span_ms: u64,
    /// Pages read from it.
    pub read_pages: u64,
    /// Pages written to it.
    pub written_pages: u64,
    /// What would be written to it as an inclusive tier of its size if it is exclusive, and the other way round.
    pub written_otherwise: u64,
    /// The busiest span of each length, in followed pages and without bytes.
    pub peaks: Vec<PeakTraffic>,
    /// Pages each request reads, if any, ascending.
    loads: Vec<u64>,
}

/// The busiest of all spans of one length.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PeakTraffic {
    /// How long; spans begin at its multiples.
    pub span_ms: u64,
    /// Most pages read in one.
    pub read_pages: u64,
    /// Most pages written in one.
    pub written_pages: u64,
    /// What a second of it reads.
    pub read_bytes_per_second: Option<f64>,
    /// What a second of it writes.
    pub written_bytes_per_second: Option<f64>,
}

impl Traffic {
    /// Pages that a request reads, at this quantile of all requests; `None` without any.
    pub fn load(&self, share: Ratio) -> Option<u64> {
        let rank = share.nearest_rank(self.requests)?;
        let without = self.requests - self.loads.len() as u64;
        let loaded = rank.checked_sub(without + 1).and_then(|at| self.loads.get(usize::try_from(at).ok()?));
        Some(loaded.copied().unwrap_or(0))
    }

    /// The same of a tier of so many pages: nothing passes to one that holds none.
    pub(super) fn of_tier(mut self, pages: u64) -> Self {
        if pages == 0 {
            (self.written_pages, self.written_otherwise) = (0, 0);
            self.peaks.iter_mut().for_each(|peak| peak.written_pages = 0);
        }
        self
    }
}

/// Pages by span of one length, as time passes.
#[derive(Debug)]
struct Spans {
    busiest: PeakTraffic,
    /// The span that the latest request came in, and what it read and wrote so far.
    latest: Option<i64>,
    read: u64,
    written: u64,
}

impl Traffic {
    /// What passes between a tier and those above, but for the first `skipped` requests of a log.
    pub fn of(log: &RunLog, tier: TierSpan, skipped: usize) -> Self {
        let mut traffic = Self {
            requests: 0,
            span_ms: 0,
            read_pages: 0,
            written_pages: 0,
            written_otherwise: 0,
            peaks: Vec::new(),
            loads: Vec::new(),
        };
        let mut spans = PEAK_SPANS_MS.map(Spans::of);
        let mut first = None;
        for (request, runs) in log.iter().skip(skipped) {
            let (read, dropped, not_held) = passing(&request, runs, tier);
            let written = match tier.inclusion {
                Inclusion::Exclusive => dropped,
                Inclusion::Inclusive => not_held,
            };
            traffic.requests += 1;
            traffic.read_pages += read;
            traffic.written_pages += written;
            traffic.written_otherwise += dropped + not_held - written;
            if read > 0 {
                traffic.loads.push(read);
            }
            traffic.span_ms = request.at.0.abs_diff(first.get_or_insert(request.at).0);
            spans.iter_mut().for_each(|spans| spans.add(request.at, read, written));
        }
        traffic.loads.sort_unstable();
        traffic.peaks = spans.map(|spans| spans.busiest).into();
        traffic
    }
}

impl Spans {
    fn of(span_ms: u64) -> Self {
        let busiest = PeakTraffic { span_ms, ..PeakTraffic::default() };
        Self { busiest, latest: None, read: 0, written: 0 }
    }

    /// Adds what a request moves; time never runs backwards.
    fn add(&mut self, at: EventTime, read: u64, written: u64) {
        let span = Some(at.0.div_euclid(self.busiest.span_ms as i64));
        if span != self.latest {
            (self.latest, self.read, self.written) = (span, 0, 0);
        }
        self.read += read;
        self.written += written;
        self.busiest.read_pages = self.busiest.read_pages.max(self.read);
        self.busiest.written_pages = self.busiest.written_pages.max(self.written);
    }
}

/// Pages of a request that are read from the tier, that enter above it and drop others, and that the tier does not
/// hold.
fn passing(request: &NumberedRequest, runs: &[LoggedRun], tier: TierSpan) -> (u64, u64, u64) {
    let found = |capacity: u64| runs.iter().map(|run| run.hits_at(capacity)).sum::<u64>();
    let can_hit = runs.iter().filter(|run| run.can_hit);
    let read = can_hit.map(|run| run.hits_at(tier.reach()) - run.hits_at(tier.above)).sum();
    let known: u64 = runs.iter().map(|run| run.pages()).sum();
    let new_pages = u64::from(request.new_pages);
    let grown = tier.above.min(request.distinct + new_pages) - tier.above.min(request.distinct);
    let dropped = known + new_pages - found(tier.above) - grown;
    (read, dropped, known + new_pages - found(tier.own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::profile::Profile;
    use crate::questions::counters::Counter;
    use crate::questions::lifetimes::naive::{StackModel, profiles, timed_requests};
    use crate::questions::traffic::Sights;
    use crate::request::outcome::Outcome;
    use crate::stack::naive::NaivePage;
    use proptest::prelude::*;

    /// The runs of a whole log, and which pages were seen again, by the number of each request.
    struct TrafficLog {
        log: RunLog,
        now: EventTime,
        sights: Sights,
    }

    impl TrafficLog {
        fn new() -> Self {
            let log = RunLog::new(usize::MAX);
            Self { log, now: EventTime(i64::MIN), sights: Sights::default() }
        }

        fn observe(&mut self, event_time: EventTime, outcome: &Outcome) {
            self.now = self.now.max(event_time);
            let (number, distinct) = (self.sights.requests() as u64, self.sights.distinct());
            let new_pages = outcome.new_pages as u32;
            self.log.observe(NumberedRequest { number, at: self.now, distinct, new_pages }, outcome);
            for run in outcome.runs.iter().chain(&outcome.unlooked) {
                self.sights.take(Some(run.last_touched_by as usize), run.pages);
            }
            self.sights.arrive(outcome.new_pages);
        }
    }

    /// Two caches, one page at a time: what one drops goes to the other.
    #[derive(Default)]
    struct Two {
        upper: Vec<NaivePage>,
        lower: Vec<NaivePage>,
        read: u64,
        written: u64,
    }

    impl Two {
        fn enter(&mut self, page: &NaivePage) {
            if self.lower.contains(page) {
                self.lower.retain(|held| held != page);
                self.read += 1;
            }
            self.upper.retain(|held| held != page);
            self.upper.insert(0, page.clone());
        }

        fn evict(&mut self, above: usize, own: usize) {
            while self.upper.len() > above {
                let dropped = self.upper.pop().expect("more than none");
                self.lower.insert(0, dropped);
                self.written += 1;
            }
            self.lower.truncate(own);
        }

        fn access(&mut self, pages: &[NaivePage], root_first: bool, above: usize, own: usize) {
            if root_first {
                for page in pages {
                    self.enter(page);
                    self.evict(above, own);
                }
            } else {
                pages.iter().rev().for_each(|page| self.enter(page));
                self.evict(above, own);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        /// The two engines whose pages all can be hits, alongside two caches that are kept page by page.
        #[test]
        fn exclusive_tiers_equal_two_caches(
            requests in timed_requests(50), root_first in any::<bool>(), above in 1u64..20, own in 1u64..20,
        ) {
            let profile = if root_first { Profile::Paper } else { Profile::LeafFirst };
            let (mut model, mut log, mut two) = (StackModel::new(profile, 1 << 20), TrafficLog::new(), Two::default());
            for request in &requests {
                let (time, outcome, looked) = model.observe(request);
                log.observe(time, &outcome);
                let pages: Vec<NaivePage> = looked.pages.iter().map(|(page, _)| page.clone()).collect();
                two.access(&pages, root_first, above as usize, own as usize);
            }
            let traffic = Traffic::of(&log.log, TierSpan { above, own, inclusion: Inclusion::Exclusive }, 0);
            prop_assert_eq!((traffic.read_pages, traffic.written_pages), (two.read, two.written));
        }

        #[test]
        fn every_count_equals_the_needs_page_by_page(
            requests in timed_requests(50), profile in profiles(), above in 1u64..20, own in 1u64..30,
            inclusive in any::<bool>(), counted in 0usize..8,
        ) {
            let (mut model, mut log) = (StackModel::new(profile, 1 << 20), TrafficLog::new());
            let inclusion = if inclusive { Inclusion::Inclusive } else { Inclusion::Exclusive };
            let reach = if inclusive { above.max(own) } else { above + own };
            let mut touches: std::collections::HashMap<NaivePage, u64> = std::collections::HashMap::new();
            let (mut reads, mut exclusive, mut inclusive, mut times) = (vec![], vec![], vec![], vec![]);
            for (number, request) in requests.iter().enumerate() {
                let before = above.min(model.list.len() as u64);
                let (time, outcome, looked) = model.observe(request);
                log.observe(time, &outcome);
                looked.pages.iter().for_each(|(page, _)| *touches.entry(page.clone()).or_default() += 1);
                if number < counted {
                    continue;
                }
                let needs = || looked.pages.iter().map(|(_, found)| found.map_or(u64::MAX, |(need, _)| need));
                let count = |more_than: u64| needs().filter(|need| *need > more_than).count() as u64;
                let grown = above.min(model.list.len() as u64) - before;
                let read = looked.reusable().iter().filter(|(need, _)| *need > above && *need <= reach).count();
                reads.push(read as u64);
                exclusive.push(count(above) - grown);
                inclusive.push(count(own));
                times.push(model.now.expect("a request"));
            }
            let once = touches.values().filter(|touches| **touches == 1).count() as u64;
            prop_assert_eq!(log.sights.touched_once(), Some((once, touches.len() as u64)));
            let traffic = Traffic::of(&log.log, TierSpan { above, own, inclusion }, counted);
            let (own, other) = match inclusion {
                Inclusion::Exclusive => (&exclusive, &inclusive),
                Inclusion::Inclusive => (&inclusive, &exclusive),
            };
            let sum = |pages: &[u64]| pages.iter().sum::<u64>();
            prop_assert_eq!(traffic.read_pages, sum(&reads));
            prop_assert_eq!((traffic.written_pages, traffic.written_otherwise), (sum(own), sum(other)));
            for peak in &traffic.peaks {
                let most = |pages: &[u64]| {
                    let spans = times.iter().map(|time| time.div_euclid(peak.span_ms as i64));
                    let within = |span| spans.clone().zip(pages).filter(move |(other, _)| *other == span);
                    spans.clone().map(|span| within(span).map(|(_, pages)| pages).sum::<u64>()).max().unwrap_or(0)
                };
                prop_assert_eq!((peak.read_pages, peak.written_pages), (most(&reads), most(own)));
            }
            let mut sorted = reads.clone();
            sorted.sort_unstable();
            for share in ["0.5", "0.99", "1"].map(|share| share.parse::<Ratio>().expect("a share")) {
                let naive = share.nearest_rank(sorted.len() as u64).map(|rank| sorted[rank as usize - 1]);
                prop_assert_eq!(traffic.load(share), naive);
            }
            let span = times.first().zip(times.last()).map_or(0, |(first, last)| last.abs_diff(*first));
            prop_assert_eq!(traffic.span_ms, span);
        }
    }
}
