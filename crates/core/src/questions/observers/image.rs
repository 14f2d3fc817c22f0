//! The state of what is asked alongside the estimates, as a snapshot keeps it.
//!
//! It lies behind the state of all pools, so the layout of these does not depend on what is asked. What is asked about
//! time, tenants and tiers lies behind that in turn, then what the cache is worth, and what restarts cost behind all else.

use super::{Observation, ObservationShape, ObservationTally, Observers, ReuseObserver, ReuseRules};
use crate::engines::one_pass::Engine;
use crate::questions::enabled::ObservedPool;
use crate::questions::request_runs::{RequestRuns, RunLog};
use crate::questions::restarts::{RestartsObserver, RestartsShare, RestartsTally};
use crate::questions::retention::{RetentionShare, RetentionTally};
use crate::questions::tenants::{TenantShare, TenantsTally};
use crate::questions::worth::{WorthShare, WorthTally};
use crate::units::PageSize;
use serde::{Deserialize, Serialize};

/// A pool's, to be serialised.
#[derive(Debug, Serialize)]
pub struct ObserversImage<'a> {
    observers: &'a Observers,
    /// Counts of windows that requests only come into, in order of windows and panes.
    tallies: Vec<&'a ObservationTally>,
    /// Requests of windows that they leave again, in order of windows; their counts are the sum.
    shares: Vec<&'a Observation>,
    #[serde(skip)]
    reuse: Option<ReuseImage<'a>>,
    #[serde(skip)]
    worth: Option<WorthImage<'a>>,
    #[serde(skip)]
    restarts: Option<RestartsImage<'a>>,
}

/// What a pool is asked about time, tenants and tiers, to be serialised; in the same order.
#[derive(Debug, Serialize)]
pub struct ReuseImage<'a> {
    reuse: &'a ReuseObserver,
    tallies: Vec<Parts<&'a RetentionTally, &'a TenantsTally, &'a RunLog>>,
    shares: Vec<Parts<&'a RetentionShare, &'a TenantShare, &'a RequestRuns>>,
}

/// What requests compute, to be serialised; in the same order.
#[derive(Debug, Default, Serialize)]
pub struct WorthImage<'a> {
    tallies: Vec<&'a WorthTally>,
    shares: Vec<&'a WorthShare>,
}

/// What requests would lose by a restart, to be serialised; in the same order.
#[derive(Debug, Serialize)]
pub struct RestartsImage<'a> {
    restarts: &'a RestartsObserver,
    tallies: Vec<&'a RestartsTally>,
    shares: Vec<&'a RestartsShare>,
}

/// The same as [`RestartsImage`], read back.
#[derive(Debug, Deserialize)]
pub struct RestoredRestarts {
    restarts: Box<RestartsObserver>,
    tallies: Vec<RestartsTally>,
    shares: Vec<RestartsShare>,
}

/// The same as [`WorthImage`], read back.
#[derive(Debug, Default, Deserialize)]
pub struct RestoredWorth {
    tallies: Vec<WorthTally>,
    shares: Vec<WorthShare>,
}

/// Of retention, of tenants and of runs.
type Parts<R, T, L> = (Option<R>, Option<T>, Option<L>);

/// The same as [`ObserversImage`], read back.
#[derive(Debug, Deserialize)]
pub struct RestoredObservers {
    observers: Box<Observers>,
    tallies: Vec<ObservationTally>,
    shares: Vec<Observation>,
    #[serde(skip)]
    reuse: Option<RestoredReuse>,
    #[serde(skip)]
    worth: Option<RestoredWorth>,
    #[serde(skip)]
    restarts: Option<RestoredRestarts>,
}

/// The same as [`ReuseImage`], read back.
#[derive(Debug, Deserialize)]
pub struct RestoredReuse {
    reuse: Box<ReuseObserver>,
    tallies: Vec<Parts<RetentionTally, TenantsTally, RunLog>>,
    shares: Vec<Parts<RetentionShare, TenantShare, RequestRuns>>,
}

/// What windows take back, in the order they gave it.
#[derive(Debug)]
pub struct SavedWindows {
    tallies: std::vec::IntoIter<ObservationTally>,
    shares: std::vec::IntoIter<Observation>,
    reuse_tallies: std::vec::IntoIter<Parts<RetentionTally, TenantsTally, RunLog>>,
    reuse_shares: std::vec::IntoIter<Parts<RetentionShare, TenantShare, RequestRuns>>,
    worth_tallies: std::vec::IntoIter<WorthTally>,
    worth_shares: std::vec::IntoIter<WorthShare>,
    restarts_tallies: std::vec::IntoIter<RestartsTally>,
    restarts_shares: std::vec::IntoIter<RestartsShare>,
}

impl<'a> ObserversImage<'a> {
    /// An image without any window's part yet.
    pub fn of(observers: &'a Observers) -> Self {
        let reuse = observers.reuse.as_deref();
        let reuse = reuse.map(|reuse| ReuseImage { reuse, tallies: Vec::new(), shares: Vec::new() });
        let worth = observers.worth.as_ref().map(|_| WorthImage::default());
        let restarts = observers.restarts.as_deref();
        let restarts =
            restarts.map(|restarts| RestartsImage { restarts, tallies: Vec::new(), shares: Vec::new() });
        Self { observers, tallies: Vec::new(), shares: Vec::new(), reuse, worth, restarts }
    }

    /// Adds a window's, or a pane's, counts.
    pub fn push_tally(&mut self, tally: Option<&'a ObservationTally>) {
        self.tallies.extend(tally);
        if let Some((image, tally)) = self.reuse.as_mut().zip(tally) {
            let ObservationTally { retention, tenants, runs, .. } = tally;
            let counts_some = retention.is_some() || tenants.is_some() || runs.is_some();
            let parts = (retention.as_deref(), tenants.as_deref(), runs.as_deref());
            image.tallies.extend(counts_some.then_some(parts));
        }
        if let Some((image, tally)) = self.worth.as_mut().zip(tally) {
            image.tallies.extend(tally.worth.as_deref());
        }
        if let Some((image, tally)) = self.restarts.as_mut().zip(tally) {
            image.tallies.extend(tally.restarts.as_deref());
        }
    }

    /// Adds the requests that a window holds.
    pub fn push_shares(&mut self, shares: impl Iterator<Item = &'a Observation>) {
        for share in shares {
            self.shares.push(share);
            let Observation { retention, tenants, runs, .. } = share;
            let parts = (retention.as_deref(), tenants.as_deref(), runs.as_deref());
            self.reuse.iter_mut().for_each(|image| image.shares.push(parts));
            self.worth.iter_mut().for_each(|image| image.shares.extend(share.worth.as_deref()));
            self.restarts.iter_mut().for_each(|image| image.shares.extend(share.restarts.as_deref()));
        }
    }

    /// What is asked about time, tenants and tiers, which a snapshot keeps behind all else; `None` where nothing is.
    pub fn take_reuse(&mut self) -> Option<ReuseImage<'a>> {
        self.reuse.take()
    }

    /// What requests compute, which a snapshot keeps behind that; `None` where nobody asks.
    pub fn take_worth(&mut self) -> Option<WorthImage<'a>> {
        self.worth.take()
    }

    /// What requests would lose by a restart, which a snapshot keeps behind that; `None` where nobody asks.
    pub fn take_restarts(&mut self) -> Option<RestartsImage<'a>> {
        self.restarts.take()
    }
}

impl RestoredObservers {
    /// Gives it back what [`ObserversImage::take_reuse`] took.
    pub fn with_reuse(self, reuse: RestoredReuse) -> Self {
        Self { reuse: Some(reuse), ..self }
    }

    /// Gives it back what [`ObserversImage::take_worth`] took.
    pub fn with_worth(self, worth: RestoredWorth) -> Self {
        Self { worth: Some(worth), ..self }
    }

    /// Gives it back what [`ObserversImage::take_restarts`] took.
    pub fn with_restarts(self, restarts: RestoredRestarts) -> Self {
        Self { restarts: Some(restarts), ..self }
    }

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
        let (mut reuse_tallies, mut reuse_shares, mut is_sound) = (Vec::new(), Vec::new(), !is_asked);
        if let Some(RestoredReuse { mut reuse, tallies, shares }) = self.reuse.take() {
            is_sound = is_asked && reuse.resume(rules, config);
            self.observers.reuse = Some(reuse);
            (reuse_tallies, reuse_shares) = (tallies, shares);
        }
        let (mut restarts_tallies, mut restarts_shares) = (Vec::new(), Vec::new());
        let fresh = super::restarts_observer(config, capacities, page_size);
        is_sound = is_sound && fresh.is_some() == self.restarts.is_some();
        if let Some((RestoredRestarts { mut restarts, tallies, shares }, fresh)) =
            self.restarts.take().zip(fresh)
        {
            is_sound = restarts.resume(fresh) && is_sound;
            self.observers.restarts = Some(restarts);
            (restarts_tallies, restarts_shares) = (tallies, shares);
        }
        let is_sound = self.observers.resume(config, capacities, page_size, engine) && is_sound;
        let is_sound = is_sound && self.worth.is_some() == self.observers.worth.is_some();
        let RestoredWorth { tallies: worth_tallies, shares: worth_shares } = self.worth.unwrap_or_default();
        let saved = SavedWindows {
            tallies: self.tallies.into_iter(),
            shares: self.shares.into_iter(),
            reuse_tallies: reuse_tallies.into_iter(),
            reuse_shares: reuse_shares.into_iter(),
            worth_tallies: worth_tallies.into_iter(),
            worth_shares: worth_shares.into_iter(),
            restarts_tallies: restarts_tallies.into_iter(),
            restarts_shares: restarts_shares.into_iter(),
        };
        is_sound.then_some((self.observers, saved))
    }
}

impl SavedWindows {
    /// The next window's, or pane's, counts of this shape.
    pub fn tally(&mut self, shape: ObservationShape) -> Option<Box<ObservationTally>> {
        let mut tally = self.tallies.next()?;
        if shape.counts_reuse()
            && let Some(parts) = self.reuse_tallies.next()
        {
            (tally.retention, tally.tenants, tally.runs) = boxed(parts);
        }
        if shape.counts_worth() {
            tally.worth = self.worth_tallies.next().map(Box::new);
        }
        if shape.counts_restarts() {
            tally.restarts = self.restarts_tallies.next().map(Box::new);
        }
        Some(Box::new(tally))
    }

    /// The next requests, of this shape, of a window that holds so many; fewer where the snapshot has no more.
    pub fn shares(
        &mut self,
        requests: usize,
        shape: ObservationShape,
    ) -> impl Iterator<Item = Observation> + '_ {
        let Self { shares, reuse_shares, worth_shares, restarts_shares, .. } = self;
        shares.take(requests).map(move |share| {
            let parts = if shape.counts_reuse() { reuse_shares.next() } else { None };
            let (retention, tenants, runs) = boxed(parts.unwrap_or_default());
            let worth = if shape.counts_worth() { worth_shares.next().map(Box::new) } else { None };
            let restarts = if shape.counts_restarts() { restarts_shares.next().map(Box::new) } else { None };
            Observation { retention, tenants, runs, worth, restarts, ..share }
        })
    }

    /// Whether all was taken back.
    pub fn is_empty(&self) -> bool {
        let reuse = self.reuse_tallies.len() + self.reuse_shares.len();
        let worth = self.worth_tallies.len() + self.worth_shares.len();
        let restarts = self.restarts_tallies.len() + self.restarts_shares.len();
        self.tallies.len() + self.shares.len() + reuse + worth + restarts == 0
    }
}

fn boxed<R, T, L>((retention, tenants, runs): Parts<R, T, L>) -> Parts<Box<R>, Box<T>, Box<L>> {
    (retention.map(Box::new), tenants.map(Box::new), runs.map(Box::new))
}
