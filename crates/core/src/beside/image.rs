//! The state of what is asked beside the estimates, as a snapshot keeps it.
//!
//! It lies behind the state of all pools, so the layout of these does not depend on what is asked.

use super::{Beside, BesideShare, BesideTally};
use crate::pool_config::PoolConfig;
use serde::{Deserialize, Serialize};

/// A pool's, to be serialised.
#[derive(Debug, Serialize)]
pub struct BesideImage<'a> {
    beside: &'a Beside,
    /// Counts of windows that requests only come into, in order of windows and panes.
    tallies: Vec<&'a BesideTally>,
    /// Requests of windows that they leave again, in order of windows; their counts are the sum.
    shares: Vec<&'a BesideShare>,
}

/// The same, read back.
#[derive(Debug, Deserialize)]
pub struct RestoredBeside {
    beside: Box<Beside>,
    tallies: Vec<BesideTally>,
    shares: Vec<BesideShare>,
}

/// What windows take back, in the order they gave it.
#[derive(Debug)]
pub struct SavedWindows {
    tallies: std::vec::IntoIter<BesideTally>,
    shares: std::vec::IntoIter<BesideShare>,
}

impl<'a> BesideImage<'a> {
    /// An image without any window's part yet.
    pub fn of(beside: &'a Beside) -> Self {
        Self { beside, tallies: Vec::new(), shares: Vec::new() }
    }

    /// Adds a window's, or a pane's, counts.
    pub fn push_tally(&mut self, tally: Option<&'a BesideTally>) {
        self.tallies.extend(tally);
    }

    /// Adds the requests that a window holds.
    pub fn push_shares(&mut self, shares: impl Iterator<Item = &'a BesideShare>) {
        self.shares.extend(shares);
    }
}

impl RestoredBeside {
    /// What is followed, and what windows take back; `None` where it is not what the configuration asks for.
    pub fn resume(mut self, config: &PoolConfig) -> Option<(Box<Beside>, SavedWindows)> {
        let sound = self.beside.resume(config);
        let saved = SavedWindows { tallies: self.tallies.into_iter(), shares: self.shares.into_iter() };
        sound.then_some((self.beside, saved))
    }
}

impl SavedWindows {
    /// The next window's, or pane's, counts.
    pub fn tally(&mut self) -> Option<Box<BesideTally>> {
        self.tallies.next().map(Box::new)
    }

    /// The next requests of a window that holds so many; fewer where the snapshot has no more.
    pub fn shares(&mut self, requests: usize) -> impl Iterator<Item = BesideShare> + '_ {
        self.shares.by_ref().take(requests)
    }

    /// Whether all was taken back.
    pub fn is_empty(&self) -> bool {
        self.tallies.len() == 0 && self.shares.len() == 0
    }
}
