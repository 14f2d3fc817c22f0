//! Requests are handed out in the order of their arrival, whatever the order of the trace.

use kvset::trace::{Format, ReadOptions, RowOrder, TraceError, TraceItem, TraceReader, open};
use proptest::prelude::*;
use std::io::Cursor;

fn reader(text: &str, options: &ReadOptions) -> TraceReader {
    let bytes = Box::new(Cursor::new(text.to_owned().into_bytes()));
    TraceReader::from_reader("log", bytes, options).expect("readable")
}

/// The line and the time of each request, and how many rows were refused.
fn read(mut reader: TraceReader) -> (Vec<(u64, i64)>, usize) {
    let (mut rows, mut refused) = (Vec::new(), 0);
    while let Some(item) = reader.next_item().expect("readable") {
        match item {
            TraceItem::Request(row) => rows.push((row.line, row.event.event_time.0)),
            TraceItem::Refused(_) => refused += 1,
        }
    }
    (rows, refused)
}

/// A mooncake row; its names and ids are its own.
fn row(time: Option<i64>, id: usize) -> String {
    let time = time.map_or_else(String::new, |time| format!("\"timestamp\":{time},"));
    format!("{{{time}\"session_id\":\"s{id}\",\"user\":\"u{id}\",\"token_ids\":[{id},1,2,3]}}\n")
}

proptest! {
    /// Against the obvious: a stable sort, of a file that is newest first from end to end once it is turned round. Rows
    /// without a time go with the one before them.
    #[test]
    fn requests_come_in_the_order_of_a_stable_sort(
        times in prop::collection::vec(prop::option::weighted(0.9, 0i64..20), 1..60),
        is_epoch: bool,
    ) {
        let base = if is_epoch { 1_763_640_000_000 } else { 0 };
        let stated: Vec<_> = times.iter().map(|time| time.map(|time| base + time)).collect();
        let text: String = stated.iter().enumerate().map(|(id, time)| row(*time, id)).collect();
        let (rows, refused) = read(reader(&text, &ReadOptions { format: Format::TokenIds, order: RowOrder::Arrival, ..ReadOptions::default() }));
        let first = stated.iter().flatten().next().copied().unwrap_or(0);
        let mut before = first;
        let mut expected: Vec<(u64, i64)> = (1..).zip(&stated).map(|(line, time)| {
            before = time.unwrap_or(before);
            (line, before)
        }).collect();
        let told: Vec<_> = stated.iter().flatten().collect();
        let falls = told.windows(2).filter(|pair| pair[0] > pair[1]).count();
        if falls > 1 && told.is_sorted_by(|one, other| one >= other) {
            expected.reverse();
        }
        expected.sort_by_key(|(_, time)| *time);
        prop_assert_eq!((rows, refused), (expected, 0));
    }

    /// What does not fit is refused, and nothing is passed on out of order.
    #[test]
    fn no_bound_lets_a_request_go_before_an_earlier_one(
        times in prop::collection::vec(0i64..50, 1..80),
        reorder_bytes in 0usize..8_000,
    ) {
        let text: String = times.iter().enumerate().map(|(id, time)| row(Some(*time), id)).collect();
        let options = ReadOptions { format: Format::TokenIds, order: RowOrder::Arrival, reorder_bytes, ..ReadOptions::default() };
        let (rows, refused) = read(reader(&text, &options));
        prop_assert!(rows.is_sorted_by_key(|(_, time)| *time), "{:?}", rows);
        prop_assert_eq!(rows.len() + refused, times.len());
    }
}

#[test]
fn names_and_ids_go_with_their_request() {
    let text: String = [9, 3, 7, 1].into_iter().enumerate().map(|(id, time)| row(Some(time), id)).collect();
    let mut reader = reader(
        &text,
        &ReadOptions { format: Format::TokenIds, order: RowOrder::Arrival, ..ReadOptions::default() },
    );
    let mut names = Vec::new();
    while let Some(TraceItem::Request(row)) = reader.next_item().expect("readable") {
        names.push((
            row.session.expect("a session").to_owned(),
            row.file.to_owned(),
            row.event.page_ids.len(),
        ));
    }
    let expected = ["s3", "s1", "s2", "s0"].map(|name| (name.to_owned(), "log".to_owned(), 1));
    assert_eq!(names, expected);
}

#[test]
fn a_trace_that_was_expected_in_order_has_to_be_read_again() {
    let expected =
        ReadOptions { format: Format::TokenIds, order: RowOrder::Expected, ..ReadOptions::default() };
    let sorted = [row(Some(1), 0), row(Some(1), 1), row(None, 2), row(Some(2), 3)].concat();
    assert_eq!(read(reader(&sorted, &expected)).0.len(), 4);
    for backwards in [
        [row(Some(2), 0), row(Some(1), 1)].concat(),
        [row(None, 0), row(Some(1_763_640_000_000), 1)].concat(),
    ] {
        let mut reader = reader(&backwards, &expected);
        let error = loop {
            match reader.next_item() {
                Ok(item) => assert!(item.is_some(), "{backwards}"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, TraceError::ReadAgain), "{error}");
    }
}

#[test]
fn the_order_written_is_kept_where_it_is_asked_for() {
    let options =
        ReadOptions { format: Format::TokenIds, order: RowOrder::Written, ..ReadOptions::default() };
    let text = [row(Some(2), 0), row(Some(1), 1)].concat();
    let mut reader = reader(&text, &options);
    while reader.next_item().expect("readable").is_some() {}
    assert!(!reader.findings().is_in_order);
    let said = reader.notes();
    assert!(
        said[0].starts_with("1 requests stand in the trace behind ones that came later, by up to 1ms"),
        "{said:?}"
    );
}

/// Dates compare across files, so rotated logs are one log; clocks that start with their file do not.
#[test]
fn files_are_one_log_where_their_times_compare() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, base: i64, times: &[i64]| {
        let text: String = times.iter().enumerate().map(|(id, time)| row(Some(base + time), id)).collect();
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a disk");
        path
    };
    let times = |paths: &[std::path::PathBuf]| {
        let (rows, refused) = read(
            open(paths, &ReadOptions { order: RowOrder::Arrival, ..ReadOptions::default() })
                .expect("readable"),
        );
        assert_eq!(refused, 0);
        rows.into_iter().map(|(_, time)| time).collect::<Vec<_>>()
    };
    const EPOCH: i64 = 1_763_640_000_000;
    let dated = [file("new", EPOCH, &[30, 20, 40]), file("old", EPOCH, &[10, 0, 25])];
    assert_eq!(times(&dated), [0, 10, 20, 25, 30, 40].map(|time| EPOCH + time));
    let relative = [file("a", 0, &[5, 0, 9]), file("b", 0, &[0, 4])];
    assert_eq!(times(&relative), [0, 5, 9, 9, 13], "the second follows the first");
    let mixed = [file("c", 0, &[5, 0]), file("d", EPOCH, &[1, 0])];
    assert_eq!(times(&mixed), [0, 5, EPOCH, EPOCH + 1]);
}

#[test]
fn a_row_of_another_clock_is_refused_by_name() {
    let text = [row(Some(1_763_640_000_000), 0), row(Some(12), 1), row(Some(1_763_640_000_001), 2)].concat();
    let options =
        ReadOptions { format: Format::TokenIds, order: RowOrder::Arrival, ..ReadOptions::default() };
    let (rows, refused) = read(reader(&text, &options));
    assert_eq!((rows.len(), refused), (2, 1));
    let mut reader = reader(&text, &options);
    let fault = loop {
        match reader.next_item().expect("readable") {
            Some(TraceItem::Refused(error)) => break error,
            Some(TraceItem::Request(_)) => {}
            None => panic!("a refused row"),
        }
    };
    assert_eq!(fault.line, 2);
    assert!(fault.to_string().contains("1970"), "{fault}");
}
