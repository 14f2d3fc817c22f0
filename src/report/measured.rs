//! What measured requests say, in words (WHATIF 1).

use super::words::{capacity, integer, rate};
use kvset_core::curve::share;
use kvset_core::measured::{MeasuredEstimate, Verdict};

/// The verdict as a sentence.
pub fn in_words(measured: &MeasuredEstimate, page_bytes: Option<u64>) -> String {
    let Some(verdict) = measured.verdict else {
        let none = match measured.requests {
            0 => "no request says how many of its tokens were cached",
            _ => "no request came back to pages that the log shows, so none can tell",
        };
        return none.to_owned();
    };
    let ledger = &measured.ledger.counts();
    let points = |pages: Option<i64>| pages.map_or(0.0, |pages| ledger.share(pages) * 100.0);
    let lost = format!(
        "{:.1} points are lost to capacity, {:.1} to routing, {:.1} in the engine",
        points(ledger.lost_to_capacity()),
        points(ledger.lost_to_routing()),
        points(ledger.lost_in_engine())
    );
    match verdict {
        Verdict::IdScope => format!(
            "{} pages were found that the log never shows before: the engine shares more than the log's ids say",
            integer(measured.pages_beyond_log)
        ),
        Verdict::NoCapacity => format!(
            "behaves like no cache of any one size: at most {} of the requests agree on one",
            rate(measured.effective_capacity.map_or(0.0, |effective| effective.agreement))
        ),
        Verdict::MoreCaches => format!(
            "{}, but finds {:.1} points more than one such cache would",
            behaves_like(measured, page_bytes),
            -points(ledger.lost_in_engine())
        ),
        Verdict::Workload => format!(
            "{}; the workload itself reuses {} of its pages at most",
            behaves_like(measured, page_bytes),
            rate(share(ledger.unlimited, ledger.page_accesses))
        ),
        Verdict::Restarts => format!(
            "{}; {lost}; it was emptied {} times",
            behaves_like(measured, page_bytes),
            measured.restarts.len()
        ),
        _ => format!("{}; {lost}", behaves_like(measured, page_bytes)),
    }
}

/// "behaves like 212 GiB of the 500 GiB provisioned".
fn behaves_like(measured: &MeasuredEstimate, page_bytes: Option<u64>) -> String {
    let size = |pages: u64| capacity(pages, page_bytes);
    let Some(effective) = measured.effective_capacity else {
        return "behaves like no cache that can be told".to_owned();
    };
    let least = if effective.pages_to.is_none() { "at least " } else { "" };
    let all = effective.pages_from.saturating_mul(measured.replicas);
    let of = match measured.ledger.total_capacity_pages {
        Some(total) if measured.ledger.provisioned => format!(" of the {} provisioned", size(total)),
        _ => String::new(),
    };
    let each = match measured.replicas {
        1 => String::new(),
        count => format!(" ({count} replicas of {})", size(effective.pages_from)),
    };
    format!("behaves like {least}{}{each}{of}", size(all))
}
