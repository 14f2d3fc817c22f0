//! What measured requests say, in words and as a section of a report (WHATIF 1).

use super::section::Section;
use super::table::Table;
use super::words::{capacity, integer, rate};
use kvset_core::curve::share;
use kvset_core::measured::{Loss, MeasuredEstimate, Verdict};

/// The capacities that the cache in use behaves like, all replicas together, and its hit rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredBand {
    /// The smallest of them.
    pub pages_from: u64,
    /// The largest; `None` where no request sets an upper bound.
    pub pages_to: Option<u64>,
    /// Hits as a share of the measured requests' page accesses.
    pub hit_rate: f64,
}

/// Where the cache in use stands beside the curve; `None` where no request can tell.
pub fn band(measured: &MeasuredEstimate) -> Option<MeasuredBand> {
    let effective = measured.effective_capacity?;
    let of_all = |each: u64| each.saturating_mul(measured.replicas);
    Some(MeasuredBand {
        pages_from: of_all(effective.pages_from),
        pages_to: effective.pages_to.map(of_all),
        hit_rate: share(measured.ledger.measured_pages, measured.ledger.page_accesses),
    })
}

/// What was measured, what was lost where, and what to try.
pub fn section(measured: &MeasuredEstimate, page_bytes: Option<u64>) -> Section {
    let mut words = in_words(measured, page_bytes);
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let mut sentences = vec![format!("{words}.")];
    if let Some(effective) = measured.effective_capacity {
        let (requests, pages) = (rate(effective.agreement), rate(effective.agreement_by_pages));
        let measured = integer(measured.requests);
        sentences.push(format!(
            "Of {measured} measured requests, {requests} of those that can tell agree on that; {pages} by their pages."
        ));
    }
    if let Some(verdict) = measured.verdict {
        sentences.push(format!("Try first: {}.", verdict.advice().join("; ")));
    }
    Section { title: "Measured beside modelled".to_owned(), sentences, tables: vec![ledger(measured)] }
}

/// From the best case to what happened, a step a row.
fn ledger(measured: &MeasuredEstimate) -> Table {
    let ledger = &measured.ledger;
    let columns = ["cache", "hits", "hit rate", "lost to", "pages lost", "points lost"];
    let mut table = Table::new("Hits of the measured requests, from the best case to what happened", columns);
    let steps = [
        ("one without limit", Some(ledger.unlimited_pages), None),
        ("one as large as all replicas", ledger.shared_pages, Some(("capacity", ledger.lost_to_capacity))),
        ("the replicas, routed as logged", ledger.routed_pages, Some(("routing", ledger.lost_to_routing))),
        ("as the engine counted", Some(ledger.measured_pages), Some(("the engine", ledger.lost_in_engine))),
    ];
    let dash = || "–".to_owned();
    for (name, hits, lost) in steps {
        let (to, loss): (_, Option<Loss>) = lost.map_or((None, None), |(to, loss)| (Some(to), loss));
        let cells = [
            name.to_owned(),
            hits.map_or_else(dash, integer),
            hits.map_or_else(dash, |hits| rate(share(hits, ledger.page_accesses))),
            to.map_or_else(dash, str::to_owned),
            loss.map_or_else(dash, |loss| signed(loss.pages)),
            loss.map_or_else(dash, |loss| format!("{:.2}", loss.share * 100.0)),
        ];
        table.push(cells.into_iter().map(|cell| (cell, None)).collect());
    }
    table
}

fn signed(pages: i64) -> String {
    let sign = if pages < 0 { "-" } else { "" };
    format!("{sign}{}", integer(pages.unsigned_abs()))
}

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
