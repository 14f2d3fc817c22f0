//! Whether rows can be read, what kind they are of, and which of them say the same.

use super::LogEvidence;
use super::finding::{Finding, FindingVerdict, Subject};
use crate::present::words::{counted, integer, listed};
use crate::replay::ReplayError;
use kvset_formats::trace::TraceError;

/// Reasons that are named.
const SHOWN_REASONS: usize = 4;

/// Whether rows can be used.
pub(super) fn usable(evidence: &LogEvidence<'_>) -> Finding {
    let ledger = &evidence.census.ledger;
    let undecodable = evidence.undecodable();
    let (rows, accepted) = (ledger.rows + undecodable, evidence.accepted());
    let bad = ledger.rejected + undecodable;
    let passed_over: u64 = evidence.census.findings.passed_over.values().sum();
    let on = Subject::Rows.with([
        ("rows", rows),
        ("requests", accepted),
        ("bad_rows", bad),
        ("passed_over", passed_over),
    ]);
    let mut parts = vec![format!("{} of {} can be used", counted(accepted, "row", "rows"), integer(rows))];
    let in_topic = evidence.topic.map(|topic| topic.undecodable.iter());
    let mut reasons: Vec<_> = ledger.reasons.iter().chain(in_topic.into_iter().flatten()).collect();
    reasons.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
    let mut why: Vec<_> = reasons
        .iter()
        .take(SHOWN_REASONS)
        .map(|(reason, count)| format!("{} × {reason}", integer(**count)))
        .collect();
    if reasons.len() > SHOWN_REASONS {
        why.push(counted((reasons.len() - SHOWN_REASONS) as u64, "further reason", "further reasons"));
    }
    if !why.is_empty() {
        parts.push(why.join("; "));
    }
    parts.extend(ledger.bad_rows.first().map(|row| format!("first at {}", row.place)));
    let passed = evidence.census.findings.passed_over.iter();
    parts.extend(passed.map(|(why, count)| format!("passed over: {} × {why}", integer(*count))));
    let evidence_text = parts.join("; ");
    let verdict = match (&evidence.pools, accepted, bad) {
        (Err(_), ..) | (_, 0, _) => FindingVerdict::No,
        (_, _, 0) => FindingVerdict::Yes,
        _ => FindingVerdict::Partly,
    };
    let finding = |meaning: &str| on.finding(verdict, evidence_text.clone(), meaning);
    match (evidence.pools, verdict) {
        (Err(error), _) if !evidence.census.is_whole => {
            let text = format!("the log could not be read to its end: {error}");
            on.finding(verdict, text, "no replay gives an answer")
                .cured_by("mend the file, or name what it is with --format, --preset or --request")
        }
        (Err(error), _) => finding(&format!("no replay gives an answer: {}", first_line(&error.to_string())))
            .cured_by("do what the message says"),
        (Ok(_), FindingVerdict::No) => finding("there is nothing to estimate from")
            .cured_by("give a log of requests with page ids, token ids or prompts"),
        (Ok(_), FindingVerdict::Partly) => finding(
            "what is missing makes the answer too small; without --skip-bad-rows a replay refuses the log",
        )
        .cured_by("mend these rows at their source, or go on without them with --skip-bad-rows"),
        (Ok(_), FindingVerdict::Yes) => finding("every request counts"),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Whether the log is of a kind that is known.
pub(super) fn format(evidence: &LogEvidence<'_>) -> Finding {
    let found = &evidence.census.findings;
    if let Err(ReplayError::Trace(error)) = evidence.pools
        && !evidence.census.is_whole
    {
        let is_known = !matches!(error, TraceError::UnknownFormat { .. } | TraceError::Utf16 { .. });
        let verdict = if is_known { FindingVerdict::Partly } else { FindingVerdict::No };
        return Subject::Format
            .with([])
            .finding(verdict, error.to_string(), "nothing of it can be counted on")
            .cured_by(
                "name the kind of log with --format or --preset, or where its requests lie with --request",
            );
    }
    let formats: Vec<_> = found.formats.iter().map(ToString::to_string).collect();
    let on = Subject::Format.with([("formats", formats.len() as u64)]);
    let read = evidence.topic.map(|topic| format!("{}: ", topic.read)).unwrap_or_default();
    match evidence.census.ledger.rows + found.passed_over.values().sum::<u64>() {
        0 => on
            .no(format!("{read}no row, so nothing shows what it is"), "there is nothing to estimate from")
            .cured_by("check that the log is written where it is looked for"),
        _ => on.yes(format!("{read}rows of {}", listed(&formats)), "read as kvset replay reads it"),
    }
}

/// What else rows say, and nobody reads.
pub(super) fn fields(evidence: &LogEvidence<'_>) -> Finding {
    let fields = &evidence.census.findings.fields;
    let on = Subject::Fields.with([("looked_at", fields.rows), ("unread", fields.unread.len() as u64)]);
    let sentences = fields.sentences();
    if sentences.is_empty() {
        let text = format!("{} looked at", counted(fields.rows, "row was", "rows were"));
        let meaning = "no other field of theirs could matter by what it holds or is called";
        return on.yes(text, meaning);
    }
    let meaning = match fields.doubt() {
        Some(_) => "prompts, requests or caches may be others than the engine's: no figure is of them",
        None => "the answer may be of other times, owners or counts than the engine's",
    };
    on.partly(sentences.join("; "), meaning)
        .cured_by("write the field by the name that is read, or name where it lies, as it says")
}

/// Whether requests are logged once.
pub(super) fn duplicates(evidence: &LogEvidence<'_>) -> Finding {
    let census = evidence.census;
    let repeats = &census.repeats;
    let on = Subject::Duplicates.with([
        ("identical_rows", census.findings.repeats.copies()),
        ("repeated_ids", repeats.same_id),
        ("growing_outputs", repeats.growing),
        ("requests_with_id", repeats.with_id),
    ]);
    let has_times = census.findings.times.clock.is_some();
    if !has_times && repeats.with_id == 0 {
        let text = "rows have neither times nor request ids, so a copy looks like a request that came again";
        return on.no(text, "a request logged twice counts as a hit").cured_by("log a time, or request_id");
    }
    // As a replay tells them.
    let identical = if has_times { census.findings.repeats.copies() } else { 0 };
    let growing = if has_times { repeats.growing } else { 0 };
    let mut parts = Vec::new();
    if repeats.same_id > 0 {
        parts.push(format!("{} with the id of an earlier one", counted(repeats.same_id, "row", "rows")));
    }
    if identical > 0 {
        parts.push(format!(
            "{} equal to an earlier one, time and prompt included",
            counted(identical, "row", "rows")
        ));
    }
    if growing > 0 {
        let rows = counted(growing, "row", "rows");
        parts.push(format!(
            "{rows} with the time and prompt of an earlier one and a longer output, as of a stream"
        ));
    }
    let found = census.findings.repeats;
    if found.are_told() && repeats.same_id == 0 && identical == 0 {
        let rows = counted(found.coming_back().0, "request", "requests");
        parts.push(format!("{rows} with the whole prompt of another within seconds or minutes"));
    }
    if found.are_of_others() {
        let rows = counted(found.of_others, "request", "requests");
        parts.push(format!("{rows} with the whole prompt of one of another model"));
    }
    if found.are_asked_again() {
        let rows = counted(found.asked_again, "request", "requests");
        parts.push(format!("{rows} that ask what another one asked within seconds"));
    }
    if parts.is_empty() {
        let by = if repeats.with_id > 0 { "id, time and prompt" } else { "time and prompt" };
        let text = format!("no two of {} agree in {by}", counted(repeats.compared, "request", "requests"));
        return on.yes(text, "each request counts once");
    }
    on.partly(
        parts.join("; "),
        "a request that is logged again finds all of itself: hit rates are too high, and the cache looks too small",
    )
    .cured_by("log a request once, when it ends, and drop copies of retried or doubly collected records")
}
