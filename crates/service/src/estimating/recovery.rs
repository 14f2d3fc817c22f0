//! Taking a partition up: the facts of its snapshots and its log, the decision, the state.

use crate::error::ServiceError;
use crate::plan::ServicePlan;
use crate::poll_loop::stage::BrokerFacts;
use crate::snapshots::checkpoints::Checkpoints;
use kvset_core::units::Offset;
use kvset_formats::position::{LogRange, NextOffset, Partition};
use kvset_kafka::kafka::KafkaFailure;
use kvset_pipeline::facts::{Fingerprint, PartitionId, RecordIdentity, SnapshotFact};
use kvset_pipeline::resume::{LastRecord, Origin, Resume, ResumeFacts, decide};
use kvset_pipeline::task::{PartitionTask, RestoredTask};
use kvset_snapshot::format::{FormatError, Header};
use kvset_snapshot::store::{Generation, SnapshotStore, StoreError, load_or_set_aside};
use std::error::Error;
use std::sync::Arc;

/// A partition, ready for records.
pub(crate) struct TakenUp {
    pub(crate) resume: Resume,
    pub(crate) task: PartitionTask,
    /// Place of the snapshot it was restored from, and bytes of its state.
    pub(crate) restored: Option<(NextOffset, u64)>,
    /// Snapshots that were wanted and could not be used.
    pub(crate) failures: usize,
}

/// The identity of the record at an offset of the log.
pub(crate) type LookUp<'a> = &'a mut dyn FnMut(Offset) -> Result<Option<RecordIdentity>, KafkaFailure>;

/// Decides where to take the partition up and brings its state there. A snapshot that turns out to
/// be of no use is passed over and the decision made again without it.
pub(crate) fn take_up(
    plan: &ServicePlan,
    known: BrokerFacts,
    mut parked: Option<PartitionTask>,
    checkpoints: Option<(&Checkpoints, &PartitionId)>,
    look_up: LookUp<'_>,
) -> Result<TakenUp, ServiceError> {
    let mut failures = 0;
    let mut candidates = checkpoints.map_or_else(Vec::new, |(checkpoints, id)| {
        found(checkpoints.store(), id).unwrap_or_else(|error| {
            failures += 1;
            tracing::warn!(
                partition = known.partition.0,
                "partition {}: snapshots cannot be listed: {error}",
                known.partition
            );
            Vec::new()
        })
    });
    loop {
        let at = parked.as_ref().map(PartitionTask::next_offset);
        let mut resume = decision(plan, &known, at, checkpoints, &candidates)?;
        if let (Origin::Parked, Some(mut task)) = (resume.origin, parked.take()) {
            task.unpark();
            task.pass(known.gaps);
            failures += set_aside(checkpoints, &candidates, &resume);
            return Ok(TakenUp { resume, task, restored: None, failures });
        }
        let (Origin::Snapshot(index), Some((checkpoints, id))) = (resume.origin, checkpoints) else {
            failures += set_aside(checkpoints, &candidates, &resume);
            if let (Origin::Rebuild, Some((checkpoints, _))) = (resume.origin, checkpoints) {
                resume.explanation += &of_no_use(&candidates, checkpoints.fingerprint());
            }
            let mut task = PartitionTask::new(Arc::clone(&plan.task), known.partition, &resume);
            task.pass(known.gaps);
            return Ok(TakenUp { resume, task, restored: None, failures });
        };
        let Some((generation, last_record)) = candidates.get_mut(index) else {
            // A decision for a snapshot that is not there is made again without any: none is decided for then.
            candidates.clear();
            failures += 1;
            continue;
        };
        if last_record.is_none() {
            *last_record = Some(compare(generation, known.log, look_up)?);
            continue;
        }
        match restore(plan, &resume, checkpoints.store(), id, generation) {
            Ok((mut task, bytes)) => {
                task.pass(known.gaps);
                let restored = Some((generation.next_offset, bytes));
                failures += set_aside(Some((checkpoints, id)), &candidates, &resume);
                return Ok(TakenUp { resume, task, restored, failures });
            }
            Err(errors) => {
                let next = generation.next_offset;
                for error in errors {
                    tracing::warn!(
                        partition = known.partition.0,
                        offset = next.0,
                        "partition {}: snapshot at {next} passed over: {error}",
                        known.partition
                    );
                }
                failures += 1;
                candidates.remove(index);
            }
        }
    }
}

/// The snapshots, and whether the log still holds the last record of each; asked only of one that is wanted.
fn found(
    store: &dyn SnapshotStore,
    id: &PartitionId,
) -> Result<Vec<(Generation, Option<LastRecord>)>, StoreError> {
    let generations = store.list(id)?.into_iter();
    Ok(generations.map(|generation| (generation, None)).collect())
}

/// That the newest state there is was made under another configuration, or is of another format version, if so: the
/// reason of a rebuild.
fn of_no_use(candidates: &[(Generation, Option<LastRecord>)], current: Fingerprint) -> String {
    let generations = candidates.iter().map(|(generation, _)| generation);
    let undamaged = generations.filter(|generation| match &generation.header {
        Ok(_) => true,
        Err(error) => matches!(error.format_error(), Some(FormatError::OtherVersion { .. })),
    });
    match undamaged.max_by_key(|generation| generation.next_offset).map(|newest| &newest.header) {
        Some(Ok(header)) if header.fact.fingerprint != current => {
            let SnapshotFact { next_offset, fingerprint, .. } = header.fact;
            format!(
                "; the state of the records before {next_offset} was made under another configuration (fingerprint \
                 {fingerprint}, now {current}), or by a version of kvset with other rules"
            )
        }
        Some(Err(error)) => format!("; {error}"),
        _ => String::new(),
    }
}

fn decision(
    plan: &ServicePlan,
    known: &BrokerFacts,
    parked: Option<NextOffset>,
    checkpoints: Option<(&Checkpoints, &PartitionId)>,
    candidates: &[(Generation, Option<LastRecord>)],
) -> Result<Resume, ServiceError> {
    let BrokerFacts { partition, committed, log, .. } = *known;
    let snapshots: Vec<_> = checkpoints.map_or_else(Vec::new, |(checkpoints, _)| {
        let facts = |(generation, last_record): &(Generation, Option<LastRecord>)| {
            generation.facts(checkpoints.fingerprint(), last_record.unwrap_or(LastRecord::Gone))
        };
        candidates.iter().map(facts).collect()
    });
    let (start, lost_history) = (plan.stream.start, plan.stream.lost_history);
    let facts = ResumeFacts { committed, log, snapshots: &snapshots, parked, start, lost_history };
    let resume = match plan.stream.offset_range(partition) {
        None => decide(&facts),
        Some(offset_range) => offset_range.decide(&facts),
    };
    resume.map_err(|refusal| ServiceError::Resume { partition, refusal })
}

/// Whether the log still holds the last record of the state.
fn compare(generation: &Generation, log: LogRange, look_up: LookUp<'_>) -> Result<LastRecord, KafkaFailure> {
    let Ok(header) = &generation.header else { return Ok(LastRecord::Gone) };
    let within = |record: &RecordIdentity| (log.start.0..log.end.0).contains(&record.offset.0);
    let there = match header.fact.last_record.filter(within) {
        Some(record) => look_up(record.offset)?,
        None => None,
    };
    Ok(header.fact.last_record_in_log(there.as_ref()))
}

fn restore(
    plan: &ServicePlan,
    resume: &Resume,
    store: &dyn SnapshotStore,
    id: &PartitionId,
    generation: &Generation,
) -> Result<(PartitionTask, u64), Vec<Box<dyn Error>>> {
    let (header, image) = read(store, id, generation.next_offset)?;
    let (bytes, last_record) = (header.state_bytes, header.fact.last_record);
    let (config, partition) = (Arc::clone(&plan.task), Partition(id.partition()));
    let task = PartitionTask::restore(config, partition, resume, last_record, image);
    Ok((task.map_err(|error| vec![error.into()])?, bytes))
}

/// Reads a state. Where parts of it turn out to be rotten the snapshot is set aside, and read again: there may be
/// another copy of it, in the store that hosts share.
fn read(
    store: &dyn SnapshotStore,
    id: &PartitionId,
    at: NextOffset,
) -> Result<(Header, RestoredTask), Vec<Box<dyn Error>>> {
    let mut passed_over = Vec::new();
    loop {
        let verified = match load_or_set_aside(store, id, at) {
            Ok(verified) => verified,
            Err(errors) => {
                passed_over.extend(errors.into_iter().map(Into::into));
                return Err(passed_over);
            }
        };
        let header = verified.header().clone();
        match verified.restore() {
            Ok(image) => return Ok((header, image)),
            Err(error) if error.is_corrupt() && passed_over.is_empty() => {
                passed_over.push(error.into());
                if let Err(error) = store.set_aside(id, at) {
                    passed_over.push(error.into());
                    return Err(passed_over);
                }
            }
            Err(error) => {
                passed_over.push(error.into());
                return Err(passed_over);
            }
        }
    }
}

/// Takes snapshots whose headers are rotten out of the way; how many there were.
fn set_aside(
    checkpoints: Option<(&Checkpoints, &PartitionId)>,
    candidates: &[(Generation, Option<LastRecord>)],
    resume: &Resume,
) -> usize {
    let Some((checkpoints, id)) = checkpoints else { return 0 };
    for (generation, _) in resume.set_aside.iter().filter_map(|index| candidates.get(*index)) {
        let Generation { next_offset, header, .. } = generation;
        if let Err(error) = header {
            tracing::warn!(
                partition = id.partition(),
                offset = next_offset.0,
                "partition {}: {error}",
                id.partition()
            );
        }
        if let Err(error) = checkpoints.store().set_aside(id, *next_offset) {
            tracing::warn!(
                partition = id.partition(),
                offset = next_offset.0,
                "partition {}: {error}",
                id.partition()
            );
        }
    }
    resume.set_aside.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_snapshot::stream::ReadError;

    #[test]
    fn a_rebuild_names_the_format_version_of_the_state_that_it_passes_over() {
        let place = "llm.requests-7/00000000000000006021.kvs".to_owned();
        let cause = ReadError::Format(FormatError::OtherVersion { found: 8 });
        let header = Err(StoreError::Snapshot { place: place.clone(), cause });
        let candidates = [(Generation { next_offset: NextOffset(6021), place, header }, None)];
        let reason = of_no_use(&candidates, Fingerprint(1));
        for part in ["format version 8", "reads version 1", "rebuild from the log"] {
            assert!(reason.contains(part), "{reason}");
        }
        assert_eq!(of_no_use(&[], Fingerprint(1)), "");
    }
}
