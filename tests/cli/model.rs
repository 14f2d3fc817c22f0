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
    assert!(text.contains("\n131072 bytes per token\n"), "{text}");
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

/// Runs the program on a folder with the files of a checkpoint.
fn checkpoint(files: &[(&str, &str)], args: &[&str]) -> (i32, serde_json::Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let mut command = Command::cargo_bin("kvset").expect("the program");
    let output = command.arg("model").arg(folder.path()).args(args).arg("--json").output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().expect("an exit"), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

const FP8: &str = r#"{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}"#;

#[test]
fn the_quantization_beside_a_config_is_followed_as_engines_do() {
    let (_, cost, _) = checkpoint(&[("config.json", LLAMA), ("hf_quant_config.json", FP8)], &[]);
    assert_eq!(cost["bytes_per_token"], 65_536);
    assert!(cost["warnings"].to_string().contains("hf_quant_config.json"), "{}", cost["warnings"]);
    let own = LLAMA.replacen('{', r#"{"quantization_config": {"quant_method": "fp8"},"#, 1);
    let (_, cost, _) = checkpoint(&[("config.json", &own), ("hf_quant_config.json", FP8)], &[]);
    assert_eq!(cost["bytes_per_token"], 131_072, "the config's own counts alone");
    let said_otherwise = &["--kv-dtype", "bf16"];
    let (_, cost, _) = checkpoint(&[("config.json", LLAMA), ("hf_quant_config.json", FP8)], said_otherwise);
    assert_eq!((&cost["bytes_per_token"], &cost["warnings"]), (&131_072.into(), &serde_json::json!([])));
    let broken = checkpoint(&[("config.json", LLAMA), ("hf_quant_config.json", "{")], &[]);
    assert!(broken.0 == 1 && broken.2.contains("hf_quant_config.json"), "{}", broken.2);
}

#[test]
fn what_is_left_for_the_cache_is_computed_from_memory_weights_and_ranks() {
    let index = r#"{"metadata": {"total_size": 16060522496}, "weight_map": {}}"#;
    let files = [("config.json", LLAMA), ("model.safetensors.index.json", index)];
    let memory = ["--accelerator-memory", "80GiB", "--memory-utilization", "0.9"];
    let (_, cost, _) = checkpoint(&files, &[&memory[..], &["--page-size", "16"]].concat());
    let left = (80_u64 << 30) * 9 / 10 - 16_060_522_496;
    let kv = &cost["kv_memory"];
    assert_eq!(kv["bytes_per_accelerator"], left);
    assert_eq!(kv["pages_per_engine"], left / (131_072 * 16));
    assert_eq!(kv["tokens"], left / (131_072 * 16) * 16);

    // Heads are split over two ranks; two engines have a cache each, and each rank its half of the weights.
    let (_, cost, _) = checkpoint(&files, &[&memory[..], &["--tp", "2", "--dp", "2"]].concat());
    let left = (80_u64 << 30) * 9 / 10 - 16_060_522_496 / 2;
    let kv = &cost["kv_memory"];
    assert_eq!((&kv["accelerators"], &kv["tokens_per_engine"]), (&4.into(), &(left / 65_536).into()));
    assert_eq!(kv["tokens"], left / 65_536 * 2);

    // Sixteen ranks hold eight heads twice; context parallelism shares the copies' tokens out.
    let shared = ["--tp", "16", "--cp", "2", "--overhead", "4GiB", "--weights-per-accelerator", "1GiB"];
    let (_, cost, _) = checkpoint(&files, &[&memory[..], &shared].concat());
    let left = (80_u64 << 30) * 9 / 10 - (5 << 30);
    assert_eq!(cost["kv_memory"]["tokens"], left / 16_384 * 2);

    for (args, part) in [
        (&["--tp", "16", "--cp", "4"][..], "--context-parallel 4"),
        (&["--cp", "2"], "--context-parallel 2"),
        (&["--weights", "80GB"], "nothing is left for the cache"),
        (&["--tier", "host"], "--tier gpu"),
        (&["--weights", "5000p"], "a size in bytes"),
        (&["--memory-utilization", "1.5"], "1.5"),
    ] {
        let (exit, _, said) = checkpoint(&files, &[&memory[..2], args].concat());
        assert!(exit == 2 && said.contains(part), "{args:?}: {said}");
    }
    let worded = [files[0], ("model.safetensors.index.json", r#"{"metadata": {"total_size": "16 GB"}}"#)];
    let (exit, _, said) = checkpoint(&worded, &memory);
    assert!(exit == 1 && said.contains("`metadata.total_size`"), "{exit}: {said}");
    let (exit, _, said) = checkpoint(&files[..1], &memory);
    assert!(exit == 2 && said.contains("model.safetensors.index.json"), "nothing is guessed: {said}");
    let (exit, _, said) = checkpoint(&files, &["--dp", "2"]);
    assert!(exit == 2 && said.contains("--accelerator-memory"), "{said}");
}

#[test]
fn a_latent_is_on_every_rank_until_context_parallelism_shares_its_tokens_out() {
    let latent = r#"{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": 61,
        "kv_lora_rank": 512, "qk_rope_head_dim": 64, "torch_dtype": "bfloat16"}"#;
    let memory = ["--gpu-memory", "141GiB", "--tensor-parallel-size", "8", "--weights", "700GB"];
    let tokens = |args: &[&str]| {
        let (_, cost, said) = checkpoint(&[("config.json", latent)], &[&memory[..], args].concat());
        cost["kv_memory"]["tokens"].as_u64().unwrap_or_else(|| panic!("{said}"))
    };
    let copied = tokens(&[]);
    assert_eq!(tokens(&["--decode-context-parallel-size", "8"]), copied * 8);
    assert_eq!(tokens(&["--data-parallel-size", "4"]), copied * 4);
}
