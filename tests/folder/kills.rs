//! The real program, killed at random moments while files are written, rotated and removed: what is published is what
//! an undisturbed run publishes.

use crate::bench::{Bench, events, lines};
use crate::kafka_support::wait_for;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A few numbers by chance.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Writes events as a connector does, in files of so many lines, some of them in two halves; now and then a line that
/// is none.
fn write(bench: &Bench, writer: u64, lines: &[String], seed: u64, stop: &AtomicBool) {
    let mut dice = Dice(seed + writer);
    for (number, line) in lines.iter().enumerate() {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("requests-host{writer}-{:06}.jsonl", number / 150);
        if dice.below(200) == 0 {
            bench.append(&name, "{\"no\": \"event\"}\n");
        }
        let half = if dice.below(10) == 0 { line.len() / 2 } else { 0 };
        bench.append(&name, &line[..half]);
        if half > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        bench.append(&name, &format!("{}\n", &line[half..]));
        std::thread::sleep(Duration::from_millis(1 + dice.below(3)));
    }
}

fn start(bench: &Bench, life: u64) -> Child {
    let log = fs::File::create(bench.place.path().join(format!("life-{life}.log"))).expect("made");
    bench.command("killed", &[]).stderr(log).stdout(Stdio::null()).spawn().expect("started")
}

/// How what was published differs from what must be: missing, doubled, different lines.
fn compare(found: &[String], expected: &[String]) -> (usize, usize, usize) {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    expected.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    let known: BTreeMap<&str, i64> = counts.clone();
    found.iter().for_each(|line| *counts.entry(line).or_default() -= 1);
    let missing: i64 = counts.values().filter(|count| **count > 0).sum();
    let doubled: i64 =
        counts.iter().filter(|(line, count)| known.contains_key(*line) && **count < 0).map(|(_, n)| -n).sum();
    let different = counts.keys().filter(|line| !known.contains_key(*line)).count();
    (missing as usize, doubled as usize, different)
}

/// What a life says that goes on from a snapshot.
const FROM_SNAPSHOT: &str = "partition 0: snapshot at";

fn has_said(bench: &Bench, life: u64, words: &str) -> bool {
    lines(&bench.place.path().join(format!("life-{life}.log"))).iter().any(|line| line.contains(words))
}

/// Lives another one until it has said this.
fn live_until(bench: &Bench, life: u64, words: &str) -> Child {
    let mut child = start(bench, life);
    wait_for(|| {
        assert_eq!(child.try_wait().expect("ours"), None, "life {life} ended by itself");
        has_said(bench, life, words)
    });
    child
}

/// On a slow machine each kill may come before the first snapshot is due. Then one life ends in order, which writes
/// one, and the next is killed when it has found it: a run without would prove nothing of it. Gives the number of
/// lives.
fn find_a_snapshot(bench: &Bench, lives: u64) -> u64 {
    if (0..lives).any(|life| has_said(bench, life, FROM_SNAPSHOT)) {
        return lives;
    }
    let mut child = live_until(bench, lives, "partition 0: ");
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().expect("run").success());
    let status = child.wait().expect("gone");
    assert!(status.success(), "{status}");
    let mut child = live_until(bench, lives + 1, FROM_SNAPSHOT);
    child.kill().expect("killed");
    child.wait().expect("gone");
    lives + 2
}

fn kill_run(writers: u64, kills: u64) {
    let seed = number("KVSET_SEED", 7);
    let (bench, mut dice, stop) = (Bench::new(), Dice(seed), AtomicBool::new(false));
    let begin = Instant::now();
    let lives = std::thread::scope(|scope| {
        for writer in 0..writers {
            let (bench, stop) = (&bench, &stop);
            let lines = events(seed + writer, 9_000 / writers as usize, &format!("pool{}", writer % 2));
            scope.spawn(move || write(bench, writer, &lines, seed, stop));
        }
        for life in 0..kills {
            let mut child = start(&bench, life);
            std::thread::sleep(Duration::from_millis(300 + dice.below(2500)));
            child.kill().expect("killed");
            let status = child.wait().expect("gone");
            assert!(status.code().is_none(), "life {life} ended by itself: {status}");
        }
        let lives = find_a_snapshot(&bench, kills);
        stop.store(true, Ordering::SeqCst);
        lives
    });
    let last = bench.run("killed");
    assert!(last.succeeded, "{}", last.said);
    let (log, [found, letters]) = (bench.log_of("killed"), bench.published("killed"));
    // The same log as one file, read by one process that nobody disturbs.
    let undisturbed = Bench::new();
    undisturbed.append("log.jsonl", &log);
    let once = undisturbed.run("once");
    assert!(once.succeeded, "{}", once.said);
    let [expected, expected_letters] = undisturbed.published("once");
    let (missing, doubled, different) = compare(&found, &expected);
    let restored = (0..lives).filter(|life| has_said(&bench, *life, FROM_SNAPSHOT)).count();
    println!(
        "{writers} writers, seed {seed}: {lives} kills in {:?}, {restored} from snapshots, {} records, {} estimates, {} dead \
         letters: {missing} missing, {doubled} doubled, {different} different",
        begin.elapsed(),
        once.records,
        found.len(),
        letters.len()
    );
    assert_eq!((missing, doubled, different), (0, 0, 0), "seed {seed}");
    assert_eq!(found, expected, "seed {seed}: in another order");
    assert_eq!(letters.len(), expected_letters.len(), "seed {seed}");
    let [newest, said] = bench.newest("killed");
    assert_eq!(said, newest, "seed {seed}: the file of the newest estimates");
    let whole: usize = fs::read_dir(bench.events())
        .expect("there")
        .map(|entry| lines(&entry.expect("an entry").path()).len())
        .sum();
    assert_eq!(
        once.records, whole as u64,
        "seed {seed}: lines of the files that are in no stretch, or in two"
    );
    assert!(found.len() > 20 && restored > 0 && !letters.is_empty(), "too little happened");
}

#[test]
fn kills_leave_no_trace_of_one_writer_that_rotates() {
    kill_run(1, number("KVSET_KILLS", 12));
}

#[test]
fn kills_leave_no_trace_of_several_writers() {
    kill_run(3, number("KVSET_KILLS", 12));
}
