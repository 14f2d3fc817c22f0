//! `kvset replay --report` of engines that are modelled a capacity at a time: ceiling, tiers below, search.

use crate::support::program::{WITHOUT_CERTAINTY, kvset};
use serde_json::Value;
use std::path::Path;

/// The report, and what is printed for programs alongside it.
fn reported(directory: &Path, args: &[&str]) -> (String, Value) {
    let (trace, report) = (directory.join("trace.jsonl"), directory.join("report.html"));
    kvset(&["generate", "--requests", "400", "--output"]).arg(&trace).assert().success();
    let mut command = kvset(&["replay", "--json"]);
    command.args(WITHOUT_CERTAINTY);
    let output = command.args(args).arg("--report").arg(&report).arg(&trace).assert().success();
    let printed = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    (std::fs::read_to_string(report).expect("a report"), printed)
}

/// A rate as a report writes it.
fn per_cent(rate: &Value) -> String {
    format!("<td>{:.2} %</td>", rate.as_f64().expect("a rate") * 100.0)
}

#[test]
fn a_report_says_what_the_layers_of_a_model_cost_in_hits_and_what_was_searched() {
    let directory = tempfile::tempdir().expect("a directory");
    let args =
        ["--engine", "vllm", "--attention", "full+2*window:300", "--capacities", "500p,2000p", "--search"];
    let (report, printed) = reported(directory.path(), &args);
    assert!(report.contains(" layers cost in hits</h2>"), "{report}");
    for rate in ["these_rules_hit_rate", "dense_retention_hit_rate", "full_attention_hit_rate"] {
        assert!(report.contains(&per_cent(&printed["ceiling"][rate])), "{rate}");
    }
    assert!(report.contains("<h2>Required capacity by search</h2>"));
    for entry in printed["searched"]["required"].as_array().expect("a list") {
        let pages = entry["pages"].as_u64().expect("within the bound");
        assert!(pages < 1_000_000, "written with one separator below");
        let thousands = format!("{},{:03}", pages / 1000, pages % 1000);
        let pages = if pages < 1000 { pages.to_string() } else { thousands };
        assert!(report.contains(&format!(">{pages} pages</td>")), "{entry}");
    }
}

#[test]
fn a_report_says_what_tiers_below_find() {
    let directory = tempfile::tempdir().expect("a directory");
    let args = ["--capacities", "300p,900p", "--below", "lmcache:4000p", "--chunk-tokens", "128"];
    let (report, printed) = reported(directory.path(), &args);
    assert!(report.contains("<h2>Tiers below</h2>") && report.contains(">lmcache:4000p</th>"), "{report}");
    let accesses = printed["trace"]["page_accesses"].as_u64().expect("pages") as f64;
    for point in printed["capacities"].as_array().expect("capacities") {
        let found = point["below"][0]["page_hits"].as_u64().expect("hits") as f64;
        assert!(report.contains(&per_cent(&(found / accesses).into())), "{point}");
    }
}

#[test]
fn a_report_of_an_engine_with_a_curve_has_no_such_sections() {
    let directory = tempfile::tempdir().expect("a directory");
    let (report, _) = reported(directory.path(), &[]);
    for title in ["layers cost in hits", "Tiers below", "by search"] {
        assert!(!report.contains(title), "{title}");
    }
}
