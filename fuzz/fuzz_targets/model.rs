//! A model's `config.json`, costed with and without options. Seeds: `tests/fixtures/model`.
#![no_main]

use kvset::model::{CostOptions, KvDtype, cost};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|config: &str| {
    for kv_dtype in [None, Some(KvDtype::Fp8)] {
        let options = CostOptions { kv_dtype, ..CostOptions::default() };
        match cost(config, &options) {
            Ok(cost) => assert!(!format!("{cost:?}").is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
