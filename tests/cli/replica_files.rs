//! A folder that several replicas write: each its own files, all of one time.

use crate::page_lru::PageLru;
use crate::support::program::kvset;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const PAGES_EACH: usize = 120;

/// Files of two data-parallel ranks, as vLLM's connector writes them, that a router without regard to prefixes feeds.
fn files_of_two_ranks(folder: &Path) -> Vec<PathBuf> {
    let mut caches = [PageLru::new(PAGES_EACH, PAGES_EACH), PageLru::new(PAGES_EACH, PAGES_EACH)];
    let mut files = [String::new(), String::new()];
    for at in 0..2_000_u64 {
        let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let (rank, prompt) = ((mixed >> 8) as usize % 2, mixed % 23);
        let ids: Vec<u64> = (0..12).map(|page| 1 + prompt * 100 + page).collect();
        let row = json!({
            "event_time": 1_700_000_000_000 + 1_000 * at, "pool": "m", "replica": format!("host-dp{rank}"), "page_size": 16,
            "ids_chained": true, "id_scheme": "vllm:sha256:16", "input_tokens": 16 * ids.len() + 3, "output_tokens": 2,
            "duration_ms": 1, "cached_tokens": 16 * caches[rank].access(&ids), "page_ids": ids,
        });
        files[rank].push_str(&format!("{row}\n"));
    }
    let paths = [0, 1].map(|rank| folder.join(format!("requests-host-dp{rank}-1700000000000-000001.jsonl")));
    for (path, text) in paths.iter().zip(files) {
        std::fs::write(path, text).expect("a disk");
    }
    paths.to_vec()
}

fn json_of(command: &[&str], files: &[PathBuf]) -> Value {
    let output = kvset(command).args(files).output().expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_headline_says_that_its_size_is_of_one_cache_in_place_of_several() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = files_of_two_ranks(folder.path());
    let command = ["replay", "--json", "--engine", "vllm", "--provisioned", "240p"];
    let result = json_of(&command, &files);
    let sentences = |result: &Value| -> Vec<String> {
        serde_json::from_value(result["answer"]["sentences"].clone()).expect("sentences")
    };
    let said = sentences(&result);
    assert_eq!(said[0], "Too small: 277 pages needed, 240 pages provisioned in 2 replicas, 37 pages short.");
    assert!(said[1].contains("277 pages keep 99 % of requests"), "{}", said[1]);
    assert!(said[1].contains(", as one cache for both replicas"), "{}", said[1]);
    let together = "Routed as logged, the 2 replicas need 554 pages together, 277 pages each, for the same share of requests.";
    assert_eq!(said[2], together);
    let measured = &result["measured"];
    // A cache has room for its pages, and for the one that an answer begins.
    let found = (&measured["replicas"], &measured["effective_capacity"]["pages_from"]);
    assert_eq!(found, (&json!(2), &json!(PAGES_EACH + 1)));
    // Whoever asks for it gets no other answer: the same prompts are in each of two caches.
    let asked = json_of(&[&command[..], &["--router", "logged"]].concat(), &files);
    assert_eq!((sentences(&asked), &asked["routing"]), (said, &result["routing"]));
    // Enough for one cache may be too little for several.
    let said =
        sentences(&json_of(&["replay", "--json", "--engine", "vllm", "--provisioned", "300p"], &files));
    let short = "Too small as routed: 554 pages needed (277 pages as one cache), 300 pages provisioned in 2 replicas, 254 \
                 pages short.";
    assert_eq!(said[0], short);
    let said =
        sentences(&json_of(&["replay", "--json", "--engine", "vllm", "--provisioned", "600p"], &files));
    assert_eq!(said[0], "Large enough as routed: 554 pages needed, 600 pages provisioned in 2 replicas.");
    // One replica's log is of one cache.
    let said = sentences(&json_of(&command, &files[..1]));
    assert!(!said.concat().contains("replica"), "{said:?}");
}

#[test]
fn files_of_one_time_are_no_disorder() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = files_of_two_ranks(folder.path());
    let notes = json_of(&["replay", "--json", "--engine", "vllm"], &files)["notes"].to_string();
    assert!(!notes.contains("times run backwards"), "{notes}");
    let found = json_of(&["doctor", "--json"], &files);
    let of = |subject: &str| -> Value {
        let findings = found["findings"].as_array().expect("findings");
        findings
            .iter()
            .find(|finding| finding["subject"] == subject)
            .expect("a finding on each subject")
            .clone()
    };
    assert_eq!(
        (&of("replicas")["verdict"], &of("replicas")["numbers"]["different"]),
        (&json!("yes"), &json!(2))
    );
    let order = of("order");
    assert_eq!((&order["verdict"], &order["numbers"]["unexplained_ms"]), (&json!("yes"), &json!(0)));
    assert!(order["evidence"].as_str().expect("words").contains("files are of one time"), "{order}");
    assert!(order["numbers"]["backwards"].as_u64() > Some(0), "{order}");
}
