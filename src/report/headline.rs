//! The recommendation in words.

use super::input::PoolReport;
use super::words;
use kvset_core::estimate::{CapacityPoint, CoverageCapacity};
use kvset_core::ratio::Ratio;
use kvset_core::tiers::Settled;
use std::cmp::Ordering;

/// The recommendation for one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// One sentence that says how much is needed.
    pub lead: String,
    /// Sentences that put it into perspective.
    pub further: Vec<String>,
    /// The recommended size, where there is one: `2.1 TiB`.
    pub size: Option<String>,
}

/// Words the recommendation of a pool. Sizes are rounded up to three digits.
pub fn headline(pool: &PoolReport) -> Headline {
    if pool.requests == 0 {
        return unsized_headline(nothing_counted(pool));
    }
    if pool.requests_with_reuse == 0 {
        return unsized_headline(nothing_to_reuse(pool.requests));
    }
    match recommended(pool.coverage()) {
        Some(entry) => from_coverage(pool, entry),
        None => from_curve(pool),
    }
}

/// The coverage recommended from: 99 % of requests, else the next smaller one, else the smallest.
pub(super) fn recommended(coverage: &[CoverageCapacity]) -> Option<&CoverageCapacity> {
    let known = || coverage.iter().filter(|entry| entry.pages.is_some() || entry.beyond_bound);
    let most = |entry: &&CoverageCapacity| entry.coverage.as_f64() <= 0.99;
    known()
        .filter(most)
        .max_by_key(|entry| entry.coverage)
        .or_else(|| known().min_by_key(|entry| entry.coverage))
}

fn unsized_headline(lead: String) -> Headline {
    Headline { lead, further: Vec::new(), size: None }
}

fn nothing_counted(pool: &PoolReport) -> String {
    let caveats = &pool.caveats;
    let reason = match (caveats.warm_up_requests, caveats.rejected_records) {
        (0, 0) => "the input holds no request".to_owned(),
        (0, rejected) => format!("{} refused", were(rejected, "row", "rows")),
        (warm_up, _) => format!("{} used to warm the cache up", were(warm_up, "request", "requests")),
    };
    format!("There is nothing to recommend: no request was counted ({reason}).")
}

fn were(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", words::counted(count, one, many), if count == 1 { "was" } else { "were" })
}

fn nothing_to_reuse(requests: u64) -> String {
    let who = match requests {
        1 => "the only request begins".to_owned(),
        2 => "neither of the 2 requests begins".to_owned(),
        many => format!("none of the {} requests begins", words::integer(many)),
    };
    format!(
        "There is nothing to reuse: {who} with a page seen before, so a prefix cache of any size would give no hit."
    )
}

/// A size as the subject of a sentence.
struct Size {
    text: String,
    plural: bool,
}

impl Size {
    fn of(pool: &PoolReport, pages: u64) -> Self {
        let about = if pool.sampled() { "about " } else { "" };
        Self {
            text: format!("{about}{}", words::capacity(pages, pool.page_bytes)),
            plural: pool.page_bytes.is_none() && pages != 1,
        }
    }

    fn verb(&self, one: &'static str, many: &'static str) -> &'static str {
        if self.plural { many } else { one }
    }
}

fn from_coverage(pool: &PoolReport, entry: &CoverageCapacity) -> Headline {
    let aim = aim(pool, entry.coverage);
    let lead = match entry.pages {
        None => format!("{} to keep {aim}", more_than_bound(pool)),
        Some(0) => format!("No cache is needed to keep {aim}"),
        Some(pages) => {
            let size = Size::of(pool, pages);
            format!("{} {} {aim}", size.text, size.verb("keeps", "keep"))
        }
    };
    let mut clauses = vec![lead];
    clauses.extend(neighbours(pool, entry));
    let mut further = Vec::new();
    if let Some(pages) = entry.pages.filter(|pages| *pages > 0) {
        further.extend(hits_at(pool, pages));
        further.extend(footprint(pool, pages));
    } else {
        further.push(unlimited(pool));
    }
    further.extend(unsettled(entry));
    let size = entry.pages.map(|pages| words::capacity(pages, pool.page_bytes));
    Headline { lead: sentence(&clauses.join("; ")), further, size }
}

/// That the recommended requirement itself still moves.
fn unsettled(entry: &CoverageCapacity) -> Option<String> {
    let growth = entry.growth_per_window.filter(|_| entry.convergence == Settled::NotConverged)?;
    let direction = if growth < 0.0 { "falling" } else { "growing" };
    Some(format!(
        "This requirement has not converged: it was still {direction} by {:.1} % from one reading to the next.",
        growth.abs() * 100.0
    ))
}

/// `99 % of requests at 99 % or more of their theoretical hit rate`.
fn aim(pool: &PoolReport, coverage: Ratio) -> String {
    let who = match coverage == Ratio::ONE {
        true => "every request".to_owned(),
        false => format!("{} of requests", words::share(coverage)),
    };
    let whose = if coverage == Ratio::ONE { "its" } else { "their" };
    match pool.required.first().map(|required| required.target_ratio) {
        Some(ratio) if ratio != Ratio::ONE => {
            format!("{who} at {} or more of {whose} theoretical hit rate", words::share(ratio))
        }
        _ => format!("{who} at {whose} theoretical hit rate"),
    }
}

fn more_than_bound(pool: &PoolReport) -> String {
    match pool.bound_pages {
        Some(bound) => format!(
            "more than the {} that were tracked would be needed",
            words::capacity(bound, pool.page_bytes)
        ),
        None => "more than was tracked would be needed".to_owned(),
    }
}

/// What the next smaller and the next larger coverage need.
fn neighbours(pool: &PoolReport, entry: &CoverageCapacity) -> Vec<String> {
    let others = || pool.coverage().iter().filter(|other| other.pages.is_some() || other.beyond_bound);
    let below = others().filter(|other| other.coverage < entry.coverage).max_by_key(|other| other.coverage);
    let above = others().filter(|other| other.coverage > entry.coverage).min_by_key(|other| other.coverage);
    let clause = |other: &CoverageCapacity| {
        let share = match other.coverage == Ratio::ONE {
            true => "every request".to_owned(),
            false => words::share(other.coverage),
        };
        match (other.pages, other.coverage.cmp(&entry.coverage)) {
            (None, Ordering::Greater) if entry.pages.is_none() => None,
            (None, _) => Some(format!("{share} would take more than was tracked")),
            (Some(0), _) => (entry.pages != Some(0)).then(|| format!("{share} need none")),
            (same, _) if same == entry.pages => Some(format!("the same covers {share}")),
            (Some(pages), Ordering::Less) => {
                let size = Size::of(pool, pages);
                Some(format!("{} {} enough for {share}", size.text, size.verb("is", "are")))
            }
            (Some(pages), _) => {
                let size = Size::of(pool, pages);
                Some(format!("{} {} needed for {share}", size.text, size.verb("is", "are")))
            }
        }
    };
    below.into_iter().chain(above).filter_map(clause).collect()
}

/// The largest point of the curve that a cache of `pages` surely reaches.
fn point_within(pool: &PoolReport, pages: u64) -> Option<&CapacityPoint> {
    let reached = |point: &&CapacityPoint| point.pages <= pages && point.prefix_hit_rate.is_some();
    pool.capacities.iter().filter(reached).max_by_key(|point| point.pages)
}

fn hits_at(pool: &PoolReport, pages: u64) -> Option<String> {
    let point = point_within(pool, pages)?;
    let at_least = if point.pages < pages { "at least " } else { "" };
    // Rounded down, so that "at least" is true of the figure printed.
    let rate = words::rate((point.prefix_hit_rate? * 10_000.0 + 1e-9).floor() / 10_000.0);
    let speed = point.relative_prefill_throughput.map(|speed| (speed * 10.0 + 1e-9).floor() / 10.0);
    let speed = speed.filter(|speed| speed.is_finite() && *speed > 1.0).map_or(String::new(), |speed| {
        format!(", which makes prefill {at_least}{speed:.1} times as fast as without a cache (memory access ignored)")
    });
    Some(format!(
        "At that size {at_least}{rate} of page accesses are prefix hits{speed}; unlimited capacity would give {}.",
        words::rate(pool.theoretical.prefix_hit_rate)
    ))
}

fn unlimited(pool: &PoolReport) -> String {
    format!(
        "With unlimited capacity {} of page accesses are prefix hits.",
        words::rate(pool.theoretical.prefix_hit_rate)
    )
}

fn footprint(pool: &PoolReport, pages: u64) -> Option<String> {
    let times = pool.accumulated_pages as f64 / pages as f64;
    let all = words::capacity(pool.accumulated_pages, pool.page_bytes);
    (times > 1.0).then(|| match times {
        t if t < 1.05 => format!("Never evicting anything would take {all}, hardly more."),
        t => format!("Never evicting anything would take {all}, {t:.1} times as much."),
    })
}

/// Without a requirement (a model that answers for asked capacities alone) the curve has to serve.
fn from_curve(pool: &PoolReport) -> Headline {
    let limit = pool.theoretical.prefix_hit_rate;
    let known = || pool.capacities.iter().filter_map(|point| Some((point, point.prefix_hit_rate?)));
    let near = known().filter(|(_, rate)| *rate >= 0.99 * limit).min_by_key(|(point, _)| point.pages);
    let (lead, point) = match (near, known().max_by_key(|(point, _)| point.pages)) {
        (Some((point, rate)), _) => (
            format!(
                "{} is the smallest capacity asked for that reaches 99 % of the theoretical hit rate: {} of {}",
                words::capacity(point.pages, pool.page_bytes),
                words::rate(rate),
                words::rate(limit)
            ),
            Some(point),
        ),
        (None, Some((point, rate))) => (
            format!(
                "none of the capacities asked for reaches 99 % of the theoretical hit rate of {}: the largest, {}, gives {}",
                words::rate(limit),
                words::capacity(point.pages, pool.page_bytes),
                words::rate(rate)
            ),
            None,
        ),
        (None, None) => {
            ("the input gives neither a requirement nor a hit rate at any capacity".to_owned(), None)
        }
    };
    let size = point.map(|point| words::capacity(point.pages, pool.page_bytes));
    Headline { lead: sentence(&lead), further: vec![unlimited(pool)], size }
}

/// Capital first, full stop last.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}
