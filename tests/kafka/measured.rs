//! What vLLM's own cache classes found, as `cached_tokens` through a broker, gives their capacity back.

use crate::kafka_support::{Broker, Input, Published, serve_records, shared_trace};
use kvset::codec::decode_estimate;
use kvset::core::engines::profile::Profile;
use kvset::core::questions::measured::Verdict;
use kvset::core::units::window::WindowKind;
use kvset::settings::Settings;
use kvset::trace::{self, ReadOptions, TraceItem};
use serde_json::Value;

/// A capacity in pages, and the hits of each request there.
type Answers = (u64, Vec<u64>);

/// The recorded answers, behind the tokens of a page.
fn answers() -> Option<(u64, Vec<Answers>)> {
    let trace = shared_trace("mooncake_synthetic_trace.jsonl")?;
    let golden = trace.parent()?.parent()?.join("golden/synthetic_vllm_output.json");
    let golden: Value =
        serde_json::from_slice(&std::fs::read(golden).expect("beside the trace")).expect("JSON");
    let number = |value: &Value| value.as_u64().expect("a number");
    let of_capacity = |result: &Value| {
        let hits = result["per_request_prefix_hits"].as_array().expect("hits").iter().map(number);
        (number(&result["capacity_pages"]), hits.collect())
    };
    let results = golden["results"].as_array().expect("capacities").iter().map(of_capacity);
    Some((number(&golden["page_size"]), results.collect()))
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.estimate.engine = Profile::Vllm;
    settings.estimate.windows =
        ["tumbling:5m", "last:1000", "all"].map(|text| text.parse().expect("a window")).to_vec();
    settings.estimate.questions.measured = Some(true);
    settings.estimate.questions.routers = Some(vec!["round-robin:4".parse().expect("a router")]);
    settings
}

#[test]
fn the_hits_of_vllms_own_caches_give_their_capacity_back_through_a_broker() {
    let (Some(path), Some((page_size, answers))) =
        (shared_trace("mooncake_synthetic_trace.jsonl"), answers())
    else {
        return;
    };
    for broker in Broker::all() {
        let most = if broker.is_real() { usize::MAX } else { 1500 };
        let mut input = Input::default();
        for (partition, (capacity, hits)) in (0..).zip(&answers) {
            let mut reader =
                trace::open(std::slice::from_ref(&path), &ReadOptions::default()).expect("a trace");
            let (name, mut hits) = (format!("c{capacity}"), hits.iter().take(most));
            let mut last = 0;
            while let Some(TraceItem::Request(mut row)) = reader.next_item().expect("readable") {
                let Some(hits) = hits.next() else { break };
                row.event.cached_tokens = Some(hits * page_size).into();
                input.push_row(partition, &name, &row);
                last = row.event.event_time.0;
            }
            // Says nothing of the cache, and closes every window before it.
            let (time, id) = (last + 600_000, u64::MAX);
            let closing = format!(
                r#"{{"event_time":{time},"page_size":{page_size},"page_ids":[{id}],"input_tokens":{page_size}}}"#
            );
            input.push(partition, &name, closing.into_bytes());
        }
        let partitions = answers.len() as u32;
        let topic = broker.create("requests", partitions);
        input.produce(&broker.connection, &topic);
        let plan = broker.plan(&settings(), "run", partitions);
        serve_records(&plan, input.records()).expect("a clean run");
        let published = Published::read(&broker, &plan.stream.outputs);
        assert!(published == input.expected(&plan.task), "real broker: {}", broker.is_real());
        for (capacity, hits) in &answers {
            let all = hits.len().min(most) as u64;
            let values =
                published.estimates[&format!("c{capacity}")].iter().filter_map(|(_, value)| value.as_deref());
            let (mut windows, mut told_whole) = (0, false);
            for estimate in values.map(|value| decode_estimate(value).expect("an estimate")) {
                let measured = estimate.measured.as_ref().expect("asked");
                assert!([0, 1].contains(&(estimate.requests - measured.requests)), "all but the closing one");
                assert_eq!(estimate.routing.len(), 1);
                // A first window may come back to nothing.
                let Some(found) = measured.effective_capacity else { continue };
                windows += 1;
                let upto = found.pages_to.unwrap_or(u64::MAX);
                assert!((found.pages_from..=upto).contains(capacity), "{capacity}: {found:?}");
                assert_eq!((found.agreement, found.agreement_by_pages), (1.0, 1.0), "at {capacity}");
                assert_eq!(measured.ledger.lost_in_engine.map(|loss| loss.pages), Some(0), "at {capacity}");
                assert!(measured.restarts.is_empty() && measured.verdict != Some(Verdict::Engine));
                let whole = estimate.window == WindowKind::All && measured.requests == all;
                told_whole |= whole;
                if whole && broker.is_real() && *capacity <= 10_000 {
                    assert_eq!((found.pages_from, upto), (*capacity, *capacity), "requests tell exactly");
                }
            }
            assert!(windows > 10 && told_whole, "{windows} windows tell");
        }
    }
}
