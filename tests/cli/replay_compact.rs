//! A recorded topic of compact events replays as the same in full, whatever is asked beside.

use crate::support::program::kvset;
use crate::support::shared::shared_path;
use apache_avro::types::{Record, Value as Avro};
use apache_avro::{Codec, Schema, Writer};
use kvset::codec::{RequestDecoder, RequestEncoding, RequestMessage, encode_request, schema};
use kvset::commands::produce::producing::message_of;
use kvset::output::{Destination, OutputRecord};
use kvset::position::Partition;
use kvset::prepare::{CompactRules, Compactor};
use kvset::trace::{ReadOptions, TraceItem, open};
use serde_json::Value;
use std::path::Path;

const TENANTS: [&str; 3] = ["a", "b", "c"];

fn optional(number: Option<i64>) -> Avro {
    match number {
        Some(number) => Avro::Union(1, Box::new(Avro::Long(number))),
        None => Avro::Union(0, Box::new(Avro::Null)),
    }
}

fn append(writer: &mut Writer<'_, Vec<u8>>, schema: &Schema, message: &RequestMessage<'_>, tenant: &str) {
    let packed = |ids: &[u8]| Avro::Union(0, Box::new(Avro::Bytes(ids.to_vec())));
    let mut record = Record::new(schema).expect("a record");
    record.put("event_time", Avro::TimestampMillis(message.event_time));
    record.put("page_ids", packed(message.page_ids.as_packed()));
    record.put("output_page_ids", packed(&[]));
    record.put("page_size", Avro::Union(1, Box::new(Avro::Int(message.page_size.expect("stated")))));
    record.put("input_tokens", optional(message.input_tokens));
    record.put("output_tokens", optional(message.output_tokens));
    record.put("cached_tokens", optional(message.input_tokens.map(|tokens| tokens / 2)));
    record.put("ids_chained", message.ids_chained);
    record.put("tenant", Avro::Union(1, Box::new(Avro::String(tenant.to_owned()))));
    record.put("prefix_last_id", optional(message.prefix_last_id.map(|id| id as i64)));
    record.put("prefix_pages", optional(message.prefix_pages));
    record.put("cached_tokens_left_out", false);
    writer.append_value(record).expect("a value of the schema");
}

fn container(schema: &Schema) -> Writer<'_, Vec<u8>> {
    Writer::builder().schema(schema).writer(Vec::new()).codec(Codec::Null).build().expect("a writer")
}

/// The trace's first requests as two containers: of full events, and of compact ones.
fn containers(trace: &Path, most: usize) -> [Vec<u8>; 2] {
    let schema = Schema::parse_str(schema::REQUEST_EVENT).expect("the schema parses");
    let (mut full, mut compact) = (container(&schema), container(&schema));
    let mut compactor = Compactor::new(CompactRules { memory: 1 << 30, refresh_ms: 3_600_000 });
    let mut reader = open(&[trace.to_owned()], &ReadOptions::default()).expect("opens");
    for number in 0..most {
        let Some(TraceItem::Request(row)) = reader.next_item().expect("readable") else { break };
        let message = RequestMessage { ids_chained: true, ..message_of(&row) };
        let mut value = Vec::new();
        encode_request(&message, RequestEncoding::Avro, &mut value).expect("serialises");
        let mut output = OutputRecord {
            destination: Destination::Results,
            partition: Partition(0),
            window: None,
            key: Some(b"trace".to_vec()),
            value: Some(value),
            headers: Vec::new(),
            placed_by: None,
        };
        append(&mut full, &schema, &message, TENANTS[number % 3]);
        compactor.compact(&mut output);
        let mut decoder = RequestDecoder::default();
        let shorter = decoder.read(output.value.as_deref().expect("an event")).expect("valid");
        append(&mut compact, &schema, &shorter, TENANTS[number % 3]);
    }
    [full, compact].map(|writer| writer.into_inner().expect("written into memory"))
}

/// The result, without what says how large its file was; and what each request found.
fn replay(folder: &Path, args: &[&str]) -> (Value, String) {
    let (trace, found) = (folder.join("events.avro"), folder.join("found.jsonl"));
    let [trace, found] = [&trace, &found].map(|path| path.to_str().expect("UTF-8"));
    let mut command = kvset(&[&["replay", "--json", "--per-request", found], args, &[trace]].concat());
    let output = command.assert().success().get_output().stdout.clone();
    let mut result: Value = serde_json::from_slice(&output).expect("JSON");
    assert_eq!(result["trace"]["refused_rows"].as_u64().unwrap_or(0), 0);
    result["trace"]["files"] = Value::Null;
    (result, std::fs::read_to_string(found).expect("written"))
}

#[test]
fn compact_events_replay_as_full_ones_whatever_is_asked() {
    let Some(trace) = shared_path("traces/weka_claude_code_week.jsonl.zst") else { return };
    let [full, compact] = containers(&trace, 600);
    assert!(compact.len() * 4 < full.len(), "{} bytes of {}", compact.len(), full.len());
    let folders = [full, compact].map(|bytes| {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("events.avro"), bytes).expect("a disk");
        folder
    });
    let few = ["--capacities", "500p,2000p,9000p"];
    let asked: [&[&str]; 5] = [
        &["--engine", "leaf-first", "--ttl", "10s,5m", "--optimal", "--tenants", "2", "--measured"],
        &["--engine", "vllm", "--router", "prefix:2", "--router", "round-robin:3", "--verify-chain", "full"],
        &["--engine", "sglang", "--measured"],
        &["--engine", "vllm", "--attention", "full+window:1024", "--below", "mooncake:4000p"],
        &["--engine", "lmcache", "--chunk-tokens", "1024"],
    ];
    for asked in asked {
        let args = [asked, &few].concat();
        let [expected, found] = [0, 1].map(|which: usize| replay(folders[which].path(), &args));
        assert_eq!(found.0, expected.0, "{asked:?}");
        assert!(found.1 == expected.1 && found.1.lines().count() == 600, "{asked:?}");
    }
}

/// From the middle of a compact log: rows whose prefix nobody listed are refused by themselves.
#[test]
fn a_row_whose_prefix_is_not_known_is_a_bad_row() {
    let schema = Schema::parse_str(schema::REQUEST_EVENT).expect("the schema parses");
    let mut writer = container(&schema);
    let ids = kvset::core::units::pages::PageIds::from_slice(&[4, 5]);
    let message =
        RequestMessage { page_ids: ids, page_size: Some(4), ids_chained: true, ..RequestMessage::default() };
    let unknown = RequestMessage { prefix_last_id: Some(3), prefix_pages: Some(3), ..message.clone() };
    for message in [message.clone(), unknown, message] {
        append(&mut writer, &schema, &message, TENANTS[0]);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("events.avro");
    std::fs::write(&trace, writer.into_inner().expect("written into memory")).expect("a disk");
    let trace = trace.to_str().expect("UTF-8");
    let said = kvset(&["replay", "--json", trace]).assert().failure().get_output().stderr.clone();
    let said = String::from_utf8(said).expect("UTF-8");
    assert!(said.contains("line 2") && said.contains("read the topic from an earlier offset"), "{said}");
    let output =
        kvset(&["replay", "--json", "--skip-bad-rows", trace]).assert().success().get_output().clone();
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["trace"]["requests"], 2, "{result}");
}
