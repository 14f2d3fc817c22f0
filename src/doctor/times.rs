//! When requests came, in which order, how long they took, and when none came.

use super::LogEvidence;
use super::finding::{Finding, FindingVerdict, Subject};
use crate::present::words::{counted, elapsed, integer, listed, moment};
use kvset_formats::time::words as length;
use kvset_formats::trace::TraceClock;

/// A gap is conspicuous from so many mean times between arrivals on, and from this length.
const GAP_MEANS: u64 = 50;
const SHORTEST_GAP_MS: u64 = 60_000;

const ONE_CLOCK: &str = "log moments on one clock, such as milliseconds since the epoch";

/// Whether the log says when requests came.
pub(super) fn stated(evidence: &LogEvidence<'_>) -> Finding {
    let times = &evidence.census.findings.times;
    let (Some(clock), Some((first, last))) = (times.clock, times.span) else {
        return Subject::Times.with([("span_ms", 0)]).no(
            "no row says when its request came",
            "capacities over the whole log are right if its order is; windows, retention, traffic and rates mean nothing",
        )
        .cured_by("log when each request arrived: timestamp, in events event_time");
    };
    let span = u64::try_from(last.ms().saturating_sub(first.ms())).unwrap_or(0);
    let forms: Vec<_> = times.forms.keys().map(ToString::to_string).collect();
    let written = if forms.is_empty() { String::new() } else { format!(", written as {}", listed(&forms)) };
    let from_to =
        format!("{} to {}, {}{written}", moment(first.ms()), moment(last.ms()), elapsed(span as i64));
    let on = Subject::Times.with([
        ("span_ms", span),
        ("placed_sessions", times.placed_sessions),
        ("placed_files", times.placed_files),
    ]);
    match clock {
        TraceClock::Epoch => on.yes(from_to, "windows, retention and rates can be reported"),
        TraceClock::Start => on.yes(
            format!("{from_to}, from the start of the trace"),
            "windows, retention and rates can be reported, without dates",
        ),
        TraceClock::Sessions => on.partly(
            format!("times count from the start of each of {}", counted(times.placed_sessions, "session", "sessions")),
            "sessions are replayed one after another, so each finds the cache as nobody else would leave it: hits are too high",
        )
        .cured_by(ONE_CLOCK),
        TraceClock::Mixed => on.partly(
            format!("times of several clocks{written}: what does not compare was placed one after another"),
            "requests of two clocks never interleave, so each finds the cache as nobody else would leave it",
        )
        .cured_by(ONE_CLOCK),
    }
}

/// Whether requests that overlap can be known.
pub(super) fn durations(evidence: &LogEvidence<'_>) -> Finding {
    let (all, arrivals) = (evidence.census.requests, &evidence.census.arrivals);
    let verdict = FindingVerdict::of_part(arrivals.with_duration, all);
    let on = Subject::Durations.with([
        ("requests", all),
        ("with", arrivals.with_duration),
        ("overlapping", arrivals.overlapping),
    ]);
    let text = format!(
        "{} of {} say how long they took",
        integer(arrivals.with_duration),
        counted(all, "request", "requests")
    );
    let finding = |text: String, meaning| on.finding(verdict, text, meaning);
    let overlapping = format!("{text}; {} arrived while another ran", integer(arrivals.overlapping));
    match verdict {
        FindingVerdict::No => finding(
            text,
            "requests are taken one after another: a live engine cannot evict what is in flight, and needs room for that on top",
        )
        .cured_by("log duration_ms, from the look-up of the prompt to the last token"),
        FindingVerdict::Partly => finding(
            overlapping,
            "requests without a duration hold nothing while they run, so the room for requests in flight is too small",
        )
        .cured_by("log duration_ms with every request"),
        FindingVerdict::Yes => finding(overlapping, "requests in flight are modelled as they overlap, where the engine's model follows them"),
    }
}

/// Whether rows stand in the order of arrival.
pub(super) fn order(evidence: &LogEvidence<'_>) -> Finding {
    let times = &evidence.census.findings.times;
    let ms = |found: &Option<kvset_formats::trace::Backwards>| {
        found.as_ref().map_or(0, |found| u64::try_from(found.by.as_millis()).unwrap_or(u64::MAX))
    };
    let on = Subject::Order.with([
        ("backwards", times.backwards),
        ("farthest_ms", ms(&times.farthest)),
        ("unexplained_ms", ms(&times.unexplained)),
    ]);
    if times.clock.is_none() {
        let order = times.disorder().map_or_else(String::new, |found| format!("; {found}"));
        let text = format!("without times nothing shows the order of arrival{order}");
        return on
            .no(text, "rows are taken in the order of the log")
            .cured_by("log when each request arrived");
    }
    let Some(farthest) = &times.farthest else {
        return on.yes("rows stand in the order of arrival", "taken as they stand");
    };
    let text = format!(
        "{} behind ones that came later, by up to {}",
        counted(times.backwards, "row stands", "rows stand"),
        length(farthest.by)
    );
    match times.unexplained.as_ref().or(times.begins_anew()) {
        None => on.yes(
            match times.files_overlap {
                _ if times.newest_first > 0 => format!("{text}, as in a file that is newest first"),
                true => format!("{text}, as where files are of one time, or named in another order than that of their times"),
                false => format!("{text}, as in a log that is written when requests end"),
            },
            "a replay sorts them; the service does where estimate.hold_back is as long as requests take",
        ),
        Some(found) => on.partly(
            format!("{text}; {}, line {} is {} back, which their durations do not explain", found.file, found.line, length(found.by)),
            "a replay sorts rows as far as its memory for that reaches; the service takes those as late that are further back than \
             estimate.hold_back",
        )
        .cured_by("look for several logs in one, hosts whose clocks differ, or a log that is newest first"),
    }
}

/// Whether the log goes on without long gaps.
pub(super) fn gaps(evidence: &LogEvidence<'_>) -> Finding {
    let census = evidence.census;
    let times = &census.findings.times;
    let has_clock = matches!(times.clock, Some(TraceClock::Epoch | TraceClock::Start));
    let span = times.span.filter(|_| has_clock && census.requests > 1);
    let Some((first, last)) = span else {
        let text = "without times of one clock, or with one request, nothing shows a gap";
        let on = Subject::Gaps.with([("longest_ms", 0), ("mean_ms", 0), ("conspicuous", 0)]);
        return on.no(text, "requests that are missing would go unnoticed").cured_by(ONE_CLOCK);
    };
    let span = u64::try_from(last.ms().saturating_sub(first.ms())).unwrap_or(0);
    let mean = span / (census.requests - 1);
    let is_long =
        |(_, length_ms): &&(i64, u64)| *length_ms >= SHORTEST_GAP_MS.max(mean.saturating_mul(GAP_MEANS));
    let long: Vec<_> = census.arrivals.gaps.iter().filter(is_long).collect();
    let longest = census.arrivals.gaps.first().map_or(0, |(_, length_ms)| *length_ms);
    let on =
        Subject::Gaps.with([("longest_ms", longest), ("mean_ms", mean), ("conspicuous", long.len() as u64)]);
    if long.is_empty() {
        let text = format!("the longest time without an arrival is {}", elapsed(longest as i64));
        return on.yes(text, "nothing looks cut out");
    }
    let told = |(from_ms, length_ms): &&(i64, u64)| {
        format!("{} after {}", elapsed(*length_ms as i64), moment(*from_ms))
    };
    let list: Vec<_> = long.iter().map(told).collect();
    on.partly(
        format!("no arrival for {}; requests come every {} on average", listed(&list), elapsed(mean as i64)),
        "if nobody sent requests then, all is well; if rows were lost, what they would have evicted and found is missing",
    )
    .cured_by("check for these times that the log was collected: rotation, restarts of the collector, retention of the topic")
}
