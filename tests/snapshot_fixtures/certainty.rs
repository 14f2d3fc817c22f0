//! A pool that is asked how certain its figures are, frozen like the others.

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

fn config() -> Arc<TaskConfig> {
    let config = config_that_asks(Questions::default());
    let own = config.pools.default_pool();
    let questions = Questions { certainty: true, ..Questions::default() };
    let pool = PoolConfig { tiers: Vec::new(), questions, ..own.clone() };
    let pools = PoolConfigs::new(pool, []).expect("usable").into();
    Arc::new(TaskConfig { pools, ..TaskConfig::clone(&config) })
}

#[test]
fn who_conversations_are_is_read_for_ever() {
    let mut unstopped = fresh(config(), &from_the_start());
    feed_values(&mut unstopped, SNAPSHOT, &["paper"], value);
    let last_record = unstopped.last_record();
    let now = file(&task::snapshot(&unstopped));
    let written = frozen("certainty/task.kvs", &now);
    assert!(now == written, "the section changed: give it another mark and freeze it anew");
    let mut restored = restored_as(config(), VERSION, written, last_record);
    let published = lines(feed_values(&mut restored, END, &["paper"], value));
    assert!(published.matches("\"certainty\":{").count() > 3, "every window says it: {published}");
    assert_eq!(published, lines(feed_values(&mut unstopped, END, &["paper"], value)));
    assert_eq!(published.as_bytes(), frozen("certainty/task.expected.txt", published.as_bytes()));
}
