//! Records handed to a worker at once, which another one may read for it while they wait.

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use kvset_formats::codec::Repacker;
use kvset_kafka::kafka::member::InputRecord;
use kvset_pipeline::incoming::Incoming;
use std::sync::{Mutex, PoisonError};

/// Records handed to a worker at once.
pub struct Batch<R> {
    records: Vec<R>,
    /// Taken by whoever repacks the records, or by their worker where it comes first.
    claim: Mutex<Option<Sender<Repacked>>>,
    repacked: Receiver<Repacked>,
}

/// What the records of a batch say, where reading it from them takes longer. No longer than they are.
#[derive(Debug, Default)]
pub struct Repacked {
    bytes: Vec<u8>,
    /// Where each record's part of the bytes ends; the part of one that was not repacked is empty.
    ends: Vec<usize>,
}

impl Repacked {
    fn get(&self, record: usize) -> Option<&[u8]> {
        let begin = record.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.bytes.get(begin..*self.ends.get(record)?).filter(|part| !part.is_empty())
    }
}

impl<R: InputRecord> Batch<R> {
    /// Records in their order.
    pub fn new(records: Vec<R>) -> Self {
        let (claim, repacked) = bounded(1);
        Self { records, claim: Mutex::new(Some(claim)), repacked }
    }

    /// Whether reading these records takes long enough to be done ahead, by the first of them.
    pub fn takes_long(&self, repacker: &Repacker) -> bool {
        self.records.first().is_some_and(|first| repacker.takes_long(first.as_source().payload()))
    }

    /// Repacks the records for their worker, unless it or somebody else has begun with them.
    pub fn repack(&self, repacker: &mut Repacker) {
        let Some(claim) = self.claim() else { return };
        let mut repacked = Repacked::default();
        for record in &self.records {
            repacker.repack(record.as_source().payload(), &mut repacked.bytes);
            repacked.ends.push(repacked.bytes.len());
        }
        // There is room for one, and this is the only one; it is lost with the batch.
        drop(claim.send(repacked));
    }

    /// What was repacked of the records, for the worker that now begins with them; waits for whoever is at it, and
    /// calls `help` meanwhile, which says whether there was anything to do. `None` where nobody has begun.
    pub fn begin(&self, mut help: impl FnMut() -> bool) -> Option<Repacked> {
        if self.claim().is_some() {
            return None;
        }
        loop {
            match self.repacked.try_recv() {
                Ok(repacked) => return Some(repacked),
                // Whoever was at it panicked, which ends the service elsewhere.
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if help() => {}
                Err(TryRecvError::Empty) => return self.repacked.recv().ok(),
            }
        }
    }

    /// The records in runs of one partition, each told with its bytes.
    pub fn runs<'b>(
        &'b self,
        repacked: Option<&'b Repacked>,
    ) -> impl Iterator<Item = (&'b R, impl Iterator<Item = (Incoming<'b>, usize)>)> {
        let mut at = 0;
        self.records.chunk_by(|one, next| one.partition() == next.partition()).map(move |run| {
            let begin = at;
            at += run.len();
            let told = (begin..).zip(run).map(move |(index, record)| {
                let repacked = repacked.and_then(|repacked| repacked.get(index));
                (Incoming { record: record.as_source(), repacked }, record.bytes())
            });
            (&run[0], told)
        })
    }

    fn claim(&self) -> Option<Sender<Repacked>> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_formats::codec::{DecodeLimits, Encoding, SourceRecord};
    use std::thread;

    struct Line(&'static str);

    impl InputRecord for Line {
        fn as_source(&self) -> SourceRecord<'_> {
            let value = Some(self.0.as_bytes());
            SourceRecord {
                schema_header: None,
                topic: "t",
                partition: 0,
                offset: 0,
                timestamp_ms: None,
                key: None,
                value,
            }
        }
    }

    const LONG: &str =
        r#"{"event_time":1700000000000,"page_ids":[12345678901234567890,12345678901234567891]}"#;

    fn repacker() -> Repacker {
        Repacker::new(Encoding::Auto, DecodeLimits::default())
    }

    #[test]
    fn a_worker_that_comes_first_reads_its_records_itself() {
        let batch = Batch::new(vec![Line(LONG)]);
        assert!(batch.takes_long(&repacker()));
        assert!(batch.begin(|| panic!("nobody to wait for")).is_none());
        batch.repack(&mut repacker());
        assert!(batch.repacked.try_recv().is_err(), "too late to be of use");
    }

    #[test]
    fn each_record_is_told_with_what_was_repacked_of_it() {
        let batch = Batch::new(vec![Line("{"), Line(LONG), Line(""), Line(LONG)]);
        batch.repack(&mut repacker());
        let repacked = batch.begin(|| panic!("nobody to wait for")).expect("it was repacked");
        let told: Vec<_> = batch.runs(Some(&repacked)).flat_map(|(_, run)| run).collect();
        assert_eq!(told.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [1, LONG.len(), 0, LONG.len()]);
        let has: Vec<bool> = told.iter().map(|(incoming, _)| incoming.repacked.is_some()).collect();
        assert_eq!(has, [false, true, false, true]);
        assert_eq!(told[1].0.repacked, told[3].0.repacked);
    }

    #[test]
    fn a_worker_waits_for_whoever_has_begun_and_helps_meanwhile() {
        let batch = Batch::new(vec![Line(LONG)]);
        let claim = batch.claim().expect("the first");
        let mut helped = 0;
        let repacked = thread::scope(|scope| {
            let (told, begun) = bounded(1);
            scope.spawn(move || {
                begun.recv().expect("the worker waits");
                claim.send(Repacked { bytes: vec![7], ends: vec![1] }).expect("room for one");
            });
            batch.begin(|| {
                helped += 1;
                (helped == 1).then(|| told.send(()).expect("listens")).is_some()
            })
        });
        assert_eq!(repacked.expect("it was repacked").get(0), Some(&[7][..]));
        assert!((1..=2).contains(&helped), "helped {helped} times");
    }

    #[test]
    fn records_whose_reader_panicked_are_read_by_their_worker() {
        let batch = Batch::new(vec![Line(LONG)]);
        drop(batch.claim());
        assert!(batch.begin(|| true).is_none());
    }
}
