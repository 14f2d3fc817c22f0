//! The pages of a pool and whom each is accounted to, for a question that follows nothing else of them.

use super::followed::Accounts;
use super::ranked::RankedAccount;
use super::tally::{AccountShare, AccountsConfig, AccountsTally};
use crate::questions::lifetimes::Holders;
use crate::questions::measured::Accepted;
use crate::request::labels::Label;
use crate::units::PageCount;
use serde::{Deserialize, Serialize};

/// The requests that still own pages in the stack, and the accounts that these pages are of.
#[derive(Debug, Serialize, Deserialize)]
pub struct AttributedPages {
    holders: Holders,
    accounts: Accounts,
}

impl AttributedPages {
    /// Nothing seen yet, of a stack that remembers `bound` (followed) pages.
    pub fn new(bound: PageCount, config: AccountsConfig) -> Self {
        Self { holders: Holders::new(bound), accounts: Accounts::new(config) }
    }

    /// Follows a request, whose pages are accounted to the name of this label; every one of the stack's must come, in order.
    /// Returns what it adds to windows that count it.
    pub fn observe(&mut self, request: &Accepted<'_>, label: Label) -> AccountShare {
        let Accepted { event, outcome, counted, .. } = *request;
        let Self { holders, accounts } = self;
        if holders.is_crowded() {
            let packed = holders.pack();
            accounts.renumber(&packed);
        }
        holders.advance(event.event_time);
        let id = accounts.id_of(event.labels.get(label).copied());
        let pages = holders.take(outcome, id.account());
        let share = accounts.follow(holders, outcome, (id, pages), counted);
        holders.forget_beyond_bound(|_, _, _| {});
        share
    }

    /// The `most` accounts that hold the most, then all others together ([`Accounts::ranked`]).
    pub fn ranked(&self, tally: &AccountsTally, most: usize) -> Vec<RankedAccount> {
        self.accounts.ranked(&self.holders, tally, most)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        self.holders.memory_bytes() + self.accounts.memory_bytes()
    }

    /// Completes what was read back from a snapshot; whether it is what is requested and can go on.
    pub fn resume(&mut self, bound: PageCount, config: AccountsConfig) -> bool {
        self.holders.resume(bound) && self.accounts.resume(config, &self.holders)
    }
}
