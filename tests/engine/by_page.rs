//! The slow reference of the stack profiles against the engines' own answers.

use crate::support::reference::{Reference, Stack};
use crate::support::shared::{golden, mooncake_trace, read_shared};
use kvset::core::engines::profile::{Outputs, Profile};
use kvset::core::units::pages::Scope;
use proptest::prelude::*;
use serde::Deserialize;

fn check_vllm(name: &str, outputs: Outputs) {
    let (Some(golden), Some(trace)) = (golden(name), mooncake_trace()) else { return };
    let mut reference = Reference::new(Profile::Vllm, outputs, u64::from(golden.page_size), false);
    let needs: Vec<Vec<u64>> = trace
        .iter()
        .map(|row| reference.request(&row.hash_ids, row.input_length, row.output_length, Scope::GLOBAL))
        .collect();
    assert_eq!(needs.len(), golden.requests);
    for expected in &golden.results {
        let hits =
            needs.iter().map(|n| n.iter().filter(|need| **need <= expected.capacity_pages).count() as u64);
        let differing =
            hits.zip(&expected.per_request_prefix_hits).filter(|(hits, golden)| hits != *golden).count();
        assert_eq!(differing, 0, "requests that differ at {} pages", expected.capacity_pages);
    }
}

#[test]
fn vllm_equals_its_manager_on_every_request_where_outputs_are_cached() {
    check_vllm("synthetic_vllm_output.json", Outputs::Cached);
}

#[test]
fn vllm_equals_its_manager_on_every_request_where_outputs_are_ignored() {
    check_vllm("synthetic_vllm_prefill.json", Outputs::Ignored);
}

#[derive(Deserialize)]
struct PaperGolden {
    distinct_pages: u64,
    page_size: u64,
    capacities: Vec<PaperCapacity>,
    required_pages: std::collections::BTreeMap<String, Required>,
}

#[derive(Deserialize)]
struct PaperCapacity {
    pages: Option<u64>,
    page_hits: u64,
}

#[derive(Deserialize)]
struct Required {
    mean: f64,
    p50: u64,
    p90: u64,
    p95: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[test]
fn paper_equals_every_figure_of_the_paper() {
    let (Some(text), Some(trace)) = (read_shared("golden/synthetic_paper.json"), mooncake_trace()) else {
        return;
    };
    let golden: PaperGolden = serde_json::from_str(&text).expect("a golden file");
    let mut reference = Reference::new(Profile::Paper, Outputs::Ignored, golden.page_size, true);
    let needs: Vec<Vec<u64>> = trace
        .iter()
        .map(|row| reference.request(&row.hash_ids, row.input_length, row.output_length, Scope::GLOBAL))
        .collect();
    assert_eq!(reference.distinct_pages(), golden.distinct_pages);
    for point in &golden.capacities {
        let capacity = point.pages.unwrap_or(u64::MAX);
        let hits = needs.iter().flatten().filter(|need| **need <= capacity).count() as u64;
        assert_eq!(hits, point.page_hits, "hits at {capacity} pages");
    }
    for (ratio, expected) in &golden.required_pages {
        let ratio: kvset::core::units::ratio::Ratio = ratio.parse().expect("a share");
        let required = needs.iter().map(|needs| match ratio.ceil_of(needs.len() as u64) {
            0 => 0,
            pages => needs[pages as usize - 1],
        });
        let mut required: Vec<u64> = required.collect();
        required.sort_unstable();
        let rank = |q: &str| {
            let q: kvset::core::units::ratio::Ratio = q.parse().expect("a share");
            required[q.nearest_rank(required.len() as u64).expect("requests") as usize - 1]
        };
        let mean = required.iter().sum::<u64>() as f64 / required.len() as f64;
        assert_eq!(mean, expected.mean, "mean at {ratio}");
        let found = ["0.5", "0.9", "0.95", "0.99", "0.999", "1"].map(rank);
        let expected = [expected.p50, expected.p90, expected.p95, expected.p99, expected.p999, expected.max];
        assert_eq!(found, expected, "quantiles at {ratio}");
    }
}

proptest! {
    #[test]
    fn depths_are_those_of_a_plain_list(touched in prop::collection::vec(0usize..40, 0..1500)) {
        let mut stack = Stack::default();
        let mut list: Vec<usize> = Vec::new();
        for page in touched {
            let expected = list.iter().rev().position(|other| *other == page).map(|depth| depth as u64);
            prop_assert_eq!(stack.depth(page), expected);
            list.retain(|other| *other != page);
            list.push(page);
            stack.touch(page);
        }
    }
}

#[test]
fn the_worked_case_needs_two_pages() {
    let mut reference = Reference::new(Profile::Paper, Outputs::Ignored, 1, false);
    assert_eq!(reference.request(&[1, 2], 2, 0, Scope::GLOBAL), [0u64; 0]);
    assert_eq!(reference.request(&[1, 3], 2, 0, Scope::GLOBAL), [2]);
}

#[test]
fn leaf_first_keeps_heads_longer_than_tails() {
    let mut reference = Reference::new(Profile::LeafFirst, Outputs::Ignored, 1, false);
    reference.request(&[1, 2, 3], 3, 0, Scope::GLOBAL);
    assert_eq!(reference.request(&[1, 2, 3, 4], 4, 0, Scope::GLOBAL), [1, 2, 3]);
    let mut vllm = Reference::new(Profile::Vllm, Outputs::Cached, 2, false);
    vllm.request(&[1, 2], 4, 2, Scope::GLOBAL);
    assert_eq!(
        vllm.request(&[1, 2], 4, 0, Scope::GLOBAL),
        [2],
        "one page deep, and one for the partial page"
    );
}
