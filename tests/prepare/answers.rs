//! Answers that a log has: the pages they fill are those that later prompts have.

use super::logs::{prepare, reason, settings};
use crate::prepare_support::model_directory;
use kvset::codec::{DecodeLimits, Encoding, RequestDecoder};
use kvset::core::units::PageSize;
use kvset::core::units::hashing::PageHasher;
use kvset::core::units::pages::Scope;
use kvset::logs::Preset;
use kvset::tokenize::{Model, RequestTokenizer, TokenizeLimits};
use kvset::trace::{Format, ReadOptions, TraceItem, TraceReader};
use std::sync::Arc;

/// An answer whose ids a log lists fills the pages that the prompt which goes on behind it has, for prepare and replay
/// alike.
#[test]
fn answers_with_ids_fill_the_pages_that_later_prompts_have() {
    let (prompt, answer): (Vec<u32>, Vec<u32>) = ((1..=9).collect(), (10..=17).collect());
    let sglang = serde_json::json!({
        "timestamp": "2025-11-20T12:00:01.500000", "event": "request.finished", "rid": "r",
        "obj": {"rid": "r", "text": null, "input_ids": prompt},
        "out": {"output_ids": answer, "meta_info": {"prompt_tokens": 9, "completion_tokens": 8, "cached_tokens": 0}},
    });
    let vllm = serde_json::json!({
        "request": {"model": "m"},
        "response": {"created": 1763640000, "prompt_token_ids": prompt,
            "choices": [{"index": 0, "token_ids": answer}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 8}},
    });
    let mut cut = sglang.clone();
    cut["out"]["output_ids"] = serde_json::json!([17]);
    let next: Vec<u32> = (1..=17).collect();
    let mut pages = Vec::new();
    PageHasher::new(PageSize::new(4).expect("not zero")).hash(Scope::GLOBAL, &next, false, &mut pages);
    for (preset, record, outputs) in [
        (Preset::Sglang, sglang, &pages[2..4]),
        (Preset::Vllm, vllm, &pages[2..4]),
        (Preset::Sglang, cut, &[][..]),
    ] {
        for (prompt, output) in prepared_and_replayed(preset, &record.to_string()) {
            assert_eq!(output, outputs, "{record}");
            assert_eq!(prompt[..2], pages[..2], "{record}");
        }
    }
}

/// The same of an answer whose text the model's tokenizer reads.
#[test]
fn answers_with_text_fill_the_pages_that_later_prompts_have() {
    let said = "It runs down from the hills to the sea.";
    let question = serde_json::json!({"role": "user", "content": "Where does the river run?"});
    let answer = serde_json::json!({"role": "assistant", "content": said});
    let chat = |messages: &[&serde_json::Value]| serde_json::json!({"model": "chat", "messages": messages});
    let model = Arc::new(Model::load(&model_directory()).expect("a usable model"));
    let mut tokenizer = RequestTokenizer::new(model, TokenizeLimits::default());
    let mut pages = |request: &serde_json::Value| {
        let prompts = tokenizer.tokenize(request.to_string().as_bytes(), None).expect("a chat");
        let tokens = prompts.iter().next().expect("a prompt").to_vec();
        let mut pages = Vec::new();
        PageHasher::new(PageSize::new(4).expect("not zero")).hash(Scope::GLOBAL, &tokens, false, &mut pages);
        pages
    };
    let request = chat(&[&question]);
    let (first, second) = (pages(&request), pages(&chat(&[&question, &answer, &question])));
    let record = |reason: &str| {
        let choice = serde_json::json!({"index": 0, "message": answer, "finish_reason": reason});
        serde_json::json!({"request": request, "response": {"created": 1763640000, "choices": [choice]}})
    };
    for (prompt, output) in prepared_and_replayed(Preset::Vllm, &record("stop").to_string()) {
        assert_eq!(prompt[..first.len()], first);
        assert!(output.len() > 3, "{output:?}");
        assert_eq!(output, second[first.len()..first.len() + output.len()]);
    }
    let called = record("stop").to_string().replace("\"role\":\"assistant\"", "\"tool_calls\":[{}]");
    for (_, output) in prepared_and_replayed(Preset::Vllm, &called) {
        assert!(output.is_empty(), "a call is not all in its text");
    }
}

/// Page ids of a record's prompt and of its answer, from prepare and from a replay.
fn prepared_and_replayed(preset: Preset, record: &str) -> [(Vec<u64>, Vec<u64>); 2] {
    let prepared = prepare(&settings(Some(preset)), record.as_bytes());
    let mut decoder = RequestDecoder::new(Encoding::Avro, DecodeLimits::default());
    let output = prepared.outputs.first().unwrap_or_else(|| panic!("{}", reason(&prepared)));
    let decoded = decoder.decode(output.key.as_deref(), output.value.as_deref().expect("an event"));
    let event = decoded.expect("a request event").event;
    let options = ReadOptions {
        format: Format::of_preset(preset),
        page_size: PageSize::new(4),
        model: Some(Arc::new(Model::load(&model_directory()).expect("a usable model"))),
        ..ReadOptions::default()
    };
    let bytes = Box::new(std::io::Cursor::new(record.as_bytes().to_vec()));
    let mut reader = TraceReader::from_reader("log", bytes, &options).expect("a known format");
    let item = reader.next_item().expect("readable").expect("a row");
    let TraceItem::Request(row) = item else { panic!("{record}: refused") };
    [&event, &row.event]
        .map(|event| (event.page_ids.iter().collect(), event.output_page_ids.iter().collect()))
}
