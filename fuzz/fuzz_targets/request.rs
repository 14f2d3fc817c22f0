//! Request events in every encoding. Seeds: `tests/fixtures/codec`.
#![no_main]

use kvset::codec::{DecodeLimits, Encoding, RequestDecoder, check_page_count};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    let limits = DecodeLimits::default();
    for key in [None, Some(&b"pool"[..])] {
        let mut decoder = RequestDecoder::new(Encoding::Auto, limits);
        match decoder.decode(key, record) {
            Ok(decoded) => {
                let pages = decoded.event.page_ids.len() + decoded.event.output_page_ids.len();
                assert!(pages <= limits.max_pages_per_request && pages <= record.len());
                assert!(decoded.pool.len() <= limits.max_pool_bytes);
                let fits =
                    decoded.event.page_size.is_none_or(|size| check_page_count(&decoded.event, size).is_ok());
                assert!(fits, "a count that does not fit was let through");
            }
            Err(error) => assert!(error.to_string().len() < 500),
        }
    }
});
