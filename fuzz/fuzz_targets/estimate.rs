//! Estimates and their keys; what decodes is written and read back. Seeds: `tests/fixtures/codec`.
#![no_main]

use kvset::codec::{EstimateEncoding, EstimateKey, decode_estimate, encode_estimate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    if let Some(key) = EstimateKey::from_bytes(record) {
        assert_eq!(EstimateKey::from_bytes(&key.to_bytes()), Some(key));
    }
    let Ok(estimate) = decode_estimate(record) else { return };
    for encoding in [EstimateEncoding::Json, EstimateEncoding::Avro] {
        let mut bytes = Vec::new();
        if encode_estimate(&estimate, encoding, &mut bytes).is_ok() {
            let again = decode_estimate(&bytes).expect("what was written is read");
            assert_eq!(format!("{again:?}"), format!("{estimate:?}"));
        }
    }
});
