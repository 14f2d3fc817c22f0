//! How the partitions stand, in problems for an operator.

use super::overview::OverviewProblem;
use crate::present::words;
use kvset_formats::codec::ErrorCode;
use kvset_formats::position::Partition;
use kvset_pipeline::task::PoolRefusals;
use kvset_service::events::partition_list;
use std::time::{Duration, Instant};

/// How long a state may take to catch up before somebody should know.
const RESTORING_FOR: Duration = Duration::from_secs(60);

/// What the poll loop said of the partitions last.
#[derive(Debug, Default)]
pub(super) struct Condition {
    /// How many states are being rebuilt, and since when any is.
    restoring: Option<(usize, Instant)>,
    stalled: Vec<Partition>,
    unowned: Vec<Partition>,
}

impl Condition {
    /// Notes what is said a few times a second.
    pub fn note(&mut self, restoring: usize, stalled: &[Partition], unowned: &[Partition]) {
        let since = self.restoring.map_or_else(Instant::now, |(_, since)| since);
        self.restoring = (restoring > 0).then_some((restoring, since));
        for (known, now) in [(&mut self.stalled, stalled), (&mut self.unowned, unowned)] {
            if known != now {
                *known = now.to_vec();
            }
        }
    }

    pub fn problems(&self) -> Vec<OverviewProblem> {
        let mut problems = Vec::new();
        let long = self.restoring.map(|(partitions, since)| (partitions, since.elapsed()));
        if let Some((partitions, time)) = long.filter(|(_, time)| *time > RESTORING_FOR) {
            let time = words::lasting(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            let what = words::counted(partitions as u64, "partition", "partitions");
            let message = format!(
                "The state of {what} has been rebuilt from the log for {time}; nothing new is published of them until it \
                 has caught up."
            );
            problems.push(OverviewProblem::general("restoring", message));
        }
        if !self.stalled.is_empty() {
            let message = format!(
                "Records wait in {}, and none was processed for two minutes: a producer's transaction that \
                 stays open holds them back, a schema registry is away, or one record takes this long.",
                partition_list(&self.stalled)
            );
            problems.push(OverviewProblem::general("stalled", message));
        }
        if !self.unowned.is_empty() {
            let message = format!(
                "No instance of the group has {}: nobody reads from there. See that every instance is up and \
                 subscribes to this topic alone, and how the group stands (kafka-consumer-groups.sh --describe --members).",
                partition_list(&self.unowned)
            );
            problems.push(OverviewProblem::general("unowned_partitions", message));
        }
        problems
    }
}

/// That too many records of a pool are refused, with what to do.
pub(super) fn refused_problem(pool: &str, refused: &PoolRefusals) -> Option<OverviewProblem> {
    let PoolRefusals { records, code, offset, .. } = refused;
    let cure = match code {
        ErrorCode::TooManyPools => "raise estimate.max_pools",
        ErrorCode::UnknownPageSize => {
            "have its producer send page_size, or set page_size for it in [[pools]]"
        }
        _ => "correct its producer; its dead letters say why",
    };
    refused.is_over_limit.then(|| {
        let message = format!(
            "{} refused, the last as {} at offset {offset}; no other pool is affected: {cure}.",
            words::counted(*records, "record", "records"),
            code.name()
        );
        OverviewProblem::of_pool("pool_refused", pool, message)
    })
}
