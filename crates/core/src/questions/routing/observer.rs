//! The routers that a pool is asked about, and what a window of its requests says of each.

use super::estimate::{RouterEstimate, RoutingFigures};
use super::run::RoutedCaches;
use super::spec::RouterSpec;
use super::tally::{RoutingShare, RoutingTally};
use crate::engines::one_pass::Engine;
use crate::questions::question::{
    Accepted, Answerable, Horizon, Question, QuestionError, QuestionFigures, QuestionNeeds, QuestionPool,
    QuestionsError, check_list,
};
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// Most routers of a pool: each costs as much as the pool's own cache.
pub const MAX_ROUTERS: usize = 8;

/// Follows a pool's requests behind each router, in the order requested.
#[derive(Debug, Serialize, Deserialize)]
pub struct RoutersObserver {
    routers: Vec<RoutedCaches>,
    #[serde(skip)]
    specs: Vec<RouterSpec>,
    /// Target ratios.
    #[serde(skip)]
    targets: usize,
    #[serde(skip)]
    refusal: Option<QuestionError>,
}

heap_bytes!(RoutersObserver { routers; specs, targets, refusal });

impl Question for RoutersObserver {
    type Setting = Vec<RouterSpec>;
    type Kept = Self;
    type Tally = Vec<RoutingTally>;
    type Answer = Vec<RouterEstimate>;

    const NEEDS: QuestionNeeds = QuestionNeeds { one_stack: true, ..QuestionNeeds::nothing("routers") };

    fn check(routers: &Vec<RouterSpec>, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
        let mut specs = routers.iter();
        let refused = |error: super::SpecError| QuestionsError::Router(error.to_string());
        specs.try_for_each(|router| router.check(pool.has_cost)).map_err(refused)?;
        if pool.horizon == Horizon::Finite {
            return Ok(());
        }
        check_list("routers", routers.iter().map(RouterSpec::written), MAX_ROUTERS)?;
        match routers.iter().find(|router| router.asks_for_session()) {
            Some(router) => {
                Err(QuestionsError::NoSession { router: router.written(), replicas: router.replicas })
            }
            None => Ok(()),
        }
    }

    fn new(specs: &Vec<RouterSpec>, pool: QuestionPool<'_>) -> Option<Self> {
        let cache = pool.cache.cache;
        let caches = |spec: &RouterSpec| match pool.horizon {
            Horizon::Finite => RoutedCaches::apart(*spec, cache),
            Horizon::Endless => RoutedCaches::new(*spec),
        };
        let (routers, targets) = (specs.iter().map(caches).collect(), cache.target_ratios.len());
        (!specs.is_empty()).then(|| Self { routers, specs: specs.clone(), targets, refusal: None })
    }

    fn shape(&self) -> (usize, usize) {
        (self.routers.len(), self.targets)
    }

    fn follow(&mut self, request: &Accepted<'_>, room: &mut Vec<Option<RoutingShare>>) {
        let (Self { routers, refusal, .. }, cache) = (self, request.cache.cache);
        *refusal = None;
        room.clear();
        room.extend(routers.iter_mut().map(|caches| match caches.observe(request) {
            Ok((replica, _, outcome)) => Some(RoutingShare::of(replica, outcome, &cache.target_ratios)),
            Err(error) => {
                refusal.get_or_insert(error);
                None
            }
        }));
    }

    fn refusal(&self) -> Option<&QuestionError> {
        self.refusal.as_ref()
    }

    fn kept(&self) -> &Self {
        self
    }

    fn resumed(self, kept: Self, pool: QuestionPool<'_>, engine: &Engine) -> Option<Self> {
        let Self { specs, targets, refusal, .. } = self;
        let mut routers = kept.routers;
        let as_many = routers.len() == specs.len();
        let sound =
            |(caches, spec): (&mut RoutedCaches, &RouterSpec)| caches.resume(*spec, pool.cache.cache, engine);
        let is_sound = as_many && routers.iter_mut().zip(&specs).all(sound);
        is_sound.then_some(Self { routers, specs, targets, refusal })
    }

    fn answer(&self, tallies: &Vec<RoutingTally>, figures: &QuestionFigures<'_>) -> Vec<RouterEstimate> {
        let QuestionFigures { config, page_size, page_bytes, totals, .. } = *figures;
        let estimate = |(caches, tally): (&RoutedCaches, &RoutingTally)| {
            let (router, config) = (caches.router(), config.cache);
            RoutingFigures { router, tally, totals, config, page_size, page_bytes }.estimate()
        };
        self.routers.iter().zip(tallies).map(estimate).collect()
    }
}
