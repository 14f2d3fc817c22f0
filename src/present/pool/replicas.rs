//! What figures are of where a log names several caches.

use crate::present::words;
use kvset_core::estimate::Estimate;
use kvset_core::questions::routing::RouterCoverage;
use kvset_core::units::ratio::Ratio;

/// The caches that a log names, where there are several. The curve and the requirement are of one cache in place of
/// all.
#[derive(Debug, Clone, PartialEq)]
pub struct Replicas {
    pub count: u64,
    /// What they need together, with requests routed as the log says; nothing where that was not requested.
    pub logged: Vec<RouterCoverage>,
}

impl Replicas {
    /// Those of an estimate, as far as it follows them.
    pub(crate) fn of(estimate: &Estimate) -> Option<Self> {
        let logged = estimate.routing.iter().find(|routed| routed.router == "logged");
        let measured = estimate.measured.as_ref().map(|measured| measured.replicas);
        let count = measured.or_else(|| logged.map(|routed| routed.replicas)).filter(|count| *count > 1)?;
        let required = logged.and_then(|routed| routed.required.first());
        Some(Self { count, logged: required.map_or_else(Vec::new, |required| required.coverage.clone()) })
    }

    /// Behind a size: `, as one cache for both replicas`.
    pub(super) fn as_one_cache(&self) -> String {
        let all =
            if self.count == 2 { "both".to_owned() } else { format!("all {}", words::integer(self.count)) };
        format!(", as one cache for {all} replicas")
    }

    /// What they need together to cover so many requests, routed as logged, where that is known.
    pub(super) fn routed_pages(&self, coverage: Ratio) -> Option<u64> {
        self.logged.iter().find(|entry| entry.coverage == coverage)?.total_pages
    }

    /// What they need apart from each other to cover so many requests, or who counts that.
    pub(crate) fn apart(&self, coverage: Ratio, page_bytes: Option<u64>) -> String {
        let size = |pages| words::capacity(pages, page_bytes);
        let routed = self.logged.iter().find(|entry| entry.coverage == coverage);
        match routed.and_then(|entry| entry.pages.zip(entry.total_pages)) {
            Some((each, together)) => format!(
                "Routed as logged, the {} replicas need {} together, {} each, for the same share of requests.",
                words::integer(self.count),
                size(together),
                size(each)
            ),
            None if routed.is_some() => {
                "Routed as logged, the replicas need more than was tracked for the same share of requests.".to_owned()
            }
            None => "Caches apart from each other find less: router logged counts what they need as they are routed."
                .to_owned(),
        }
    }
}
