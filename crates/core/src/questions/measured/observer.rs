//! The caches that a log names, compared with what its requests state they found.

use super::caches::MeasuredCaches;
use super::counts::Counts;
use super::estimate::{MeasuredEstimate, MeasuredFigures};
use super::modelled::Modelled;
use super::point_tally::{PointShare, PointTally};
use super::points::PointCaches;
use super::share::MeasuredShare;
use super::tally::MeasuredTally;
use crate::engines::one_pass::Engine;
use crate::questions::question::{
    Accepted, Horizon, Question, QuestionError, QuestionFigures, QuestionNeeds, QuestionPool,
};
use crate::request::event::CachedTokens;
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// Follows a pool's requests in the caches that the log names.
#[derive(Debug, Serialize, Deserialize)]
pub struct MeasuredObserver {
    caches: Modelled<MeasuredCaches, PointCaches>,
    /// Requests left out of what the log's replicas tell, because it names too many of them.
    left_out: u64,
    /// Whether they are compared whatever requests state; else the first request decides what is expected of the others.
    #[serde(skip)]
    is_asked: bool,
    /// Whether a request has come.
    #[serde(skip)]
    has_begun: bool,
    #[serde(skip)]
    refusal: Option<QuestionError>,
}

heap_bytes!(MeasuredObserver { caches; left_out, is_asked, has_begun, refusal });

impl MeasuredObserver {
    /// What a request says of the cache in use; `expects_nothing` of those that follow.
    fn observe(
        &mut self,
        request: &Accepted<'_>,
        expects_nothing: bool,
    ) -> Result<Modelled<MeasuredShare, PointShare>, QuestionError> {
        Ok(match &mut self.caches {
            Modelled::Nothing => Modelled::Nothing,
            Modelled::Curve(caches) => {
                if expects_nothing {
                    caches.expect_nothing();
                }
                caches.observe(request)?.map_or_else(Modelled::default, Modelled::Curve)
            }
            Modelled::Points(caches) => {
                if expects_nothing {
                    caches.expect_nothing();
                }
                caches.observe(request)?.map_or_else(Modelled::default, Modelled::Points)
            }
        })
    }
}

impl Question for MeasuredObserver {
    type Setting = bool;
    type Kept = Self;
    type Tally = Modelled<MeasuredTally, PointTally>;
    type Answer = Option<MeasuredEstimate>;

    const NEEDS: QuestionNeeds = QuestionNeeds::nothing("measured");

    fn needs(is_asked: &bool, horizon: Horizon) -> Vec<QuestionNeeds> {
        let compares = *is_asked || horizon == Horizon::Finite;
        compares.then_some(Self::NEEDS).into_iter().collect()
    }

    fn new(is_asked: &bool, pool: QuestionPool<'_>) -> Option<Self> {
        let caches = match pool.horizon {
            Horizon::Endless if !*is_asked => return None,
            _ if pool.cache.cache.is_pointwise() => {
                Modelled::Points(PointCaches::new(pool.capacities.to_vec()))
            }
            Horizon::Finite => Modelled::Curve(MeasuredCaches::apart()),
            Horizon::Endless => Modelled::Curve(MeasuredCaches::default()),
        };
        Some(Self { caches, left_out: 0, is_asked: *is_asked, has_begun: false, refusal: None })
    }

    fn shape(&self) -> Modelled<(), usize> {
        match &self.caches {
            Modelled::Nothing => Modelled::Nothing,
            Modelled::Curve(_) => Modelled::Curve(()),
            Modelled::Points(caches) => Modelled::Points(caches.capacities().len()),
        }
    }

    fn follow(&mut self, request: &Accepted<'_>, room: &mut Modelled<MeasuredShare, PointShare>) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let is_stated = request.event.cached_tokens != CachedTokens::Unstated;
        let found = self.observe(request, is_first && !self.is_asked && !is_stated);
        self.refusal = found.as_ref().err().cloned();
        self.left_out += u64::from(found.is_err());
        *room = found.unwrap_or_default();
    }

    fn refusal(&self) -> Option<&QuestionError> {
        self.refusal.as_ref()
    }

    fn kept(&self) -> &Self {
        self
    }

    fn resumed(self, mut kept: Self, pool: QuestionPool<'_>, engine: &Engine) -> Option<Self> {
        let (cache, capacities, page_size) = (pool.cache.cache, pool.capacities, pool.page_size);
        let is_sound = match (&self.caches, &mut kept.caches) {
            (Modelled::Curve(_), Modelled::Curve(caches)) => caches.resume(cache, page_size, engine),
            (Modelled::Points(_), Modelled::Points(caches)) => caches.resume(capacities, page_size, cache),
            _ => false,
        };
        let Self { is_asked, .. } = self;
        (is_sound && is_countable(kept.left_out)).then_some(Self { is_asked, ..kept })
    }

    /// Nothing where it is said only where requests state something, and none does.
    fn answer(
        &self,
        tally: &Modelled<MeasuredTally, PointTally>,
        figures: &QuestionFigures<'_>,
    ) -> Option<MeasuredEstimate> {
        if !self.is_asked && !tally.counts().is_some_and(Counts::state_something) {
            return None;
        }
        let measured = MeasuredFigures {
            config: figures.config.cache,
            page_size: figures.page_size,
            page_bytes: figures.page_bytes,
            provisioned: figures.config.total(figures.page_bytes),
            room: figures.room,
            during: figures.during.clone(),
        };
        match (&self.caches, tally) {
            (Modelled::Curve(caches), Modelled::Curve(tally)) => {
                Some(measured.estimate(tally, caches, self.left_out))
            }
            (Modelled::Points(caches), Modelled::Points(tally)) => {
                Some(measured.estimate_of_points(tally, caches, self.left_out))
            }
            _ => None,
        }
    }
}

impl Modelled<MeasuredTally, PointTally> {
    /// What the requests that say what they found add up to.
    pub fn counts(&self) -> Option<&Counts> {
        match self {
            Self::Nothing => None,
            Self::Curve(tally) => Some(tally.counts()),
            Self::Points(tally) => Some(tally.counts()),
        }
    }
}
