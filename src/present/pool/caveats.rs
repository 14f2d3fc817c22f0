//! What limits the figures, in plain words.

use crate::present::pool::{OtherEnd, PoolReport};
use crate::present::words;
use kvset_core::engines::profile::Outputs;
use kvset_core::estimate::TheoreticalHits;

/// One limit of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caveat {
    /// The fact, with its count.
    pub title: String,
    /// What it means for the figures, and what to do about it.
    pub meaning: String,
}

/// Everything a reader of this pool's figures should know, worst first.
pub fn caveats(pool: &PoolReport<'_>) -> Vec<Caveat> {
    let checks = [
        beyond_bound,
        chain_violations,
        rejected,
        late,
        warm_up,
        sampled,
        growing,
        not_converged,
        outputs_unseen,
        second_copies,
        in_flight,
        engine,
        windows_open,
        no_byte_cost,
    ];
    checks.into_iter().filter_map(|check| check(pool)).collect()
}

fn caveat(title: String, meaning: impl Into<String>) -> Option<Caveat> {
    Some(Caveat { title, meaning: meaning.into() })
}

/// A count in words, unless it is of none.
fn some(count: u64, one: &str, many: &str) -> Option<String> {
    (count > 0).then(|| words::counted(count, one, many))
}

fn beyond_bound(pool: &PoolReport<'_>) -> Option<Caveat> {
    let shares =
        pool.coverage().iter().filter(|entry| entry.beyond_bound).map(|entry| words::share(entry.coverage));
    let shares: Vec<String> = shares.collect();
    let points = pool.estimate.capacities.iter().filter(|point| point.beyond_bound).count() as u64;
    let requests = pool.distribution.beyond_bound;
    let facts = [
        (!shares.is_empty()).then(|| format!("the requirement at {}", words::listed(&shares))),
        some(points, "capacity of the curve", "capacities of the curve"),
        some(requests, "request", "requests"),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    if facts.is_empty() {
        return None;
    }
    let bound = pool.bound_pages.map(|pages| format!(" ({})", pool.size(pages)));
    caveat(
        format!("Beyond the tracked bound{}: {}", bound.unwrap_or_default(), words::listed(&facts)),
        "Memory for the history was bounded, so what lies beyond is known only to be larger. \
         Figures up to the bound are exact. Raise max_tracked_pages to see further.",
    )
}

fn chain_violations(pool: &PoolReport<'_>) -> Option<Caveat> {
    let pages = some(pool.caveats.chain_violations, "page", "pages")?;
    let extent = match pool.caveats.chain_checked_fully {
        true => "",
        false => " (seen in a sample of the ids)",
    };
    caveat(
        format!("{pages} came with an id already known under another prefix{extent}"),
        "Page ids should name a page together with everything before it. Results are still exact for the \
         prefixes as written, because pages are told apart by their whole prefix, but such ids usually mean \
         that the scope of the ids is wrong (local to a session and read as global, or hashed block by block).",
    )
}

fn rejected(pool: &PoolReport<'_>) -> Option<Caveat> {
    let records = some(pool.caveats.rejected_records, "record was", "records were")?;
    caveat(
        format!("{records} left out: unreadable or over a limit"),
        "Their pages never entered the cache, so reuse of them is missing. Look at the reasons \
         before relying on the figures.",
    )
}

fn late(pool: &PoolReport<'_>) -> Option<Caveat> {
    let records = some(pool.caveats.late_records, "record came", "records came")?;
    caveat(
        format!("{records} after the window had closed"),
        "They touched the cache, so later requests see them, but are missing from the windows they \
         belong to. A longer grace period or allowed lateness takes them in.",
    )
}

fn warm_up(pool: &PoolReport<'_>) -> Option<Caveat> {
    let requests = pool.caveats.warm_up_requests;
    let windows = pool.windows.iter().filter(|window| window.warm_up).count() as u64;
    if requests > 0 {
        return caveat(
            format!(
                "{} not counted",
                words::counted(
                    requests,
                    "leading request warmed the cache up and was",
                    "leading requests warmed the cache up and were"
                )
            ),
            "They filled the cache so that the counted requests do not meet an empty one.",
        );
    }
    if !pool.estimate.warm_up && windows == 0 {
        return None;
    }
    let title = match windows {
        0 => "The cache was still warming up".to_owned(),
        count => format!(
            "{} while the cache was still warming up",
            words::counted(count, "window was counted", "windows were counted")
        ),
    };
    caveat(
        title,
        "The history before is shorter than configured, so pages count as new that an older history would \
         know: hits and requirements are under-counted.",
    )
}

fn sampled(pool: &PoolReport<'_>) -> Option<Caveat> {
    let rate = pool.estimate.sample_rate;
    pool.sampled().then(|| Caveat {
        title: format!("Estimated from a sample of {} of the pages", words::percent(rate)),
        meaning: match pool.estimate.sample_error > 0.0 {
            true => format!(
                "Capacities and counts are scaled up from it; the standard error of a required capacity is at most \
                 {}, as long as some ten pages of a request are followed.",
                words::rate(pool.estimate.sample_error)
            ),
            false => "Capacities and counts are scaled up from it and carry a statistical error.".to_owned(),
        },
    })
}

/// A requirement that still rises at the end has not been seen in full. The history may be that of other requests than
/// the answer's, so it says of which.
fn growing(pool: &PoolReport<'_>) -> Option<Caveat> {
    let history = &pool.history;
    let from = history.points.len() * 3 / 4;
    if history.points.len() < 8 {
        return None;
    }
    let peak = |line: usize, part: &[super::HistoryPoint]| {
        part.iter().filter_map(|point| point.required.get(line).copied().flatten()).max()
    };
    let rises = history.coverage.iter().enumerate().filter_map(|(line, coverage)| {
        let (before, after) = (peak(line, &history.points[..from])?, peak(line, &history.points[from..])?);
        let size = |pages: u64| pool.size(pages);
        (after as f64 > before as f64 * 1.1 && before > 0)
            .then(|| format!("{} after {} for {}", size(after), size(before), words::share(*coverage)))
    });
    let rises: Vec<String> = rises.collect();
    if rises.is_empty() {
        return None;
    }
    caveat(
        format!(
            "At the end {} need more than before: {}",
            words::requests_of(history.window),
            words::listed(&rises)
        ),
        "In the last quarter of the history that is more than a tenth above all before, so the traffic grows: a \
         longer log may need more than this one.",
    )
}

/// A requirement that moved from one reading to the next is no number to buy by.
fn not_converged(pool: &PoolReport<'_>) -> Option<Caveat> {
    let moving = super::moving(pool);
    (!moving.is_empty()).then(|| Caveat {
        title: format!("Not converged: {}", words::listed(&moving)),
        meaning: format!(
            "Over the last {} the requirement did not stay within the tolerance, so its present figure is a \
             moment, not a limit. A longer log shows where it settles.",
            words::counted(u64::from(pool.estimate.trend_windows), "reading", "readings")
        ),
    })
}

fn outputs_unseen(pool: &PoolReport<'_>) -> Option<Caveat> {
    if let Some(upper) = &pool.with_answers {
        return answers_unseen(pool, upper);
    }
    pool.estimate.output_reuse_unseen.then(|| Caveat {
        title: "Reuse of generated tokens is not visible".to_owned(),
        meaning: match pool.estimate.outputs {
            Outputs::Cached => {
                "The engine keeps output tokens, but the log holds page ids for prompts only: outputs take their \
                 room, and hits on them are under-counted."
            }
            Outputs::Ignored => "The log holds page ids for prompts only, so hits on outputs are not counted.",
        }
        .to_owned(),
    })
}

/// Both ends of what a log with the lengths of answers and without their ids says.
fn answers_unseen(pool: &PoolReport<'_>, upper: &OtherEnd) -> Option<Caveat> {
    let pages = words::counted(upper.returned_pages, "page", "pages");
    let rate = |hits: TheoreticalHits| words::hit_rate(hits.prefix_hit_rate, hits.hit_rate_tokens);
    let [with, without] = [upper.theoretical, pool.estimate.theoretical].map(rate);
    let sizes = upper.recommendation.as_ref().and_then(|entry| {
        let size = |pages: Option<u64>| Some(pool.size(pages?));
        let own = pool.estimate.recommendation()?;
        let (with, without) = (size(entry.pages)?, size(own.pages)?);
        Some(format!(", and {} need {with} in place of {without}", words::share(entry.coverage)))
    });
    caveat(
        format!("Up to {pages} of prompts may be earlier answers"),
        format!(
            "The engine keeps what it generates, and the log has the lengths of answers and not their ids. The \
             figures are without hits on them. With all of these, a cache without limit hits {with} in place of \
             {without}{}.",
            sizes.unwrap_or_default()
        ),
    )
}

/// vLLM has pages twice that it computes again, and one pass does not tell which of both is found.
fn second_copies(pool: &PoolReport<'_>) -> Option<Caveat> {
    let pages = some(pool.estimate.recomputed_pages, "page", "pages")?;
    caveat(
        format!("vLLM computed {pages} again that its cache had"),
        "It keeps both copies. The curve counts the room of both, and not which of them a prompt finds that goes on \
         behind one: a requirement is in doubt by at most as many pages. `kvset replay` of the log models the \
         recommended capacity by itself.",
    )
}

/// What one request after another does not show of requests that overlap.
fn in_flight(pool: &PoolReport<'_>) -> Option<Caveat> {
    let Some(found) = &pool.estimate.in_flight else {
        if pool.estimate.requests == 0 {
            return None;
        }
        return caveat(
            "Requests in flight are not visible".to_owned(),
            "The log states no durations, so requests were modelled one after another. In a live engine those \
             that overlap hold their pages, and a cache little larger than they are keeps less for reuse.",
        );
    };
    if found.max_requests == 0 || found.modelled {
        return None;
    }
    let most = words::counted(found.max_requests, "other request was", "other requests were");
    let held = match found.max_pages {
        Some(pages) => format!(", holding at most {}", pool.size(pages)),
        None => ", holding more than was tracked".to_owned(),
    };
    caveat(
        format!("Up to {most} in flight as one arrived{held}"),
        "A live engine cannot evict their pages, so the recommended capacities have room for them, and what to \
         buy has it in the first tier: safe rather than exact, for some of these pages are in the requirement \
         already. Hit rates are those of one request after another.",
    )
}

fn engine(pool: &PoolReport<'_>) -> Option<Caveat> {
    let approximation = pool.estimate.engine.spec().approximation.map(|reason| format!(" {reason}."));
    if pool.pointwise {
        let meaning = format!(
            "{}. Each capacity was modelled on its own; no requirement follows, and nothing for those in between.{}",
            pool.estimate.engine.spec().curve.why_single(),
            approximation.unwrap_or_default()
        );
        return caveat("Nothing is said about capacities that were not requested".to_owned(), meaning);
    }
    caveat(format!("The profile {} is an approximation", pool.estimate.engine), approximation?.trim_start())
}

fn windows_open(pool: &PoolReport<'_>) -> Option<Caveat> {
    use kvset_core::estimate::Status;
    let open = pool.windows.iter().filter(|window| window.status == Status::Provisional).count() as u64;
    let windows = some(open, "window is provisional", "windows are provisional")?;
    caveat(windows, "No later record has closed them, so their figures may still change.")
}

fn no_byte_cost(pool: &PoolReport<'_>) -> Option<Caveat> {
    let page = pool
        .page_size()
        .map(|tokens| format!(" One page is {}.", words::counted(u64::from(tokens), "token", "tokens")));
    pool.estimate.page_bytes.is_none().then(|| Caveat {
        title: "Capacities are in pages".to_owned(),
        meaning: format!(
            "No cost per token was given.{} Give the KV bytes per token or the model's config.json to see bytes.",
            page.unwrap_or_default()
        ),
    })
}
