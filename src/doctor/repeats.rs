//! Rows that are of one request: under one id, or of one stream whose output grows. Copies without an id are told as a
//! replay tells them.

use kvset_formats::trace::TraceRow;
use std::collections::{HashMap, HashSet};
use xxhash_rust::xxh3::Xxh3;

/// Most requests that are remembered to be compared.
const MOST_REQUESTS: usize = 1 << 21;

/// Rows that say again what others said.
#[derive(Debug, Default)]
pub struct Repeats {
    /// Rows with the request id of an earlier one.
    pub same_id: u64,
    /// Rows equal to an earlier one in time, prompt and names, with a larger output.
    pub growing: u64,
    /// Requests that name themselves.
    pub with_id: u64,
    /// Requests that were compared: of those beyond so many, only with these.
    pub compared: u64,
    /// By prompt, time and names: the outputs, durations and cached tokens that were seen last.
    requests: HashMap<u64, [Option<u64>; 3]>,
    ids: HashSet<u64>,
}

impl Repeats {
    /// Compares a row with those before it.
    pub fn add(&mut self, row: &TraceRow<'_>) {
        self.compared += 1;
        let is_known_id = row.request_id.is_some_and(|id| {
            self.with_id += 1;
            match self.ids.len() < MOST_REQUESTS {
                true => !self.ids.insert(id),
                false => self.ids.contains(&id),
            }
        });
        self.same_id += u64::from(is_known_id);
        let event = &row.event;
        if event.page_ids.is_empty() {
            // Short prompts are alike without being the same.
            return;
        }
        let outcome = [event.output_tokens, event.duration_ms, event.cached_tokens.stated()];
        let key = request_digest(row);
        let has_room = self.requests.len() < MOST_REQUESTS;
        match self.requests.get_mut(&key) {
            Some(known) => {
                self.growing += u64::from(outcome[0] > known[0]);
                *known = outcome;
            }
            None if has_room => {
                self.requests.insert(key, outcome);
            }
            None => {}
        }
    }
}

/// A digest of what a request is known by: when it came, its prompt, who served it and for whom.
fn request_digest(row: &TraceRow<'_>) -> u64 {
    let event = &row.event;
    let mut digest = Xxh3::new();
    digest.update(&event.event_time.0.to_le_bytes());
    digest.update(&event.scope.value().to_le_bytes());
    digest.update(&event.input_tokens.unwrap_or(u64::MAX).to_le_bytes());
    digest.update(event.page_ids.as_packed());
    let labels = event.labels.iter().map(|(_, name)| *name);
    for name in [row.pool, row.session].into_iter().flatten().chain(labels) {
        digest.update(name.as_bytes());
        digest.update(&[0]);
    }
    digest.digest()
}
