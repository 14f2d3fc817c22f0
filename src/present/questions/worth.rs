//! What the next GiB of a cache earns against its price.

/// What the next GiB earns and costs. Amounts are of one currency, per day.
#[derive(Debug, Clone, PartialEq)]
pub struct WorthCurve {
    /// Sizes in pages, ascending, and what a GiB of the step from the one before earns.
    pub steps: Vec<(u64, f64)>,
    /// What a GiB costs.
    pub price: f64,
    /// The size that saves the most beyond its price; none where no size saves its price.
    pub best: Option<u64>,
    /// Bytes per page.
    pub page_bytes: u64,
}
