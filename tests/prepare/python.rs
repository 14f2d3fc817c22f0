//! Requests give the token ids that Python's `transformers` gives (tests/fixtures/tokenize/make.py).

use kvset::tokenize::{Model, RequestTokenizer, TokenizeLimits};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenize")
}

fn cases() -> Vec<Value> {
    let text = std::fs::read_to_string(fixtures().join("cases.jsonl")).expect("the fixture is there");
    text.lines().map(|line| serde_json::from_str(line).expect("a case")).collect()
}

fn tokenizer(name: &str) -> RequestTokenizer {
    let model = Model::load(&fixtures().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    RequestTokenizer::new(Arc::new(model), TokenizeLimits::default())
}

fn outcome(tokenizer: &mut RequestTokenizer, body: &str) -> Value {
    match tokenizer.tokenize(body.as_bytes(), None) {
        Ok(prompts) => json!({"ids": prompts.iter().collect::<Vec<_>>()}),
        Err(error) => json!({"refused": error.code().name()}),
    }
}

#[test]
fn every_case_gives_the_ids_of_transformers() {
    let cases = cases();
    assert!(cases.len() > 150, "only {} cases", cases.len());
    let mut tokenizers = BTreeMap::new();
    let mut differ = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let name = case["model"].as_str().expect("a model");
        let tokenizer = tokenizers.entry(name.to_owned()).or_insert_with(|| tokenizer(name));
        let expected = match case.get("refused") {
            Some(code) => json!({"refused": code}),
            None => json!({"ids": case["ids"]}),
        };
        let found = outcome(tokenizer, &raw_body(number));
        if found != expected {
            differ.push(format!(
                "case {}, {name}: {}\n  expected {expected}\n  found    {found}",
                number + 1,
                case["text"]
            ));
        }
    }
    assert!(differ.is_empty(), "{} of {} cases differ:\n{}", differ.len(), cases.len(), differ.join("\n"));
}

/// The body as it lies in the file: parsing and printing it would reorder its fields.
fn raw_body(number: usize) -> String {
    #[derive(serde::Deserialize)]
    struct Case {
        body: Box<serde_json::value::RawValue>,
    }
    let text = std::fs::read_to_string(fixtures().join("cases.jsonl")).expect("the fixture is there");
    let line = text.lines().nth(number).expect("a line");
    serde_json::from_str::<Case>(line).expect("a case").body.get().to_owned()
}
