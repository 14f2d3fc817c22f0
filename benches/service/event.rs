//! The events that are read: each says which of four replicas served it, and what was cached there.

use kvset::codec::{RequestEncoding, RequestMessage, encode_request};
use kvset::core::request::labels::{Label, Labels};
use kvset::core::units::pages::PageIds;

/// Tokens per page.
const PAGE_SIZE: i32 = 64;
/// Pages of the longest prompt: 128,000 tokens.
pub const LONGEST: usize = 2000;
/// Pages that every session begins with.
const SHARED: usize = 200;
const REPLICAS: [&str; 4] = ["replica-0", "replica-1", "replica-2", "replica-3"];
/// Event time between two requests of a pool, in milliseconds.
pub const GAP_MS: i64 = 50;

/// One request event: it says which of four replicas served it, each session's own one, and that all its pages but the
/// last 70 were cached there.
pub fn request(event_time: i64, ids: &[u64], encoding: RequestEncoding) -> Vec<u8> {
    let session = ids.get(SHARED).copied().unwrap_or_default();
    let message = RequestMessage {
        cached_tokens: Some(i64::from(PAGE_SIZE) * ids.len().saturating_sub(70) as i64),
        labels: Labels::from_iter([(Label::Replica, REPLICAS[(session % 4) as usize])]),
        event_time,
        page_ids: PageIds::from_slice(ids),
        ids_chained: true,
        page_size: Some(PAGE_SIZE),
        input_tokens: Some(i64::from(PAGE_SIZE) * ids.len() as i64),
        ..RequestMessage::default()
    };
    let mut value = Vec::new();
    encode_request(&message, encoding, &mut value).expect("serialises");
    value
}
