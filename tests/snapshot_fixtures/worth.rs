//! Pools that are asked what their cache is worth, frozen like the others.

use super::task::{
    self, END, POOLS_OF_RULES, SNAPSHOT, config_of_rules_that_asks, feed_values, fresh, from_the_start,
    lines, restored_as, value,
};
use super::{file, frozen};
use kvset::core::questions::costs::{PrefillCosts, Prices};
use kvset::core::questions::enabled::Questions;
use kvset::pipeline::task::TaskConfig;
use kvset::snapshot::format::VERSION;
use std::sync::Arc;

fn config() -> Arc<TaskConfig> {
    let prices = Prices { accelerator_hour: Some(2.5), gib_hour: Some(0.003) };
    config_of_rules_that_asks(Questions {
        provisioned: Some("16p".parse().expect("pages")),
        worth: Some(PrefillCosts { prefill_rate: "9000@0,4000@256".parse().expect("a rate"), prices }),
        ..Questions::default()
    })
}

#[test]
fn what_caches_are_worth_is_read_for_ever() {
    let mut unstopped = fresh(config(), &from_the_start());
    feed_values(&mut unstopped, SNAPSHOT, &POOLS_OF_RULES, value);
    let last_record = unstopped.last_record();
    let now = file(&task::snapshot(&unstopped));
    let written = frozen("worth/task.kvs", &now);
    assert!(now == written, "the section changed: give it another mark and freeze it anew");
    let mut restored = restored_as(config(), VERSION, written, last_record);
    let published = lines(feed_values(&mut restored, END, &POOLS_OF_RULES, value));
    assert!(published.matches("\"worth\"").count() > 20, "every window says it: {published}");
    assert!(published.contains("\"provisioned\":{"), "at what is provisioned, too");
    assert_eq!(published, lines(feed_values(&mut unstopped, END, &POOLS_OF_RULES, value)));
    assert_eq!(published.as_bytes(), frozen("worth/task.expected.txt", published.as_bytes()));
}
