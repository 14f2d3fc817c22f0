//! The same task requested more than its estimates, of records that say what they found and where.

use super::task::{
    END, POOLS, POOLS_OF_RULES, SNAPSHOT, config_of_rules_that_asks, config_that_asks, feed_values, fresh,
    from_the_start, lines, restored_as, snapshot, value,
};
use super::{file, frozen};
use kvset::core::questions::enabled::Questions;
use kvset::core::questions::reuse::ReuseSetting;
use kvset::core::units::pages::mix;
use kvset::core::units::window::WindowKind;
use kvset::pipeline::task::{PartitionTask, TaskConfig};
use kvset::snapshot::format::VERSION;
use std::sync::Arc;

fn config() -> Arc<TaskConfig> {
    let routers = ["logged", "round-robin:2", "hash:3:tenant", "least-in-flight:2", "prefix:2:match=0.2"];
    config_that_asks(Questions {
        measured: true,
        provisioned: Some("24p".parse().expect("pages")),
        routers: routers.map(|text| text.parse().expect("a router")).to_vec(),
        ..Questions::default()
    })
}

/// The same, asked about time, tenants, tiers and the optimum, too.
fn config_with_times() -> Arc<TaskConfig> {
    config_that_asks(Questions {
        measured: true,
        reuse: ReuseSetting {
            ttls: ["5s", "1m", "1h"].map(|text| text.parse().expect("a time")).to_vec(),
            tenants: Some(2),
            optimal: true,
            traffic: true,
            prefill_rate: Some(9000.0),
        },
        ..Questions::default()
    })
}

/// A record of the log with what the engine says of it.
fn measured(offset: i64) -> String {
    let chance = mix(!offset as u64);
    let replica = format!(r#""replica":"vllm-{}","#, chance % 3);
    let cached = format!(r#""cached_tokens":{},"#, 16 * (chance >> 8 & 3) % 33);
    let value = value(offset);
    let Some(fields) = value.strip_prefix('{') else { return value };
    let replica = if chance.is_multiple_of(7) { "" } else { &replica };
    let cached = if chance.is_multiple_of(5) { "" } else { &cached };
    format!(r#"{{"tenant":"t{}",{replica}{cached}{fields}"#, chance % 4)
}

fn task() -> PartitionTask {
    task_of(config())
}

fn task_of(config: Arc<TaskConfig>) -> PartitionTask {
    let mut task = fresh(config, &from_the_start());
    feed_values(&mut task, SNAPSHOT, &POOLS, measured);
    task
}

fn rest(task: &mut PartitionTask) -> String {
    lines(feed_values(task, END, &POOLS, measured))
}

#[test]
fn a_task_that_is_asked_more_goes_on_as_if_it_had_never_stopped() {
    let mut unstopped = task();
    let written = frozen("asked.kvs", &file(&snapshot(&unstopped)));
    let last_record = unstopped.last_record();
    let published = rest(&mut restored_as(config(), VERSION, written, last_record));
    assert!(published.lines().count() > 40, "enough to compare");
    assert_eq!(published, rest(&mut unstopped));
    assert_eq!(
        published,
        String::from_utf8(frozen("asked.expected.txt", published.as_bytes())).expect("text")
    );
}

#[test]
fn a_task_that_is_asked_about_times_goes_on_as_if_it_had_never_stopped() {
    let mut unstopped = task_of(config_with_times());
    let now = file(&snapshot(&unstopped));
    let written = frozen("times.kvs", &now);
    assert!(now == written, "the state changed: raise VERSION or RESULT_VERSION");
    let last_record = unstopped.last_record();
    let mut restored = restored_as(config_with_times(), VERSION, written, last_record);
    assert!(file(&snapshot(&restored)) == now, "a function of the log alone");
    for estimate in unstopped.provisional().iter().filter(|estimate| estimate.pool == "paper") {
        assert_eq!(
            (estimate.retention.len(), estimate.retention_required.len()),
            (6, estimate.required.len())
        );
        assert!(estimate.tenants.len() == 3 && estimate.capacities[0].eviction_age_ms.is_some());
        assert_eq!(estimate.traffic.is_some(), estimate.window != WindowKind::All, "{}", estimate.window);
    }
    let published = rest(&mut restored);
    assert!(published.lines().count() > 40, "enough to compare");
    assert_eq!(published, rest(&mut unstopped));
    assert!(published.contains("optimal_page_hits"));
    assert_eq!(
        published,
        String::from_utf8(frozen("times.expected.txt", published.as_bytes())).expect("text")
    );
}

#[test]
fn the_asked_task_written_now_is_the_newest_frozen_one() {
    let task = task();
    let now = file(&snapshot(&task));
    assert!(now == frozen("asked.kvs", &now), "the state changed: raise VERSION or RESULT_VERSION");
    let restored = restored_as(config(), VERSION, now.clone(), task.last_record());
    assert!(file(&snapshot(&restored)) == now, "a function of the log alone");
}

#[test]
fn the_frozen_asked_task_has_every_kind_of_state() {
    let open = task().provisional();
    let paper: Vec<_> = open.iter().filter(|estimate| estimate.pool == "paper").collect();
    assert!(paper.len() > 3, "windows of every kind");
    for estimate in &paper {
        assert_eq!(estimate.routing.len(), 5, "{}", estimate.window);
        let measured = estimate.measured.as_ref().expect("asked");
        assert!(measured.effective_capacity.is_some() && measured.replicas == 4, "{measured:?}");
    }
    assert!(open.iter().any(|estimate| estimate.pool == "sglang" && estimate.measured.is_none()));
}

/// Engines that are modelled a capacity at a time, asked about the measured hits.
#[test]
fn a_task_that_measures_engines_without_a_curve_goes_on_as_if_it_had_never_stopped() {
    let config = || config_of_rules_that_asks(Questions { measured: true, ..Questions::default() });
    let mut unstopped = fresh(config(), &from_the_start());
    feed_values(&mut unstopped, SNAPSHOT, &POOLS_OF_RULES, measured);
    let now = file(&snapshot(&unstopped));
    let written = frozen("own_rules/asked.kvs", &now);
    assert!(now == written, "the state changed: raise VERSION or RESULT_VERSION");
    for estimate in unstopped.provisional() {
        let measured = estimate.measured.as_ref().expect("asked");
        assert!(measured.requests > 0 && measured.replicas == 4, "{}: {measured:?}", estimate.window);
    }
    let last_record = unstopped.last_record();
    let mut restored = restored_as(config(), VERSION, written, last_record);
    assert!(file(&snapshot(&restored)) == now, "a function of the log alone");
    let rest = |task: &mut PartitionTask| lines(feed_values(task, END, &POOLS_OF_RULES, measured));
    let published = rest(&mut restored);
    assert!(published.lines().count() > 20, "enough to compare");
    assert_eq!(published, rest(&mut unstopped));
    assert_eq!(published.as_bytes(), frozen("own_rules/asked.expected.txt", published.as_bytes()));
}
