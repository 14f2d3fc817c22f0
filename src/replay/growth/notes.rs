//! What a reader of grown figures must know, in the order of what it costs.

use super::traffic::{GrownTraffic, LINE_REACHES, TrafficStatus};
use super::{FamilyLog, check};
use crate::present::words;
use crate::replay::Replay;
use kvset_core::families::certainty::{FEW, FEWEST, LARGEST_UNTOLD, half_width};
use kvset_core::sizing::tiers::Settled;

/// An hour and a day, in milliseconds.
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// How far second opinions may be off, and half of an interval, before that is told.
const LINE_APART: f64 = 0.2;
const HALVES_APART: f64 = 0.1;
const WIDE: f64 = 0.5;

/// Up to which factor the method was checked.
const CHECKED_UP_TO: f64 = 4.0;

/// The notes of a factor.
pub(super) fn notes(log: &FamilyLog, found: &GrownTraffic, plain: &Replay) -> Vec<String> {
    if let Some(refusal) = refusal(log, found.status) {
        return vec![refusal];
    }
    let factor = found.growth.factor;
    let (families, certainty) = (log.families(), log.unreplayed());
    let share = certainty.largest_share;
    let act_on = plain.whole.as_ref().and_then(|whole| whole.recommendation());
    let unsettled = act_on.filter(|entry| entry.convergence == Settled::NotConverged);
    let span = log.span_ms();
    let (pages, line) = (found.required_pages(), found.check.map(|check| check.straight_line(factor)));
    let apart = pages.zip(line).map(|(pages, line)| line as f64 / pages.max(1) as f64 - 1.0);
    let apart = apart.filter(|apart| apart.abs() > LINE_APART && factor > 1.0 && factor <= LINE_REACHES);
    let halves = found.check.and_then(|check| check.from_halves).filter(|off| off.abs() > HALVES_APART);
    let place = check::place_to_act_on(plain);
    let grown = found.replay.as_ref().and_then(|replay| replay.whole.as_ref());
    let error = grown
        .zip(place)
        .and_then(|(whole, (target, at))| whole.required.get(target)?.coverage.get(at)?.standard_error);
    let is_wide = error.is_some_and(|error| half_width(error) > WIDE);
    let overlaps = plain.whole.as_ref().and_then(|whole| whole.in_flight.as_ref());
    let all = [
        (share > LARGEST_UNTOLD).then(|| {
            format!(
                "one group of conversations makes {} of the requests: it is copied as one",
                words::rate(share)
            )
        }),
        (families.count() < FEW).then(|| {
            format!(
                "{} conversations are few: what one of them does weighs much, and conversations of one person exclude one \
                 another in time, which copies do not",
                families.count()
            )
        }),
        unsettled.map(|entry| {
            format!("the requirement {} as the log ended: the interval does not cover that", entry.movement())
        }),
        (span < HOUR_MS).then(|| "the log spans less than an hour: it says nothing of a day".to_owned()),
        (HOUR_MS..DAY_MS)
            .contains(&span)
            .then(|| "the log covers some hours, not a day: other hours may need more".to_owned()),
        apart.map(|apart| {
            format!(
                "the straight line through half the traffic and all of it says {} {}",
                words::rate(apart.abs()),
                if apart < 0.0 { "less" } else { "more" }
            )
        }),
        halves.map(|off| {
            format!(
                "halves of this log, grown twofold, are {} too {}: expect as much here",
                words::rate(off.abs()),
                if off < 0.0 { "small" } else { "large" }
            )
        }),
        (factor > CHECKED_UP_TO).then(|| "not checked beyond four times the traffic".to_owned()),
        (certainty.by == "page tree")
            .then(|| "conversations were told by their pages, as requests name no session".to_owned()),
        is_wide.then(|| "not known within a factor of 1.5".to_owned()),
        (overlaps.is_some_and(|found| found.max_requests > 0) && factor > 1.0).then(|| {
            "requests take as long as in the log: if the machines do not grow with the traffic, more requests are in flight"
                .to_owned()
        }),
        (certainty.by == "session" && factor > 1.0).then(|| {
            "the added conversations are of new users: if the same users send more, they share more (--traffic-by tenant)"
                .to_owned()
        }),
    ];
    all.into_iter().flatten().collect()
}

/// Why a factor is not answered, and what helps.
pub(super) fn refusal(log: &FamilyLog, status: TrafficStatus) -> Option<String> {
    let count = log.families().count();
    match status {
        TrafficStatus::Ready | TrafficStatus::FewConversations => None,
        TrafficStatus::NoClock => Some(
            "the log has no common clock, so it does not say which conversations came together: log the time of each \
             request, from one clock, to ask what more traffic needs"
                .to_owned(),
        ),
        TrafficStatus::TooFewConversations => Some(format!(
            "{count} conversations are too few to say how certain this is, or what more traffic needs: {FEWEST} at \
             least; take a longer log"
        )),
        TrafficStatus::OneConversation => Some(format!(
            "one group of conversations makes {} of the requests, so nothing is independent of the rest: see whether \
             sessions are named, and page ids chained",
            words::rate(log.unreplayed().largest_share)
        )),
    }
}
