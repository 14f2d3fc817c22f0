//! Figures of public models, and of cache types, each with the product that it was computed by apart from the program.

use kvset::model::{CostOptions, ReservePer, cost};
use serde::Deserialize;
use std::path::Path;

/// One line of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    model: String,
    /// What matters of its config.json.
    config: serde_json::Value,
    kv_dtype: Option<String>,
    indexer_dtype: Option<String>,
    formula: String,
    bytes_per_token: u64,
    /// Bytes per token of the layers with a window.
    #[serde(default)]
    windowed: u64,
    /// Bytes of a checkpoint.
    #[serde(default)]
    state: u64,
}

#[test]
fn every_model_of_the_table_has_its_figure() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/model/figures.jsonl");
    let text = std::fs::read_to_string(path).expect("the table");
    let mut wrong = Vec::new();
    for line in text.lines() {
        let figure: Figure = serde_json::from_str(line).expect("a line of the table");
        let mut options = CostOptions::default();
        if let Some(kv_dtype) = &figure.kv_dtype {
            options.kv_dtype = kv_dtype.parse().expect("a type");
        }
        if let Some(indexer_dtype) = &figure.indexer_dtype {
            options.indexer_dtype = indexer_dtype.parse().expect("a type");
        }
        let expected = (figure.bytes_per_token, figure.windowed, figure.state);
        let seen = cost(&figure.config.to_string(), None, &options).map(|cost| {
            let states = cost.reserves.iter().filter(|reserve| reserve.per == ReservePer::Checkpoint);
            let windowed = cost.windowed_lines.iter().map(|line| line.bytes).sum::<u64>();
            (cost.bytes_per_token, windowed, states.map(|reserve| reserve.bytes).sum::<u64>())
        });
        if seen.as_ref() != Ok(&expected) {
            wrong.push(format!("{}: {seen:?}, not {expected:?} ({})", figure.model, figure.formula));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(text.lines().count() > 60, "the table is whole");
}
