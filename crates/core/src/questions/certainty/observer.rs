//! The caches that serve all but one group of conversations each, and what a window of them says.

use super::conversations::Conversations;
use super::tally::{CertaintyShare, CertaintyTally};
use crate::engines::config::CacheConfig;
use crate::engines::one_pass::Engine;
use crate::families::certainty::{
    Certainty, CertaintyStatus, FigureStanding, GROUPS, Interval, group, standard_error,
};
use crate::questions::question::{Accepted, Question, QuestionFigures, QuestionNeeds, QuestionPool};
use crate::questions::routing::FollowingCaches;
use crate::request::outcome::{BEYOND, Outcome};
use crate::sizing::coverage::Distribution;
use crate::sizing::figures::{CoverageCapacity, RequiredCapacity};
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// Follows a pool's conversations.
#[derive(Debug)]
pub struct CertaintyObserver {
    config: CacheConfig,
    followed: FollowedGroups,
}

/// What a snapshot keeps.
#[derive(Debug, Serialize, Deserialize)]
pub struct FollowedGroups {
    conversations: Conversations,
    /// Of each group the cache that serves everybody else.
    others: FollowingCaches,
    /// Requests so far.
    requests: u64,
}

heap_bytes!(FollowedGroups { conversations, others; requests });
heap_bytes!(CertaintyObserver { followed; config });

impl Question for CertaintyObserver {
    type Setting = bool;
    type Kept = FollowedGroups;
    type Tally = CertaintyTally;
    type Answer = Option<Certainty>;

    const NEEDS: QuestionNeeds = QuestionNeeds { few_capacities: false, ..QuestionNeeds::all("certainty") };

    fn new(is_enabled: &bool, pool: QuestionPool<'_>) -> Option<Self> {
        let followed = || FollowedGroups {
            conversations: Conversations::default(),
            others: FollowingCaches::new(),
            requests: 0,
        };
        is_enabled.then(|| Self { config: pool.cache.cache.clone(), followed: followed() })
    }

    fn shape(&self) -> usize {
        self.config.measured_ratios().len()
    }

    fn follow(&mut self, request: &Accepted<'_>, room: &mut CertaintyShare) {
        let Self { config, followed: FollowedGroups { conversations, others, requests } } = self;
        let conversation = conversations.of(request, config.sample_rate);
        *requests = request.index + 1;
        let ratios = config.measured_ratios();
        let needs = |outcome: &Outcome, at: usize| {
            outcome.need_of_prefix(ratios[at].ceil_of(outcome.reusable_prefix()))
        };
        let own = (0..ratios.len()).map(|at| needs(request.outcome, at)).collect();
        let (left_out, groups) = (group(conversation), GROUPS as usize);
        let mut without = vec![0; ratios.len() * groups];
        others.prepare(request.engine, config);
        for group in (0..groups).filter(|group| *group as u64 != left_out) {
            // Whatever the pool has accepted, a cache with its rules accepts.
            let Ok(outcome) = others.observe(group, request) else { continue };
            (0..ratios.len()).for_each(|at| without[at * groups + group] = needs(outcome, at));
        }
        *room = CertaintyShare { conversation, group: left_out as u8, own, without };
    }

    fn kept(&self) -> &FollowedGroups {
        &self.followed
    }

    fn resumed(self, mut kept: FollowedGroups, _: QuestionPool<'_>, engine: &Engine) -> Option<Self> {
        let is_sound = kept.conversations.is_sound(kept.requests)
            && kept.others.resume(&self.config, GROUPS as usize, engine);
        is_sound.then_some(Self { followed: kept, ..self })
    }

    fn answer(&self, tally: &CertaintyTally, figures: &QuestionFigures<'_>) -> Option<Certainty> {
        let (conversations, largest_share) = (tally.conversations(), tally.largest_share());
        let status = CertaintyStatus::of(conversations, largest_share);
        let of_target = |(target, required): (usize, &RequiredCapacity)| -> Vec<Interval> {
            let of = |found: &CoverageCapacity| self.interval(tally, target, found, status);
            required.coverage.iter().map(of).collect()
        };
        Some(Certainty {
            conversations,
            largest_share,
            status,
            required: figures.required.iter().enumerate().map(of_target).collect(),
            ..Certainty::by_page_tree()
        })
    }
}

impl CertaintyObserver {
    /// Where a requirement would lie with other conversations.
    fn interval(
        &self,
        tally: &CertaintyTally,
        target: usize,
        found: &CoverageCapacity,
        status: CertaintyStatus,
    ) -> Interval {
        let without = |group: usize| {
            let needs = tally.needs_without(group, target)?;
            let need = Distribution::new(needs, tally.requests_without(group)).quantile(found.coverage)?;
            (need != BEYOND).then(|| self.config.nominal_pages(need))
        };
        let sizes: Vec<_> = (0..GROUPS as usize).map(without).collect();
        let fits =
            |need| found.pages.is_none_or(|pages| need != BEYOND && self.config.nominal_pages(need) <= pages);
        let above = tally.above(target, fits);
        let interval = Interval {
            low: None,
            high: None,
            standard_error: standard_error(&sizes).filter(|_| status.is_usable()),
            conversations_above: above,
            standing: FigureStanding::of(above, status),
        };
        interval.around(found.pages)
    }
}
