//! Several instances that share a topic's partitions, alongside one that has them all.
//!
//! The group knows its members before the clock runs: each has joined once under its stable name and was given its
//! partitions, which wait for it. So what is timed are instances at work on a backlog, not how they find one another.

use crate::DEADLINE;
use crate::drained::{Drained, medians};
use crate::input::Filled;
use crate::served::{self, SESSION_MS, Stopwatch};
use kvset::kafka::config::{Connection, MemberProtocol, Membership};
use kvset::kafka::member::{Event, Member};
use kvset::kafka::source::Source;
use kvset::position::{NextOffset, Partition};
use kvset::service::shutdown::Shutdown;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Readings of each fleet, after one that is not counted.
const ROUNDS: usize = 3;
const NAMES: [&str; 2] = ["a", "b"];
/// Instances, and worker threads of each; 0 for one per core.
const FLEETS: [(usize, u32); 4] = [(1, 1), (2, 1), (1, 0), (2, 0)];

/// Lets every fleet read the topic by turns and prints what came of it.
pub fn compare(connection: &Connection, folder: &Path, filled: &Filled) {
    let mut readings: [Vec<Drained>; FLEETS.len()] = Default::default();
    for round in 0..=ROUNDS {
        for (fleet, ((instances, threads), readings)) in FLEETS.iter().zip(&mut readings).enumerate() {
            let run = format!("{}-fleet-{fleet}-{round}", filled.topic);
            let drained = drain(connection, folder, &run, filled, &NAMES[..*instances], *threads);
            if round > 0 {
                readings.push(drained);
            }
        }
    }
    let medians = readings.map(|readings| medians(&readings));
    let gigabytes = filled.bytes as f64 / 1e9;
    println!(
        "\ninstances of one group on {} partitions, {} records, {gigabytes:.2} GB; medians of {ROUNDS} readings",
        filled.partitions, filled.records
    );
    println!("  {:<38} {:>8} {:>11} {:>13} {:>14}", "", "MB/s", "records/s", "to one of it", "own CPU s/GB");
    for (fleet, reading) in medians.iter().enumerate() {
        let (instances, threads) = FLEETS[fleet];
        // One instance with as many threads stands before it.
        let alone = medians[fleet / 2 * 2].elapsed.as_secs_f64();
        let threads = if threads == 0 { "a thread a core".to_owned() } else { format!("{threads} thread") };
        let rate = 1.0 / reading.elapsed.as_secs_f64();
        println!(
            "  {:<38} {:>8.0} {:>11.0} {:>13.2} {:>14.2}",
            format!("{instances} instance(s), {threads} each"),
            filled.bytes as f64 * rate / 1e6,
            filled.records as f64 * rate,
            alone * rate,
            reading.own.as_secs_f64() / gigabytes,
        );
    }
}

/// Reads a topic from its beginning until its end is processed and committed by these instances.
fn drain(
    connection: &Connection,
    folder: &Path,
    run: &str,
    filled: &Filled,
    names: &[&str],
    threads: u32,
) -> Drained {
    let connection = Connection {
        properties: vec![("session.timeout.ms".to_owned(), SESSION_MS.to_string())],
        ..connection.clone()
    };
    settle(&connection, run, filled, names);
    let shutdown = Shutdown::new();
    let watch = Stopwatch::new(&shutdown, filled.partitions);
    let extra = format!("[workers]\nthreads = {threads}\n");
    let records = std::thread::scope(|scope| {
        let start = |name: &&str| {
            let settings = served::named(&connection, folder, (run, name), &filled.topic, &extra);
            let (watch, shutdown) = (&watch, &shutdown);
            scope.spawn(move || served::run(&settings, filled.partitions, shutdown, watch).records)
        };
        let running: Vec<_> = names.iter().map(start).collect();
        running.into_iter().map(|instance| instance.join().expect("an instance")).sum::<u64>()
    });
    assert_eq!(records, filled.records, "every record counts once");
    watch.stopped().0
}

/// Has every instance join once and be given its share of the partitions.
fn settle(connection: &Connection, group: &str, filled: &Filled, names: &[&str]) {
    let join = |name: &&str| {
        let membership = Membership {
            group: group.to_owned(),
            instance: Some((*name).to_owned()),
            leave_on_stop: false,
            protocol: MemberProtocol::default(),
            poll_within: DEADLINE,
        };
        Source::join(connection, &membership, &filled.topic).expect("a member")
    };
    let members: Vec<_> = names.iter().map(join).collect();
    let mut held: Vec<BTreeSet<Partition>> = vec![BTreeSet::new(); names.len()];
    let share = filled.partitions as usize / names.len();
    let begin = Instant::now();
    while held.iter().any(|held| held.len() != share) {
        assert!(begin.elapsed() < DEADLINE, "the group did not settle: {held:?}");
        for (member, held) in members.iter().zip(&mut held) {
            match member.poll(Duration::from_millis(20)) {
                Some(Event::Assigned(partitions)) => {
                    let starts: Vec<_> = partitions.iter().map(|p| (*p, NextOffset(0))).collect();
                    member.assign(&starts).expect("answered");
                    held.extend(partitions);
                }
                Some(Event::Revoked(partitions) | Event::Lost(partitions)) => {
                    member.unassign(&partitions).expect("answered");
                    held.retain(|partition| !partitions.contains(partition));
                }
                _ => {}
            }
        }
    }
}
