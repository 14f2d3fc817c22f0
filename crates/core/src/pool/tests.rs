//! Pools against worked cases, and against a recomputation from the list of all requests.

mod cases;
mod declared;
mod evidence;
mod model;
mod overlap;
mod pointwise;
mod trends;

use super::*;
use crate::units::pages::PageIds;
use crate::units::ratio::Ratio;

const PAGE_SIZE: u32 = 4;

fn ratios(texts: &[&str]) -> Vec<Ratio> {
    texts.iter().map(|text| text.parse().expect("a share")).collect()
}

/// A request whose prompt ends in a partial page without an id.
fn event(time: i64, ids: &[u64]) -> RequestEvent<'_> {
    RequestEvent {
        event_time: EventTime(time),
        page_ids: PageIds::from_slice(ids),
        input_tokens: Some(ids.len() as u64 * u64::from(PAGE_SIZE) + 1),
        ..RequestEvent::default()
    }
}
