//! Threads that prepare records. A record goes to whichever is free: nothing is kept between two.
//!
//! The queue has no bound of its own: what is in it is bounded by the partitions, which pause a partition
//! before more is fetched.

use super::PreparePlan;
use crate::error::ServiceError;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use kvset_formats::codec::{DecodeError, ErrorCode, LookupError, WriterSchemas};
use kvset_formats::position::{Epoch, Partition};
use kvset_kafka::kafka::member::InputRecord as _;
use kvset_kafka::kafka::source::Record;
use kvset_kafka::registry::cache::SchemaCache;
use kvset_prepare::{PreparedRecord, Preparer, RawRecord};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

/// A record that was prepared, or why its schema cannot be known.
pub(super) struct Finished {
    pub(super) partition: Partition,
    pub(super) epoch: Epoch,
    pub(super) offset: i64,
    pub(super) prepared: Result<PreparedRecord, LookupError>,
    pub(super) took: Duration,
}

/// Every thread is gone, which none is while its queue is open.
fn threads_gone() -> ServiceError {
    ServiceError::Threads("the preparing threads ended without being stopped".to_owned())
}

/// The threads' queue and what they gave back.
pub(super) struct Threads<'c> {
    jobs: Sender<(Epoch, Record<'c>)>,
    finished: Receiver<Finished>,
}

impl<'c> Threads<'c> {
    /// Starts them. They end when this is dropped.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, plan: &PreparePlan) -> io::Result<Self>
    where
        'c: 'scope,
    {
        let (jobs, queue) = unbounded::<(Epoch, Record<'c>)>();
        let (report, finished) = unbounded();
        for index in 0..plan.stream.threads.max(1) {
            let schemas = plan
                .registry
                .as_ref()
                .map(|cache| Arc::<SchemaCache>::clone(cache) as Arc<dyn WriterSchemas>);
            let preparer = Preparer::new(Arc::clone(&plan.recipe), plan.tokenizers.clone());
            let mut preparer = preparer.with_schemas(schemas);
            let (queue, report) = (queue.clone(), report.clone());
            let builder = Builder::new().name(format!("kvset-prepare-{index}"));
            builder.spawn_scoped(scope, move || {
                for (epoch, record) in queue {
                    if report.send(finish(&mut preparer, epoch, &record)).is_err() {
                        return;
                    }
                }
            })?;
        }
        Ok(Self { jobs, finished })
    }

    pub(super) fn submit(&self, epoch: Epoch, record: Record<'c>) -> Result<(), ServiceError> {
        self.jobs.send((epoch, record)).map_err(|_| threads_gone())
    }

    /// A record that was prepared, waited for; `None` when none was in time.
    pub(super) fn finished(&self, timeout: Duration) -> Result<Option<Finished>, ServiceError> {
        match self.finished.recv_timeout(timeout) {
            Ok(finished) => Ok(Some(finished)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(threads_gone()),
        }
    }
}

fn finish(preparer: &mut Preparer, epoch: Epoch, record: &Record<'_>) -> Finished {
    let begin = Instant::now();
    let raw = RawRecord { source: record.as_source(), headers: record.headers() };
    let known = preparer.look_up(&raw);
    let prepared = known.map(|()| prepare_guarded(preparer, &raw, Preparer::prepare));
    let (partition, offset) = (record.partition(), record.offset());
    Finished { partition, epoch, offset, prepared, took: begin.elapsed() }
}

/// A defect that one record meets, in a tokenizer's library for example, must not end the others'
/// work; and without an answer for every record its partition would stand still for ever.
fn prepare_guarded(
    preparer: &mut Preparer,
    record: &RawRecord<'_>,
    prepare: impl FnOnce(&mut Preparer, &RawRecord<'_>) -> PreparedRecord,
) -> PreparedRecord {
    // Buffers are emptied before each use, so a record that broke off leaves nothing behind.
    let guarded = catch_unwind(AssertUnwindSafe(|| prepare(preparer, record)));
    guarded.unwrap_or_else(|_| {
        let detail = "a defect in this program or its tokenizer stopped the work on this record";
        preparer.refuse(record, &DecodeError::new(ErrorCode::TokenizerFailed, detail))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_formats::codec::SourceRecord;
    use kvset_prepare::Tokenizers;

    #[test]
    fn a_defect_refuses_its_record_and_nothing_else() {
        let recipe = crate::prepare::recipe(&kvset_settings::Settings::default());
        let mut preparer = Preparer::new(Arc::new(recipe), Tokenizers::default());
        let (topic, value) = ("raw", Some(&br#"{"tokens": [1], "model": "m"}"#[..]));
        let source = SourceRecord {
            schema_header: None,
            topic,
            partition: 0,
            offset: 0,
            timestamp_ms: Some(1),
            key: None,
            value,
        };
        let record = RawRecord { source, headers: Vec::new() };
        let prepared = prepare_guarded(&mut preparer, &record, |_, _| panic!("hunter2"));
        assert_eq!(prepared.refused, Some(ErrorCode::TokenizerFailed));
        let prepared = prepare_guarded(&mut preparer, &record, Preparer::prepare);
        assert_eq!((prepared.refused, prepared.total().requests), (None, 1));
    }
}
