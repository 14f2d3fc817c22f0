//! Attribution by a name that requests carry: whose pages the cache holds, for how long, and what each name gets from
//! it.
//!
//! A page is its last toucher's. What a capacity holds are the youngest pages of the stack, so one pointer a
//! capacity tells when pages leave it: with their last toucher's age they are accounted to that name, once, as
//! they are taken over or dropped. Sums over all names are the pool's.
//!
//! A question says which label the names are of, and what an estimate says of an account.

mod followed;
mod names;
mod occupancy;
mod ranked;
mod tally;

pub use followed::Accounts;
pub use names::AccountId;
pub use ranked::{OTHER, RankedAccount};
pub use tally::{AccountShare, AccountsConfig, AccountsShape, AccountsTally};

/// Most names distinguished; later ones are accounted together.
pub const MAX_NAMES: usize = 4096;
