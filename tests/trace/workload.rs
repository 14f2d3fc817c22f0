//! The generated workload: deterministic, ordered, prefix-chained, and readable by our own reader.

use kvset::core::units::pages::PageIds;
use kvset::trace::{Format, ReadOptions, TraceItem, TraceReader, write_row};
use kvset::workload::{GeneratedRequest, Generator, Workload};
use std::collections::{HashMap, HashSet};
use std::io::Cursor;
use xxhash_rust::xxh3::Xxh3;

/// Small and lively: every kind of turn happens within a few hundred requests.
fn lively(seed: u64) -> Workload {
    Workload {
        seed,
        day_ms: 3_600_000,
        sessions_per_day: 60,
        system_tokens: 1_000,
        mean_turns: 12,
        mean_turn_tokens: 400,
        max_context_tokens: 6_000,
        retry_permille: 80,
        edit_permille: 120,
        agent_permille: 100,
        ..Workload::default()
    }
}

fn requests(workload: Workload, count: usize) -> Vec<GeneratedRequest> {
    Generator::new(workload).expect("valid parameters").take(count).collect()
}

#[test]
fn a_seed_gives_the_same_requests_on_every_platform() {
    let mut digest = Xxh3::new();
    for request in Generator::new(Workload::default()).expect("valid").take(500) {
        digest.update(&request.event_time.0.to_le_bytes());
        digest.update(PageIds::from_slice(&request.page_ids).as_packed());
        digest.update(&request.input_tokens.to_le_bytes());
        digest.update(&request.output_tokens.to_le_bytes());
        digest.update(&request.duration_ms.to_le_bytes());
        digest.update(request.session.as_bytes());
    }
    assert_eq!(
        digest.digest(),
        6_666_791_553_737_360_692,
        "the default workload is frozen: a change here changes every demo"
    );
    assert_eq!(requests(lively(3), 300), requests(lively(3), 300));
    assert_ne!(requests(lively(3), 300), requests(lively(4), 300));
}

#[test]
fn requests_come_in_order_with_the_pages_their_tokens_fill() {
    let mut last = i64::MIN;
    for request in requests(lively(5), 3000) {
        assert!(request.event_time.0 >= last);
        last = request.event_time.0;
        assert_eq!(request.page_ids.len() as u64, request.input_tokens / 64);
        assert!(request.output_tokens > 0);
    }
}

#[test]
fn page_ids_stand_for_their_whole_prefix() {
    let mut before: HashMap<u64, Option<u64>> = HashMap::new();
    for request in requests(lively(6), 3000) {
        let mut previous = None;
        for id in request.page_ids {
            assert_eq!(*before.entry(id).or_insert(previous), previous, "an id under two prefixes");
            previous = Some(id);
        }
    }
}

#[test]
fn sessions_share_prompts_and_are_cut_retried_compacted_and_delegated() {
    let mut last: HashMap<String, Vec<u64>> = HashMap::new();
    let mut first_pages = HashSet::new();
    let (mut grown, mut retried, mut cut, mut compacted) = (0, 0, 0, 0);
    for request in requests(lively(7), 4000) {
        first_pages.insert(request.page_ids[0]);
        let Some(previous) = last.insert(request.session, request.page_ids.clone()) else { continue };
        let shared = PageIds::from_slice(&previous).common_prefix(PageIds::from_slice(&request.page_ids));
        match (shared == previous.len(), shared == request.page_ids.len()) {
            (true, true) => retried += 1,
            (true, false) => grown += 1,
            (false, _) if request.page_ids.len() < previous.len() && shared < 30 => compacted += 1,
            (false, _) => cut += 1,
        }
    }
    let agents = last.keys().filter(|session| session.contains("/agent-")).count();
    assert!(first_pages.len() <= 8, "eight prompts serve {} sessions", last.len());
    assert!(last.len() > 100 && agents > 50, "{} sessions, {agents} sub-agents", last.len());
    let counts = (grown, retried, cut, compacted);
    assert!(grown > 1500 && retried > 100 && cut > 200 && compacted > 50, "{counts:?}");
}

#[test]
fn the_working_set_falls_again_at_night() {
    let workload = Workload { sessions_per_day: 300, ..lively(8) };
    let part_ms = workload.day_ms as i64 / 24;
    let mut pages: Vec<HashSet<u64>> = vec![HashSet::new(); 30];
    for request in Generator::new(workload).expect("valid").take_while(|r| r.event_time.0 < 30 * part_ms) {
        pages[(request.event_time.0 / part_ms) as usize].extend(request.page_ids);
    }
    let (peak, night) = (pages[15].len(), pages[29].len());
    // The last part is five o'clock in the second morning: the evening's sessions are long over.
    assert!(peak > 4 * night, "{peak} pages at the peak, {night} at night");
}

#[test]
fn live_sessions_stay_within_their_bound() {
    let workload = Workload { max_sessions: 5, sessions_per_day: 100_000, ..lively(9) };
    let mut generator = Generator::new(workload).expect("valid");
    for _ in 0..2000 {
        generator.next();
        assert!(generator.live_sessions() <= 5);
    }
}

#[test]
fn what_is_written_is_read_back() {
    let written = requests(lively(10), 500);
    let mut file = Vec::new();
    for request in &written {
        write_row(&mut file, &request.as_row()).expect("memory does not fail");
    }
    let mut reader =
        TraceReader::from_reader("generated", Box::new(Cursor::new(file)), &ReadOptions::default())
            .expect("readable");
    assert_eq!(reader.format(), Format::Weka);
    let mut read = Vec::new();
    while let Some(item) = reader.next_item().expect("readable") {
        let TraceItem::Request(row) = item else { panic!("refused: {item:?}") };
        read.push(GeneratedRequest {
            event_time: row.event.event_time,
            page_size: row.event.page_size.expect("written"),
            page_ids: row.event.page_ids.iter().collect(),
            input_tokens: row.event.input_tokens.expect("written"),
            output_tokens: row.event.output_tokens.expect("written"),
            duration_ms: row.event.duration_ms.expect("written"),
            session: row.session.expect("written").to_owned(),
        });
    }
    assert_eq!(read, written);
}
