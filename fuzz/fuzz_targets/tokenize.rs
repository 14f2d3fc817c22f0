//! Bodies of chat and completion requests, one a line, for every model of the fixtures; what is
//! remembered must not change the ids. Seeds: `tests/fixtures/tokenize/cases.jsonl`.
#![no_main]

use kvset::core::units::EventTime;
use kvset::tokenize::{Model, RequestTokenizer, TokenizeLimits};
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::{Arc, LazyLock};

static MODELS: LazyLock<Vec<Arc<Model>>> = LazyLock::new(|| {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/tokenize"));
    let load = |name| Arc::new(Model::load(&folder.join(name)).expect("the fixture is there"));
    ["chatml", "headers", "inst", "words"].map(load).into()
});

fuzz_target!(|bodies: &[u8]| {
    for model in MODELS.iter() {
        let limits = TokenizeLimits { max_body_bytes: 1 << 20, max_prompt_bytes: 1 << 20, cache_bytes: 4096 };
        let mut remembering = RequestTokenizer::new(Arc::clone(model), limits);
        let mut forgetting =
            RequestTokenizer::new(Arc::clone(model), TokenizeLimits { cache_bytes: 0, ..limits });
        for body in bodies.split(|byte| *byte == b'\n').take(8) {
            let time = Some(EventTime(1_700_000_000_000));
            let known =
                remembering.tokenize(body, time).map(|prompts| prompts.iter().map(<[u32]>::to_vec).collect());
            let fresh: Result<Vec<_>, _> =
                forgetting.tokenize(body, time).map(|prompts| prompts.iter().map(<[u32]>::to_vec).collect());
            assert!(known == fresh, "what is remembered changed the ids");
        }
    }
});
