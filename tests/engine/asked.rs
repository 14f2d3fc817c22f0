//! Requests that share prefixes, for caches and their slow transcriptions.

use kvset::core::request::event::RequestEvent;
use kvset::core::units::pages::PageIds;
use proptest::prelude::*;

pub fn event<'a>(ids: &'a [u64], input: u64, output: u64) -> RequestEvent<'a> {
    RequestEvent {
        page_ids: PageIds::from_slice(ids),
        input_tokens: Some(input),
        output_tokens: Some(output),
        ..RequestEvent::default()
    }
}

/// A prompt is a walk through a small tree of ids, so that prefixes are shared and left half-way.
#[derive(Debug, Clone)]
pub struct Asked {
    pub ids: Vec<u64>,
    pub input: u64,
    pub output: u64,
    pub known_outputs: Vec<u64>,
}

/// Ids of pages, each of which stands for all before it, by the branches of a small tree that are followed for so
/// many pages; and the last of them.
pub fn walk(steps: Vec<(u64, usize)>) -> (Vec<u64>, u64) {
    let mut chain = 17u64;
    let mut ids = Vec::new();
    for (branch, pages) in steps {
        for page in 0..pages as u64 {
            chain = chain.wrapping_mul(31).wrapping_add(branch * 7 + page);
            ids.push(chain);
        }
    }
    (ids, chain)
}

pub fn asked(page: u64) -> impl Strategy<Value = Asked> {
    let steps = prop::collection::vec((0u64..3, 1usize..5), 0..5);
    (steps, 0..page, 0..4 * page, 0usize..3).prop_map(move |(steps, tail, output, known)| {
        let (ids, chain) = walk(steps);
        let input = ids.len() as u64 * page - if ids.is_empty() { 0 } else { tail };
        // Outputs that continue the prompt's chain as a later prompt of branch 0 would.
        let mut known_outputs = Vec::new();
        let mut chain =
            if input.is_multiple_of(page) { chain } else { ids.iter().rev().nth(1).copied().unwrap_or(17) };
        for page in 0..known as u64 {
            chain = chain.wrapping_mul(31).wrapping_add(page);
            known_outputs.push(chain);
        }
        Asked { ids, input, output, known_outputs }
    })
}

pub fn to_event(asked: &Asked) -> RequestEvent<'_> {
    RequestEvent {
        output_page_ids: PageIds::from_slice(&asked.known_outputs),
        ..event(&asked.ids, asked.input, asked.output)
    }
}
