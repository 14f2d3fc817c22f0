//! A pool that is asked what retention classes hold and find, frozen like the others.

use super::task::{
    self, END, SNAPSHOT, config_that_asks, feed_values, fresh, from_the_start, lines, restored_as, value,
};
use super::{file, frozen};
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::set::PoolConfigs;
use kvset::core::questions::enabled::Questions;
use kvset::pipeline::task::TaskConfig;
use kvset::snapshot::format::VERSION;
use std::sync::Arc;

const CLASSES: [&str; 3] = ["5m", "1h", "priority-80"];

fn config() -> Arc<TaskConfig> {
    let config = config_that_asks(Questions::default());
    let own = config.pools.default_pool();
    let questions = Questions {
        provisioned: Some("16p".parse().expect("pages")),
        retention_classes: true,
        ..Questions::default()
    };
    let pool = PoolConfig { tiers: Vec::new(), questions, ..own.clone() };
    let pools = PoolConfigs::new(pool, []).expect("usable").into();
    Arc::new(TaskConfig { pools, ..TaskConfig::clone(&config) })
}

/// Every fourth request asks for nothing.
fn classed(offset: i64) -> String {
    let value = value(offset);
    let Ok(mut record) = serde_json::from_str::<serde_json::Value>(&value) else { return value };
    record["retention_class"] = CLASSES.get(offset.rem_euclid(4) as usize).copied().into();
    record.to_string()
}

#[test]
fn what_retention_classes_hold_is_read_for_ever() {
    let mut unstopped = fresh(config(), &from_the_start());
    feed_values(&mut unstopped, SNAPSHOT, &["paper"], classed);
    let last_record = unstopped.last_record();
    let now = file(&task::snapshot(&unstopped));
    let written = frozen("retention_classes/task.kvs", &now);
    assert!(now == written, "the section changed: give it another mark and freeze it anew");
    let mut restored = restored_as(config(), VERSION, written, last_record);
    let published = lines(feed_values(&mut restored, END, &["paper"], classed));
    assert!(published.matches("\"retention_classes\":[").count() > 3, "every window says it: {published}");
    assert!(published.contains("\"class\":\"priority-80\""), "by their names: {published}");
    assert_eq!(published, lines(feed_values(&mut unstopped, END, &["paper"], classed)));
    assert_eq!(published.as_bytes(), frozen("retention_classes/task.expected.txt", published.as_bytes()));
}
