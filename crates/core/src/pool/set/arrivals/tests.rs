use super::*;
use crate::units::heap::HeapBytes;
use proptest::prelude::*;

const BOUND: u64 = 1000;
const LIMITS: ArrivalLimits = ArrivalLimits { bytes: u64::MAX, idle_timeout_ms: Some(400) };

/// A record of a log: its pool and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    pool: u8,
    place: ArrivalPlace,
}

/// Bytes that one takes.
const HELD: u64 = 10 + 2 * size_of::<Entry>() as u64;

impl HeapBytes for Entry {
    fn heap_bytes(&self) -> usize {
        10
    }
}

fn name(pool: u8) -> String {
    format!("pool-{pool}")
}

/// What was taken: each record, the offset at which it was, and whether early or out of order.
type Taken = Vec<(Entry, i64, Option<RecordTurn>, bool)>;

/// Takes a record in as the service does; pool 3 holds nothing back.
fn step(queue: &mut ArrivalQueue<Entry>, pool: u8, event_time: i64, offset: i64, taken: &mut Taken) {
    let place = ArrivalPlace { event_time: EventTime(event_time), offset: Offset(offset) };
    let entry = Entry { pool, place };
    let turn = queue.observe(&name(pool), place, (true, WriterWord::default()), (pool != 3).then_some(BOUND));
    match turn {
        RecordTurn::Later => queue.push(place, entry),
        now => taken.push((entry, offset, Some(now), false)),
    }
    while let Some((record, is_early)) = queue.pop_due() {
        taken.push((record, offset, None, is_early));
    }
}

fn run(limits: ArrivalLimits, log: &[(u8, i64)]) -> (ArrivalQueue<Entry>, Taken) {
    let (mut queue, mut taken) = (ArrivalQueue::new(limits), Vec::new());
    for (offset, (pool, time)) in log.iter().enumerate() {
        step(&mut queue, *pool, *time, offset as i64, &mut taken);
    }
    (queue, taken)
}

fn times(taken: &Taken) -> Vec<i64> {
    taken.iter().map(|(entry, ..)| entry.place.event_time.0).collect()
}

#[test]
fn a_record_waits_until_no_earlier_arrival_within_the_bound_can_follow() {
    let (mut queue, taken) = run(LIMITS, &[(0, 500), (0, 100), (0, 1099), (0, 1100), (0, 2100)]);
    assert_eq!(times(&taken), [100, 500, 1099, 1100]);
    assert_eq!(taken.iter().map(|taken| taken.1).collect::<Vec<_>>(), [3, 4, 4, 4]);
    assert_eq!((queue.len(), queue.pop_first().map(|entry| entry.place.offset)), (1, Some(Offset(4))));
}

#[test]
fn what_took_longer_than_the_bound_is_taken_as_it_comes_and_named() {
    let (_, taken) = run(LIMITS, &[(0, 1000), (0, 2500), (0, 700), (0, 1400)]);
    assert_eq!(times(&taken), [1000, 700, 1400], "the last one is in order still");
    assert_eq!(taken[1].2, Some(RecordTurn::OutOfOrder { by_ms: 300 }));
    assert_eq!(taken[2].2, None);
}

#[test]
fn a_pool_without_a_bound_or_without_durations_takes_records_as_they_come() {
    let (queue, taken) = run(LIMITS, &[(3, 500), (3, 100)]);
    assert!(queue.is_empty() && taken.iter().all(|taken| taken.2 == Some(RecordTurn::AsItComes)));
    let mut queue = ArrivalQueue::<Entry>::new(LIMITS);
    let place =
        |event_time, offset| ArrivalPlace { event_time: EventTime(event_time), offset: Offset(offset) };
    let mut turn = |time, offset, states| {
        queue.observe("a", place(time, offset), (states, WriterWord::default()), Some(BOUND))
    };
    assert_eq!(turn(500, 0, false), RecordTurn::AsItComes);
    assert_eq!(turn(400, 1, true), RecordTurn::Later, "from the first duration on");
    assert_eq!(turn(300, 2, false), RecordTurn::Later, "those without one, too");
}

#[test]
fn beyond_the_limit_the_earliest_arrival_makes_room() {
    let limits = ArrivalLimits { bytes: 2 * HELD, ..LIMITS };
    let (queue, taken) = run(limits, &[(0, 300), (1, 200), (0, 100), (1, 250)]);
    assert_eq!(times(&taken), [100, 200]);
    assert!(taken.iter().all(|taken| taken.3) && queue.bytes == 2 * HELD);
}

#[test]
fn the_records_of_a_silent_pool_are_taken_as_the_others_tell_that_time_passes() {
    let mut log = vec![(0, 90_000), (1, 0), (0, 90_100)];
    log.extend((1..=20).map(|step| (1, 100 * step)));
    let (_, taken) = run(LIMITS, &log);
    let of_silent: Vec<_> = taken.iter().filter(|(entry, ..)| entry.pool == 0).collect();
    assert_eq!(of_silent.len(), 2);
    assert!(of_silent.iter().all(|(_, at, ..)| *at < 22), "{of_silent:?}");
    let never = ArrivalLimits { idle_timeout_ms: None, ..LIMITS };
    assert!(run(never, &log).1.iter().all(|(entry, ..)| entry.pool == 1));
}

#[test]
fn a_pool_is_forgotten_once_nothing_of_it_waits() {
    let (mut queue, _) = run(LIMITS, &[(0, 500)]);
    queue.forget("pool-0");
    assert_eq!(queue.pools.len(), 1);
    queue.pop_first();
    queue.forget("pool-0");
    assert!(queue.pools.is_empty());
    step(&mut queue, 1, 7, 1, &mut Vec::new());
    assert_eq!((queue.len(), queue.arrivals.len()), (1, 1), "its place is used again");
}

fn restored(queue: &ArrivalQueue<Entry>, limits: ArrivalLimits) -> Option<ArrivalQueue<Entry>> {
    let bytes = postcard::to_allocvec(&queue.image()).expect("bytes");
    let image = postcard::from_bytes(&bytes).expect("an image");
    ArrivalQueue::restore(limits, |name| (name != "pool-3").then_some(BOUND), image)
}

proptest! {
    /// A log in the order of finishes, of requests that take no longer than the bound, comes out in the order of
    /// arrivals.
    #[test]
    fn a_log_of_finishes_is_taken_in_the_order_of_arrivals(
        requests in prop::collection::vec((0i64..5000, 0..=BOUND as i64), 1..60),
    ) {
        let mut finished = requests.clone();
        finished.sort_by_key(|(arrival, duration)| arrival + duration);
        let log: Vec<_> = finished.iter().map(|(arrival, _)| (0, *arrival)).collect();
        let (mut queue, mut taken) = run(LIMITS, &log);
        prop_assert!(taken.iter().all(|taken| taken.2.is_none() && !taken.3));
        while let Some(entry) = queue.pop_first() {
            taken.push((entry, i64::MAX, None, false));
        }
        let places: Vec<_> = taken.iter().map(|(entry, ..)| entry.place).collect();
        prop_assert!(places.is_sorted() && places.len() == requests.len());
    }

    /// Whatever comes, nothing is lost, the bound on bytes holds, and a queue that is restored at any place goes on as
    /// the one that never stopped.
    #[test]
    fn a_restored_queue_goes_on_as_the_one_that_never_stopped(
        log in prop::collection::vec((0u8..4, prop_oneof![9 => 0i64..9000, 1 => any::<i64>()]), 1..60),
        stop in any::<prop::sample::Index>(),
        room in 0..8 * HELD,
    ) {
        let limits = ArrivalLimits { bytes: room, ..LIMITS };
        let (whole, expected) = run(limits, &log);
        let stop = stop.index(log.len());
        let (before, mut taken) = run(limits, &log[..stop]);
        let mut queue = restored(&before, limits).expect("sound");
        for (offset, (pool, time)) in log.iter().enumerate().skip(stop) {
            step(&mut queue, *pool, *time, offset as i64, &mut taken);
            prop_assert!(queue.bytes <= room);
        }
        prop_assert_eq!(&taken, &expected);
        prop_assert_eq!(taken.len() + queue.len(), log.len());
        let bytes = |queue: &ArrivalQueue<Entry>| postcard::to_allocvec(&queue.image()).expect("bytes");
        prop_assert_eq!(bytes(&queue), bytes(&whole));
    }
}

/// A request of a replica: when it arrives, and how long it takes.
#[derive(Debug, Clone, Copy)]
struct Served {
    replica: u8,
    arrival: i64,
    duration: i64,
}

impl Served {
    fn end(&self) -> i64 {
        self.arrival + self.duration
    }
}

/// The log of engines that write each request at its end: replica, arrival, and before when the replica is complete.
fn written(mut requests: Vec<Served>) -> Vec<(u8, i64, i64)> {
    requests.sort_by_key(|request| (request.end(), request.arrival));
    let complete = |at: usize| {
        let own = requests[at + 1..].iter().filter(|later| later.replica == requests[at].replica);
        own.map(|later| later.arrival).min().unwrap_or(i64::MAX).min(requests[at].end())
    };
    (0..requests.len()).map(|at| (requests[at].replica, requests[at].arrival, complete(at))).collect()
}

proptest! {
    /// An estimate followed its requests after five minutes, though the engine had nothing in flight.
    #[test]
    fn where_writers_say_what_is_complete_nothing_waits_longer_nor_out_of_order(
        requests in prop::collection::vec((0u8..3, 1i64..3000, 0i64..BOUND as i64), 1..60),
    ) {
        // Each replica was heard of, and none is silent for as long as the bound.
        let bound = Some(10 * BOUND);
        let first = (0..3).map(|replica| Served { replica, arrival: 0, duration: 0 });
        let served = |(replica, arrival, duration)| Served { replica, arrival, duration };
        let log = written(first.chain(requests.into_iter().map(served)).collect());
        let (mut queue, mut taken) = (ArrivalQueue::new(LIMITS), Vec::new());
        let mut complete = [0; 3];
        for (offset, (replica, arrival, before)) in log.iter().enumerate() {
            let place = ArrivalPlace { event_time: EventTime(*arrival), offset: Offset(offset as i64) };
            let name = replica.to_string();
            let word = WriterWord { writer: &name, complete_before: Some(EventTime(*before)) };
            prop_assert_eq!(queue.observe("pool", place, (true, word), bound), RecordTurn::Later);
            queue.push(place, Entry { pool: 0, place });
            while let Some((entry, is_early)) = queue.pop_due() {
                prop_assert!(!is_early);
                taken.push(entry.place.event_time.0);
            }
            complete[usize::from(*replica)] = *before;
            let waits = queue.records().map(|entry| entry.place.event_time.0).min();
            let complete = complete.into_iter().min();
            prop_assert!(offset < 3 || waits.is_none_or(|waits| Some(waits) >= complete), "{:?} {:?}", waits, complete);
        }
        prop_assert!(taken.is_sorted(), "{:?}", taken);
    }
}

#[test]
fn a_writer_that_does_not_say_or_falls_silent_leaves_the_bound() {
    let mut queue: ArrivalQueue<Entry> = ArrivalQueue::new(LIMITS);
    let mut due = |writer: &str, time, complete_before: Option<i64>| {
        let place = ArrivalPlace { event_time: EventTime(time), offset: Offset(time) };
        let word = WriterWord { writer, complete_before: complete_before.map(EventTime) };
        queue.observe("pool", place, (true, word), Some(BOUND));
        queue.push(place, Entry { pool: 0, place });
        std::iter::from_fn(|| queue.pop_due()).map(|(entry, _)| entry.place.event_time.0).collect::<Vec<_>>()
    };
    assert_eq!(due("a", 10, Some(20)), [10]);
    assert_eq!(due("b", 30, None), [0; 0], "nobody knows what b has in flight");
    assert_eq!(due("a", 40, Some(1000)), [0; 0]);
    assert_eq!(due("a", 1031, Some(1050)), [30, 40, 1031], "b was heard of longer ago than the bound");
    assert_eq!(due("c", 1060, Some(1055)), [0; 0]);
    assert_eq!(due("a", 2055, Some(2059)), [0; 0], "c has some in flight since 1055");
    assert_eq!(due("a", 2061, Some(2062)), [1060, 2055, 2061]);
}
