//! The upper end against a list of pages, one at a time.

use super::*;
use crate::engines::one_pass::EngineConfig;
use crate::engines::profile::Profile;
use crate::stack::naive::chained_requests;
use crate::units::pages::PageIds;
use proptest::prelude::*;

const SIZE: u64 = 4;

/// A page by its whole prefix, or of an answer by its request and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Page {
    Prefix(Vec<u64>),
    Answer(u64, u64),
}

/// An LRU list, most recent page first, of an engine that looks a whole request up and then frees its pages from the
/// last to the first.
#[derive(Debug, Default)]
struct List {
    /// Each page with the request that touched it last.
    pages: Vec<(Page, u64)>,
    /// Of each request, the pages it ended with that have ids, and those of its answer nobody brought back.
    ends: Vec<(u64, u64)>,
    returned: u64,
    /// The room of the page in which the request before ended.
    partial: u64,
}

impl List {
    fn place(&self, page: &Page) -> Option<usize> {
        self.pages.iter().position(|(held, _)| held == page)
    }

    /// The needs of the leading pages that are known.
    fn access(&mut self, ids: &[u64], answer: u64, partial: bool) -> Vec<u64> {
        let number = self.ends.len() as u64;
        let prefixes: Vec<Page> = (1..=ids.len()).map(|end| Page::Prefix(ids[..end].to_vec())).collect();
        let known = prefixes.iter().take_while(|page| self.place(page).is_some()).count();
        if let Some(place) = known.checked_sub(1).and_then(|last| self.place(&prefixes[last])) {
            let toucher = self.pages[place].1;
            let (pages, outputs) = self.ends[toucher as usize];
            if pages == known as u64 && known < ids.len() {
                for (at, prefix) in prefixes[known..].iter().take(outputs as usize).enumerate() {
                    let place = self.place(&Page::Answer(toucher, at as u64)).expect("kept");
                    self.pages[place].0 = prefix.clone();
                    self.returned += 1;
                }
                self.ends[toucher as usize].1 = 0;
            }
        }
        let found = prefixes.iter().map_while(|page| self.place(page));
        let needs = found.map(|place| place as u64 + 1 + self.partial).collect();
        let answer_pages = (0..answer).map(|at| Page::Answer(number, at));
        let all: Vec<Page> = prefixes.into_iter().chain(answer_pages).collect();
        for page in all.into_iter().rev() {
            self.pages.retain(|(held, _)| *held != page);
            self.pages.insert(0, (page, number));
        }
        self.ends.push((ids.len() as u64, answer));
        self.partial = u64::from(partial);
        needs
    }
}

fn needs(runs: &[Run]) -> impl Iterator<Item = u64> + '_ {
    runs.iter().flat_map(|run| (0..run.pages).map(|page| run.need_at(page)))
}

fn event(ids: &[u64], rest: u64, output: u64) -> RequestEvent<'_> {
    RequestEvent {
        page_ids: PageIds::from_slice(ids),
        input_tokens: Some(ids.len() as u64 * SIZE + rest),
        output_tokens: Some(output),
        ..RequestEvent::default()
    }
}

fn engine(bound: u64) -> Engine {
    Engine::new(EngineConfig {
        profile: Profile::Vllm,
        max_tracked_pages: PageCount(bound),
        ..EngineConfig::default()
    })
}

/// Runs requests through the stack, and gives the upper end of each; where it is that of the lower one, that.
fn follow(requests: &[(Vec<u64>, u64, u64)], bound: u64) -> (Vec<Outcome>, u64) {
    let (mut engine, mut reuse, mut outcome) = (engine(bound), AnswerReuse::default(), Outcome::default());
    let page_size = PageSize::new(SIZE as u32).expect("not zero");
    let mut upper = Vec::new();
    for (number, (ids, rest, output)) in requests.iter().enumerate() {
        let event = event(ids, *rest, *output);
        engine.observe(&event, page_size, &mut outcome).expect("sound");
        let found = reuse.observe(&event, number as u64, page_size, &engine, &outcome);
        upper.push(found.unwrap_or(&outcome).clone());
    }
    (upper, reuse.pages())
}

fn requests() -> impl Strategy<Value = Vec<(Vec<u64>, u64, u64)>> {
    let beside = prop::collection::vec((0..SIZE, 0u64..22), 80);
    (chained_requests(80), beside).prop_map(|(all, beside)| {
        all.into_iter().zip(beside).map(|(ids, (rest, out))| (ids, rest, out)).collect()
    })
}

proptest! {
    #[test]
    fn the_upper_end_equals_a_list_of_pages(requests in requests()) {
        let (upper, pages) = follow(&requests, 1 << 20);
        let mut list = List::default();
        for ((ids, rest, output), found) in requests.iter().zip(&upper) {
            let tokens = ids.len() as u64 * SIZE + rest;
            let stored = tokens + output.saturating_sub(1);
            let answer = stored / SIZE - tokens / SIZE;
            let expected = list.access(ids, answer, !stored.is_multiple_of(SIZE));
            let all: Vec<u64> = needs(&found.runs).chain(needs(&found.unlooked)).collect();
            prop_assert_eq!(&all, &expected);
            let hits = expected.len().min((tokens.saturating_sub(1) / SIZE) as usize);
            prop_assert_eq!(found.reusable_prefix(), hits as u64);
            prop_assert_eq!(found.new_pages, ids.len() as u64 - expected.len() as u64 + answer);
        }
        prop_assert_eq!(pages, list.returned);
    }

    #[test]
    fn a_bound_hides_only_what_lies_beyond_it(requests in requests(), bound in 1u64..12) {
        let (upper, _) = follow(&requests, bound);
        let (exact, _) = follow(&requests, 1 << 20);
        for (found, exact) in upper.iter().zip(&exact) {
            for (found, exact) in needs(&found.runs).zip(needs(&exact.runs)) {
                prop_assert!(found == exact || found == BEYOND, "{} is {}", found, exact);
            }
        }
    }
}

#[test]
fn the_next_turn_brings_the_answer_back_once() {
    // Three pages, an answer of two, and two turns that go on behind it in different ways.
    let turns = [
        (vec![1, 2, 3], 0, 9),
        (vec![1, 2, 3, 4, 5, 6], 1, 1),
        (vec![1, 2, 3, 7, 8, 9], 1, 1),
        (vec![1, 2, 3, 4, 5, 6, 7], 1, 1),
    ];
    let (found, pages) = follow(&turns, 1 << 20);
    let hits: Vec<u64> = found.iter().map(Outcome::reusable_prefix).collect();
    assert_eq!((hits, pages), (vec![0, 5, 3, 6], 2));
}
