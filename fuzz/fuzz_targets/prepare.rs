//! Raw records in every form: what prepare makes of them the service must be able to read. Seeds:
//! `tests/fixtures/codec`, `tests/fixtures/tokenize/cases.jsonl`.
#![no_main]

use kvset::codec::{RequestDecoder, SourceRecord};
use kvset::output::Destination;
use kvset::prepare::{Model, Preparer, RawRecord, Recipe, Tokenizers};
use kvset::service::prepare::recipe;
use kvset::settings::Settings;
use kvset::tokenize::TokenizeLimits;
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::{Arc, LazyLock};

static PARTS: LazyLock<(Arc<Recipe>, Tokenizers)> = LazyLock::new(|| {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/tokenize/chatml"));
    let model = Arc::new(Model::load(folder).expect("the fixture is there"));
    let mut settings = Settings::default();
    settings.prepare.pool = "{model?}/{meta.cluster?}".parse().expect("a template");
    let limits = TokenizeLimits { max_body_bytes: 1 << 20, max_prompt_bytes: 1 << 20, cache_bytes: 4096 };
    (Arc::new(recipe(&settings)), Tokenizers::new([], Some(model), limits))
});

fuzz_target!(|value: &[u8]| {
    let (recipe, tokenizers) = &*PARTS;
    let mut preparer = Preparer::new(Arc::clone(recipe), tokenizers.clone());
    let (topic, value) = ("raw", Some(value));
    let source = SourceRecord { schema_header: None,  topic, partition: 0, offset: 0, timestamp_ms: Some(1), key: None, value };
    let prepared = preparer.prepare(&RawRecord { source, headers: Vec::new() });
    let mut decoder = RequestDecoder::default();
    for output in &prepared.outputs {
        match output.destination {
            Destination::DeadLetters => assert!(output.value.is_none(), "a redacted dead letter has a value"),
            Destination::Results => {
                let value = output.value.as_deref().unwrap_or_default();
                assert!(decoder.decode(output.key.as_deref(), value).is_ok(), "an event that cannot be read");
            }
        }
    }
});
