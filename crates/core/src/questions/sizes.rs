//! The sizes that an estimate says something of where it is not the whole curve.

use crate::questions::question::QuestionFigures;
use crate::sizing::recommendation::chosen;

/// A size that is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedSize {
    /// In pages; one of those that are counted at.
    pub pages: u64,
    /// The same in bytes, where a cost per token is known.
    pub bytes: Option<u64>,
    /// Whether that is what the cache holds today.
    pub provisioned: bool,
    /// Whether that is the smallest capacity of the curve as large as what is recommended.
    pub recommended: bool,
}

impl ReportedSize {
    /// What is provisioned first, where that is known, then what is recommended; where there is neither, the largest
    /// capacity of the curve.
    pub fn all(figures: &QuestionFigures<'_>) -> Vec<Self> {
        let QuestionFigures { config, page_size, page_bytes, capacities, recommended, .. } = *figures;
        let provisioned = config.pages(page_size);
        let curve = || capacities.iter().filter(|point| !point.beyond_bound).map(|point| point.pages);
        let enough = chosen(recommended).and_then(|found| found.pages);
        let recommended = enough.and_then(|enough| curve().find(|pages| *pages >= enough));
        let mut all: Vec<u64> = provisioned.into_iter().chain(recommended).collect();
        all.dedup();
        if all.is_empty() {
            all.extend(curve().next_back());
        }
        let size = |pages: u64| Self {
            pages,
            bytes: page_bytes.map(|bytes| bytes.0 * pages),
            provisioned: provisioned == Some(pages),
            recommended: recommended == Some(pages),
        };
        all.into_iter().map(size).collect()
    }
}
