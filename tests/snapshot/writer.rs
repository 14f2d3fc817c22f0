//! The background writer: snapshots are written in turn, failures are values, nobody waits for ever.

use kvset::pipeline::facts::{Fingerprint, PartitionId, SnapshotFact};
use kvset::position::NextOffset;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::store::{Generation, SafeGeneration, SnapshotStore, StoreError};
use kvset::snapshot::stream::Verified;
use kvset::snapshot::writer::{SnapshotOutcome, SnapshotWriter, Unfinished};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Long enough for any machine; no test that passes waits for it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A store that saves when the test says so, and does then what the test says.
struct Gate {
    entered: Sender<()>,
    orders: Mutex<Receiver<Order>>,
}

enum Order {
    Save,
    FillDisk,
    Panic,
}

impl SnapshotStore for Gate {
    fn partitions(&self) -> Result<Vec<PartitionId>, StoreError> {
        Ok(Vec::new())
    }

    fn list(&self, _: &PartitionId) -> Result<Vec<Generation>, StoreError> {
        Ok(Vec::new())
    }

    fn load(&self, partition: &PartitionId, _: NextOffset) -> Result<Verified, StoreError> {
        Err(StoreError::ReadOnly { place: partition.to_string() })
    }

    fn save(&self, snapshot: &Snapshot) -> Result<SafeGeneration, StoreError> {
        self.entered.send(()).expect("a listening test");
        let place = snapshot.partition.to_string();
        let order = self.orders.lock().expect("no panic while held").recv().expect("an order");
        match order {
            Order::Save => Ok(SafeGeneration { place, bytes: 1, not_removed: None }),
            Order::FillDisk => Err(StoreError::Io {
                operation: "writing",
                place,
                cause: std::io::ErrorKind::StorageFull.into(),
            }),
            Order::Panic => std::panic::resume_unwind(Box::new("a defect")),
        }
    }

    fn set_aside(&self, _: &PartitionId, _: NextOffset) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Bench {
    writer: SnapshotWriter,
    entered: Receiver<()>,
    orders: Sender<Order>,
    reports: Receiver<SnapshotOutcome>,
}

fn bench() -> Bench {
    let ((enter, entered), (orders, ordered), (report, reports)) = (channel(), channel(), channel());
    let gate = Gate { entered: enter, orders: Mutex::new(ordered) };
    let writer = SnapshotWriter::spawn(Arc::new(gate), move |written| {
        report.send(written).expect("a listening test");
    });
    Bench { writer: writer.expect("a thread"), entered, orders, reports }
}

fn snapshot(topic: &str, next_offset: i64) -> Snapshot {
    Snapshot {
        partition: PartitionId::new(topic, 0).expect("a legal name"),
        fact: SnapshotFact {
            next_offset: NextOffset(next_offset),
            fingerprint: Fingerprint(1),
            last_record: None,
        },
        body: vec![next_offset as u8].into(),
    }
}

impl Bench {
    fn wait_for_save(&self) {
        self.entered.recv_timeout(TIMEOUT).expect("the thread saves");
    }

    fn order(&self, order: Order) {
        self.orders.send(order).expect("a listening thread");
    }

    fn report(&self) -> SnapshotOutcome {
        self.reports.recv_timeout(TIMEOUT).expect("a report")
    }
}

#[test]
fn snapshots_are_written_in_the_order_they_came_and_their_memory_comes_back() {
    let bench = bench();
    assert!(bench.writer.submit(snapshot("a", 1)));
    bench.wait_for_save();
    assert!(bench.writer.submit(snapshot("a", 2)), "1 is being written");
    assert!(bench.writer.submit(snapshot("b", 7)));
    for _ in 0..3 {
        bench.order(Order::Save);
    }
    let written = [bench.report(), bench.report(), bench.report()];
    assert_eq!(written.each_ref().map(|written| written.next_offset.0), [1, 2, 7]);
    assert_eq!(written.map(|written| written.buffer), [[1], [2], [7]]);
    assert_eq!(bench.writer.finish(TIMEOUT), Ok(()));
}

#[test]
fn a_full_disk_and_a_panic_are_reported_and_the_next_snapshot_is_written() {
    let bench = bench();
    for order in [Order::FillDisk, Order::Panic, Order::Save] {
        bench.writer.submit(snapshot("a", 1));
        bench.order(order);
        bench.wait_for_save();
    }
    let results = [bench.report().result, bench.report().result, bench.report().result];
    assert!(matches!(&results[0], Err(error) if error.is_disk_full()));
    let message = results[0].as_ref().expect_err("full").to_string();
    assert!(message.contains("free space or keep fewer generations"), "{message}");
    assert!(matches!(&results[1], Err(StoreError::Panicked { .. })));
    assert!(results[2].is_ok());
}

#[test]
fn waiting_ends_at_its_deadline_and_with_the_last_snapshot() {
    let bench = bench();
    let (a, b) = (snapshot("a", 1), snapshot("b", 1));
    bench.writer.submit(a.clone());
    bench.wait_for_save();
    assert_eq!(bench.writer.flush(&b.partition, Duration::ZERO), Ok(()), "nothing of b is in the way");
    let deadline = Duration::from_millis(5);
    let unfinished = bench.writer.flush(&a.partition, deadline).expect_err("the store is stuck");
    assert_eq!(unfinished, Unfinished { waiting: 1, deadline });
    assert!(unfinished.to_string().starts_with("1 snapshots were not written within 5ms: "));
    bench.order(Order::Save);
    assert_eq!(bench.writer.flush(&a.partition, TIMEOUT), Ok(()));
    bench.writer.submit(b);
    bench.order(Order::Save);
    let Bench { writer, reports, .. } = bench;
    assert_eq!(writer.finish(TIMEOUT), Ok(()));
    let written: Vec<_> = reports.iter().map(|written| written.partition.to_string()).collect();
    assert_eq!(written, ["a-0", "b-0"], "and the thread let go of its channel");
}

#[test]
fn a_stuck_store_does_not_keep_the_service_from_ending() {
    let Bench { writer, entered, orders, reports } = bench();
    writer.submit(snapshot("a", 1));
    entered.recv_timeout(TIMEOUT).expect("the thread saves");
    writer.submit(snapshot("a", 2));
    let deadline = Duration::from_millis(5);
    assert_eq!(writer.finish(deadline), Err(Unfinished { waiting: 2, deadline }));
    // The thread is still in `save`: let it go before the test's channels do.
    for _ in 0..2 {
        orders.send(Order::Save).expect("a listening thread");
        reports.recv_timeout(TIMEOUT).expect("a report");
    }
}
