//! Pools that know how their page ids are made, frozen like the others.

use super::task::{
    self, END, POOLS, SNAPSHOT, feed_values, fresh, from_the_start, lines, restored_as, value,
};
use super::{file, frozen};
use kvset::core::questions::enabled::Questions;
use kvset::pipeline::task::PartitionTask;
use kvset::snapshot::format::VERSION;

/// A record of the log, of which most name their scheme, and a few another one.
fn named(offset: i64) -> String {
    let scheme = match offset % 9 {
        0 => return value(offset),
        7 => "kvset:xxh3:16",
        _ => "vllm:sha256_cbor:16",
    };
    value(offset).replace("{", &format!(r#"{{"id_scheme":"{scheme}","#))
}

fn rest(task: &mut PartitionTask) -> String {
    lines(feed_values(task, END, &POOLS, named))
}

#[test]
fn schemes_of_ids_are_read_for_ever() {
    let config = || task::config_that_asks(Questions::default());
    let mut unstopped = fresh(config(), &from_the_start());
    feed_values(&mut unstopped, SNAPSHOT, &POOLS, named);
    let last_record = unstopped.last_record();
    let now = file(&task::snapshot(&unstopped));
    let written = frozen("schemes/task.kvs", &now);
    assert!(now == written, "the section changed: give it another mark and freeze it anew");
    let mut restored = restored_as(config(), VERSION, written, last_record);
    let published = rest(&mut restored);
    assert!(published.contains("id_scheme_mismatch"), "a second scheme is refused: {published}");
    assert_eq!(published, rest(&mut unstopped));
    assert_eq!(published.as_bytes(), frozen("schemes/task.expected.txt", published.as_bytes()));
}
