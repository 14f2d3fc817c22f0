//! What SGLang with a draft head finds at most, where a log has page ids.
//!
//! Its tree is then one of pairs of tokens: a page that is found loses nothing where the token behind it is the same,
//! too. Page ids do not say that token. The engine's own model takes two different pages to begin with different
//! tokens, which is the lower end; here they always begin alike. Without limit SGLang lies between the two. At a
//! capacity they are two models: leaves are evicted whole, and a tree that shares more has others. At pages of one
//! token a page and the one behind it are the pair, so the engine's own model is exact, and so it is where the log
//! has tokens. A page of pairs has one token more than a page, so a sequence has as many pages as a plain one that is
//! a token shorter.

mod estimate;
mod observer;
mod tally;

pub use estimate::{DraftRangeEstimate, DraftRangePoint};
pub use observer::DraftRangeObserver;
pub use tally::{DraftRangeShare, DraftRangeTally};
