//! TensorRT-LLM's cache against a model of its rules that goes block by block.

use crate::asked::walk;
use crate::support::slow_trtllm::{SlowRequest, SlowTrtllm};
use kvset::core::engines::profile::Outputs;
use kvset::core::engines::trtllm::{TrtllmCache, TrtllmRules};
use kvset::core::request::event::RequestEvent;
use kvset::core::request::labels::{Label, Labels};
use kvset::core::units::pages::PageIds;
use kvset::core::units::{EventTime, PageCount, PageSize};
use proptest::prelude::*;

const PAGE: u64 = 16;

const CLASSES: [Option<(usize, Option<u64>)>; 8] = [
    None,
    Some((0, None)),
    Some((29, None)),
    Some((35, Some(10))),
    Some((40, None)),
    Some((80, None)),
    Some((80, Some(40))),
    Some((80, Some(500))),
];

#[derive(Debug, Clone)]
struct Asked {
    /// Pages of the prompt and of the output, by the branches that their chain takes.
    ids: Vec<u64>,
    /// Tokens behind the last full page of the prompt.
    rest: u64,
    output: u64,
    known_outputs: usize,
    class: usize,
    wait_ms: u64,
}

fn asked(classes: usize) -> impl Strategy<Value = Asked> {
    let steps = prop::collection::vec((0u64..3, 1usize..6), 0..5);
    let tokens = (prop::sample::select(vec![0u64, 1, 9, 15]), 0u64..50, 0usize..4);
    let wait = prop::sample::select(vec![0u64, 1, 20, 300]);
    (steps, tokens, 0..classes, wait).prop_map(|(steps, (rest, output, known_outputs), class, wait_ms)| {
        let (ids, _) = walk(steps);
        Asked { ids, rest, output, known_outputs, class, wait_ms }
    })
}

fn name((priority, duration): (usize, Option<u64>)) -> String {
    format!("priority-{priority}{}", duration.map_or(String::new(), |ms| format!("-{ms}ms")))
}

fn compare(capacity: u64, host: u64, requests: &[Asked], cut: usize) -> Result<(), TestCaseError> {
    let page_size = PageSize::new(PAGE as u32).expect("not zero");
    let rules = TrtllmRules { page_size, outputs: Outputs::Cached, host: PageCount(host) };
    let mut fast = TrtllmCache::new(PageCount(capacity), rules);
    let mut slow = SlowTrtllm::new(capacity as usize, host as usize);
    let mut now = 0;
    for (index, asked) in requests.iter().enumerate() {
        if index == cut {
            let bytes = postcard::to_allocvec(&fast).expect("bytes");
            fast = postcard::from_bytes(&bytes).expect("sound");
        }
        now += asked.wait_ms;
        let (prompt, tokens) = (asked.ids.len(), asked.ids.len() as u64 * PAGE + asked.rest);
        let stored = tokens + asked.output.saturating_sub(1);
        let outputs = asked.known_outputs.min((stored / PAGE) as usize - prompt);
        let mut ids = asked.ids.clone();
        (0..outputs as u64).for_each(|page| {
            let last = ids.last().copied().unwrap_or(17);
            ids.push(last.wrapping_mul(31).wrapping_add(page));
        });
        let class = CLASSES[asked.class].map(name);
        let event = RequestEvent {
            event_time: EventTime(now as i64),
            page_ids: PageIds::from_slice(&ids[..prompt]),
            output_page_ids: PageIds::from_slice(&ids[prompt..]),
            input_tokens: Some(tokens),
            output_tokens: Some(asked.output),
            labels: class.iter().map(|class| (Label::RetentionClass, class.as_str())).collect::<Labels<_>>(),
            ..RequestEvent::default()
        };
        let found = fast.request(&event);
        let expected = slow.request(SlowRequest {
            now,
            ids: &ids,
            hit_limit: (tokens.saturating_sub(1) / PAGE) as usize,
            slots: (tokens.div_ceil(PAGE) as usize, stored.div_ceil(PAGE) as usize),
            class: CLASSES[asked.class],
        });
        let found = (!found.refused).then_some(found.hits as usize);
        prop_assert_eq!(found, expected, "request {}: {:?}", index, asked);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn equals_the_model_block_by_block_and_goes_on_from_a_snapshot(
        capacity in 3u64..60,
        host in prop::sample::select(vec![0u64, 0, 1, 2, 9, 50]),
        requests in prop::collection::vec(asked(CLASSES.len()), 1..80),
        cut in 0usize..80,
    ) {
        compare(capacity, host, &requests, cut)?;
    }

    #[test]
    fn without_priorities_it_is_one_queue(
        capacity in 3u64..60,
        host in prop::sample::select(vec![0u64, 9, 50]),
        requests in prop::collection::vec(asked(1), 1..80),
    ) {
        compare(capacity, host, &requests, 80)?;
    }
}
