//! `kvset model`: the figure, the formula with the numbers put in, and refusals by name.

use assert_cmd::Command;

/// What matters of Llama-3.1-8B's config.json.
const LLAMA: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "torch_dtype": "bfloat16"}"#;

fn model(config: &str, args: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    command.args(["model", "-"]).args(args).write_stdin(config).assert()
}

#[test]
fn the_formula_is_shown_with_the_numbers_put_in() {
    let output = model(LLAMA, &[]).success().get_output().clone();
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("\n131072 bytes a token\n"), "{text}");
    assert!(text.contains("num_key_value_heads") && text.contains("= 131072"), "{text}");
    assert!(output.stderr.is_empty());
}

#[test]
fn scripts_read_json() {
    let output = model(LLAMA, &["--json", "--kv-dtype", "fp8", "--tp", "8"]).success().get_output().clone();
    let cost: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(cost["bytes_per_token"], 65_536);
    assert_eq!(cost["bytes_per_token_per_rank"], 8192);
}

#[test]
fn what_cannot_be_told_is_refused_by_name() {
    let unknown =
        LLAMA.replace("LlamaForCausalLM", "PaperclipForCausalLM").replace("\"llama\"", "\"paperclip\"");
    for (config, part) in
        [(unknown.as_str(), "PaperclipForCausalLM"), ("{}", "architectures"), ("[", "error: ")]
    {
        let output = model(config, &[]).code(1).get_output().clone();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("error: ") && said.contains(part), "{said}");
        assert!(output.stdout.is_empty());
    }
    let mut command = Command::cargo_bin("kvset").expect("the program");
    let assert = command.args(["model", "no/such/config.json"]).assert().code(1);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("cannot read model config `no/such/config.json`"), "{said}");
}
