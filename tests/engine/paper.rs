//! A whole pool over a public trace against figures computed elsewhere, page at a time.

use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::{Arrival, Pool};
use kvset::core::request::event::RequestEvent;
use kvset::core::units::pages::PageIds;
use kvset::core::units::window::WindowKind;
use kvset::core::units::{EventTime, Offset, PageSize};
use kvset_core::engines::config::CacheConfig;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// The directory of shared traces and figures, where it is at hand.
fn shared() -> Option<PathBuf> {
    let golden = crate::support::shared::shared_path("golden/synthetic_paper.json")?;
    Some(golden.parent()?.parent()?.to_path_buf())
}

fn config(golden: &Value) -> PoolConfig {
    let capacities = golden["capacities"].as_array().expect("a list").iter();
    let pages = capacities.filter_map(|at| at["pages"].as_u64());
    PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(golden["page_size"].as_u64().expect("tokens") as u32),
            kv_bytes_per_token: golden["kv_bytes_per_token"].as_f64(),
            include_partial_page: true,
            target_ratios: ["1.0", "0.99"].map(|text| text.parse().expect("a share")).into(),
            coverages: ["0.5", "0.9", "0.95", "0.99", "0.999"]
                .map(|text| text.parse().expect("a share"))
                .into(),
            capacities: pages.map(|pages| format!("{pages}p").parse().expect("pages")).collect(),
            ..CacheConfig::default()
        },
        windows: vec![WindowKind::All, "last:3993".parse().expect("a window")],
        ..PoolConfig::default()
    }
}

#[test]
fn the_synthetic_trace_gives_the_published_figures() {
    let Some(shared) = shared() else { return };
    let read = |path: &str| std::fs::read_to_string(shared.join(path)).expect(path);
    let golden: Value = serde_json::from_str(&read("golden/synthetic_paper.json")).expect("json");
    let mut pool = Pool::new("p", 0, Arc::new(config(&golden))).expect("a usable configuration");
    for (offset, row) in read("traces/mooncake_synthetic_trace.jsonl").lines().enumerate() {
        let row: Value = serde_json::from_str(row).expect("a row");
        let ids: Vec<u64> =
            row["hash_ids"].as_array().expect("ids").iter().filter_map(Value::as_u64).collect();
        let event = RequestEvent {
            event_time: EventTime(row["timestamp"].as_i64().expect("milliseconds")),
            page_ids: PageIds::from_slice(&ids),
            input_tokens: row["input_length"].as_u64(),
            ..RequestEvent::default()
        };
        let arrival = Arrival { offset: Offset(offset as i64), counted: true, watermark: None };
        pool.observe(&event, arrival).expect("accepted");
    }
    let mut estimates = Vec::new();
    pool.finish(Offset(3993), &mut estimates);
    assert_eq!(estimates.len(), 2);
    for estimate in &estimates {
        assert_eq!(estimate.accumulated_pages, golden["distinct_pages"].as_u64().expect("pages"));
        assert_eq!(estimate.distinct_pages, estimate.accumulated_pages);
        assert_eq!(estimate.page_bytes, golden["page_bytes"].as_u64());
        for (required, ratio) in estimate.required.iter().zip(["1.0", "0.99"]) {
            let expected = &golden["required_pages"][ratio];
            assert_eq!(required.mean_pages, expected["mean"].as_f64());
            assert_eq!(required.max_pages, expected["max"].as_u64());
            for (at, key) in required.coverage.iter().zip(["p50", "p90", "p95", "p99", "p999"]) {
                assert_eq!(at.pages, expected[key].as_u64(), "{key} at {ratio}");
            }
        }
        let expected = golden["capacities"].as_array().expect("a list");
        let finite = expected.iter().filter(|at| !at["pages"].is_null());
        assert_eq!(estimate.capacities.len(), finite.clone().count());
        for at in finite {
            let pages = at["pages"].as_u64().expect("pages");
            let point = estimate.capacities.iter().find(|point| point.pages == pages).expect("a point");
            assert_eq!(point.page_hits, at["page_hits"].as_u64(), "at {pages} pages");
            assert_eq!(point.prefix_hits, at["prefix_hits"].as_u64(), "at {pages} pages");
        }
        let unlimited = expected.iter().find(|at| at["pages"].is_null()).expect("the unlimited one");
        assert_eq!(Some(estimate.theoretical.prefix_hits), unlimited["prefix_hits"].as_u64());
    }
}
