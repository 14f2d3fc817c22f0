//! The engine that works on runs of pages: against vLLM's own answers on a public trace, through a
//! replay and through the program, and against the page-at-a-time reference on random workloads.

use crate::support::reference::{Asked, Reference};
use crate::support::shared::{Golden, golden, shared_path};
use assert_cmd::Command;
use kvset::core::engines::one_pass::{Engine, EngineConfig};
use kvset::core::engines::profile::{Outputs, Profile};
use kvset::core::estimate::config::PoolConfig;
use kvset::core::request::event::RequestEvent;
use kvset::core::request::outcome::Outcome;
use kvset::core::units::PageSize;
use kvset::core::units::pages::{PageIds, Scope};
use kvset::core::units::ratio::Ratio;
use kvset::core::units::window::WindowKind;
use kvset::replay::{ReplayOptions, WarmUp, replay};
use kvset::trace::ReadOptions;
use kvset_core::engines::config::CacheConfig;
use proptest::prelude::*;
use serde_json::Value;

const TRACE: &str = "traces/mooncake_synthetic_trace.jsonl";

/// Every request's hits at every capacity, out of `--per-request` rows.
fn hits_of_rows(rows: &str) -> Vec<Vec<u64>> {
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("a row of JSON");
        let hits = row["prefix_hits"].as_array().expect("a list").iter();
        hits.map(|hits| hits.as_u64().expect("within the bound")).collect()
    };
    rows.lines().map(row).collect()
}

fn assert_equal(found: &[Vec<u64>], golden: &Golden) {
    assert_eq!(found.len(), golden.requests);
    for (at, expected) in golden.results.iter().enumerate() {
        let hits = found.iter().map(|hits| hits[at]);
        let differing = hits.zip(&expected.per_request_prefix_hits).filter(|(a, b)| a != *b).count();
        assert_eq!(differing, 0, "requests that differ at {} pages", expected.capacity_pages);
    }
}

fn check_replay(name: &str, outputs: Outputs) {
    let (Some(golden), Some(trace)) = (golden(name), shared_path(TRACE)) else { return };
    let pages = golden.results.iter().map(|result| format!("{}p", result.capacity_pages));
    let page_size = PageSize::new(golden.page_size);
    let options = ReplayOptions {
        traces: vec![trace],
        read: ReadOptions { page_size, ..ReadOptions::default() },
        pool: PoolConfig {
            cache: CacheConfig {
                profile: Profile::Vllm,
                outputs,
                page_size,
                capacities: pages.map(|pages| pages.parse().expect("pages")).collect(),
                ..CacheConfig::default()
            },
            windows: vec![WindowKind::All],
            ..PoolConfig::default()
        },
        warm_up: WarmUp::Requests(0),
        pool_name: None,
        skip_bad_rows: false,
        extras: Default::default(),
        provisioned: None,
        threads: 1,
    };
    let mut rows = Vec::new();
    let done = replay(&options, Some(&mut rows), &mut |_| {}).expect("a replay");
    assert_equal(&hits_of_rows(&String::from_utf8(rows).expect("UTF-8")), &golden);
    let whole = done.whole.expect("requests that count");
    for (point, expected) in whole.capacities.iter().zip(&golden.results) {
        assert_eq!((point.pages, point.prefix_hits), (expected.capacity_pages, Some(expected.prefix_hits)));
    }
}

#[test]
fn a_replay_equals_vllm_on_every_request_where_outputs_are_cached() {
    check_replay("synthetic_vllm_output.json", Outputs::Cached);
}

#[test]
fn a_replay_equals_vllm_on_every_request_where_outputs_are_ignored() {
    check_replay("synthetic_vllm_prefill.json", Outputs::Ignored);
}

/// What the program writes with `--per-request` and prints with `--json`.
fn program(engine: &str, outputs: &str, golden: &Golden) -> Option<(Vec<Vec<u64>>, Value)> {
    let trace = shared_path(TRACE)?;
    let directory = tempfile::tempdir().expect("a directory");
    let rows = directory.path().join("rows.jsonl");
    let pages: Vec<_> = golden.results.iter().map(|result| format!("{}p", result.capacity_pages)).collect();
    let mut command = Command::cargo_bin("kvset").expect("the program");
    command.args(["replay", "--engine", engine, "--outputs", outputs, "--page-size", "512", "--json"]);
    command.args(["--capacities", &pages.join(","), "--per-request"]).arg(&rows).arg(trace);
    let output = command.assert().success().get_output().stdout.clone();
    let found = hits_of_rows(&std::fs::read_to_string(&rows).expect("the rows"));
    Some((found, serde_json::from_slice(&output).expect("JSON")))
}

#[test]
fn the_program_equals_vllm_on_every_request() {
    let Some(golden) = golden("synthetic_vllm_output.json") else { return };
    let Some((found, result)) = program("vllm", "cached", &golden) else { return };
    assert_equal(&found, &golden);
    assert_eq!(result["trace"]["engine"], "vllm");
    assert_eq!(result["trace"]["output_reuse_unseen"], true, "the trace has ids for prompts only");
}

/// A prompt is a walk among few ids, so that prefixes are shared and left half-way; its log holds its
/// partial last page or leaves it out.
fn asked(page_size: u64) -> impl Strategy<Value = Asked> {
    let ids = prop::collection::vec(prop_oneof![4 => Just(0u64), 1 => 0u64..3], 0..12);
    let outputs = (0..4 * page_size, prop::collection::vec(0u64..2, 0..3));
    (ids, 0..page_size, any::<bool>(), outputs, any::<bool>()).prop_map(
        move |(mut ids, tail, logged, (output_tokens, output_ids), named)| {
            let input_tokens = ids.len() as u64 * page_size + tail;
            if logged && tail > 0 {
                ids.push(9);
            }
            let scope = if named { Scope::named(b"a") } else { Scope::GLOBAL };
            Asked { ids, input_tokens, output_tokens, output_ids, scope }
        },
    )
}

fn event(asked: &Asked) -> RequestEvent<'_> {
    RequestEvent {
        scope: asked.scope,
        page_ids: PageIds::from_slice(&asked.ids),
        output_page_ids: PageIds::from_slice(&asked.output_ids),
        input_tokens: Some(asked.input_tokens),
        output_tokens: Some(asked.output_tokens),
        ..RequestEvent::default()
    }
}

/// The page size comes with the requests it was drawn for.
fn workload() -> impl Strategy<Value = (u64, Vec<Asked>)> {
    (1u64..6).prop_flat_map(|size| (Just(size), prop::collection::vec(asked(size), 1..100)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_engine_equals_the_reference_page_for_page(
        (page_size, requests) in workload(),
        profile in prop::sample::select(vec![Profile::Paper, Profile::LeafFirst, Profile::Vllm]),
        cached in any::<bool>(),
        include_partial_page in any::<bool>(),
    ) {
        let outputs = if cached { Outputs::Cached } else { Outputs::Ignored };
        let mut slow = Reference::new(profile, outputs, page_size, include_partial_page);
        let config = EngineConfig { profile, outputs, include_partial_page, sample_rate: Ratio::ONE, ..EngineConfig::default() };
        let mut fast = Engine::new(config);
        let page = PageSize::new(page_size as u32).expect("not zero");
        let mut outcome = Outcome::default();
        for (index, asked) in requests.iter().enumerate() {
            fast.observe(&event(asked), page, &mut outcome).expect("as many ids as pages");
            let found: Vec<u64> = (1..=outcome.reusable_prefix()).map(|n| outcome.need_of_prefix(n)).collect();
            prop_assert_eq!(found, slow.serve(asked), "request {} under {}", index, profile);
        }
        prop_assert_eq!(fast.stack().accumulated_pages().0, slow.distinct_pages());
    }
}
