//! The table of all kinds of cases in the documentation, with how many the program reads.

use super::{Case, Seen};
use std::fmt::Write;

/// The kinds in the order of the page, with what goes wrong in each.
const KINDS: [(&str, &str); 25] = [
    ("K1", "A healthy cache of ordinary chats called sick"),
    ("K2", "An absent count of cached tokens taken for no measurement"),
    ("K3", "Logs in the order in which requests end"),
    ("K4", "What the log keeps apart, merged"),
    ("K5", "Times in another unit or zone"),
    ("K6", "Bodies that do not become the engine's prompt"),
    ("K7", "A part of a prompt taken for the whole"),
    ("K8", "Records behind a collector"),
    ("K9", "Model files whose figure no engine allocates"),
    ("K10", "Placeholders of media hashed as text"),
    ("K11", "Workers and ranks that are caches of their own"),
    ("K12", "Counts in another form of number"),
    ("K13", "Records that cannot be read, passed over"),
    ("K14", "Model files of models in production, refused"),
    ("K15", "Envelopes and arrays"),
    ("K16", "JSON as Python writes it"),
    ("K17", "Spans of the common SDKs"),
    ("K18", "Ids and lengths in another form of number"),
    ("K19", "Logs that hold no prompts, or none that can be read"),
    ("K20", "What a reader has to know of the log"),
    ("K21", "Requests that a log writes more than once"),
    ("K22", "Logs that are samples"),
    ("K23", "Requests that look nothing up"),
    ("M", "Model files"),
    ("D", "Verdicts and refusals"),
];

/// Trace files whose forms have grown.
const TRACES: (&str, &str) = ("T", "Trace files in forms that have grown");

const HEAD: &str = "\
# Inputs from the real world

Logs, spans and model files in the shapes that gateways, engines and SDKs write. Field names and numbers come from public
reports; texts are made up. Each has a [case](../tests/fixtures/cases) that says what must hold, and why.

Every input ends in one of three ways: a figure that is right, a figure with a note that says what it rests on, or a
refusal that names the field and the cure. What nobody reads is named where it [could
matter](doctor.md#what-nobody-reads).

";

/// The page.
pub fn page(cases: &[(Case, Seen)]) -> String {
    let mut page = HEAD.to_owned();
    let _ = writeln!(page, "| kind | cases | read | refused by name |\n|---|---:|---:|---:|");
    let kinds = || KINDS.into_iter().chain([TRACES]);
    let of_kind = |kind: &'static str| cases.iter().filter(move |(case, _)| case.kind == kind);
    for (kind, title) in kinds() {
        let (all, read) =
            (of_kind(kind).count(), of_kind(kind).filter(|(_, seen)| seen.is_success()).count());
        let _ = writeln!(page, "| {title} | {all} | {read} | {} |", all - read);
    }
    page
}

/// Whether every kind of the cases has its place on the page.
pub fn names(kind: &str) -> bool {
    KINDS.iter().chain([&TRACES]).any(|(known, _)| *known == kind)
}
