//! The requests of a pool by their retention class, and what a window of them says.

use super::{MAX_CLASSES, RetentionClassEstimate};
use crate::engines::one_pass::Engine;
use crate::questions::accounts::{AccountShare, Accounts, AccountsConfig, AccountsShape, AccountsTally};
use crate::questions::lifetimes::Holders;
use crate::questions::question::{
    Accepted, Question, QuestionFigures, QuestionNeeds, QuestionPool, ReportedSize,
};
use crate::request::labels::Label;
use crate::units::PageCount;
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// Follows the requests of a pool: whose pages are of which class.
#[derive(Debug, Serialize, Deserialize)]
pub struct RetentionClassesObserver {
    /// Pages that the pool's stack remembers.
    #[serde(skip)]
    bound: PageCount,
    #[serde(skip, default = "AccountsConfig::unknown")]
    config: AccountsConfig,
    /// The requests that still own pages in the stack.
    holders: Holders,
    /// The classes that these pages are of.
    accounts: Accounts,
}

heap_bytes!(RetentionClassesObserver { holders, accounts; bound, config });

impl RetentionClassesObserver {
    /// Nothing seen yet, at what is provisioned, where that is said, and at capacities that can be known.
    fn at(pool: QuestionPool<'_>) -> Self {
        let QuestionPool { cache, capacities, page_size, .. } = pool;
        // What is provisioned and cannot be told is counted as nothing, and is not reported.
        let own = cache.provisioned.map(|_| cache.pages(page_size).unwrap_or(0));
        let own = own.map(|pages| cache.cache.followed_pages(PageCount(pages)));
        let config = AccountsConfig {
            order: cache.cache.profile.spec().order,
            capacities: own.into_iter().chain(capacities.iter().copied()).collect(),
            targets: Vec::new(),
        };
        let bound = cache.cache.max_tracked_pages;
        Self { bound, holders: Holders::new(bound), accounts: Accounts::new(config.clone()), config }
    }
}

impl Question for RetentionClassesObserver {
    type Setting = bool;
    type Kept = Self;
    type Tally = AccountsTally;
    type Answer = Option<Vec<RetentionClassEstimate>>;

    const NEEDS: QuestionNeeds = QuestionNeeds::all("retention_classes");

    fn new(is_enabled: &bool, pool: QuestionPool<'_>) -> Option<Self> {
        is_enabled.then(|| Self::at(pool))
    }

    fn shape(&self) -> AccountsShape {
        self.config.shape()
    }

    fn follow(&mut self, request: &Accepted<'_>, room: &mut AccountShare) {
        let Accepted { event, outcome, counted, .. } = *request;
        let Self { holders, accounts, .. } = self;
        if holders.is_crowded() {
            accounts.renumber(&holders.pack());
        }
        holders.advance(event.event_time);
        let id = accounts.id_of(event.labels.get(Label::RetentionClass).copied());
        let pages = holders.take(outcome, id.account());
        *room = accounts.follow(holders, outcome, (id, pages), counted);
        holders.forget_beyond_bound(|_, _, _| {});
    }

    fn kept(&self) -> &Self {
        self
    }

    fn resumed(self, kept: Self, _: QuestionPool<'_>, _: &Engine) -> Option<Self> {
        let Self { bound, config, .. } = self;
        let Self { mut holders, mut accounts, .. } = kept;
        let is_sound = holders.resume(bound) && accounts.resume(config.clone(), &holders);
        is_sound.then_some(Self { bound, config, holders, accounts })
    }

    fn answer(
        &self,
        tally: &AccountsTally,
        figures: &QuestionFigures<'_>,
    ) -> Option<Vec<RetentionClassEstimate>> {
        let cache = figures.config.cache;
        let place = |size: &ReportedSize| {
            let followed = cache.followed_pages(PageCount(size.pages));
            self.config.capacities.iter().position(|capacity| *capacity == followed)
        };
        let sizes = ReportedSize::all(figures).into_iter();
        let sizes: Vec<_> = sizes.filter_map(|size| Some((size, place(&size)?))).collect();
        let ranked = self.accounts.ranked(&self.holders, tally, MAX_CLASSES);
        let estimate = |account| RetentionClassEstimate::of(account, &sizes, cache.sample_rate);
        Some(ranked.iter().map(estimate).collect()).filter(|all: &Vec<_>| !all.is_empty())
    }
}
