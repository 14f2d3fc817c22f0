//! The state of what is asked beside the estimates, as a snapshot keeps it.
//!
//! It lies behind the state of all pools, so the layout of these does not depend on what is asked. What is asked about
//! time, tenants and tiers lies behind that in turn.

use super::{Beside, BesideShape, BesideShare, BesideTally, Lived, LivedRules, LivedShare, LivedTally};
use crate::engines::one_pass::Engine;
use crate::pool::config::PoolConfig;
use crate::units::PageSize;
use serde::{Deserialize, Serialize};

/// A pool's, to be serialised.
#[derive(Debug, Serialize)]
pub struct BesideImage<'a> {
    beside: &'a Beside,
    /// Counts of windows that requests only come into, in order of windows and panes.
    tallies: Vec<&'a BesideTally>,
    /// Requests of windows that they leave again, in order of windows; their counts are the sum.
    shares: Vec<&'a BesideShare>,
    #[serde(skip)]
    lived: Option<LivedImage<'a>>,
}

/// What a pool is asked about time, tenants and tiers, to be serialised; in the same order.
#[derive(Debug, Serialize)]
pub struct LivedImage<'a> {
    lived: &'a Lived,
    tallies: Vec<&'a LivedTally>,
    shares: Vec<&'a LivedShare>,
}

/// The same as [`BesideImage`], read back.
#[derive(Debug, Deserialize)]
pub struct RestoredBeside {
    beside: Box<Beside>,
    tallies: Vec<BesideTally>,
    shares: Vec<BesideShare>,
    #[serde(skip)]
    lived: Option<RestoredLived>,
}

/// The same as [`LivedImage`], read back.
#[derive(Debug, Deserialize)]
pub struct RestoredLived {
    lived: Box<Lived>,
    tallies: Vec<LivedTally>,
    shares: Vec<LivedShare>,
}

/// What windows take back, in the order they gave it.
#[derive(Debug)]
pub struct SavedWindows {
    tallies: std::vec::IntoIter<BesideTally>,
    shares: std::vec::IntoIter<BesideShare>,
    lived_tallies: std::vec::IntoIter<LivedTally>,
    lived_shares: std::vec::IntoIter<LivedShare>,
}

impl<'a> BesideImage<'a> {
    /// An image without any window's part yet.
    pub fn of(beside: &'a Beside) -> Self {
        let lived = beside.lived.as_deref();
        let lived = lived.map(|lived| LivedImage { lived, tallies: Vec::new(), shares: Vec::new() });
        Self { beside, tallies: Vec::new(), shares: Vec::new(), lived }
    }

    /// Adds a window's, or a pane's, counts.
    pub fn push_tally(&mut self, tally: Option<&'a BesideTally>) {
        self.tallies.extend(tally);
        let lived = tally.and_then(|tally| tally.lived.as_deref());
        self.lived.iter_mut().for_each(|image| image.tallies.extend(lived));
    }

    /// Adds the requests that a window holds.
    pub fn push_shares(&mut self, shares: impl Iterator<Item = &'a BesideShare>) {
        for share in shares {
            self.shares.push(share);
            self.lived.iter_mut().for_each(|image| image.shares.extend(share.lived.as_deref()));
        }
    }

    /// What is asked about time, tenants and tiers, which a snapshot keeps behind all else; `None` where nothing is.
    pub fn take_lived(&mut self) -> Option<LivedImage<'a>> {
        self.lived.take()
    }
}

impl RestoredBeside {
    /// Gives it back what [`BesideImage::take_lived`] took.
    pub fn with_lived(self, lived: RestoredLived) -> Self {
        Self { lived: Some(lived), ..self }
    }

    /// What is followed of capacities that can be told, in followed pages, and what windows take back; `None` where it
    /// is not what the configuration asks for.
    pub fn resume(
        mut self,
        config: &PoolConfig,
        capacities: &[u64],
        page_size: PageSize,
        engine: &Engine,
    ) -> Option<(Box<Beside>, SavedWindows)> {
        let rules = LivedRules::of(config, capacities);
        let is_asked = rules.shape().is_something();
        let (mut lived_tallies, mut lived_shares, mut is_sound) = (Vec::new(), Vec::new(), !is_asked);
        if let Some(RestoredLived { mut lived, tallies, shares }) = self.lived.take() {
            is_sound = is_asked && lived.resume(rules, config);
            self.beside.lived = Some(lived);
            (lived_tallies, lived_shares) = (tallies, shares);
        }
        let is_sound = self.beside.resume(config, capacities, page_size, engine) && is_sound;
        let saved = SavedWindows {
            tallies: self.tallies.into_iter(),
            shares: self.shares.into_iter(),
            lived_tallies: lived_tallies.into_iter(),
            lived_shares: lived_shares.into_iter(),
        };
        is_sound.then_some((self.beside, saved))
    }
}

impl SavedWindows {
    /// The next window's, or pane's, counts of this shape.
    pub fn tally(&mut self, shape: BesideShape) -> Option<Box<BesideTally>> {
        let mut tally = self.tallies.next()?;
        if shape.lived().is_something() {
            tally.lived = self.lived_tallies.next().map(Box::new);
        }
        Some(Box::new(tally))
    }

    /// The next requests, of this shape, of a window that holds so many; fewer where the snapshot has no more.
    pub fn shares(&mut self, requests: usize, shape: BesideShape) -> impl Iterator<Item = BesideShare> + '_ {
        let Self { shares, lived_shares, .. } = self;
        shares.take(requests).map(move |share| {
            let lived = if shape.lived().is_something() { lived_shares.next() } else { None };
            BesideShare { lived: lived.map(Box::new), ..share }
        })
    }

    /// Whether all was taken back.
    pub fn is_empty(&self) -> bool {
        self.tallies.len() + self.shares.len() + self.lived_tallies.len() + self.lived_shares.len() == 0
    }
}
