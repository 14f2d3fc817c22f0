//! Bytes per token of public models, and configs that are wrong in every way.

use kvset::core::units::PageSize;
use kvset::model::{
    CacheTier, CostOptions, KvDtype, ModelConfigError, ModelCost, Pooling, ReservePer, StateDtype, cost,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::path::Path;

fn config(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/model/{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn cost_of(name: &str, options: CostOptions) -> ModelCost {
    cost(&config(name), None, &options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn fp8() -> CostOptions {
    CostOptions { kv_dtype: KvDtype::Fp8, ..CostOptions::default() }
}

fn split(ranks: u32, tier: CacheTier) -> CostOptions {
    let tensor_parallel = NonZeroU32::new(ranks).expect("not zero");
    CostOptions { tensor_parallel, tier, ..CostOptions::default() }
}

/// A small config of one architecture, to be bent by tests.
fn small(changes: Value) -> String {
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "hidden_size": 64,
        "num_attention_heads": 8, "num_hidden_layers": 4, "num_key_value_heads": 2,
    });
    for (name, value) in changes.as_object().expect("an object") {
        config[name] = value.clone();
    }
    config.to_string()
}

fn error_of(config: &str, options: CostOptions) -> String {
    cost(config, None, &options).expect_err("should be refused").to_string()
}

#[test]
fn every_model_of_the_table_costs_what_it_should() {
    for (name, options, bytes) in [
        ("llama-3.1-8b", CostOptions::default(), 131_072),
        ("llama-3.1-70b", CostOptions::default(), 327_680),
        ("qwen2.5-7b", CostOptions::default(), 57_344),
        ("qwen3-32b", CostOptions::default(), 262_144),
        ("qwen3-235b-a22b", CostOptions::default(), 192_512),
        ("mistral-7b-v0.3", CostOptions::default(), 131_072),
        ("deepseek-v3", CostOptions::default(), 70_272),
        ("deepseek-v3.2", fp8(), 48_068),
        ("glm-4.5", CostOptions::default(), 376_832),
        ("glm-5.2", fp8(), 47_700),
        ("gpt-oss-120b", CostOptions::default(), 36_864),
        ("qwen3-next-80b-a3b", CostOptions::default(), 24_576),
    ] {
        let cost = cost_of(name, options);
        assert_eq!(cost.bytes_per_token, bytes, "{name}");
        assert_eq!(cost.lines.iter().map(|line| line.bytes).sum::<u64>(), bytes, "{name}: the lines add up");
    }
    assert_eq!(cost_of("gpt-oss-120b", CostOptions::default()).bytes_per_token_all_layers, 73_728);
}

#[test]
fn a_linear_attention_hybrid_reserves_a_state_for_each_checkpoint() {
    let cost = cost_of("qwen3-next-80b-a3b", CostOptions::default());
    let [state] = &cost.reserves[..] else { panic!("one reserve") };
    assert_eq!((state.per, state.layers), (ReservePer::Checkpoint, 36));
    assert_eq!(state.bytes, 36 * ((2 * 16 * 128 + 32 * 128) * 3 * 2 + 32 * 128 * 128 * 2));
    assert_eq!(cost.tokens_as_heavy_as(state), Some(1608));
    assert_eq!(state.lines[0].formula, "L * (2*Hk*Dk + Hv*Dv) * (k-1) * b");
    assert_eq!(state.lines[0].numbers, "36 * (2*16*128 + 32*128) * (4-1) * 2");
    let fp8 = cost_of("qwen3-next-80b-a3b", fp8());
    assert_eq!(fp8.bytes_per_token, 12_288);
    assert_eq!(fp8.reserves, cost.reserves, "states are not quantized with the tokens");
    assert!(cost.warnings.iter().any(|w| w.contains("SGLang keeps them in float32")), "{:?}", cost.warnings);
    let state_dtype = Some(StateDtype::Float32);
    let float = cost_of("qwen3-next-80b-a3b", CostOptions { state_dtype, ..CostOptions::default() });
    assert_eq!(float.reserves[0].bytes >> 20, 73, "about 74 MiB in float32");
    assert!(float.warnings.is_empty(), "{:?}", float.warnings);
}

#[test]
fn a_windowed_hybrid_reserves_the_pages_its_window_lies_on() {
    let exact = cost_of("gpt-oss-120b", CostOptions::default());
    assert_eq!((exact.reserves[0].tokens, exact.reserves[0].bytes), (Some(128), 128 * 36_864));
    let page_size = PageSize::new(16);
    let paged = cost_of("gpt-oss-120b", CostOptions { page_size, ..CostOptions::default() });
    let [window] = &paged.reserves[..] else { panic!("one reserve") };
    assert_eq!((window.per, window.layers, window.pages), (ReservePer::Sequence, 18, Some(9)));
    assert_eq!((window.tokens, window.bytes), (Some(144), 144 * 36_864));
}

#[test]
fn other_hybrids_are_laid_out_as_their_configs_say() {
    let gemma = cost_of("gemma-3-27b", CostOptions::default());
    assert_eq!(gemma.bytes_per_token, 2 * 10 * 16 * 128 * 2, "every sixth of 62 layers is full");
    assert_eq!(gemma.bytes_per_token_all_layers, 2 * 62 * 16 * 128 * 2);
    let small = cost_of("gemma-3-4b", CostOptions::default());
    assert_eq!(small.bytes_per_token, 2 * 5 * 4 * 256 * 2);
    assert!(small.warnings.iter().any(|w| w.contains("`head_dim` is absent")), "{:?}", small.warnings);
    let shared = cost_of("gemma-3n-e4b", CostOptions::default());
    assert_eq!(shared.bytes_per_token, 2 * 4 * 2 * 256 * 2, "the last 15 of 35 layers own no cache");
    assert_eq!(shared.reserves[0].layers, 16);
    let chunked = cost_of("llama-4-scout", CostOptions::default());
    assert_eq!(chunked.bytes_per_token, 2 * 12 * 8 * 128 * 2);
    assert_eq!((chunked.reserves[0].layers, chunked.reserves[0].tokens), (36, Some(8192)));
    let nemotron = cost_of("nemotron-h-8b", CostOptions::default());
    assert_eq!(nemotron.bytes_per_token, 2 * 4 * 8 * 128 * 2);
    assert_eq!(
        nemotron.reserves[0].bytes,
        24 * ((128 * 64 + 2 * 8 * 128) * 3 * 2 + 128 * 64 * 128 * 4),
        "24 layers with a state, in float32 as engines keep it where the config names no type"
    );
    let granite = cost_of("granite-4.0-h-small", CostOptions::default());
    assert_eq!((granite.bytes_per_token, granite.reserves[0].layers), (2 * 4 * 8 * 128 * 2, 36));
    let deci = cost_of("heads-by-layer", CostOptions::default());
    assert_eq!(deci.bytes_per_token, 2 * 80 * 128 * 2, "heads are counted layer by layer");
}

#[test]
fn windows_count_only_where_they_are_used() {
    let unused = cost_of("qwen2.5-7b", CostOptions::default());
    assert!(unused.reserves.is_empty() && unused.windowed_lines.is_empty());
    let used = config("qwen2.5-7b")
        .replace("\"use_sliding_window\": false", "\"use_sliding_window\": true")
        .replace("\"sliding_window\": 131072", "\"sliding_window\": 4096")
        .replace("\"max_window_layers\": 28", "\"max_window_layers\": 21");
    let used = cost(&used, None, &CostOptions::default()).expect("sound");
    assert_eq!((used.bytes_per_token, used.reserves[0].layers), (57_344 / 4 * 3, 7));
    let wide = config("gpt-oss-120b").replace("\"sliding_window\": 128", "\"sliding_window\": 131072");
    let wide = cost(&wide, None, &CostOptions::default()).expect("sound");
    assert_eq!((wide.bytes_per_token, wide.reserves.len()), (73_728, 0), "no sequence is longer");
    let all = cost_of("mistral-7b-v0.1", CostOptions::default());
    assert_eq!((all.bytes_per_token, all.reserves.len()), (131_072, 0));
    assert!(all.warnings[0].contains("no layer keeps every token"), "{:?}", all.warnings);
}

#[test]
fn heads_are_split_and_then_copied_and_latents_are_copied() {
    for (ranks, bytes, per_rank) in [(1, 131_072, 131_072), (8, 131_072, 16_384), (16, 262_144, 16_384)] {
        let cost = cost_of("llama-3.1-8b", split(ranks, CacheTier::Gpu));
        assert_eq!(
            (cost.bytes_per_token, cost.bytes_per_token_per_rank),
            (bytes, Some(per_rank)),
            "tp {ranks}"
        );
    }
    let refused = error_of(&config("llama-3.1-8b"), split(3, CacheTier::Gpu));
    assert_eq!(refused, "--tp 3 does not fit `num_key_value_heads` = 8: one must divide the other");
    let gpu = cost_of("deepseek-v3", split(8, CacheTier::Gpu));
    assert_eq!((gpu.bytes_per_token, gpu.bytes_per_token_per_rank), (8 * 70_272, Some(70_272)));
    assert!(gpu.warnings[0].contains("each of the 8 tensor-parallel ranks"), "{:?}", gpu.warnings);
    let host = cost_of("deepseek-v3", split(8, CacheTier::Host));
    assert_eq!((host.bytes_per_token, host.bytes_per_token_per_rank), (70_272, None));
    assert!(
        error_of(&config("qwen3-next-80b-a3b"), split(32, CacheTier::Gpu)).contains("linear_num_key_heads")
    );
    let wide = cost_of("granite-4.0-h-small", split(4, CacheTier::Gpu));
    assert!(wide.reserves[0].lines[0].numbers.contains("2*4*128"), "a group each rank: {:?}", wide.reserves);
}

#[test]
fn layers_that_share_an_indexer_cache_no_index_keys() {
    let listed = cost_of("glm-5.2", fp8());
    assert_eq!(listed.bytes_per_token, 78 * 576 + 21 * 132);
    let owners =
        |cost: &ModelCost| cost.warnings.iter().any(|w| w.contains("21 of 78 layers own an indexer"));
    assert!(owners(&listed), "{:?}", listed.warnings);
    let mut config: Value = serde_json::from_str(&config("glm-5.2")).expect("a config");
    config.as_object_mut().expect("an object").remove("indexer_types");
    let by_frequency = cost(&config.to_string(), None, &fp8()).expect("sound");
    assert_eq!(by_frequency.bytes_per_token, listed.bytes_per_token);
    let layers = config["num_hidden_layers"].as_u64().expect("a count");
    let pattern: String = (0..layers).map(|layer| if layer % 2 == 0 { 'F' } else { 'S' }).collect();
    config["index_topk_pattern"] = Value::from(pattern);
    assert_eq!(cost(&config.to_string(), None, &fp8()).expect("sound").bytes_per_token, 78 * 576 + 39 * 132);
}

#[test]
fn the_formula_is_printed_with_its_numbers() {
    let text = cost_of("deepseek-v3.2", fp8()).to_string();
    let expected = "\
DeepseekV32ForCausalLM, fp8 cache, tp 1, gpu tier

48068 bytes per token
  full attention, latent: L * (kv_lora_rank + kv_lora_rank / 128 * 4 + 2 * qk_rope_head_dim) = 61 * (512 + 16 + 128) = 40016
  indexer keys: L * (index_head_dim + index_head_dim / 128 * 4) = 61 * (128 + 4) = 8052

note: the latent in FP8 is packed as FlashMLA reads it (SM90); FlashInfer (SM100) reads plain FP8, 576 bytes a layer and token

note: 1 multi-token prediction layer(s) are left out: an engine that speculates with them caches them too, and finds less (kvset replay --draft-head)
";
    assert_eq!(text, expected);
    let page_size = PageSize::new(16);
    let text = cost_of("gpt-oss-120b", CostOptions { page_size, ..split(16, CacheTier::Gpu) }).to_string();
    let expected = "\
GptOssForCausalLM, bf16 cache, tp 16, gpu tier

73728 bytes per token
  full attention: 2 * L * max(num_key_value_heads, tp) * head_dim * b = 2 * 18 * 16 * 64 * 2 = 73728
  4608 on each rank

147456 bytes per token where windowed layers keep every token too
  sliding-window attention: 2 * L * max(num_key_value_heads, tp) * head_dim * b = 2 * 18 * 16 * 64 * 2 = 73728

reserve for each sequence: 10616832 bytes (10.2 MiB, as much as 144 cached tokens)
  18 windowed layers of `sliding_window` = 128
  144 tokens, the 9 pages it lies on at most, each
  sliding-window attention: 2 * L * max(num_key_value_heads, tp) * head_dim * b = 2 * 18 * 16 * 64 * 2 = 73728

in vLLM's shared pool of blocks (kvset replay --engine vllm --model-config)
  groups: window:128+full; a block: 1179648 bytes, 16 tokens of 18 layers
  each cached token: 73728 bytes in 1 full group(s); 147456 if every layer were full
  each place to go on from: 8 blocks of 1 window group(s), as much as 128 cached tokens
";
    assert_eq!(text, expected);
}

#[test]
fn the_answer_reads_back_from_json() {
    let cost = cost_of("qwen3-next-80b-a3b", CostOptions { page_size: PageSize::new(64), ..fp8() });
    let text = serde_json::to_string(&cost).expect("plain data");
    assert_eq!(serde_json::from_str::<ModelCost>(&text).expect("plain data"), cost);
}

#[test]
fn unknown_architectures_are_refused_by_name() {
    let error = error_of(&small(json!({"architectures": ["PaperclipForCausalLM"]})), CostOptions::default());
    assert!(error.starts_with("architecture `PaperclipForCausalLM` is not known"), "{error}");
    assert!(error.contains("--kv-bytes-per-token") && error.contains("DeepseekV3ForCausalLM"), "{error}");
    let inner =
        json!({"architectures": ["LlavaForConditionalGeneration"], "text_config": {"model_type": "new"}});
    assert!(error_of(&inner.to_string(), CostOptions::default()).contains("`new`"));
    // A wrapper without a text level is what its class makes of it, if that is the text class's own defaults.
    let bare = |class: &str| json!({"architectures": [class], "dtype": "bfloat16"}).to_string();
    let llava = cost(&bare("LlavaForConditionalGeneration"), None, &CostOptions::default()).expect("sound");
    assert_eq!(llava.bytes_per_token, 524_288);
    let mistral = error_of(&bare("Mistral3ForConditionalGeneration"), CostOptions::default());
    assert!(mistral.contains("`text_config` is missing"), "{mistral}");
    let by_type = small(json!({"architectures": null, "model_type": "llama"}));
    assert_eq!(
        cost(&by_type, None, &CostOptions::default()).expect("sound").bytes_per_token,
        2 * 4 * 2 * 8 * 2
    );
    let floats = small(json!({"num_hidden_layers": 4.0, "num_key_value_heads": [2.0, 2, 2e0, 2]}));
    assert_eq!(
        cost(&floats, None, &CostOptions::default()).expect("whole").bytes_per_token,
        2 * 4 * 2 * 8 * 2
    );
    let nameless = error_of(&small(json!({"architectures": null})), CostOptions::default());
    assert!(nameless.contains("`architectures` is missing"), "{nameless}");
    // A class names a layout and no size: the class's defaults were told for any file that got a class.
    for (file, what) in [
        (
            json!({"architectures": ["LlamaForCausalLM"], "llama.block_count": 16}),
            "how large `LlamaForCausalLM` is",
        ),
        (json!({"peft_type": "LORA", "base_model_name_or_path": "m"}), "the configuration of an adapter"),
        (json!({"general.architecture": "llama", "llama.block_count": 16}), "the metadata of a GGUF file"),
        (json!({"cfg": {"num_layers": 16}}), "a configuration of NeMo"),
        (json!({"_from_model_config": true, "eos_token_id": 2}), "generation_config.json"),
    ] {
        let error = error_of(&file.to_string(), CostOptions::default());
        assert!(error.contains(what), "{file}: {error}");
    }
    let escape =
        error_of(&small(json!({"architectures": ["\u{1b}[31m".repeat(50)]})), CostOptions::default());
    assert!(!escape.contains('\u{1b}'), "nothing from outside upsets a terminal");
}

#[test]
fn errors_name_the_field_and_what_it_should_hold() {
    for (changes, expected) in [
        (json!({"num_hidden_layers": null}), "field `num_hidden_layers` is missing"),
        (json!({"num_hidden_layers": 0}), "field `num_hidden_layers` of the model's config is 0"),
        (json!({"num_hidden_layers": -3}), "is -3: expected a whole number from 1"),
        (json!({"num_hidden_layers": 2.5}), "is 2.5: expected a whole number"),
        (json!({"num_hidden_layers": "32"}), "is the text `32`: expected a whole number"),
        (json!({"num_hidden_layers": 4_000_000_000_u64}), "expected a whole number from 1 to 2147483648"),
        (json!({"num_hidden_layers": 20_000}), "expected at most 10000 layers"),
        (
            json!({"num_attention_heads": 7}),
            "`hidden_size` of the model's config is 64: expected a multiple of",
        ),
        (json!({"num_key_value_heads": []}), "is a list of 0: expected a whole number"),
        (json!({"num_key_value_heads": [1, 2]}), "is a list of 2: expected a list of 4 entries"),
        (json!({"num_key_value_heads": [1, 2, 0, 1]}), "expected a list of whole numbers from 1"),
        (json!({"torch_dtype": "int3"}), "is the text `int3`: expected bfloat16"),
        (json!({"layer_types": ["full_attention"]}), "expected a list of 4 entries, one per layer"),
        (json!({"layer_types": ["full_attention", "full_attention", "full_attention", "rnn"]}), "text `rnn`"),
        (json!({"layer_types": vec!["sliding_attention"; 4]}), "`sliding_window` is missing"),
        (json!({"num_kv_shared_layers": 4}), "is 4: expected less than the 4 of"),
        (json!({"architectures": "LlamaForCausalLM"}), "expected a list that begins with a class name"),
        (json!({"architectures": ["FlintForCausalLM"]}), "`layer_types` is missing"),
        (json!({"architectures": ["PanguUltraMoEForCausalLM"]}), "`kv_lora_rank` is missing"),
        (
            json!({"architectures": ["DeepseekV2ForCausalLM"], "kv_lora_rank": null}),
            "`kv_lora_rank` is missing",
        ),
        (json!({"architectures": ["MiniMaxM3ForCausalLM"]}), "sparse_attention_freq` is missing"),
        (json!({"architectures": ["BailingMoeLinearForCausalLM"]}), "`layer_group_size` is missing"),
        (json!({"architectures": ["GraniteMoeHybridForCausalLM"]}), "`layer_types` is missing"),
        (
            json!({"architectures": ["Zamba2ForCausalLM"], "layer_types": vec!["hybrid"; 4]}),
            "`attention_head_dim` is missing",
        ),
        (
            json!({"architectures": ["KimiLinearForCausalLM"]}),
            "`linear_attn_config.full_attn_layers` is missing",
        ),
        (
            json!({"architectures": ["BambaForCausalLM"], "attn_layer_indices": [1, 4]}),
            "is 4: expected a list of layers from 0 to 3",
        ),
        (
            json!({"architectures": ["MiMoV2ForCausalLM"], "hybrid_layer_pattern": [0, 1, 2, 1]}),
            "a list of 0 and 1",
        ),
        (json!({"layer_types": ["mamba", "attention", "mamba", "mamba"]}), "states are not among the rules"),
        (json!({"block_configs": [{}, {}, {}, {}]}), "a block without `attention`"),
        (
            json!({"architectures": ["NemotronHForCausalLM"], "head_dim": 8, "hybrid_override_pattern": "M*"}),
            "4 letters",
        ),
        (json!({"architectures": ["LlavaForConditionalGeneration"], "text_config": 3}), "`text_config`"),
        (
            json!({"architectures": ["GraniteMoeHybridForCausalLM"], "layer_types": vec!["mamba"; 4]}),
            "no layer of this model keeps tokens",
        ),
    ] {
        let error = error_of(&small(changes.clone()), CostOptions::default());
        assert!(error.contains(expected), "{changes}: `{error}` should say `{expected}`");
    }
    let huge =
        small(json!({"num_hidden_layers": 10_000, "num_key_value_heads": 1 << 30, "head_dim": 1 << 30}));
    assert!(
        error_of(&huge, CostOptions::default()).contains("more bytes than 64 bits hold (2 * L * num_key")
    );
    for (text, expected) in [("", "EOF"), ("[1]", "a list of 1"), ("{\"a\":", "EOF"), ("null", "null")] {
        let error = error_of(text, CostOptions::default());
        assert!(
            error.starts_with("the model's config is not a JSON object") && error.contains(expected),
            "{error}"
        );
    }
    let long = " ".repeat(5 << 20);
    assert!(matches!(cost(&long, None, &CostOptions::default()), Err(ModelConfigError::TooLong { .. })));
}

/// What matters of every config of the table of figures, and whole configs.
fn configs() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/model");
    let table = std::fs::read_to_string(path.join("figures.jsonl")).expect("the table");
    let figures =
        table.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line")["config"].clone());
    let whole = ["glm-5.2", "gpt-oss-120b", "gemma-3n-e4b", "granite-4.0-h-small", "heads-by-layer"];
    let whole = whole.map(|name| serde_json::from_str(&config(name)).expect("a config"));
    figures.chain(whole).collect()
}

fn hostile() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0u64..70).prop_map(|bits| Value::from(1u64.checked_shl(bits as u32).unwrap_or(u64::MAX))),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        prop::collection::vec(any::<i32>(), 0..40).prop_map(Value::from),
        Just(json!({})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_config_brings_the_calculation_down(
        fixture in prop::sample::select(configs()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), hostile()), 1..4),
        ranks in prop_oneof![1u32..20, any::<u32>()],
        page in any::<u32>(),
        host in any::<bool>(),
    ) {
        let mut value = fixture;
        for (at, hostile) in &changes {
            let inner = ["text_config", "llm_config", "language_config", "thinker_config"];
            let inner = inner.into_iter().find(|name| value.get(*name).is_some_and(Value::is_object));
            let level = match inner {
                Some(name) => value[name].as_object_mut(),
                None => value.as_object_mut(),
            };
            let level = level.expect("an object");
            if level.is_empty() {
                break;
            }
            let name = level.keys().nth(at.index(level.len())).expect("in range").clone();
            level.insert(name, hostile.clone());
        }
        let tier = if host { CacheTier::Host } else { CacheTier::Gpu };
        let options = CostOptions { page_size: PageSize::new(page), ..split(ranks.max(1), tier) };
        match cost(&value.to_string(), None, &options) {
            Ok(cost) => prop_assert!(cost.bytes_per_token > 0 && !cost.to_string().is_empty()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

/// A state of almost 2^63 bytes made a block's bytes overflow as they were printed.
#[test]
fn a_hybrid_model_of_absurd_size_is_told_without_overflow() {
    for field in
        ["linear_value_head_dim", "linear_key_head_dim", "head_dim", "num_key_value_heads", "sliding_window"]
    {
        for name in ["qwen3-next-80b-a3b", "gpt-oss-120b", "nemotron-h-8b"] {
            for bits in 0..64 {
                let mut value: Value = serde_json::from_str(&config(name)).expect("a config");
                value[field] = Value::from(1u64 << bits);
                let options = CostOptions { page_size: PageSize::new(u32::MAX), ..CostOptions::default() };
                match cost(&value.to_string(), None, &options) {
                    Ok(cost) => {
                        assert!(cost.to_string().contains("bytes per token"), "{name}: {field} = 2^{bits}")
                    }
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
        }
    }
}

/// The groups that vLLM makes of a model's layers: equally many layers each, kinds as they first come.
#[test]
fn layers_are_put_into_the_groups_of_vllms_shared_pool() {
    for (name, groups, layers, bytes, least) in [
        ("gpt-oss-120b", "window:128+full", 18, 36_864, None),
        ("gemma-3-27b", "6*window:1024+full", 10, 81_920, None),
        ("qwen3-next-80b-a3b", "3*mamba+full", 12, 24_576, Some(544)),
        ("nemotron-h-8b", "6*mamba+full", 4, 16_384, Some(1040)),
    ] {
        let Pooling::Shared(pool) = cost_of(name, CostOptions::default()).pooling else { panic!("{name}") };
        assert_eq!((pool.attention.to_string().as_str(), pool.layers_a_group), (groups, layers), "{name}");
        assert_eq!((pool.block_bytes_per_token, pool.least_block_tokens), (bytes, least), "{name}");
    }
    for (name, reason) in [("llama-4-scout", "attention_chunk_size"), ("mistral-7b-v0.1", "no layer keeps")] {
        let pooling = cost_of(name, CostOptions::default()).pooling;
        assert!(
            matches!(&pooling, Pooling::NotModelled(text) if text.contains(reason)),
            "{name}: {pooling:?}"
        );
    }
    assert_eq!(cost_of("llama-3.1-8b", CostOptions::default()).pooling, Pooling::Alike);
    // 5 full and 7 windowed layers are padded to 7 each; at 8 there are two groups of 5 instead.
    let layered = |windows: usize| {
        let types = [vec!["full_attention"; 5], vec!["sliding_attention"; windows]].concat();
        let config = small(json!({
            "architectures": ["GptOssForCausalLM"], "head_dim": 8, "num_hidden_layers": types.len(),
            "layer_types": types, "sliding_window": 64,
        }));
        match cost(&config, None, &CostOptions::default()).expect("known").pooling {
            Pooling::Shared(pool) => {
                (pool.attention.to_string(), pool.layers_a_group, pool.block_bytes_per_token)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(layered(7), ("full+window:64".to_owned(), 7, 7 * 64));
    assert_eq!(layered(8), ("full+2*window:64".to_owned(), 5, 5 * 64));
}

#[test]
fn the_trade_of_a_shared_pool_is_said_in_words() {
    let page_size = PageSize::new(16);
    let text = cost_of("gemma-3-27b", CostOptions { page_size, ..CostOptions::default() }).to_string();
    assert!(text.contains("81920 bytes in 1 full group(s); 507904 if every layer were full"), "{text}");
    assert!(text.contains("384 blocks of 6 window group(s), as much as 6144 cached tokens"), "{text}");
    let text = cost_of("qwen3-next-80b-a3b", CostOptions { page_size, ..CostOptions::default() }).to_string();
    assert!(
        text.contains("544 tokens of 12 layers") && text.contains("as much as 1632 cached tokens"),
        "{text}"
    );
}

/// Gemma 4 has other heads in its whole layers only where keys stand for values, too.
#[test]
fn global_heads_count_where_their_flag_is_set() {
    let of = |changes: Value| {
        let mut config = json!({
            "architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "dtype": "bfloat16", "num_hidden_layers": 6,
            "num_attention_heads": 8, "num_key_value_heads": 4, "num_global_key_value_heads": 1, "head_dim": 64,
            "global_head_dim": 128, "hidden_size": 512, "sliding_window": 512,
        });
        for (name, value) in changes.as_object().expect("an object") {
            config[name] = value.clone();
        }
        let cost = cost(&config.to_string(), None, &CostOptions::default()).expect("sound");
        (cost.bytes_per_token, cost.bytes_per_token_all_layers - cost.bytes_per_token)
    };
    let windowed = 2 * 5 * 4 * 64 * 2;
    assert_eq!(of(json!({"attention_k_eq_v": true})), (2 * 128 * 2, windowed));
    assert_eq!(of(json!({"attention_k_eq_v": false})), (2 * 4 * 128 * 2, windowed));
    let unified = json!({"architectures": ["Gemma4UnifiedForCausalLM"], "model_type": "gemma4_unified_text"});
    assert_eq!(of(unified), (2 * 128 * 2, windowed));
    let by_layer = json!({"per_layer_config": {"5": {"num_key_value_heads": 2, "head_dim": 128}}});
    assert_eq!(of(by_layer), (2 * 2 * 128 * 2, windowed));
}

/// Layers of DeepSeek-V4 have an indexer at the ratio of 4 alone, whatever the other layers have.
#[test]
fn only_the_ratio_of_four_has_index_keys() {
    let of = |ratios: [u64; 3]| {
        let config = json!({
            "architectures": ["DeepseekV4ForCausalLM"], "dtype": "bfloat16", "num_hidden_layers": 3, "head_dim": 512,
            "qk_rope_head_dim": 64, "index_head_dim": 128, "sliding_window": 128, "compress_ratios": ratios,
        });
        cost(&config.to_string(), None, &CostOptions::default()).expect("sound").bytes_per_token
    };
    assert_eq!(of([0, 128, 128]), 2 * 512 * 2 / 128);
    assert_eq!(of([0, 4, 128]), (512 + 128) * 2 / 4 + 512 * 2 / 128);
}
