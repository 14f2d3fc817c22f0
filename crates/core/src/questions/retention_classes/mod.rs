//! Retention classes: what the requests of each class find, and what the cache holds of their pages.
//!
//! A class is how long, or how preferably, a request asks its cache to keep its pages
//! ([`Label::RetentionClass`](crate::request::labels::Label)). It is counted by, and changes nothing that is
//! modelled: no engine's model goes by it. A page is of the class of its last toucher. The counting is that of
//! [`accounts`](super::accounts).

mod observer;

pub use observer::RetentionClassesObserver;

use crate::questions::accounts::RankedAccount;
use crate::questions::question::ReportedSize;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// Most classes reported one by one.
pub const MAX_CLASSES: usize = 16;

/// One class, or all that are not reported one by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetentionClassEstimate {
    /// Its name; absent for requests that ask for nothing, `other` for all others together.
    pub class: Option<String>,
    /// How many classes `other` stands for; those beyond 4,096 are not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<u64>,
    /// Requests counted.
    pub requests: u64,
    /// Pages they accessed.
    pub page_accesses: u64,
    /// Hits with unlimited capacity.
    pub page_hits: u64,
    /// What is provisioned first, where that is known, then what is recommended; where there is neither, the largest
    /// capacity of the curve.
    pub sizes: Vec<RetentionClassAt>,
}

/// The same at one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionClassAt {
    /// The size.
    pub pages: u64,
    /// The same in bytes, where a cost per token is known.
    pub bytes: Option<u64>,
    /// Whether that is what the cache holds today.
    pub provisioned: bool,
    /// Whether that is the smallest capacity of the curve as large as what is recommended.
    pub recommended: bool,
    /// Hits of the class's requests.
    pub page_hits: u64,
    /// Pages of the class held, times milliseconds: since the first request that counts, so the difference of two
    /// estimates is what was held between them.
    pub page_milliseconds: u64,
}

impl RetentionClassEstimate {
    /// What is published of an account, at sizes that are counted in these places, where so many of the pages are
    /// followed.
    pub(super) fn of(account: &RankedAccount, sizes: &[(ReportedSize, usize)], rate: Ratio) -> Self {
        let tally = &account.tally;
        let held: Vec<u64> = account.page_milliseconds(rate).collect();
        let at = |(size, place): &(ReportedSize, usize)| RetentionClassAt {
            pages: size.pages,
            bytes: size.bytes,
            provisioned: size.provisioned,
            recommended: size.recommended,
            page_hits: rate.whole_of(tally.hits[*place]),
            page_milliseconds: held[*place],
        };
        Self {
            class: account.name.clone(),
            classes: account.others,
            requests: tally.requests,
            page_accesses: rate.whole_of(tally.page_accesses),
            page_hits: rate.whole_of(tally.reusable),
            sizes: sizes.iter().map(at).collect(),
        }
    }
}
