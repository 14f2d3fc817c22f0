//! What other servers answer: Schema Registries and givers of OAuth tokens. Seeds: `fuzz/seeds/answers`.
#![no_main]

use kvset::codec::{SchemaId, SchemaRef};
use kvset::kafka::oauth::TokenResponse;
use kvset::registry::answer;
use libfuzzer_sys::fuzz_target;
use std::time::{Duration, SystemTime};

fuzz_target!(|body: &[u8]| {
    let _ = (answer::schema(SchemaRef::Id(SchemaId(1)), body), answer::id(body), answer::error_code(body));
    if let Some(answer) = TokenResponse::read(body) {
        let years = answer.lifetime() / (365 * 86_400);
        assert!(
            years < Duration::from_secs(137) && SystemTime::now().checked_add(answer.lifetime()).is_some()
        );
        assert!(format!("{answer:?}").len() < 60, "the token is shown");
    }
});
