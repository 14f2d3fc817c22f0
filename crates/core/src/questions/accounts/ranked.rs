//! Accounts by rank.

use super::names::AccountId;
use super::tally::AccountTally;
use crate::units::ratio::Ratio;
use std::cmp::Reverse;

/// What all names are called that are not reported one by one.
pub const OTHER: &str = "other";

/// The largest whole number of the published formats.
const MOST: u64 = i64::MAX as u64;

/// The account of one name, or of all that are not reported one by one.
#[derive(Debug)]
pub struct RankedAccount {
    /// The name; absent for requests that have none, [`OTHER`] for all others together.
    pub name: Option<String>,
    /// How many names [`OTHER`] stands for; those beyond [`MAX_NAMES`](super::MAX_NAMES) are not among them.
    pub others: Option<u64>,
    pub(super) id: AccountId,
    /// What its requests found, in followed pages.
    pub(in crate::questions) tally: AccountTally,
    /// In followed pages, one a capacity.
    pub(super) page_milliseconds: Vec<u128>,
}

impl RankedAccount {
    /// Pages held, times milliseconds, one a capacity, where so many of the pages are followed.
    pub(in crate::questions) fn page_milliseconds(&self, rate: Ratio) -> impl Iterator<Item = u64> + '_ {
        let published = move |held: &u128| u64::try_from(rate.wide_whole_of(*held)).unwrap_or(MOST).min(MOST);
        self.page_milliseconds.iter().map(published)
    }

    /// Who holds the most of the largest capacity comes first, then who accesses the most.
    fn rank(&self) -> Reverse<(u128, u64)> {
        Reverse((self.page_milliseconds.last().copied().unwrap_or(0), self.tally.page_accesses))
    }

    fn is_empty(&self) -> bool {
        self.tally.requests == 0 && self.page_milliseconds.iter().all(|held| *held == 0)
    }

    fn merge(mut self, other: &Self) -> Self {
        self.tally.merge(&other.tally);
        self.page_milliseconds.iter_mut().zip(&other.page_milliseconds).for_each(|(sum, held)| *sum += held);
        self
    }
}

/// The first `most` of the accounts, and all others as one.
pub(super) fn ranked(
    accounts: Vec<RankedAccount>,
    most: usize,
    name: impl Fn(AccountId) -> Option<String>,
) -> Vec<RankedAccount> {
    let (later, mut told): (Vec<_>, Vec<_>) =
        accounts.into_iter().filter(|account| !account.is_empty()).partition(|a| a.id == AccountId::LATER);
    told.sort_by_cached_key(|account| (account.rank(), name(account.id)));
    let others = told.split_off(most.min(told.len()));
    let count = others.len() as u64;
    let own = told.into_iter().map(|account| RankedAccount { name: name(account.id), ..account });
    let rest = later.into_iter().chain(others).reduce(|sum, next| sum.merge(&next));
    let rest =
        rest.map(|account| RankedAccount { name: Some(OTHER.to_owned()), others: Some(count), ..account });
    own.chain(rest).collect()
}
