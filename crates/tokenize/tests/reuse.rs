//! What was tokenised before is not tokenised again, and the ids are those of the whole text.

use kvset_tokenize::{Model, RequestTokenizer, TokenizeLimits};
use proptest::prelude::*;
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use tokenizers::Tokenizer;

const NAMES: [&str; 4] = ["chatml", "headers", "inst", "words"];

/// A model of the fixtures, and its tokenizer as the library alone runs it.
struct Loaded {
    model: Arc<Model>,
    whole: Tokenizer,
}

static MODELS: LazyLock<Vec<Loaded>> = LazyLock::new(|| NAMES.iter().map(|name| load(name)).collect());

fn load(name: &str) -> Loaded {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/tokenize").join(name);
    let model = Arc::new(Model::load(&folder).expect("a usable model"));
    let whole = Tokenizer::from_file(folder.join("tokenizer.json")).expect("a tokenizer");
    Loaded { model, whole }
}

fn tokenizer(model: &Arc<Model>, cache_bytes: usize) -> RequestTokenizer {
    RequestTokenizer::new(Arc::clone(model), TokenizeLimits { cache_bytes, ..TokenizeLimits::default() })
}

fn ids(tokenizer: &mut RequestTokenizer, text: &str, framed: bool) -> Vec<u32> {
    let body = json!({"prompt": text, "add_special_tokens": framed}).to_string();
    let prompts = tokenizer.tokenize(body.as_bytes(), None).expect("a prompt");
    prompts.iter().next().expect("one prompt").to_vec()
}

/// Texts made of what tokenizers treat specially: whole, broken and overlapping added tokens, spaces on
/// either side of them, characters of several bytes, and those that normalise to others.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => prop::sample::select(vec![
            "<|im_start|>", "<|im_end|>", "<tool_call>", "</think>", "<|endoftext|>",
            "<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>",
            "<s>", "</s>", "<unk>", "[INST]", "[/INST]", "<mask>", "kvset", "mask", "<sep>",
        ]),
        2 => prop::sample::select(vec!["<|im_", "start|>", "<", "|>", "[", "INST]", "</", "<s", "mas", "k"]),
        3 => prop::sample::select(vec![" ", "  ", "\n", "\n\n", "\t", "\u{a0}", "\u{2003}"]),
        4 => prop::sample::select(vec!["page", "Cache", "é", "e\u{301}", "🙂", "中文", "12345", "don't", "_", "▁"]),
        1 => Just("\u{0}"),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// The whole text at once, by the library alone, is the model to equal.
    #[test]
    fn cut_and_remembered_texts_give_the_ids_of_the_whole(
        texts in prop::collection::vec(text(), 1..5),
        which in 0..NAMES.len(),
        framed: bool,
        cache_bytes in prop::sample::select(vec![0usize, 2_000, 1 << 20]),
    ) {
        let Loaded { model, whole } = &MODELS[which];
        let mut tokenizer = tokenizer(model, cache_bytes);
        // Each text again at the end of the one before: a prompt that grows.
        let mut grown = String::new();
        for text in &texts {
            grown.push_str(text);
            for text in [&grown, text] {
                let expected = whole.encode_fast(text.as_str(), framed).expect("encodes");
                prop_assert_eq!(ids(&mut tokenizer, text, framed), expected.get_ids(), "{} {:?}", NAMES[which], text);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// Behind a prompt that is where a longer one begins, an answer has the ids that follow there.
    #[test]
    fn an_answer_has_the_ids_of_the_prompt_that_goes_on_behind_it(
        (prompt, answer) in (text(), text()),
        which in 0..NAMES.len(),
        cache_bytes in prop::sample::select(vec![0usize, 1 << 20]),
    ) {
        let Loaded { model, whole } = &MODELS[which];
        let mut tokenizer = tokenizer(model, cache_bytes);
        let first = ids(&mut tokenizer, &prompt, false);
        let found = tokenizer.tokenize_answer(&answer).expect("encodes");
        let next = whole.encode_fast([prompt.as_str(), &answer].concat(), false).expect("encodes");
        if let Some(rest) = next.get_ids().strip_prefix(first.as_slice()) {
            prop_assert_eq!(found, rest, "{} {:?} {:?}", NAMES[which], prompt, answer);
        }
        let prompts = tokenizer.prompts();
        prop_assert_eq!(prompts.iter().next().expect("one prompt"), first, "the prompt stays");
    }
}

/// The body of a chat of so many turns; the turns of a shorter one are the first of a longer one.
fn chat(turns: usize) -> String {
    let turn = |number: usize| {
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": format!("turn {number} {}", "with some words ".repeat(40))})
    };
    json!({"messages": (0..turns).map(turn).collect::<Vec<_>>(), "add_generation_prompt": false}).to_string()
}

#[test]
fn a_chat_that_grows_costs_its_last_turns() {
    // Room enough that no part of the memory is full, however the pieces fall to the parts.
    let mut tokenizer = tokenizer(&MODELS[1].model, 1 << 25);
    tokenizer.tokenize(chat(100).as_bytes(), None).expect("a chat");
    let first = tokenizer.reuse();
    let tokens = tokenizer.tokenize(chat(102).as_bytes(), None).expect("a chat").tokens();
    let second = tokenizer.reuse();
    let encoded = second.encoded_bytes - first.encoded_bytes;
    assert!(encoded > 0 && encoded * 40 < second.reused_bytes, "{encoded} bytes of {second:?}");
    let mut fresh = self::tokenizer(&MODELS[1].model, 0);
    assert_eq!(fresh.tokenize(chat(102).as_bytes(), None).expect("a chat").tokens(), tokens);
}

#[test]
fn nothing_is_cut_where_a_token_looks_at_its_neighbours() {
    let mut tokenizer = tokenizer(&MODELS[3].model, 1 << 20);
    for text in ["one<sep>two", "one<sep>three"] {
        ids(&mut tokenizer, text, false);
    }
    assert_eq!(tokenizer.reuse().reused_bytes, 0);
}
