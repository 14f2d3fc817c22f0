//! The state of every time to live and every capacity, as a log passes by.

use super::age_table::AgeRow;
use super::fixed::Fixed;
use super::sliding::Sliding;
use super::{RetentionShape, Ttl};
use crate::questions::counters::Share;
use crate::questions::lifetimes::{Boundaries, Holders, Packed};
use crate::request::outcome::Outcome;
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// What is followed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionConfig {
    /// Times to live, ascending and different.
    pub ttls: Vec<Ttl>,
    /// Capacities in followed pages, ascending.
    pub capacities: Vec<u64>,
    /// Shares of the reusable prefix that a request must find.
    pub targets: Vec<Ratio>,
    /// Different ages that are distinguished at each capacity and target; beyond, all are reported more coarsely.
    pub most_ages: u32,
}

impl RetentionConfig {
    /// How many of everything are counted.
    pub fn shape(&self) -> RetentionShape {
        RetentionShape {
            ttls: self.ttls.len(),
            capacities: self.capacities.len(),
            targets: self.targets.len(),
            most_ages: self.most_ages,
        }
    }

    /// The place of the first time to live that keeps pages which were touched so long ago, in milliseconds.
    fn first_within(&self, age_ms: Option<u64>) -> usize {
        let keeps = |age| self.ttls.partition_point(|ttl| ttl.ms() < age);
        age_ms.map_or(self.ttls.len(), keeps)
    }
}

/// The place of the first capacity, of ascending ones, that holds so many pages; looked for from `near` on, since it
/// seldom moves far.
fn first_holding(capacities: &[u64], pages: u64, near: usize) -> usize {
    let mut at = near;
    while at > 0 && capacities[at - 1] >= pages {
        at -= 1;
    }
    while capacities.get(at).is_some_and(|capacity| *capacity < pages) {
        at += 1;
    }
    at
}

/// Counts what the latest request took over by the times to live that had kept it; `first_within` names the first of
/// each.
fn taken_within(holders: &Holders, first_within: &[u32], sums: &mut [u64]) {
    sums.fill(0);
    for (taken, first) in holders.taken().iter().zip(first_within) {
        sums[*first as usize] += u64::from(taken.pages);
    }
    let mut within = 0;
    for sum in sums {
        within += *sum;
        *sum = within;
    }
}

/// One request as retention sees it; its memory is reused from request to request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionShare {
    /// Known pages that can be hits: by the first time to live that finds them, and by the first capacity
    /// that does, each counted from 0; one past the last where none does.
    pub(super) hits: Vec<(u32, u32, u32)>,
    /// Leading pages found with each fixed time to live, and behind them how many are enough at the first target ratio;
    /// older snapshots lack that.
    pub(super) fixed_hits: Vec<u64>,
    /// Milliseconds a page must be kept for the request to find enough, one a target; `None` where that was forgotten.
    pub(super) required: Vec<Option<u64>>,
    /// Whether anything is reusable.
    pub(super) has_reuse: bool,
    /// Pages held afterwards, and page-milliseconds so far, one a time to live.
    pub(super) sliding: Vec<(u64, u128)>,
    /// The first capacity that holds these pages, one a time to live; one past the last where none does.
    pub(super) fits: Vec<u32>,
    /// Pages held afterwards and page-milliseconds so far where no use refreshes.
    pub(super) fixed: Vec<(u64, u128)>,
    /// Milliseconds since the last touch of what each capacity drops; none while it drops nothing.
    pub(super) eviction_ages: AgeRow,
    /// Time as it arrived.
    pub(super) now_ms: i64,
    /// Times to live that depend on pages which the stack forgot.
    pub(super) is_beyond_bound: Vec<bool>,
    /// What the stack forgot so far had not been touched for so many milliseconds at the least.
    pub(super) forgotten_from_ms: Option<u64>,
}

heap_bytes!(RetentionShare {
    hits, fixed_hits, required, sliding, fits, fixed, eviction_ages, is_beyond_bound;
    has_reuse, now_ms, forgotten_from_ms
});

/// The state.
#[derive(Debug, Serialize, Deserialize)]
pub struct Retention {
    /// By the pool's configuration.
    #[serde(skip)]
    config: RetentionConfig,
    sliding: Vec<Sliding>,
    fixed: Fixed,
    boundaries: Boundaries,
    /// Pages that the latest request took from those that were touched within each time to live.
    #[serde(skip)]
    taken: Vec<u64>,
    /// The first time to live that had kept each run it took.
    #[serde(skip)]
    first_within: Vec<u32>,
    #[serde(skip)]
    followed: RetentionShare,
    /// What the stack forgot so far had not been touched for so many milliseconds at the least.
    forgotten_from_ms: Option<u64>,
}

heap_bytes!(Retention {
    sliding, fixed, boundaries, taken, first_within, followed;
    config, forgotten_from_ms
});

impl Retention {
    /// A state that has seen nothing.
    pub fn new(config: RetentionConfig) -> Self {
        Self {
            sliding: config.ttls.iter().map(|ttl| Sliding::new(*ttl)).collect(),
            fixed: Fixed::new(&config.ttls),
            boundaries: Boundaries::at(&config.capacities),
            taken: vec![0; config.ttls.len() + 1],
            first_within: Vec::new(),
            followed: RetentionShare::default(),
            forgotten_from_ms: None,
            config,
        }
    }

    /// Completes what was read back from a snapshot; whether it is what is requested and follows the list.
    pub(crate) fn resume(&mut self, config: RetentionConfig, holders: &Holders) -> bool {
        let ttls = || config.ttls.iter();
        let sound = self.sliding.len() == config.ttls.len()
            && self.sliding.iter().zip(ttls()).all(|(sliding, ttl)| sliding.is_sound(*ttl, holders))
            && self.fixed.is_sound(&config.ttls, holders)
            && self.boundaries.resume(&config.capacities, holders);
        self.taken = vec![0; config.ttls.len() + 1];
        self.config = config;
        sound
    }

    /// Gives the latest request for the room of another one.
    pub(crate) fn exchange(&mut self, room: &mut RetentionShare) {
        std::mem::swap(&mut self.followed, room);
    }

    pub(crate) fn advance(&mut self, holders: &Holders) {
        let now = holders.now();
        self.sliding.iter_mut().for_each(|sliding| sliding.advance(holders, now));
        self.fixed.advance(now);
    }

    /// Follows a request that has taken its `pages` over.
    pub(crate) fn follow(&mut self, holders: &Holders, outcome: &Outcome, pages: u32) {
        let Self { config, sliding, fixed, boundaries, taken, first_within, followed, .. } = self;
        followed.now_ms = holders.now().0;
        first_within.clear();
        first_within.extend(holders.taken().iter().map(|taken| config.first_within(taken.age_ms) as u32));
        followed.read(holders, outcome, config, first_within);
        taken_within(holders, first_within, taken);
        sliding.iter_mut().zip(&*taken).for_each(|(sliding, taken)| sliding.follow(*taken, pages));
        followed.fixed_hits.clear();
        fixed.follow(holders, outcome, &mut followed.fixed_hits);
        let first = config.targets.first();
        followed.fixed_hits.extend(first.map(|target| target.ceil_of(outcome.reusable_prefix())));
        boundaries.follow(holders, pages);
        followed.sliding.clear();
        followed.sliding.extend(sliding.iter().map(|sliding| (sliding.level.pages, sliding.level.integral)));
        followed.fits.resize(sliding.len(), 0);
        for (fits, sliding) in followed.fits.iter_mut().zip(sliding) {
            *fits = first_holding(&config.capacities, sliding.level.pages, *fits as usize) as u32;
        }
        followed.fixed.clear();
        followed.fixed.extend(fixed.levels().map(|level| (level.pages, level.integral)));
        followed.eviction_ages.read(boundaries.ages_ms(holders), config.capacities.len());
    }

    /// Follows the stack as it forgets a request's pages.
    pub(crate) fn forget(&mut self, place: usize, pages: u32, age_ms: u64) {
        self.forgotten_from_ms = Some(self.forgotten_from_ms.map_or(age_ms, |least| least.min(age_ms)));
        self.sliding.iter_mut().for_each(|sliding| sliding.forget(place, pages));
    }

    /// Tells the latest request which times to live the stack has forgotten too much for.
    pub(crate) fn mark_beyond_bound(&mut self) {
        self.followed.is_beyond_bound.clear();
        self.followed.is_beyond_bound.extend(self.sliding.iter().map(|sliding| sliding.is_beyond_bound));
        self.followed.forgotten_from_ms = self.forgotten_from_ms;
    }

    pub(crate) fn renumber(&mut self, packed: &Packed, holders: &Holders) {
        self.sliding.iter_mut().for_each(|sliding| sliding.renumber(packed));
        self.fixed.renumber(packed);
        self.boundaries.renumber(packed, holders);
    }
}

impl RetentionShare {
    fn read(&mut self, holders: &Holders, outcome: &Outcome, config: &RetentionConfig, first_within: &[u32]) {
        self.hits.clear();
        for (run, ttl) in outcome.runs.iter().zip(first_within) {
            let (mut served, mut step) = (0, 0);
            while served < run.pages {
                let need = run.need_at(served);
                step += config.capacities[step..].partition_point(|capacity| *capacity < need);
                let upto = config.capacities.get(step).map_or(run.pages, |capacity| run.hits_at(*capacity));
                self.hits.push((*ttl, step as u32, upto - served));
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

impl Share for RetentionShare {
    type Shape = RetentionShape;

    fn is_sound(&self, shape: RetentionShape) -> bool {
        let RetentionShape { ttls, capacities, targets, .. } = shape;
        let hits =
            |(ttl, capacity, _): &(u32, u32, u32)| *ttl as usize <= ttls && *capacity as usize <= capacities;
        let held = || self.sliding.iter().chain(&self.fixed);
        [self.sliding.len(), self.fixed.len(), self.is_beyond_bound.len()] == [ttls; 3]
            && [ttls, ttls + 1].contains(&self.fixed_hits.len())
            && self.fits.len() == ttls
            && self.fits.iter().all(|capacity| *capacity as usize <= capacities)
            && (self.required.len(), self.eviction_ages.len()) == (targets, capacities)
            && self.hits.iter().all(hits)
            && self.fixed_hits.iter().all(|hits| is_countable(*hits))
            && held().all(|(pages, _)| is_countable(*pages))
    }
}
