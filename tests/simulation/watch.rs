//! What a process tells of itself, taken down and counted.

use crate::world::Process;
use kvset::pipeline::publish::FailureKind;
use kvset::pipeline::resume::Origin;
use kvset::service::events::{Observer, ServiceEvent};

/// Watches one process.
#[derive(Debug)]
pub struct Watch(pub Process);

impl Observer for Watch {
    fn on(&self, event: &ServiceEvent<'_>) {
        if self.0.is_dead() {
            return;
        }
        let (mut state, number) = (self.0.world.state(), self.0.number);
        match event {
            ServiceEvent::Assigned { partition, resume, .. } => {
                state.note(|| {
                    format!("process {number} takes partition {partition} up: {}", resume.explanation)
                });
                state.held.insert((number, partition.0));
                state.broker.logs[partition.0 as usize].warm_up |= resume.warm_up;
                let muted = resume.replay_from < resume.publish_from;
                let (origin, how) = match (resume.origin, muted) {
                    (Origin::Fresh, _) => ("resume", "fresh"),
                    (Origin::Snapshot(_), false) => ("resume", "snapshot at the committed offset"),
                    (Origin::Snapshot(_), true) => ("resume", "snapshot and muted replay"),
                    (Origin::Rebuild, _) => ("resume", "muted rebuild"),
                    (Origin::Parked, _) => ("resume", "state kept in memory"),
                };
                state.count(origin, how);
                if resume.warm_up {
                    state.count("resume", "with lost history");
                }
                if !resume.set_aside.is_empty() {
                    state.count("snapshot", "set aside");
                }
            }
            ServiceEvent::Committed { outputs, .. } => {
                state.note(|| format!("process {number} committed {} outputs", outputs.len()));
                state.count("commit", "went through");
            }
            ServiceEvent::CommitFailed { kind } => {
                let what = match kind {
                    FailureKind::Transient => "transient",
                    FailureKind::Abortable => "abortable",
                    FailureKind::Migrated => "migrated",
                    FailureKind::Spent => "spent",
                    FailureKind::Fatal => "fatal",
                };
                state.note(|| format!("process {number}: the commit failed: {what}"));
                state.count("commit failed", what);
            }
            ServiceEvent::Revoked(partition) => {
                state.note(|| format!("process {number} gave partition {partition} up"));
                state.held.remove(&(number, partition.0));
                state.count("rebalance", "revoked");
            }
            ServiceEvent::Lost(partition) => {
                state.note(|| format!("process {number} lost partition {partition}"));
                state.held.remove(&(number, partition.0));
                state.count("rebalance", "lost");
            }
            ServiceEvent::SnapshotFailed { partition } => {
                state.note(|| format!("process {number}: a snapshot of partition {partition} failed"));
                state.count("snapshot", "failed");
            }
            _ => {}
        }
    }
}
