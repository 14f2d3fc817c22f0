//! The state of every time to live and every capacity, as a log passes by.

use super::Ttl;
use super::fixed::Fixed;
use super::sliding::Sliding;
use crate::lifetimes::{Boundary, Holders, Packed};
use crate::outcome::Outcome;
use crate::ratio::Ratio;

/// What is followed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionConfig {
    /// Times to live, ascending and different.
    pub ttls: Vec<Ttl>,
    /// Capacities in followed pages, ascending.
    pub capacities: Vec<u64>,
    /// Shares of the reusable prefix that a request must find.
    pub targets: Vec<Ratio>,
}

/// One request as retention sees it; its memory is reused from request to request.
#[derive(Debug, Clone, Default)]
pub struct Followed {
    /// Known pages that can be hits: by the first time to live that finds them, and by the first capacity
    /// that does, each counted from 0; one past the last where none does.
    pub(super) hits: Vec<(usize, usize, u32)>,
    /// Leading pages found with each fixed time to live.
    pub(super) fixed_hits: Vec<u64>,
    /// Milliseconds a page must be kept for the request to find enough, one a target; `None` where that was forgotten.
    pub(super) required: Vec<Option<u64>>,
    /// Whether anything is reusable.
    pub(super) has_reuse: bool,
    /// Pages held afterwards, and page-milliseconds so far, one a time to live.
    pub(super) sliding: Vec<(u64, u128)>,
    /// The same where no use refreshes.
    pub(super) fixed: Vec<(u64, u128)>,
    /// Milliseconds since the last touch of what each capacity drops; none while it drops nothing.
    pub(super) eviction_ages: Vec<Option<u64>>,
    /// Time as it arrived.
    pub(super) now_ms: i64,
    /// Times to live that depend on pages which the stack forgot.
    pub(super) is_beyond_bound: Vec<bool>,
    /// What the stack forgot so far had not been touched for so many milliseconds at the least.
    pub(super) forgotten_from_ms: Option<u64>,
}

/// The state.
#[derive(Debug)]
pub struct Retention {
    config: RetentionConfig,
    sliding: Vec<Sliding>,
    fixed: Vec<Fixed>,
    boundaries: Vec<Boundary>,
    followed: Followed,
}

impl Retention {
    /// A state that has seen nothing.
    pub fn new(config: RetentionConfig) -> Self {
        Self {
            sliding: config.ttls.iter().map(|ttl| Sliding::new(*ttl)).collect(),
            fixed: config.ttls.iter().map(|ttl| Fixed::new(*ttl)).collect(),
            boundaries: config.capacities.iter().map(|capacity| Boundary::at(*capacity)).collect(),
            followed: Followed::default(),
            config,
        }
    }

    /// What is followed.
    pub fn config(&self) -> &RetentionConfig {
        &self.config
    }

    /// The latest request.
    pub fn followed(&self) -> &Followed {
        &self.followed
    }

    pub(crate) fn advance(&mut self, holders: &Holders) {
        let now = holders.now();
        self.sliding.iter_mut().for_each(|sliding| sliding.advance(holders, now));
        self.fixed.iter_mut().for_each(|fixed| fixed.advance(now));
    }

    /// Follows a request that has taken its `pages` over.
    pub(crate) fn follow(&mut self, holders: &Holders, outcome: &Outcome, pages: u32) {
        let Self { config, sliding, fixed, boundaries, followed } = self;
        followed.now_ms = holders.now().0;
        followed.read(holders, outcome, config);
        sliding.iter_mut().for_each(|sliding| sliding.follow(holders, pages));
        followed.fixed_hits.clear();
        followed.fixed_hits.extend(fixed.iter_mut().map(|fixed| fixed.follow(holders, outcome)));
        boundaries.iter_mut().for_each(|boundary| boundary.follow(holders, pages, |_, _| {}));
        followed.sliding.clear();
        followed.sliding.extend(sliding.iter().map(|sliding| (sliding.level.pages, sliding.level.integral)));
        followed.fixed.clear();
        followed.fixed.extend(fixed.iter().map(|fixed| (fixed.level.pages, fixed.level.integral)));
        followed.eviction_ages.clear();
        let age = |boundary: &Boundary| boundary.end.map(|end| holders.age_at(end));
        followed.eviction_ages.extend(boundaries.iter().map(age));
    }

    /// Follows the stack as it forgets a request's pages.
    pub(crate) fn forget(&mut self, place: usize, pages: u32, age_ms: u64) {
        let least = &mut self.followed.forgotten_from_ms;
        *least = Some(least.map_or(age_ms, |least| least.min(age_ms)));
        self.sliding.iter_mut().for_each(|sliding| sliding.forget(place, pages));
    }

    /// Tells the latest request which times to live the stack has forgotten too much for.
    pub(crate) fn mark_beyond_bound(&mut self) {
        self.followed.is_beyond_bound.clear();
        self.followed.is_beyond_bound.extend(self.sliding.iter().map(|sliding| sliding.is_beyond_bound));
    }

    /// Whether packing the list pays here.
    pub(crate) fn is_crowded(&self) -> bool {
        self.fixed.iter().any(Fixed::is_crowded)
    }

    pub(crate) fn renumber(&mut self, packed: &Packed) {
        self.sliding.iter_mut().for_each(|sliding| sliding.renumber(packed));
        self.fixed.iter_mut().for_each(|fixed| fixed.renumber(packed));
        self.boundaries.iter_mut().for_each(|boundary| boundary.renumber(packed));
    }
}

impl Followed {
    fn read(&mut self, holders: &Holders, outcome: &Outcome, config: &RetentionConfig) {
        self.hits.clear();
        for (run, taken) in outcome.runs.iter().zip(holders.taken()) {
            let ttl = match taken.age_ms {
                Some(age) => config.ttls.partition_point(|ttl| ttl.ms() < age),
                None => config.ttls.len(),
            };
            let (mut served, mut step) = (0, 0);
            while served < run.pages {
                let need = run.need_at(served);
                step += config.capacities[step..].partition_point(|capacity| *capacity < need);
                let upto = config.capacities.get(step).map_or(run.pages, |capacity| run.hits_at(*capacity));
                self.hits.push((ttl, step, upto - served));
                served = upto;
            }
        }
        let reusable = outcome.reusable_prefix();
        self.has_reuse = reusable > 0;
        self.required.clear();
        for target in &config.targets {
            let mut left = target.ceil_of(reusable);
            let runs = outcome.runs.iter().zip(holders.taken());
            let mut last = Some(0);
            for (run, taken) in runs {
                if left == 0 {
                    break;
                }
                left = left.saturating_sub(u64::from(run.pages));
                last = taken.age_ms;
            }
            self.required.push(last);
        }
    }
}
