//! What the measured requests of a window say, as it is published.

use super::agreement::agreed;
use super::caches::MeasuredCaches;
use super::counts::Agreement;
use super::intervals::Agreed;
use super::ledger::Ledger;
use super::point_tally::PointTally;
use super::points::PointCaches;
use super::tally::MeasuredTally;
use super::verdict::{MIN_AGREEMENT, Verdict};
use crate::engines::config::CacheConfig;
use crate::request::outcome::Need;
use crate::sizing::coverage::Distribution;
use crate::sizing::curve::{PromptTokens, prefill_throughput};
use crate::stack::needs::Needs;
use crate::units::{PageBytes, PageCount, PageSize};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Measured alongside modelled. Pages are pages of the pool; sampled counts are scaled up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredEstimate {
    /// Requests that say what they found.
    pub requests: u64,
    /// Full pages in their cached tokens.
    pub cached_pages: u64,
    /// The capacity, of each replica, that most of them agree on; absent where none can tell.
    pub effective_capacity: Option<EffectiveCapacity>,
    /// From the best case to what happened.
    pub ledger: LedgerEstimate,
    /// Caches that served requests, as far as the log says.
    pub replicas: u64,
    /// Requests that found more than prompts and answers of the log explain.
    pub requests_beyond_log: u64,
    /// The pages they found too many.
    pub pages_beyond_log: u64,
    /// Requests whose usage leaves the cached tokens out, as engines and APIs do where nothing was cached: counted as
    /// zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests_taken_as_zero: u64,
    /// Pages found that an earlier request generated and no prompt had before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generated_pages: u64,
    /// Every request reports all tokens of its prompt but the last: the log is of the decode side of a split
    /// deployment, which is handed its prompts' pages. It tells nothing of a cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decode_side: bool,
    /// Requests left out since the start because the log names more replicas than are followed.
    pub requests_left_out: u64,
    /// Restarts of replicas, by replica and time.
    pub restarts: Vec<RestartEstimate>,
    /// Why the hit rate is what it is; absent where no request can tell.
    pub verdict: Option<Verdict>,
}

/// The capacities that most requests agree on, both ends among them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EffectiveCapacity {
    /// The smallest of them.
    pub pages_from: u64,
    /// The largest; absent where no request sets an upper bound.
    pub pages_to: Option<u64>,
    /// Requests that agree, as a share of those that can tell.
    pub agreement: f64,
    /// The same, weighted by pages.
    pub agreement_by_pages: f64,
    /// The smallest in bytes, where a cost per token is known.
    pub bytes_from: Option<u64>,
}

impl EffectiveCapacity {
    /// Whether this capacity is among them, and something sets an upper bound.
    pub fn holds(&self, pages: u64) -> bool {
        self.pages_from <= pages && self.pages_to.is_some_and(|to| pages <= to)
    }
}

/// Hits over the measured requests, and what was lost where. Absent beyond the tracked bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LedgerEstimate {
    /// Pages they accessed.
    pub page_accesses: u64,
    /// Tokens of their prompts: those of the pages, and of last pages that are not full where the log counts them.
    pub prompt_tokens: u64,
    /// Hits of one cache without limit.
    pub unlimited_pages: u64,
    /// Hits of one cache as large as all replicas together.
    pub shared_pages: Option<u64>,
    /// Hits of the replicas, routed as the log says.
    pub routed_pages: Option<u64>,
    /// Hits as the engine counted them.
    pub measured_pages: u64,
    /// The capacity of all replicas that this holds at; absent where none was given and none agreed on.
    pub total_capacity_pages: Option<u64>,
    /// That of each.
    pub capacity_pages: Option<u64>,
    /// Whether the capacity was given; else it is the effective one.
    pub provisioned: bool,
    /// What was lost to capacity.
    pub lost_to_capacity: Option<Loss>,
    /// What was lost to routing; negative where the replicas find more than one large cache would.
    pub lost_to_routing: Option<Loss>,
    /// What was lost in the engine; negative where it finds more than the log's ids show.
    pub lost_in_engine: Option<Loss>,
}

/// A loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// In pages.
    pub pages: i64,
    /// In tokens.
    pub tokens: i64,
    /// As a share of the pages accessed.
    pub share: f64,
    /// Prefill throughput without this loss over the one with it; absent where nothing would be left to
    /// prefill.
    pub relative_prefill_throughput: Option<f64>,
}

/// A restart of a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartEstimate {
    /// Its name, where the log has names.
    pub replica: Option<String>,
    /// The first request, counted from 0 among the accepted ones, that missed what was there before.
    pub request: u64,
    /// When it arrived.
    pub event_time_ms: i64,
    /// Requests that missed what was there before.
    pub misses: u64,
}

/// What measured requests are compared with.
#[derive(Debug, Clone)]
pub struct MeasuredFigures<'a> {
    /// The pool's configuration.
    pub config: &'a CacheConfig,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Bytes per page, where a cost per token is configured.
    pub page_bytes: Option<PageBytes>,
    /// What all caches hold together, where that is known.
    pub provisioned: Option<PageCount>,
    /// The pages that all in flight wanted room for, one entry a request; none where that is not modelled.
    pub room: &'a Needs,
    /// Event times in which a restart is the window's own, in milliseconds.
    pub during: Range<i64>,
}

impl MeasuredFigures<'_> {
    /// What these requests say of these caches.
    pub fn estimate(
        &self,
        tally: &MeasuredTally,
        caches: &MeasuredCaches,
        requests_left_out: u64,
    ) -> MeasuredEstimate {
        let (intervals, replicas) = (tally.intervals(), caches.replicas());
        let explained = |each| caches.explained(each, &self.during);
        let counted = Agreement {
            counts: *tally.counts(),
            agreed: agreed(&intervals, self.provisioned_each(replicas), explained),
            told: (intervals.requests(), intervals.pages()),
            replicas,
        };
        let bound = self.config.max_tracked_pages.0;
        let restarts = |each| self.restarts(each, caches);
        let found = self.estimate_of(&counted, |all, each| tally.ledger(all, each, bound), restarts);
        MeasuredEstimate { requests_left_out, ..found }
    }

    /// What these requests say of caches that are modelled at single capacities. Which restarts there were is not
    /// reported: that takes a stack for each replica.
    pub fn estimate_of_points(
        &self,
        tally: &PointTally,
        caches: &PointCaches,
        requests_left_out: u64,
    ) -> MeasuredEstimate {
        let ledger = |all, each| tally.ledger(caches.capacities(), all, each);
        let replicas = caches.replicas();
        let counted = tally.counted(caches.capacities(), self.provisioned_each(replicas), replicas);
        let found = self.estimate_of(&counted, ledger, |_| Vec::new());
        MeasuredEstimate { requests_left_out, ..found }
    }

    /// `ledger` is drawn up at capacities of all caches and of each, in followed pages.
    fn estimate_of(
        &self,
        counted: &Agreement,
        ledger: impl Fn(Need, Need) -> Ledger,
        restarts: impl Fn(Need) -> Vec<RestartEstimate>,
    ) -> MeasuredEstimate {
        let Agreement { counts, replicas, told, .. } = *counted;
        let decode_side = counts.are_of_decode_side();
        let followed = |pages: u64| self.config.followed_pages(PageCount(pages));
        // What is provisioned may be too small to find anything.
        let may_find = |(total, each, _)| ledger(followed(total), followed(each)).routed != Some(0);
        let finds_nothing =
            counts.find_nothing() && self.ledger_capacity(None, replicas).is_none_or(may_find);
        let agreed = counted.agreed.filter(|_| !decode_side && !finds_nothing);
        let at = self.ledger_capacity(agreed, replicas).filter(|_| !decode_side);
        let (all, each) = at.map_or((0, 0), |(total, each, _)| (followed(total), followed(each)));
        let ledger = self.whole_ledger(&ledger(all, each));
        let effective = agreed.map(|agreed| self.effective(agreed, told));
        // Where there is no capacity, nothing tells a restart from a cache that is too small.
        let one = agreed.filter(|_| effective.is_some_and(EffectiveCapacity::is_one));
        let restarts = one.map(|agreed| restarts(agreed.from)).unwrap_or_default();
        let pages_beyond_log = self.whole(counts.pages_beyond_log);
        let agreement = effective.map_or(0.0, EffectiveCapacity::least_agreement);
        let (can_tell, _) = told;
        MeasuredEstimate {
            requests: counts.requests,
            cached_pages: counts.cached_pages,
            effective_capacity: effective,
            ledger: self.ledger_estimate(&ledger, counts.rest_tokens, at),
            replicas,
            requests_beyond_log: counts.requests_beyond_log,
            pages_beyond_log,
            requests_taken_as_zero: counts.taken_as_zero,
            generated_pages: self.whole(counts.generated),
            decode_side,
            requests_left_out: 0,
            verdict: (can_tell > 0 && !decode_side)
                .then(|| match finds_nothing {
                    true => Verdict::NothingFound,
                    false => Verdict::of(&ledger, agreement, pages_beyond_log, restarts.len()),
                })
                .map(|verdict| verdict.unless_crowded(self.share_without_room(at)))
                .filter(|verdict| verdict.is_known(&ledger)),
            restarts,
        }
    }

    /// The share of the requests that arrived while more was in flight than is provisioned.
    fn share_without_room(&self, at: Option<(u64, u64, bool)>) -> f64 {
        let Some((total, _, true)) = at else { return 0.0 };
        let room = Distribution::new(self.room, 0);
        room.above(total) as f64 / room.requests().max(1) as f64
    }

    /// `told` are the requests, and their pages, that can tell.
    fn effective(&self, agreed: Agreed, told: (u64, u64)) -> EffectiveCapacity {
        let share = |part: u64, all: u64| if all == 0 { 1.0 } else { part as f64 / all as f64 };
        let pages_from = self.config.nominal_pages(agreed.from);
        EffectiveCapacity {
            pages_from,
            pages_to: agreed.to.map(|to| self.config.nominal_pages(to)),
            agreement: share(agreed.requests, told.0),
            agreement_by_pages: share(agreed.pages, told.1),
            bytes_from: self.page_bytes.map(|page| PageCount(pages_from).bytes(page).0),
        }
    }

    /// What is provisioned of each replica, in followed pages.
    fn provisioned_each(&self, replicas: u64) -> Option<Need> {
        self.provisioned.map(|PageCount(total)| self.config.followed_pages(PageCount(total / replicas)))
    }

    /// What is provisioned, split over the replicas; else the smallest capacity that most requests agree on.
    fn ledger_capacity(&self, agreed: Option<Agreed>, replicas: u64) -> Option<(u64, u64, bool)> {
        if let Some(PageCount(total)) = self.provisioned {
            return Some((total, total / replicas, true));
        }
        let each = self.config.nominal_pages(agreed?.from);
        Some((each.saturating_mul(replicas), each, false))
    }

    /// The ledger in whole pages.
    fn whole_ledger(&self, ledger: &Ledger) -> Ledger {
        Ledger {
            page_accesses: self.whole(ledger.page_accesses),
            unlimited: self.whole(ledger.unlimited),
            shared: ledger.shared.map(|pages| self.whole(pages)),
            routed: ledger.routed.map(|pages| self.whole(pages)),
            measured: self.whole(ledger.measured),
        }
    }

    fn ledger_estimate(
        &self,
        ledger: &Ledger,
        rest_tokens: u64,
        at: Option<(u64, u64, bool)>,
    ) -> LedgerEstimate {
        let Ledger { unlimited, shared, routed, measured, page_accesses } = *ledger;
        let (shared, routed) = (shared.filter(|_| at.is_some()), routed.filter(|_| at.is_some()));
        let loss = |pages: Option<i64>, without: Option<u64>, with: Option<u64>| {
            let speed = |hits| prefill_throughput(hits, page_accesses);
            let relative = speed(without?).zip(speed(with?)).map(|(without, with)| without / with);
            pages.map(|pages| Loss {
                pages,
                tokens: pages.saturating_mul(i64::from(self.page_size.get())),
                share: ledger.share(pages),
                relative_prefill_throughput: relative,
            })
        };
        LedgerEstimate {
            page_accesses,
            prompt_tokens: PromptTokens::of(page_accesses, rest_tokens, self.page_size).all,
            unlimited_pages: unlimited,
            shared_pages: shared,
            routed_pages: routed,
            measured_pages: measured,
            total_capacity_pages: at.map(|(total, ..)| total),
            capacity_pages: at.map(|(_, each, _)| each),
            provisioned: at.is_some_and(|(.., provisioned)| provisioned),
            lost_to_capacity: loss(ledger.lost_to_capacity(), Some(unlimited), shared),
            lost_to_routing: loss(ledger.lost_to_routing(), shared, routed),
            lost_in_engine: loss(ledger.lost_in_engine(), routed, Some(measured)),
        }
    }

    fn restarts(&self, each: u64, caches: &MeasuredCaches) -> Vec<RestartEstimate> {
        let told = caches.restarts(each).map(|(replica, (first, misses))| RestartEstimate {
            replica: replica.and_then(|replica| caches.name(replica)).map(str::to_owned),
            request: first.index,
            event_time_ms: first.event_time.0,
            misses,
        });
        told.filter(|found| self.during.contains(&found.event_time_ms)).collect()
    }

    /// A sample's pages scaled up to all pages.
    fn whole(&self, pages: u64) -> u64 {
        self.config.sample_rate.whole_of(pages)
    }
}

impl EffectiveCapacity {
    /// Whether enough requests agree for it to be one at all.
    fn is_one(self) -> bool {
        self.least_agreement() >= MIN_AGREEMENT
    }

    /// The share of requests that agree, or of pages, whichever is smaller.
    fn least_agreement(self) -> f64 {
        self.agreement.min(self.agreement_by_pages)
    }
}

impl LedgerEstimate {
    /// The prompts of the measured requests by their tokens, where a page has so many.
    pub fn prompts(&self, page_tokens: u32) -> PromptTokens {
        PromptTokens { all: self.prompt_tokens, page: page_tokens }
    }

    /// The ledger that this was made of, to be counted with.
    pub fn counts(&self) -> Ledger {
        Ledger {
            page_accesses: self.page_accesses,
            unlimited: self.unlimited_pages,
            shared: self.shared_pages,
            routed: self.routed_pages,
            measured: self.measured_pages,
        }
    }
}

/// Whether a count says nothing, so that JSON can leave it out.
fn is_zero(count: &u64) -> bool {
    *count == 0
}
