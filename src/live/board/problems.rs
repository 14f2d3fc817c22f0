//! What of the service somebody should know, with what to do.

use super::{BoardState, LATE_FOR, Late, Refused, ShownBoard};
use crate::live::condition::refused_problem;
use crate::live::overview::OverviewProblem;
use crate::present::words;
use kvset_formats::position::Partition;
use kvset_pipeline::task::PoolRefusals;
use kvset_service::events::split_pool;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a commit may take before somebody should know.
const COMMITS_WITHIN: Duration = Duration::from_secs(10);

impl BoardState {
    /// Pools that were refused something lately.
    pub(super) fn recently_refused(&self) -> impl Iterator<Item = (&str, &PoolRefusals)> {
        let recent = self.refused_pools.iter().filter(|(_, (_, _, last))| last.elapsed() < LATE_FOR);
        recent.map(|(pool, (_, refused, _))| (&**pool, refused))
    }

    /// What is wrong, of the process first, then of partitions and of pools.
    pub(super) fn problems(&self) -> Vec<OverviewProblem> {
        let mut problems = Vec::new();
        let is_long = |since: Instant| since.elapsed() >= COMMITS_WITHIN;
        if self.commits_fail || self.committing_since.is_some_and(is_long) {
            let message = "The last commit did not go through; it is tried again, and nothing is lost.";
            problems.push(OverviewProblem::general("commit_failed", message));
        }
        for (partition, why) in &self.held {
            let message = format!("Held, while all other partitions go on: {why}");
            problems.push(OverviewProblem::of_partition("partition_held", partition.0, message));
        }
        if self.registry_away {
            let message = "Records wait for a schema registry that does not answer.";
            problems.push(OverviewProblem::general("schema_registry_away", message));
        }
        problems.extend(self.condition.problems());
        let failed = self.partitions.iter().filter(|(_, place)| place.snapshot_failed);
        for (partition, _) in failed {
            let message = "The last snapshot could not be made, read or written; a restart takes longer \
                           until one succeeds. The log says why.";
            problems.push(OverviewProblem::of_partition("snapshot_failed", partition.0, message));
        }
        let now = Instant::now();
        for (pool, heard) in &self.split {
            if let Some((first, second)) = still_split(heard, now) {
                problems.push(OverviewProblem::of_pool("split_pool", pool, split_pool(first, second)));
            }
        }
        problems.extend(self.pools.iter().filter_map(|(name, shown)| late_problem(name, shown)));
        problems.extend(self.pools.iter().filter_map(|(name, shown)| order_problem(name, shown)));
        problems.extend(self.pools.iter().filter_map(|(name, shown)| shown.stillness.problem(name, now)));
        problems.extend(self.recently_refused().filter_map(|(pool, refused)| refused_problem(pool, refused)));
        for (code, Refused { records, .. }) in
            self.refused.iter().filter(|(_, refused)| refused.last.elapsed() < LATE_FOR)
        {
            let (records, name) = (words::counted(*records, "record", "records"), code.name());
            let message = format!("{records} refused as {name} since the start; see the dead-letter topic.");
            problems.push(OverviewProblem::general("records_refused", message));
        }
        problems
    }
}

/// The two partitions that had records of a pool last; `None` where it has been in one alone for an hour: it has moved.
pub(super) fn still_split(
    heard: &BTreeMap<Partition, Instant>,
    now: Instant,
) -> Option<(Partition, Partition)> {
    let mut recent: Vec<_> = heard.iter().filter(|(_, at)| now.duration_since(**at) < LATE_FOR).collect();
    recent.sort_by_key(|(_, at)| std::cmp::Reverse(**at));
    let (first, second) = (*recent.first()?.0, *recent.get(1)?.0);
    Some((first.min(second), first.max(second)))
}

/// That records of a pool come too late, with what to do.
fn late_problem(pool: &str, shown: &ShownBoard) -> Option<OverviewProblem> {
    let Late { records, by_ms, last } = shown.late;
    last.filter(|last| last.elapsed() < LATE_FOR)?;
    let share = words::rate(records as f64 / shown.requests.max(1) as f64);
    let message = format!(
        "{} of its requests ({share}) came after a window they belong to was closed, up to {} behind the pool's \
         latest event: raise estimate.max_lateness or estimate.idle_timeout, or mend the clock of whoever is ahead.",
        words::integer(records),
        words::lasting(by_ms)
    );
    Some(OverviewProblem::of_pool("late_records", pool, message))
}

/// That requests of a pool took longer than records are held back for, with what to do.
fn order_problem(pool: &str, shown: &ShownBoard) -> Option<OverviewProblem> {
    let Late { records, by_ms, last } = shown.out_of_order;
    last.filter(|last| last.elapsed() < LATE_FOR)?;
    let share = words::rate(records as f64 / shown.requests.max(1) as f64);
    let cure = match shown.early {
        0 => "raise estimate.hold_back to the longest that requests take".to_owned(),
        early => format!(
            "{} waited no longer, since more than estimate.hold_back_bytes did: raise that, or lower estimate.hold_back",
            words::integer(early)
        ),
    };
    let message = format!(
        "{} of its requests ({share}) were taken after one that arrived up to {} later, so the cache was not modelled in \
         the order of arrivals: {cure}.",
        words::integer(records),
        words::lasting(by_ms)
    );
    Some(OverviewProblem::of_pool("out_of_order_records", pool, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool that had moved to another partition was a problem until the process ended.
    #[test]
    fn a_pool_is_split_until_it_has_been_in_one_partition_for_an_hour() {
        let begin = Instant::now();
        let at = |secs| begin + Duration::from_secs(secs);
        let [old, new] = [Partition(0), Partition(3)];
        let mut heard = BTreeMap::from([(old, at(0)), (new, at(0))]);
        assert_eq!(still_split(&heard, at(3000)), Some((old, new)));
        heard.insert(new, at(3500));
        assert_eq!(still_split(&heard, at(3700)), None, "it has moved");
        heard.insert(old, at(3800));
        assert_eq!(still_split(&heard, at(3900)), Some((old, new)), "it has not");
    }
}
