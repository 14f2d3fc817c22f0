//! What one capacity holds of every account's, over time.

use crate::questions::lifetimes::{Boundary, Holders, Packed};
use crate::stack::Order;
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// Page-milliseconds by account.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Occupancy {
    boundary: Boundary,
    /// Of pages that were taken over or dropped, by account.
    past: Vec<u128>,
}

heap_bytes!(Occupancy { past; boundary });

impl Occupancy {
    pub(super) fn at(capacity: u64) -> Self {
        Self { boundary: Boundary::at(capacity), past: Vec::new() }
    }

    /// Follows a request that has taken its `pages` over.
    pub(super) fn follow(&mut self, holders: &Holders, pages: u32, order: Order) {
        let Self { boundary, past } = self;
        let end = boundary.end;
        let mut edge = edge_before(boundary, holders);
        for taken in holders.taken() {
            let (Some(from), Some(age)) = (taken.from, taken.age_ms) else { continue };
            let inside = match &mut edge {
                Some(edge) if Some(from) == end => take(edge, u64::from(taken.pages), order),
                Some(_) if Some(from) < end => 0,
                _ => u64::from(taken.pages),
            };
            account(past, holders, from, inside, age);
        }
        let mut dropped = end.zip(edge.map(|(inside, _)| inside));
        let mut drop = |place: u32, inside: u64| account(past, holders, place, inside, holders.age_at(place));
        boundary.follow(holders, pages, |place, held| {
            if let Some((place, inside)) = dropped.replace((place, u64::from(held))) {
                drop(place, inside);
            }
        });
        if let Some((place, inside)) = dropped {
            // The last of them is the boundary now.
            drop(place, inside - boundary.inside().min(inside));
        }
    }

    /// Page-milliseconds up to now, by account.
    pub(super) fn so_far(&self, holders: &Holders) -> Vec<u128> {
        let mut sum = self.past.clone();
        let from = self.boundary.end.map_or(0, |end| end as usize);
        for (place, holder) in holders.entries().iter().enumerate().skip(from) {
            let is_edge = self.boundary.end == Some(place as u32);
            let inside = if is_edge { self.boundary.inside() } else { u64::from(holder.pages) };
            account(&mut sum, holders, place as u32, inside, holders.age_at(place as u32));
        }
        sum
    }

    /// Accounts that have pages behind them.
    pub(super) fn accounts(&self) -> usize {
        self.past.len()
    }

    /// Whether this, read back from a snapshot, is of such a capacity and follows the list.
    pub(super) fn is_sound(&self, capacity: u64, holders: &Holders) -> bool {
        self.boundary.is_sound(capacity, holders)
    }

    pub(super) fn renumber(&mut self, packed: &Packed) {
        self.boundary.renumber(packed);
    }
}

/// The boundary request as it was before pages were taken from it.
fn edge_before(boundary: &Boundary, holders: &Holders) -> Option<(u64, u64)> {
    let end = boundary.end?;
    let taken = holders.taken().iter().filter(|taken| taken.from == Some(end));
    let held = u64::from(holders.entries()[end as usize].pages)
        + taken.map(|taken| u64::from(taken.pages)).sum::<u64>();
    let inside = boundary.inside().min(held);
    Some((inside, held - inside))
}

/// Takes the shallowest pages of the request at the boundary away, of those inside and outside; returns how many of
/// them were inside. Root first, the shallowest are the oldest, so they are outside before others are; leaf first it
/// is the other way round.
fn take((inside, outside): &mut (u64, u64), pages: u64, order: Order) -> u64 {
    let from_inside = match order {
        Order::RootFirst => pages.saturating_sub(*outside),
        Order::LeafFirst => pages.min(*inside),
    };
    *inside -= from_inside;
    *outside -= pages - from_inside;
    from_inside
}

fn account(sums: &mut Vec<u128>, holders: &Holders, place: u32, pages: u64, age_ms: u64) {
    let account = holders.entries()[place as usize].account as usize;
    if sums.len() <= account {
        sums.resize(account + 1, 0);
    }
    sums[account] += u128::from(pages) * u128::from(age_ms);
}
