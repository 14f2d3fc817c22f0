//! The recommendation in words.

use super::{certainty, traffic};
use crate::present::pool::{PoolReport, Replicas};
use crate::present::words;
use kvset_core::estimate::{InFlightFigures, TheoreticalHits};
use kvset_core::sizing::recommendation::{Answer, Recommendation, RecommendationStatus};
use kvset_core::sizing::tiers::Settled;
use kvset_core::units::ratio::Ratio;
use std::cmp::Ordering;

/// The recommendation for one pool: the same words on the command line, in the report and on the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// Whether what is provisioned is enough, where that is known: the first thing to say.
    pub verdict: Option<String>,
    /// One sentence that says how much is needed.
    pub lead: String,
    /// Sentences that put it into perspective.
    pub further: Vec<String>,
    /// The recommended size, where there is one: `2.10 TiB`.
    pub size: Option<String>,
    /// The numbers behind the words; none where nothing is required of any capacity.
    pub answer: Option<Answer>,
}

/// Words the recommendation of a pool.
pub fn headline(pool: &PoolReport<'_>) -> Headline {
    if pool.estimate.requests == 0 {
        return unsized_headline(nothing_counted(pool));
    }
    if pool.estimate.requests_with_reuse == 0 {
        return unsized_headline(if pool.estimate.page_accesses == 0 {
            no_full_page(pool)
        } else {
            nothing_to_reuse(pool)
        });
    }
    match pool.estimate.recommendation() {
        Some(entry) => from_recommendation(pool, entry),
        None => from_curve(pool),
    }
}

impl Headline {
    /// Every sentence, the most important first.
    pub fn sentences(&self) -> impl Iterator<Item = &str> {
        let first = self.verdict.as_deref().into_iter().chain([self.lead.as_str()]);
        first.chain(self.further.iter().map(String::as_str))
    }

    /// The sentences that answer the question: whether there is enough, and how much is needed.
    pub fn opening(&self) -> impl Iterator<Item = &str> {
        self.verdict.as_deref().into_iter().chain([self.lead.as_str()])
    }
}

fn unsized_headline(lead: String) -> Headline {
    Headline { verdict: None, lead, further: Vec::new(), size: None, answer: None }
}

fn nothing_counted(pool: &PoolReport<'_>) -> String {
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

/// No prompt fills a page: short ones, or none at all.
fn no_full_page(pool: &PoolReport<'_>) -> String {
    let page = pool.page_size().map_or_else(String::new, |tokens| format!(" of {tokens} tokens"));
    format!(
        "There is nothing to recommend: no prompt of {} fills a page{page}. Prompts that short are none that a cache \
         is for, and empty ones are what a log leaves out: log their texts, token ids or page ids.",
        words::counted(pool.estimate.requests, "request", "requests")
    )
}

fn nothing_to_reuse(pool: &PoolReport<'_>) -> String {
    let who = match pool.estimate.requests {
        1 => "the only request does not begin".to_owned(),
        2 => "neither of the 2 requests begins".to_owned(),
        many => format!("none of the {} requests begins", words::integer(many)),
    };
    let lead = format!(
        "there is nothing to reuse: {who} with a page seen before, so a prefix cache of any size would give no hit"
    );
    let clauses: Vec<_> = std::iter::once(lead).chain(doubt(pool)).collect();
    sentence(&clauses.join("; "))
}

/// A size as the subject of a sentence, with its verb.
fn size_does(
    pool: &PoolReport<'_>,
    (pages, ends): (u64, Option<(u64, u64)>),
    one: &str,
    many: &str,
) -> String {
    let about = if pool.sampled() { "about " } else { "" };
    let verb = if pool.estimate.page_bytes.is_none() && pages != 1 { many } else { one };
    format!("{about}{} {verb}", words::capacity_between(pages, ends, pool.estimate.page_bytes))
}

fn from_recommendation(pool: &PoolReport<'_>, entry: &Recommendation) -> Headline {
    let answer = Answer::from(entry);
    let mut clauses = vec![lead(pool, entry, &answer)];
    clauses.extend(neighbours(pool, entry));
    clauses.extend(doubt(pool));
    let apart =
        pool.replicas.as_ref().map(|replicas| replicas.apart(entry.coverage, pool.estimate.page_bytes));
    let mut further: Vec<_> = apart.into_iter().collect();
    further.push(hits(pool, &answer));
    further.extend(held(pool, entry));
    further.extend(certainty::sentences(pool));
    further.extend(traffic::sentences(pool));
    if let Some(pages) = entry.pages.filter(|pages| *pages > 0) {
        further.extend(in_flight(pool, &answer));
        further.extend(without_room(pool));
        further.extend(footprint(pool, pages));
    }
    further.extend(unsettled(entry));
    Headline {
        verdict: verdict(pool, entry, &answer),
        lead: sentence(&clauses.join("; ")),
        further,
        size: entry.pages.map(|pages: u64| pool.size(pages)),
        answer: Some(answer),
    }
}

/// How much is needed, or why nothing is recommended and what is required so far.
fn lead(pool: &PoolReport<'_>, entry: &Recommendation, answer: &Answer) -> String {
    let aim = aim(answer);
    let room = if answer.in_flight_pages > Some(0) { ", with room for requests in flight" } else { "" };
    let one = one_cache(pool);
    let ends = certainty::ends(entry);
    let least = certainty::at_least(entry);
    let keeps =
        |pages| format!("{least}{} {aim}{room}{one}", size_does(pool, (pages, ends), "keeps", "keep"));
    let why = || entry.why.as_deref().unwrap_or_default();
    match (entry.status, entry.so_far()) {
        (RecommendationStatus::TooFew, Some(pages)) => {
            format!("too few requests to recommend a size: {}; so far {}", why(), keeps(pages))
        }
        (RecommendationStatus::TooFew, None) => format!("too few requests to recommend a size: {}", why()),
        (_, None) => format!("{} to keep {aim}{room}{one}", more_than_bound(pool)),
        (_, Some(0)) => format!("no cache is needed to keep {aim}"),
        (_, Some(pages)) => keeps(pages),
    }
}

/// What a size is of, where the log names several caches.
fn one_cache(pool: &PoolReport<'_>) -> String {
    pool.replicas.as_ref().map_or_else(String::new, Replicas::as_one_cache)
}

/// That the figures may be of other prompts, requests or caches than the engine's.
fn doubt(pool: &PoolReport<'_>) -> Option<String> {
    pool.caveats.doubt.as_ref().map(|doubt| format!("of what was read: {doubt} (see the notes)"))
}

/// What is needed against what is provisioned.
fn verdict(pool: &PoolReport<'_>, entry: &Recommendation, answer: &Answer) -> Option<String> {
    let held = pool.provisioned_pages()?;
    let size = |pages: u64| pool.size(pages);
    let several = pool.replicas.as_ref().map(|replicas| replicas.count);
    let within = several.map_or_else(String::new, |count| format!(" in {} replicas", words::integer(count)));
    let have = format!("{} provisioned{within}", size(held));
    let routed = pool.replicas.as_ref().and_then(|replicas| replicas.routed_pages(entry.coverage));
    Some(match entry.to_hold() {
        None if answer.status == RecommendationStatus::TooFew => {
            format!("Of {have}, it is not known yet whether it is enough.")
        }
        None => format!("Of {have}, it is not known whether it is enough: more is needed than was tracked."),
        Some(needed) if needed > held => {
            let (is_doubtful, needed_words) = within_doubt(pool, entry, held);
            let lead = if is_doubtful { "Probably too small" } else { "Too small" };
            format!("{lead}: {needed_words}, {have}, {} short.", size(needed - held))
        }
        Some(_) if pool.caveats.doubt.is_some() => {
            let doubt = pool.caveats.doubt.as_deref().unwrap_or_default();
            format!("Of {have}, it is not known whether it is enough: {doubt}.")
        }
        Some(needed) if several.is_some() => match routed {
            Some(routed) if routed > held => format!(
                "Too small as routed: {} needed ({} as one cache), {have}, {} short.",
                size(routed),
                size(needed),
                size(routed - held)
            ),
            Some(routed) => format!("Large enough as routed: {} needed, {have}.", size(routed)),
            None => format!(
                "Of {have}, it is not known whether it is enough as routed: one cache needs {}.",
                size(needed)
            ),
        },
        Some(_) => {
            let (is_doubtful, needed_words) = within_doubt(pool, entry, held);
            let lead = if is_doubtful { "Probably large enough" } else { "Large enough" };
            format!("{lead}: {needed_words}, {have}.")
        }
    })
}

/// Whether what is provisioned lies within the interval, and that so much is needed.
fn within_doubt(pool: &PoolReport<'_>, entry: &Recommendation, provisioned: u64) -> (bool, String) {
    let page_bytes = pool.estimate.page_bytes;
    if let Some((held, now)) = held_above(entry) {
        let now = now.map_or_else(|| "not known".to_owned(), |now| words::capacity(now, page_bytes));
        return (false, format!("{} to hold ({now} now)", words::capacity(held, page_bytes)));
    }
    let pages = entry.so_far().unwrap_or_default();
    let ends = certainty::ends(entry).filter(|(low, high)| (*low..*high).contains(&provisioned));
    let needed = words::capacity(pages, page_bytes);
    match ends {
        Some((low, high)) => {
            let interval = words::between(low, high, page_bytes);
            (true, format!("{needed} needed, with a 90 % interval of {interval}"))
        }
        None => (false, format!("{needed} needed")),
    }
}

/// What is held where an earlier window asked for more than this one, and what this one asks for.
fn held_above(entry: &Recommendation) -> Option<(u64, Option<u64>)> {
    let held = entry.held_pages.filter(|held| Some(*held) > entry.pages)?;
    Some((held, entry.pages))
}

/// The size to buy by, where it is not that of the window.
fn held(pool: &PoolReport<'_>, entry: &Recommendation) -> Option<String> {
    let (held, _) = held_above(entry)?;
    let size = pool.size(held);
    Some(format!(
        "Hold {size}: an earlier window needed as much, and it takes plan.hold steps of less, a day by default, to go \
         down."
    ))
}

/// That the recommended requirement itself still moves.
fn unsettled(entry: &Recommendation) -> Option<String> {
    let growth = entry.growth_per_window.filter(|_| entry.convergence == Settled::NotConverged)?;
    let movement = match growth {
        still if still.abs() < 0.000_5 => "moved up and down".to_owned(),
        falling if falling < 0.0 => format!("was still falling by {:.1} %", -falling * 100.0),
        growing => format!("was still growing by {:.1} %", growing * 100.0),
    };
    Some(format!("This requirement has not converged: it {movement} from one step to the next."))
}

/// `99 % of requests at 99 % or more of their theoretical hit rate`.
fn aim(answer: &Answer) -> String {
    let (who, whose) = match answer.coverage == Ratio::ONE {
        true => ("every request".to_owned(), "its"),
        false => (format!("{} of requests", words::share(answer.coverage)), "their"),
    };
    match answer.target_ratio == Ratio::ONE {
        true => format!("{who} at {whose} theoretical hit rate"),
        false => {
            format!("{who} at {} or more of {whose} theoretical hit rate", words::share(answer.target_ratio))
        }
    }
}

fn more_than_bound(pool: &PoolReport<'_>) -> String {
    match pool.bound_pages {
        Some(bound) => format!("more than the {} that were tracked would be needed", pool.size(bound)),
        None => "more than was tracked would be needed".to_owned(),
    }
}

/// What the next smaller and the next larger coverage need.
fn neighbours(pool: &PoolReport<'_>, entry: &Recommendation) -> Vec<String> {
    let others = || pool.estimate.recommendations().iter();
    let below = others().filter(|other| other.coverage < entry.coverage).max_by_key(|other| other.coverage);
    let above = others().filter(|other| other.coverage > entry.coverage).min_by_key(|other| other.coverage);
    let near = || below.into_iter().chain(above);
    let own = entry.so_far();
    let is_same = |other: &&Recommendation| own.is_some_and(|own| own > 0) && other.so_far() == own;
    let share = |other: &Recommendation| match other.coverage == Ratio::ONE {
        true => "every request".to_owned(),
        false => words::share(other.coverage),
    };
    let clause = |other: &Recommendation| {
        let share = share(other);
        match (other.so_far(), other.coverage.cmp(&entry.coverage)) {
            (None, Ordering::Greater) if own.is_none() => None,
            (None, _) => Some(format!("{share} would take more than was tracked")),
            (Some(0), _) => (own != Some(0)).then(|| format!("{share} need none")),
            (Some(pages), Ordering::Less) => {
                Some(format!("{} enough for {share}", size_does(pool, (pages, None), "is", "are")))
            }
            (Some(pages), _) => {
                let least = certainty::at_least(other);
                Some(format!("{least}{} needed for {share}", size_does(pool, (pages, None), "is", "are")))
            }
        }
    };
    let same: Vec<_> = near().filter(is_same).map(share).collect();
    let same = own.filter(|_| !same.is_empty()).map(|pages| {
        format!("{} also enough for {}", size_does(pool, (pages, None), "is", "are"), same.join(" and "))
    });
    same.into_iter().chain(near().filter(|other| !is_same(other)).filter_map(clause)).collect()
}

/// The hits of a cache of exactly the recommended size, where they were counted.
fn hits(pool: &PoolReport<'_>, answer: &Answer) -> String {
    let Some(rate) = answer.hit_rate.filter(|_| answer.pages > Some(0)) else { return unlimited(pool) };
    let speed = answer.relative_prefill_throughput.filter(|speed| speed.is_finite() && *speed > 1.0);
    let speed = speed.map_or_else(String::new, |speed| {
        format!(", which makes prefill {speed:.1} times as fast as without a cache (memory access ignored)")
    });
    format!(
        "At that size {} of page accesses are prefix hits{}{speed}; unlimited capacity would give {}.",
        words::rate(rate),
        words::in_parentheses_by_tokens(rate, answer.hit_rate_tokens),
        words::hit_rate(pool.estimate.theoretical.prefix_hit_rate, pool.estimate.theoretical.hit_rate_tokens)
    )
}

/// What requests in flight hold, and whether the size has room for it or counts it.
fn in_flight(pool: &PoolReport<'_>, answer: &Answer) -> Option<String> {
    let found = pool.estimate.in_flight.as_ref()?;
    let most = found.max_requests;
    if found.modelled {
        return counted_in_flight(pool, found);
    }
    let room = answer.in_flight_pages.filter(|pages| *pages > 0)?;
    Some(format!(
        "{} of the recommended capacity is room for the pages that up to {} in flight {} at once.",
        pool.size(room),
        words::counted(most, "other request", "other requests"),
        if most == 1 { "holds" } else { "hold" }
    ))
}

/// What requests in flight hold, where the figures count it.
fn counted_in_flight(pool: &PoolReport<'_>, found: &InFlightFigures) -> Option<String> {
    let others = words::counted(found.max_requests, "other request", "other requests");
    let size = |pages: u64| pool.size(pages);
    let held = match (found.mean_pages, found.p99_pages, found.max_pages) {
        (Some(mean), Some(p99), Some(most)) => format!(
            "held {} on average, {} or less as 99 % of requests arrived, and {} at most",
            size(mean.round() as u64),
            size(p99),
            size(most)
        ),
        _ => "held more than was tracked".to_owned(),
    };
    let text =
        format!("Requests that overlap are modelled: up to {others} in flight {held}. The size counts that.");
    (found.max_requests > 0).then_some(text)
}

/// That what is provisioned had no room for what was in flight, and how often.
fn without_room(pool: &PoolReport<'_>) -> Option<String> {
    let held = pool.provisioned_pages()?;
    let shortage = pool.estimate.in_flight.as_ref()?.without_room.iter().find(|found| found.pages == held)?;
    Some(format!(
        "When {} ({}) arrived, more was in flight than the {} provisioned hold: such requests wait or are preempted.",
        words::counted(shortage.requests, "request", "requests"),
        words::rate(shortage.share),
        pool.size(held)
    ))
}

fn unlimited(pool: &PoolReport<'_>) -> String {
    let TheoreticalHits { prefix_hit_rate: rate, hit_rate_tokens, .. } = pool.estimate.theoretical;
    let by_tokens = words::in_parentheses_by_tokens(rate, hit_rate_tokens);
    format!("With unlimited capacity {} of page accesses are prefix hits{by_tokens}.", words::rate(rate))
}

fn footprint(pool: &PoolReport<'_>, pages: u64) -> Option<String> {
    let times = pool.estimate.accumulated_pages as f64 / pages as f64;
    let all = pool.size(pool.estimate.accumulated_pages);
    (times > 1.0).then(|| match times {
        t if t < 1.05 => format!("Never evicting anything would take {all}, hardly more."),
        t => format!("Never evicting anything would take {all}, {t:.1} times as much."),
    })
}

/// Without a requirement (a model that answers for asked capacities alone) the curve has to serve.
fn from_curve(pool: &PoolReport<'_>) -> Headline {
    let limit = pool.estimate.theoretical.prefix_hit_rate;
    let known = || pool.estimate.capacities.iter().filter_map(|point| Some((point, point.prefix_hit_rate?)));
    let near = known().filter(|(_, rate)| *rate >= 0.99 * limit).min_by_key(|(point, _)| point.pages);
    let (lead, point) = match (near, known().max_by_key(|(point, _)| point.pages)) {
        (Some((point, rate)), _) => (
            format!(
                "{} is the smallest capacity requested that reaches 99 % of the theoretical hit rate{}: {} of {}",
                pool.size(point.pages),
                one_cache(pool),
                words::rate(rate),
                words::rate(limit)
            ),
            Some(point),
        ),
        (None, Some((point, rate))) => (
            format!(
                "none of the capacities requested reaches 99 % of the theoretical hit rate of {}: the largest, {}, \
                 gives {}",
                words::rate(limit),
                pool.size(point.pages),
                words::rate(rate)
            ),
            None,
        ),
        (None, None) => {
            ("the input gives neither a requirement nor a hit rate at any capacity".to_owned(), None)
        }
    };
    let size = point.map(|point| pool.size(point.pages));
    let lead: Vec<_> = std::iter::once(lead).chain(doubt(pool)).collect();
    Headline {
        verdict: None,
        lead: sentence(&lead.join("; ")),
        further: std::iter::once(unlimited(pool)).chain(traffic::sentences(pool)).collect(),
        size,
        answer: None,
    }
}

/// Capital first, full stop last.
fn sentence(text: &str) -> String {
    words::capital(text) + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_core::estimate::Estimate;
    use std::borrow::Cow;

    /// "Large enough" was said of a size that the hour before had exceeded.
    #[test]
    fn what_is_held_decides_whether_a_size_is_enough() {
        let text = include_str!("../../../tests/fixtures/codec/capacity_estimate.v1.summary.json");
        let mut estimate: Estimate = serde_json::from_str(text).expect("an estimate");
        (estimate.routing, estimate.measured) = (Vec::new(), None);
        let verdict = |estimate: &Estimate, provisioned: &str| {
            let provisioned = Some(provisioned.parse().expect("a size"));
            let report = PoolReport { provisioned, ..PoolReport::of(Cow::Borrowed(estimate)) };
            let headline = headline(&report);
            (headline.verdict.expect("a verdict"), headline.further.join(" "))
        };
        // It needs 223,456 pages now, and 250,000 are held.
        let (small, further) = verdict(&estimate, "240000p");
        assert!(small.starts_with("Too small: ") && small.contains(" to hold ("), "{small}");
        assert!(further.contains("Hold ") && further.contains("plan.hold"), "{further}");
        let (enough, _) = verdict(&estimate, "260000p");
        assert!(enough.starts_with("Large enough: ") && enough.contains(" to hold ("), "{enough}");
        estimate.recommended.iter_mut().for_each(|entry| entry.hold(None, None));
        let (enough, further) = verdict(&estimate, "240000p");
        assert!(enough.starts_with("Large enough") && enough.contains(" needed, "), "{enough}");
        assert!(!further.contains("Hold "), "{further}");
    }
}
