//! `kvset replay` over chat and completion requests.

use assert_cmd::Command;
use serde_json::{Value, json};
use std::path::PathBuf;

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    path.display().to_string()
}

fn replay(args: &[&str], input: &str) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KVSET")) {
        command.env_remove(name);
    }
    command.arg("replay").args(args).arg("-").write_stdin(input).assert()
}

#[test]
fn requests_give_the_result_of_their_token_ids() {
    let model = fixture("tokenize/chatml");
    // Two prompts of eight tokens: the second shares the first page of four.
    let [first, second] = [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 9, 9, 9, 9]];
    let result = |args: &[&str], rows: [Value; 3]| -> Value {
        let input: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let args = [&["--page-size", "4", "--capacities", "10p", "--json"], args].concat();
        let output = replay(&args, &input).success().get_output().stdout.clone();
        serde_json::from_slice(&output).expect("one JSON document")
    };
    let requests = [json!({"prompt": first}), json!({"body": {"prompt": second}}), json!({"prompt": first})];
    let token_ids = [json!({"tokens": first}), json!({"tokens": second}), json!({"tokens": first})];
    let tokenised = result(&["--format", "openai", "--model", &model], requests.clone());
    assert_eq!(tokenised["trace"]["requests"], 3);
    assert_eq!(tokenised["theoretical"]["page_hits"], 3);
    assert_eq!(tokenised, result(&[], token_ids));
    assert_eq!(tokenised, result(&["--model", &model], requests), "the format is told from the first row");
}

#[test]
fn without_a_usable_model_the_way_out_is_named() {
    let row = "{\"prompt\": \"hunter2\"}\n";
    let failed = replay(&["--format", "openai"], row).failure().code(1);
    let message = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(message.contains("--model") && !message.contains("hunter2"), "{message}");
    let failed = replay(&["--model", "no-such-folder"], row).failure().code(2);
    let message = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(message.contains("tokenizer.json"), "{message}");
}
