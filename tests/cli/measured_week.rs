//! The week of coding sessions on caches that are kept one page at a time: their hits give back what
//! they were, and routers equal replays of the split week.

use crate::page_lru::PageLru;
use crate::replay_measured::{effective, replay};
use crate::support::shared::shared_path;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A row of the week of coding sessions as it stands, its session, and the ids of its full pages.
struct WeekRow {
    line: String,
    session: String,
    ids: Vec<u64>,
}

/// The week, read once.
fn week() -> Option<&'static [WeekRow]> {
    static WEEK: LazyLock<Option<Vec<WeekRow>>> = LazyLock::new(|| {
        let path = shared_path("traces/weka_claude_code_week.jsonl.zst")?;
        let file = std::fs::File::open(path).expect("readable");
        let text = std::io::read_to_string(zstd::Decoder::new(file).expect("zstd")).expect("UTF-8");
        Some(text.lines().map(week_row).collect())
    });
    WEEK.as_deref()
}

fn week_row(line: &str) -> WeekRow {
    #[derive(serde::Deserialize)]
    struct Row {
        session_id: String,
        input_length: u64,
        block_size: u64,
        hash_ids: Vec<u64>,
    }
    let mut row: Row = serde_json::from_str(line).expect("a row");
    row.hash_ids.truncate((row.input_length / row.block_size) as usize);
    WeekRow { line: line.to_owned(), session: row.session_id, ids: row.hash_ids }
}

/// The week with the hits of page-level caches, and the replica of each request where that is logged.
fn with_hits(week: &[WeekRow], hits: &[u64], replicas: Option<&[usize]>) -> Vec<String> {
    let row = |(at, (row, hits)): (usize, (&WeekRow, &u64))| {
        let body = row.line.trim_end().strip_suffix('}').expect("an object");
        let replica = replicas.map(|replicas| format!(r#","replica":"replica-{}""#, replicas[at]));
        format!(r#"{body},"cached_tokens":{}{}}}"#, hits * 64, replica.unwrap_or_default())
    };
    week.iter().zip(hits).enumerate().map(row).collect()
}

fn hits_of(week: &[WeekRow], caches: &mut [PageLru], replica: impl Fn(usize) -> usize) -> Vec<u64> {
    week.iter().enumerate().map(|(at, row)| caches[replica(at)].access(&row.ids)).collect()
}

fn rate(hits: &[u64], result: &Value) -> f64 {
    let accesses = result["trace"]["page_accesses"].as_u64().expect("pages");
    (hits.iter().sum::<u64>() as f64 / accesses as f64 * 10_000.0).round() / 100.0
}

const LEAF_FIRST: [&str; 2] = ["--engine", "leaf-first"];

/// One row of the table of measured caches.
struct Row {
    /// Measured hit rate in percent.
    rate: f64,
    /// The capacity at which the pool's curve has as many hits.
    inverted: u64,
    /// The capacity that most requests agree on.
    consensus: (u64, u64),
    /// Requests that agree, in percent.
    agreement: f64,
}

/// Holds these hits, of one cache as far as the log says, against a row of the table.
fn check_row(week: &[WeekRow], hits: &[u64], row: &Row) -> Value {
    let below = format!("{}p,{}p", row.inverted - 1, row.inverted);
    let result = replay(&with_hits(week, hits, None), &[&LEAF_FIRST[..], &["--capacities", &below]].concat());
    assert_eq!(rate(hits, &result), row.rate);
    let curve = |at: usize| result["capacities"][at]["page_hits"].as_u64().expect("pages");
    let measured = hits.iter().sum::<u64>();
    assert!(
        (curve(0) + 1..=curve(1)).contains(&measured),
        "the curve has {measured} hits at {}",
        row.inverted
    );
    let (from, to, agreement, _) = effective(&result);
    assert_eq!((from, to), (row.consensus.0, Some(row.consensus.1)));
    assert_eq!((agreement * 1000.0).round() / 10.0, row.agreement);
    result
}

#[test]
fn the_week_on_one_lru() {
    let Some(week) = week() else { return };
    let hits = hits_of(week, &mut [PageLru::new(8192, 8192)], |_| 0);
    let row = Row { rate: 93.24, inverted: 8192, consensus: (8192, 8192), agreement: 100.0 };
    let result = check_row(week, &hits, &row);
    assert_eq!(effective(&result), (8192, Some(8192), 1.0, 1.0));
}

/// The table leaves open in which order a request's pages come in and when the watermark is looked at. With the root
/// first and a look at each page the measured hits and the inverted curve are the row's; with the leaf first 93.14 %
/// and 7,624, with a look after each request 92.90 % and 7,024, with both 93.08 % and 7,410.
///
/// The row's consensus is 7,274 with 99.2 %: so many of the requests *that hit something* hold it. More, 99.4 % of
/// those that can tell, hold 7,956 to 7,986, so that is what the definition asks for.
#[test]
fn the_week_on_a_cache_with_a_watermark() {
    let Some(week) = week() else { return };
    let mut cache = PageLru::new(8192, 6553);
    let hits: Vec<_> = week.iter().map(|row| cache.access_page_by_page(&row.ids)).collect();
    let row = Row { rate: 93.01, inverted: 7249, consensus: (7956, 7986), agreement: 99.4 };
    check_row(week, &hits, &row);
}

/// The sum over both halves is the table's; where the restart was shows in the log.
#[test]
fn the_week_on_one_lru_with_a_restart_half_way() {
    let Some(week) = week() else { return };
    let half = week.len() / 2;
    let mut caches = [PageLru::new(8192, 8192), PageLru::new(8192, 8192)];
    let hits = hits_of(week, &mut caches, |at| usize::from(at >= half));
    let row = Row { rate: 93.14, inverted: 7613, consensus: (8192, 8192), agreement: 99.9 };
    let result = check_row(week, &hits, &row);
    let restarts = result["measured"]["restarts"].as_array().expect("a list");
    assert_eq!(restarts.len(), 1);
    assert_eq!(restarts[0]["request"], json!(half), "the first request that found nothing");
}

/// The table leaves open what is hashed, and how: it is the session's number, by first appearance, and SplitMix64.
fn by_session(week: &[WeekRow]) -> Vec<usize> {
    let mut numbers = HashMap::new();
    let mut number = |session| {
        let next = numbers.len() as u64;
        *numbers.entry(session).or_insert(next)
    };
    week.iter().map(|row| (split_mix(number(row.session.as_str())) % 4) as usize).collect()
}

/// SplitMix64 of Steele, Lea and Flood, the first number of this seed.
fn split_mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn four_caches() -> Vec<PageLru> {
    (0..4).map(|_| PageLru::new(2048, 2048)).collect()
}

#[test]
fn the_week_on_four_replicas_by_session() {
    let Some(week) = week() else { return };
    let replicas = by_session(week);
    let hits = hits_of(week, &mut four_caches(), |at| replicas[at]);
    let row = Row { rate: 80.73, inverted: 2598, consensus: (2048, 2048), agreement: 87.7 };
    check_row(week, &hits, &row);

    let rows = with_hits(week, &hits, Some(&replicas));
    let asked = [&LEAF_FIRST[..], &["--capacities", "8192p", "--router", "logged"]].concat();
    let logged = replay(&rows, &asked);
    assert_eq!(effective(&logged), (2048, Some(2048), 1.0, 1.0));
    assert_eq!(logged["measured"]["verdict"], "routing");
    let routed = &logged["routing"][0];
    assert_eq!(routed["capacities"][0]["page_hits"], json!(hits.iter().sum::<u64>()));
    let imbalance = routed["imbalance"].as_f64().expect("a factor");
    assert_eq!((imbalance * 100.0).round() / 100.0, 2.05, "as the split week has it");
}

#[test]
fn the_week_on_four_replicas_by_turns_shows_what_routing_costs() {
    let Some(week) = week() else { return };
    let replicas: Vec<_> = (0..week.len()).map(|at| at % 4).collect();
    let hits = hits_of(week, &mut four_caches(), |at| replicas[at]);
    let row = Row { rate: 67.09, inverted: 1712, consensus: (2048, 2048), agreement: 16.4 };
    let unlogged = check_row(week, &hits, &row);
    assert_eq!(unlogged["measured"]["verdict"], "no_capacity");

    let rows = with_hits(week, &hits, Some(&replicas));
    let asked = [
        LEAF_FIRST.as_slice(),
        &["--capacities", "8192p", "--router", "logged", "--router", "round-robin:4"],
    ];
    let logged = replay(&rows, &asked.concat());
    assert_eq!(effective(&logged), (2048, Some(2048), 1.0, 1.0));
    let measured = &logged["measured"];
    assert_eq!((&measured["verdict"], &measured["replicas"]), (&json!("routing"), &json!(4)));
    assert_eq!(measured["ledger"]["provisioned"], json!(true));
    let shared = logged["capacities"][0]["page_hits"].clone();
    assert_eq!(measured["ledger"]["shared_pages"], shared);
    assert_eq!(measured["ledger"]["routed_pages"], json!(hits.iter().sum::<u64>()));
    assert_eq!(measured["ledger"]["measured_pages"], json!(hits.iter().sum::<u64>()));
    assert_eq!(measured["ledger"]["unlimited_pages"], logged["theoretical"]["page_hits"]);
    let [by_log, by_turns] = [&logged["routing"][0], &logged["routing"][1]];
    assert_eq!((&by_log["router"], &by_turns["router"]), (&json!("logged"), &json!("round-robin")));
    for name in ["replicas", "imbalance", "unlimited_page_hits", "capacities", "required"] {
        assert_eq!(by_log[name], by_turns[name], "{name}: the log was routed by turns");
    }
    assert_eq!(by_turns["capacities"][0]["page_hits"], json!(hits.iter().sum::<u64>()));
}

const CAPACITIES: [u64; 4] = [512, 1024, 2048, 8192];

/// Sums over replays of each replica's part: hits by capacity, hits without limit, every requirement.
fn split(
    week: &[WeekRow],
    replicas: usize,
    replica: impl Fn(usize, &WeekRow) -> usize,
) -> (Vec<u64>, u64, Vec<u64>) {
    let pages: Vec<_> = CAPACITIES.iter().map(|pages| format!("{pages}p")).collect();
    let (mut hits, mut unlimited, mut required) = (vec![0; CAPACITIES.len()], 0, Vec::new());
    for own in 0..replicas {
        let part = week.iter().enumerate().filter(|(at, row)| replica(*at, row) == own);
        let part: Vec<_> = part.map(|(_, row)| row.line.as_str()).collect();
        let directory = tempfile::tempdir().expect("a directory");
        let rows = directory.path().join("rows.jsonl");
        let rows_path = rows.to_str().expect("UTF-8");
        let result = replay(&part, &["--capacities", &pages.join(","), "--per-request", rows_path]);
        for (sum, point) in hits.iter_mut().zip(result["capacities"].as_array().expect("capacities")) {
            *sum += point["page_hits"].as_u64().expect("within the bound");
        }
        unlimited += result["theoretical"]["page_hits"].as_u64().expect("pages");
        for line in std::fs::read_to_string(&rows).expect("the rows").lines() {
            let row: Value = serde_json::from_str(line).expect("a row");
            required.push(row["required_pages"][0].as_u64().expect("within the bound"));
        }
    }
    required.sort_unstable();
    (hits, unlimited, required)
}

/// Round robin and hash over 4 and 8 replicas equal four and eight replays of the split trace.
#[test]
fn routers_equal_replays_of_the_split_week() {
    let Some(week) = week() else { return };
    let rows: Vec<_> = week.iter().map(|row| row.line.as_str()).collect();
    for replicas in [4, 8] {
        let totals: Vec<_> = CAPACITIES.iter().map(|pages| format!("{}p", pages * replicas as u64)).collect();
        let routers = [format!("round-robin:{replicas}"), format!("hash:{replicas}:session")];
        let result = replay(
            &rows,
            &["--capacities", &totals.join(","), "--router", &routers[0], "--router", &routers[1]],
        );
        let session =
            |row: &WeekRow| (xxhash_rust::xxh3::xxh3_64(row.session.as_bytes()) % replicas as u64) as usize;
        let by_turns = split(week, replicas, |at, _| at % replicas);
        let by_session = split(week, replicas, |_, row| session(row));
        for (at, (hits, unlimited, required)) in [by_turns, by_session].iter().enumerate() {
            let routed = &result["routing"][at];
            assert_eq!(routed["unlimited_page_hits"], json!(unlimited));
            for (point, (pages, hits)) in
                routed["capacities"].as_array().expect("capacities").iter().zip(CAPACITIES.iter().zip(hits))
            {
                assert_eq!((&point["pages"], &point["page_hits"]), (&json!(pages), &json!(hits)));
                assert_eq!(point["total_pages"], json!(pages * replicas as u64));
            }
            for entry in routed["required"][0]["coverage"].as_array().expect("coverage") {
                let share = entry["coverage"].as_f64().expect("a share");
                let rank = (share * required.len() as f64).ceil() as usize;
                let pages = required[rank.saturating_sub(1)];
                assert_eq!(entry["pages"], json!(pages), "at {share}");
                assert_eq!(entry["total_pages"], json!(pages * replicas as u64));
            }
        }
    }
}
