//! The shared traces give the figures that are published with them.

use kvset::core::request::event::full_pages;
use kvset::core::units::pages::{PageIds, Scope};
use kvset::trace::{Format, ReadOptions, TraceItem, TraceReader, open};
use std::collections::HashSet;
use std::path::PathBuf;

/// A trace alongside this repository, or `None` after saying that it is not there.
fn shared(name: &str) -> Option<PathBuf> {
    crate::support::shared::shared_path(&format!("traces/{name}"))
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    requests: u64,
    accesses: u64,
    distinct: u64,
    refused: u64,
    backward: u64,
}

/// Counts what a trace holds; a page is told apart by its scope and its id. The pages shared with the
/// request before are in the set already, which saves most of the probes.
fn count(reader: &mut TraceReader, include_partial: bool) -> Counts {
    let mut counts = Counts::default();
    let mut seen: HashSet<(Scope, u64), foldhash::fast::FixedState> = HashSet::default();
    let mut before = (Scope::GLOBAL, Vec::new());
    let mut last = i64::MIN;
    while let Some(item) = reader.next_item().expect("a readable trace") {
        match item {
            TraceItem::Request(row) => {
                let page_size = row.event.page_size.expect("every row has one");
                let pages =
                    full_pages(&row.event, page_size, include_partial).expect("checked by the reader");
                counts.requests += 1;
                counts.accesses += pages.len() as u64;
                counts.backward += u64::from(row.event.event_time.0 < last);
                last = row.event.event_time.0;
                let shared = if before.0 == row.event.scope {
                    pages.common_prefix(PageIds::from_slice(&before.1))
                } else {
                    0
                };
                let new = pages.from(shared);
                seen.extend(new.iter().map(|id| (row.event.scope, id)));
                before.0 = row.event.scope;
                before.1.truncate(shared);
                before.1.extend(new.iter());
            }
            TraceItem::Refused(_) => counts.refused += 1,
        }
    }
    counts.distinct = seen.len() as u64;
    counts
}

#[test]
fn the_week_of_coding_sessions() {
    let Some(path) = shared("weka_claude_code_week.jsonl.zst") else { return };
    let mut reader = open(&[path], &ReadOptions::default()).expect("opens");
    assert_eq!(reader.format(), Format::Weka);
    let expected = Counts { requests: 4_002, accesses: 4_836_915, distinct: 306_502, ..Counts::default() };
    assert_eq!(count(&mut reader, false), expected);
    let [note] = &reader.notes()[..] else { panic!("one note") };
    assert!(note.starts_with("requests of several models") && note.contains("share one pool"), "{note}");
    let progress = reader.progress();
    assert_eq!(Some(progress.read_bytes), progress.total_bytes);
}

#[test]
fn whole_sessions_one_after_another() {
    let Some(path) = shared("weka_claude_code_sessions.jsonl.zst") else { return };
    let mut reader = open(&[path], &ReadOptions::default()).expect("opens");
    let expected =
        Counts { requests: 49_334, accesses: 94_310_647, distinct: 3_450_959, ..Counts::default() };
    assert_eq!(count(&mut reader, false), expected);
    assert!(reader.notes()[0].starts_with("710 sessions have no common clock"), "{:?}", reader.notes());
}

#[test]
fn the_mooncake_trace_with_and_without_partial_pages() {
    let Some(path) = shared("mooncake_synthetic_trace.jsonl") else { return };
    let read = |include_partial| {
        let mut reader = open(std::slice::from_ref(&path), &ReadOptions::default()).expect("opens");
        assert_eq!(reader.format(), Format::Mooncake);
        count(&mut reader, include_partial)
    };
    let (full, all) = (read(false), read(true));
    assert_eq!((full.requests, full.refused, full.backward), (3_993, 0, 0));
    assert_eq!(all.accesses - full.accesses, 3_989, "all rows but four end with a partial page");
}

#[test]
fn two_files_are_read_one_after_the_other() {
    let Some(path) = shared("weka_claude_code_week.jsonl.zst") else { return };
    let Some(mooncake) = shared("mooncake_synthetic_trace.jsonl") else { return };
    let mut reader = open(&[mooncake, path], &ReadOptions::default()).expect("opens");
    let counts = count(&mut reader, false);
    assert_eq!((counts.requests, counts.refused), (4_002 + 3_993, 0));
}
