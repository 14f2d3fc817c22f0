//! What a pool answers alongside its estimates where it is asked to; it costs nothing until then.
//!
//! This is the one place for such questions, whether the service or a replay asks them. A question is an entry of the
//! list in [`questions`](crate::questions), and a field of the [`Estimate`](crate::estimate::Estimate). From the
//! entry follow its setting, what is followed ([`followed`]), what one request adds and windows count
//! ([`observation`]), and its section of a snapshot ([`sections`]). Questions without a section stand here one by
//! one.

mod followed;
mod image;
mod lifetimes;
mod observation;
mod reuse;
mod sections;
#[cfg(test)]
mod tests;

pub use followed::QuestionAnswers;
pub use image::{ObserversImage, RestoredObservers, SavedWindows};
pub use lifetimes::Lifetimes;
pub use observation::{Observation, ObservationShape, ObservationTally};
pub use reuse::{ReuseEstimates, ReuseObserver, ReuseRules};
pub use sections::{PoolSections, RestoredSections};

use crate::engines::bank::CacheBank;
use crate::engines::one_pass::Engine;
use crate::questions::accepted::Accepted;
use crate::questions::enabled::{ObservedPool, Questions};
use crate::questions::measured::{
    Counts, MeasuredCaches, MeasuredEstimate, MeasuredFigures, MeasuredShare, Modelled, PointCaches,
    PointShare,
};
use crate::questions::provisioned::ProvisionedCache;
use crate::questions::question::QuestionFigures;
use crate::questions::routing::{
    QuestionError, RoutedCaches, RouterEstimate, RouterSpec, RoutingFigures, RoutingShare, RoutingTally,
};
use crate::request::event::CachedTokens;
use crate::sizing::curve::PromptTokens;
use crate::sizing::figures::{CapacityPoint, RequiredCapacity};
use crate::sizing::recommendation::Recommendation;
use crate::sizing::tiers::TierEstimate;
use crate::units::heap::heap_bytes;
use crate::units::{PageBytes, PageCount, PageSize, is_countable};
use followed::FollowedQuestions;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is followed alongside the pool's own cache.
#[derive(Debug, Serialize, Deserialize)]
pub struct Observers {
    /// The caches that the log names, where measured hits are compared.
    measured: Modelled<MeasuredCaches, PointCaches>,
    /// One per router requested.
    routers: Vec<RoutedCaches>,
    /// Requests left out of what the log's replicas tell, because it names too many of them.
    left_out: u64,
    /// Whether a request has come, where the first one decides what is expected of the others.
    #[serde(skip)]
    has_begun: bool,
    /// Why the latest request could not be followed everywhere, where it could not.
    #[serde(skip)]
    refusal: Option<QuestionError>,
    /// What requests add that say nothing.
    #[serde(skip)]
    nothing: Arc<Observation>,
    /// What the latest request added: its room is taken again where no window holds on to it.
    #[serde(skip)]
    latest: Option<Arc<Observation>>,
    /// Time, tenants, tiers and the optimum, where these are enabled; a snapshot keeps it apart.
    #[serde(skip)]
    reuse: Option<Box<ReuseObserver>>,
    /// The questions that have a section of their own in a snapshot.
    #[serde(skip)]
    questions: FollowedQuestions,
}

heap_bytes!(Observers {
    measured, routers, nothing, latest, reuse, questions;
    left_out, has_begun, refusal
});

/// The window that an estimate is made of.
#[derive(Debug, Clone)]
pub struct ObservationFigures<'a> {
    /// What measured requests are compared with.
    pub measured: MeasuredFigures<'a>,
    /// The questions.
    pub questions: &'a Questions,
    /// Total capacities that routers are reported at.
    pub totals: &'a [PageCount],
    /// Pages accessed, in whole pages.
    pub page_accesses: u64,
    /// The prompts by their tokens.
    pub prompts: PromptTokens,
    /// The tiers that are planned, where there are any.
    pub tiers: Option<&'a [TierEstimate]>,
    /// What is required, one entry per target ratio.
    pub required: &'a [RequiredCapacity],
    /// The curve.
    pub capacities: &'a [CapacityPoint],
    /// What is recommended.
    pub recommended: &'a [Recommendation],
}

impl ObservationFigures<'_> {
    /// What the questions with a section need of it.
    fn listed(&self) -> QuestionFigures<'_> {
        let MeasuredFigures { config: cache, page_size, page_bytes, .. } = self.measured;
        QuestionFigures {
            config: ProvisionedCache { cache, provisioned: self.questions.provisioned.as_ref() },
            page_size,
            page_bytes,
            required: self.required,
            capacities: self.capacities,
            recommended: self.recommended,
            below_a_day: 0.0,
        }
    }
}

/// What a window says, question by question; nothing of those that are not enabled.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WindowAnswers {
    /// How the cache in use compares with the modelled one.
    pub measured: Option<MeasuredEstimate>,
    /// What routers would give, in the order requested.
    pub routing: Vec<RouterEstimate>,
    /// Of time, tenants, tiers and the optimum.
    pub reuse: ReuseEstimates,
    /// Of the questions that have a section.
    pub listed: QuestionAnswers,
}

impl Observers {
    /// What the configuration asks for, at capacities that can be known, in followed pages and ascending; `None` where
    /// that is nothing.
    pub fn new(config: ObservedPool<'_>, capacities: &[u64], page_size: PageSize) -> Option<Box<Self>> {
        let asked = &config.questions;
        let routers = asked.routers.iter().map(|spec| match asked.is_of_finite_log() {
            true => RoutedCaches::apart(*spec, config.cache),
            false => RoutedCaches::new(*spec),
        });
        let observers = || Self {
            measured: measured_caches(config, capacities),
            routers: routers.collect(),
            left_out: 0,
            has_begun: false,
            refusal: None,
            nothing: Arc::default(),
            latest: None,
            reuse: ReuseObserver::new(ReuseRules::of(config, capacities), config).map(Box::new),
            questions: FollowedQuestions::new(config, capacities, page_size),
        };
        (!asked.is_nothing()).then(|| Box::new(observers()))
    }

    /// Follows a request; gives what it adds to windows, by the pool's `own` caches where its engine has one per
    /// capacity. Why it could not be followed everywhere is [`Observers::refusal`].
    pub fn observe(
        &mut self,
        request: &Accepted<'_>,
        own: &CacheBank,
        config: ObservedPool<'_>,
    ) -> Arc<Observation> {
        let measured = self.observe_measured(request, own, config);
        let follow = |caches: &mut RoutedCaches| {
            let (replica, _, outcome) = caches.observe(request, config.cache)?;
            Ok::<_, QuestionError>(RoutingShare::of(replica, outcome, &config.cache.target_ratios))
        };
        let routed: Vec<_> = self.routers.iter_mut().map(follow).collect();
        // A request that the pool has accepted is refused elsewhere for one reason only: too many names.
        let unrouted = routed.iter().find_map(|routed| routed.as_ref().err().cloned());
        self.refusal = measured.as_ref().err().cloned().or(unrouted);
        self.left_out += u64::from(self.refusal.is_some());
        let measured = measured.unwrap_or_default();
        let is_told_more = self.reuse.is_some() || self.questions.is_something();
        if measured.is_nothing() && routed.is_empty() && !is_told_more {
            return Arc::clone(&self.nothing);
        }
        let latest = self.latest.take().filter(|latest| Arc::strong_count(latest) == 1);
        let mut share = latest.unwrap_or_default();
        let room = Arc::make_mut(&mut share);
        room.measured = measured;
        room.routers.clear();
        room.routers.extend(routed.into_iter().map(Result::ok));
        self.reuse.iter_mut().for_each(|reuse| reuse.observe(request, room));
        self.questions.follow(request, config, own, room);
        self.latest = Some(Arc::clone(&share));
        share
    }

    /// Why the latest request could not be followed everywhere, where it could not: what it would have found is left
    /// out.
    pub fn refusal(&self) -> Option<&QuestionError> {
        self.refusal.as_ref()
    }

    /// What the latest request found behind each router requested, in their order.
    pub fn last_routed(&self) -> &[Option<RoutingShare>] {
        self.latest.as_ref().map(|latest| latest.routers.as_slice()).unwrap_or_default()
    }

    /// What the latest request finds at most without limit and at each capacity, where a draft head leaves that open.
    pub fn last_draft_range(&self) -> Option<(u64, &[u64])> {
        let share = self.latest.as_ref()?.draft_range.as_deref()?;
        (share.open > 0).then_some((share.unlimited, share.hits.as_slice()))
    }

    /// What a window says.
    pub fn answers(&self, figures: &ObservationFigures<'_>, tally: &ObservationTally) -> WindowAnswers {
        let reuse = |reuse: &ReuseObserver| reuse.estimates(figures, tally);
        WindowAnswers {
            measured: self.measured(figures, tally),
            routing: self.routing(figures, tally),
            reuse: self.reuse.as_deref().map(reuse).unwrap_or_default(),
            listed: self.questions.answers(tally, &figures.listed()),
        }
    }

    /// What the measured requests of a window say; `None` where that is not enabled, or only where requests state
    /// something and none does.
    fn measured(
        &self,
        figures: &ObservationFigures<'_>,
        tally: &ObservationTally,
    ) -> Option<MeasuredEstimate> {
        let is_told =
            figures.questions.measured || tally.measured_counts().is_some_and(Counts::state_something);
        if !is_told {
            return None;
        }
        match (&self.measured, &tally.measured) {
            (Modelled::Curve(caches), Modelled::Curve(tally)) => {
                Some(figures.measured.estimate(tally, caches, self.left_out))
            }
            (Modelled::Points(caches), Modelled::Points(tally)) => {
                Some(figures.measured.estimate_of_points(tally, caches, self.left_out))
            }
            _ => None,
        }
    }

    /// The fewest pages with which perfect foresight would have so many hits over a log that ends, in followed pages.
    pub fn least_optimal_capacity(&self, hits: u64) -> Option<u64> {
        self.reuse.as_ref()?.least_capacity(hits)
    }

    /// What each router requested would give in a window.
    fn routing(&self, figures: &ObservationFigures<'_>, tally: &ObservationTally) -> Vec<RouterEstimate> {
        let MeasuredFigures { config, page_size, page_bytes, .. } = figures.measured;
        let estimate = |(caches, tally): (&RoutedCaches, &RoutingTally)| {
            let (router, totals) = (caches.router(), figures.totals);
            RoutingFigures { router, tally, totals, config, page_size, page_bytes }.estimate()
        };
        self.routers.iter().zip(&tally.routers).map(estimate).collect()
    }

    /// Completes what was read back from a snapshot; whether it is what the configuration asks for and can go
    /// on.
    fn resume(
        &mut self,
        config: ObservedPool<'_>,
        capacities: &[u64],
        page_size: PageSize,
        engine: &Engine,
    ) -> bool {
        let asked = &config.questions;
        let measured = match &mut self.measured {
            Modelled::Nothing => !asked.compares_measured(),
            Modelled::Curve(caches) => {
                asked.measured
                    && !config.cache.is_pointwise()
                    && caches.resume(config.cache, page_size, engine)
            }
            Modelled::Points(caches) => {
                asked.measured
                    && config.cache.is_pointwise()
                    && caches.resume(capacities, page_size, config.cache)
            }
        };
        let as_many = self.routers.len() == asked.routers.len();
        let mut routers = self.routers.iter_mut().zip(&asked.routers);
        let sound =
            |(caches, spec): (&mut RoutedCaches, &RouterSpec)| caches.resume(*spec, config.cache, engine);
        measured && is_countable(self.left_out) && as_many && routers.all(sound)
    }

    /// What the request says of the cache in use.
    fn observe_measured(
        &mut self,
        request: &Accepted<'_>,
        own: &CacheBank,
        config: ObservedPool<'_>,
    ) -> Result<Modelled<MeasuredShare, PointShare>, QuestionError> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let is_unexpected = is_first
            && config.questions.measured_where_stated
            && !config.questions.measured
            && request.event.cached_tokens == CachedTokens::Unstated;
        Ok(match &mut self.measured {
            Modelled::Nothing => Modelled::Nothing,
            Modelled::Curve(caches) => {
                if is_unexpected {
                    caches.expect_nothing();
                }
                caches.observe(request, config.cache)?.map_or_else(Modelled::default, Modelled::Curve)
            }
            Modelled::Points(caches) => {
                if is_unexpected {
                    caches.expect_nothing();
                }
                caches.observe(request, own, config.cache)?.map_or_else(Modelled::default, Modelled::Points)
            }
        })
    }
}

/// Caches to compare measured hits with, of capacities in followed pages, where that is enabled.
fn measured_caches(config: ObservedPool<'_>, capacities: &[u64]) -> Modelled<MeasuredCaches, PointCaches> {
    match config.questions.compares_measured() {
        false => Modelled::Nothing,
        true if config.cache.is_pointwise() => Modelled::Points(PointCaches::new(capacities.to_vec())),
        true if config.questions.is_of_finite_log() => Modelled::Curve(MeasuredCaches::apart()),
        true => Modelled::Curve(MeasuredCaches::default()),
    }
}

/// The total capacity a ledger is drawn up at, where one is known: what is provisioned, else the only
/// capacity that is requested.
pub fn provisioned(config: ObservedPool<'_>, page_bytes: Option<PageBytes>) -> Option<PageCount> {
    let only = || config.cache.capacities.first().filter(|_| config.cache.capacities.len() == 1);
    config.questions.provisioned.as_ref().or_else(only)?.pages(page_bytes)
}
