//! What measured requests say, in words and as a section of a report.

use crate::present::document::Table;
use crate::present::document::{Page, Section};
use crate::present::words::{BY_TOKENS, capacity, integer, rate};
use kvset_core::estimate::curve::share;
use kvset_core::questions::measured::{Loss, MeasuredEstimate, Verdict};

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

/// Where the cache in use stands alongside the curve; `None` where no request can tell.
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
pub fn section(measured: &MeasuredEstimate, page: Page) -> Section {
    let mut words = in_words(measured, page.bytes);
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
    Section { title: "Measured beside modelled".to_owned(), sentences, tables: vec![ledger(measured, page)] }
}

/// From the best case to what happened, a step a row.
fn ledger(measured: &MeasuredEstimate, page: Page) -> Table {
    let ledger = &measured.ledger;
    let columns = ["cache", "hits", "hit rate", BY_TOKENS, "lost to", "pages lost", "points lost"];
    let tokens = page.tokens.and_then(|tokens| ledger.prompts(tokens));
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
            hits.zip(tokens).map_or_else(dash, |(hits, tokens)| rate(tokens.hit_rate(hits))),
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

/// The verdict as a sentence, and what it rests on.
pub fn in_words(measured: &MeasuredEstimate, page_bytes: Option<u64>) -> String {
    let mut words = verdict_in_words(measured, page_bytes);
    if measured.requests_taken_as_zero > 0 {
        words.push_str("; ");
        words.push_str(&taken_as_zero(measured));
    }
    words
}

/// How requests count whose usage leaves their cached tokens out.
fn taken_as_zero(measured: &MeasuredEstimate) -> String {
    let (of_these, all) = (integer(measured.requests_taken_as_zero), integer(measured.requests));
    match measured.requests_taken_as_zero < measured.requests {
        true => format!(
            "{of_these} of the {all} requests leave their cached tokens out and count as zero, as engines and APIs mean it"
        ),
        false => "no request states its cached tokens, which are taken as zero: nothing was found, or the engine does not \
             report them (vLLM: --enable-prompt-tokens-details, SGLang: --enable-cache-report)"
            .to_owned(),
    }
}

fn verdict_in_words(measured: &MeasuredEstimate, page_bytes: Option<u64>) -> String {
    let Some(verdict) = measured.verdict else {
        let none = match measured.requests {
            0 => "no request says how many of its tokens were cached",
            _ if measured.decode_side => {
                "every request reports its whole prompt as cached, or all of it but the last token: this is the log of the \
                 decode side of a split deployment, which is handed the pages of its prompts, so nothing of a cache shows; log what \
                 was cached where prompts are prefilled"
            }
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
            "{} pages were found that neither earlier prompts nor their answers explain: the engine shares more than the \
             log's ids say",
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

/// "behaves like 212 GiB of the 500 GiB provisioned", or like all of it where that is among the capacities it behaves like.
fn behaves_like(measured: &MeasuredEstimate, page_bytes: Option<u64>) -> String {
    let size = |pages: u64| capacity(pages, page_bytes);
    let Some(effective) = measured.effective_capacity else {
        return "behaves like no cache that can be told".to_owned();
    };
    let least = if effective.pages_to.is_none() { "at least " } else { "" };
    let all = effective.pages_from.saturating_mul(measured.replicas);
    let of = match measured.ledger.total_capacity_pages {
        Some(total) if measured.ledger.provisioned && effective.holds(total / measured.replicas.max(1)) => {
            return format!("behaves like all of the {} provisioned", size(total));
        }
        Some(total) if measured.ledger.provisioned => format!(" of the {} provisioned", size(total)),
        _ => String::new(),
    };
    let each = match measured.replicas {
        1 => String::new(),
        count => format!(" ({count} replicas of {})", size(effective.pages_from)),
    };
    format!("behaves like {least}{}{each}{of}", size(all))
}
