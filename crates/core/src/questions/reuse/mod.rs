//! How long pages live, and on whose behalf: times to live, tenants, what passes between tiers, and the optimum. They
//! share what follows the pages.

mod lifetimes;
mod observer;

pub use lifetimes::Lifetimes;
pub use observer::{
    MAX_TOLD_TENANTS, ReuseEstimates, ReuseObserver, ReuseSetting, ReuseShape, ReuseShare, ReuseTally,
};
