//! A pool that is asked what restarts cost, frozen like the others: its times pass two hundred times as fast.

use super::task::{
    self, END, SNAPSHOT, config_that_asks, feed_values, fresh, from_the_start, lines, restored_as, value,
};
use super::{file, frozen};
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::set::PoolConfigs;
use kvset::core::questions::costs::{PrefillCosts, Prices};
use kvset::core::questions::enabled::Questions;
use kvset::pipeline::task::TaskConfig;
use kvset::snapshot::format::VERSION;
use std::sync::Arc;

const FASTER: i64 = 200;

fn config() -> Arc<TaskConfig> {
    let config = config_that_asks(Questions::default());
    let own = config.pools.default_pool();
    let prices = Prices { accelerator_hour: Some(2.5), gib_hour: None };
    let questions = Questions {
        provisioned: Some("16p".parse().expect("pages")),
        worth: Some(PrefillCosts { prefill_rate: "9000@0,4000@256".parse().expect("a rate"), prices }),
        restarts: true,
        ..Questions::default()
    };
    let windows = ["tumbling:1h", "hopping:4h/2h", "last:40", "all"];
    let pool = PoolConfig {
        windows: windows.map(|window| window.parse().expect("a window")).to_vec(),
        publish_every_ms: 1_800_000,
        tiers: Vec::new(),
        questions,
        ..own.clone()
    };
    let pools = PoolConfigs::new(pool, []).expect("usable").into();
    Arc::new(TaskConfig { pools, ..TaskConfig::clone(&config) })
}

fn sped_up(offset: i64) -> String {
    let value = value(offset);
    let Ok(mut record) = serde_json::from_str::<serde_json::Value>(&value) else { return value };
    record["event_time"] = (record["event_time"].as_i64().expect("a time") * FASTER).into();
    record.to_string()
}

#[test]
fn what_restarts_cost_is_read_for_ever() {
    let mut unstopped = fresh(config(), &from_the_start());
    feed_values(&mut unstopped, SNAPSHOT, &["paper"], sped_up);
    let last_record = unstopped.last_record();
    let now = file(&task::snapshot(&unstopped));
    let written = frozen("restarts/task.kvs", &now);
    assert!(now == written, "the section changed: give it another mark and freeze it anew");
    let mut restored = restored_as(config(), VERSION, written, last_record);
    let published = lines(feed_values(&mut restored, END, &["paper"], sped_up));
    assert!(published.matches("\"restarts\":{").count() > 3, "every window says it: {published}");
    assert!(published.matches("\"warm_minutes\"").count() > 10, "and some lose tokens: {published}");
    assert_eq!(published, lines(feed_values(&mut unstopped, END, &["paper"], sped_up)));
    assert_eq!(published.as_bytes(), frozen("restarts/task.expected.txt", published.as_bytes()));
}
