//! The state of the questions alongside the estimates, as a snapshot keeps it with the pool.

use super::followed::FollowedQuestions;
use super::sections::{PoolSections, RestoredSections, SnapshotSection, Unread, UnreadSections};
use super::{Observation, ObservationShape, ObservationTally, Observers, ReuseObserver, ReuseRules};
use crate::engines::one_pass::Engine;
use crate::questions::accounts::{AccountShare, AccountsTally};
use crate::questions::enabled::ObservedPool;
use crate::questions::request_runs::{RequestRuns, RunLog};
use crate::questions::retention::{RetentionShare, RetentionTally};
use crate::units::PageSize;
use serde::{Deserialize, Serialize};

/// A pool's.
#[derive(Debug, Serialize, Deserialize)]
pub struct ObserversParts<O, T, S, R, Q> {
    observers: O,
    /// Counts of windows that requests only come into, in order of windows and panes.
    tallies: Vec<T>,
    /// Requests of windows that they leave again, in order of windows; their counts are the sum.
    shares: Vec<S>,
    /// What is answered about time, tenants and tiers; nothing where that is not asked.
    pub(super) reuse: Option<R>,
    /// What single questions keep.
    pub(super) sections: Q,
}

/// A pool's, to be serialised.
pub type ObserversImage<'a> =
    ObserversParts<&'a Observers, &'a ObservationTally, &'a Observation, ReuseImage<'a>, PoolSections<'a>>;

/// The same, read back.
pub type RestoredObservers =
    ObserversParts<Box<Observers>, ObservationTally, Observation, RestoredReuse, RestoredSections>;

/// What a pool answers about time, tenants and tiers, to be serialised; in the same order.
pub type ReuseImage<'a> = SnapshotSection<
    &'a ReuseObserver,
    ReuseParts<&'a RetentionTally, &'a AccountsTally, &'a RunLog>,
    ReuseParts<&'a RetentionShare, &'a AccountShare, &'a RequestRuns>,
>;

/// The same, read back.
pub type RestoredReuse = SnapshotSection<Box<ReuseObserver>, ReuseTally, ReuseShare>;

/// Of retention, of tenants and of runs.
type ReuseParts<R, T, L> = (Option<R>, Option<T>, Option<L>);

type ReuseTally = ReuseParts<RetentionTally, AccountsTally, RunLog>;

type ReuseShare = ReuseParts<RetentionShare, AccountShare, RequestRuns>;

/// What windows take back, in the order they gave it.
#[derive(Debug)]
pub struct SavedWindows {
    tallies: std::vec::IntoIter<ObservationTally>,
    shares: std::vec::IntoIter<Observation>,
    reuse: Unread<ReuseTally, ReuseShare>,
    sections: UnreadSections,
}

impl<'a> ObserversImage<'a> {
    /// An image without any window's part yet.
    pub fn of(observers: &'a Observers) -> Self {
        let sections = observers.questions.sections();
        let reuse = observers.reuse.as_deref().map(SnapshotSection::of);
        Self { observers, tallies: Vec::new(), shares: Vec::new(), reuse, sections }
    }

    /// Adds a window's, or a pane's, counts.
    pub fn push_tally(&mut self, tally: Option<&'a ObservationTally>) {
        let Some(tally) = tally else { return };
        self.tallies.push(tally);
        if let Some(image) = &mut self.reuse {
            let ObservationTally { retention, tenants, runs, .. } = tally;
            let counts_some = retention.is_some() || tenants.is_some() || runs.is_some();
            let parts = (retention.as_deref(), tenants.as_deref(), runs.as_deref());
            image.tallies.extend(counts_some.then_some(parts));
        }
        self.sections.push_tally(tally);
    }

    /// Adds the requests that a window holds.
    pub fn push_shares(&mut self, shares: impl Iterator<Item = &'a Observation>) {
        for share in shares {
            self.shares.push(share);
            let Observation { retention, tenants, runs, .. } = share;
            let parts = (retention.as_deref(), tenants.as_deref(), runs.as_deref());
            self.reuse.iter_mut().for_each(|image| image.shares.push(parts));
            self.sections.push_share(share);
        }
    }
}

impl RestoredObservers {
    /// What is followed of capacities that can be known, in followed pages, and what windows take back; `None` where it
    /// is not what the configuration asks for.
    pub fn resume(
        mut self,
        config: ObservedPool<'_>,
        capacities: &[u64],
        page_size: PageSize,
        engine: &Engine,
    ) -> Option<(Box<Observers>, SavedWindows)> {
        let rules = ReuseRules::of(config, capacities);
        let is_asked = rules.is_something();
        let mut is_sound = self.observers.resume(config, capacities, page_size, engine);
        is_sound = is_sound && is_asked == self.reuse.is_some();
        let mut reuse = Unread::default();
        if let Some(SnapshotSection { mut followed, tallies, shares }) = self.reuse {
            is_sound = is_sound && followed.resume(rules, config);
            self.observers.reuse = Some(followed);
            reuse = (tallies.into_iter(), shares.into_iter());
        }
        let fresh = FollowedQuestions::new(config, capacities, page_size);
        let (questions, sections) = fresh.resumed(self.sections, engine)?;
        self.observers.questions = questions;
        let (tallies, shares) = (self.tallies.into_iter(), self.shares.into_iter());
        is_sound.then_some((self.observers, SavedWindows { tallies, shares, reuse, sections }))
    }
}

impl SavedWindows {
    /// The next window's, or pane's, counts of this shape.
    pub fn tally(&mut self, shape: ObservationShape) -> Option<Box<ObservationTally>> {
        let mut tally = self.tallies.next()?;
        if shape.counts_reuse()
            && let Some(parts) = self.reuse.0.next()
        {
            (tally.retention, tally.tenants, tally.runs) = boxed(parts);
        }
        self.sections.complete_tally(shape, &mut tally);
        Some(Box::new(tally))
    }

    /// The next requests, of this shape, of a window that holds so many; fewer where the snapshot has no more.
    pub fn shares(
        &mut self,
        requests: usize,
        shape: ObservationShape,
    ) -> impl Iterator<Item = Observation> + '_ {
        let Self { shares, reuse, sections, .. } = self;
        shares.take(requests).map(move |mut share| {
            let parts = if shape.counts_reuse() { reuse.1.next() } else { None };
            (share.retention, share.tenants, share.runs) = boxed(parts.unwrap_or_default());
            sections.complete_share(shape, &mut share);
            share
        })
    }

    /// Whether all was taken back.
    pub fn is_empty(&self) -> bool {
        let reuse = self.reuse.0.len() + self.reuse.1.len();
        self.tallies.len() + self.shares.len() + reuse == 0 && self.sections.is_empty()
    }
}

fn boxed<R, T, L>((retention, tenants, runs): ReuseParts<R, T, L>) -> ReuseParts<Box<R>, Box<T>, Box<L>> {
    (retention.map(Box::new), tenants.map(Box::new), runs.map(Box::new))
}
