//! One partition of JSON, read by one worker thread and by one per core: the others parse ahead what waits for its
//! worker.

use crate::drained::{Drained, medians};
use crate::input::{self, Filled};
use crate::{bare, served};
use kvset::codec::RequestEncoding;
use kvset::kafka::config::Connection;
use std::path::Path;

/// Readings by each, after one that is not counted.
const ROUNDS: usize = 5;
/// Worker threads; 0 for one per core.
const THREADS: [u32; 2] = [1, 0];

/// Fills a topic with so many requests, lets each read it by turns, and prints what came of it.
pub fn compare(connection: &Connection, folder: &Path, topic: &str, records: u64) {
    let plain = Connection {
        properties: vec![("compression.type".to_owned(), "none".to_owned())],
        ..connection.clone()
    };
    let filled = input::fill(&plain, topic, 1, records, RequestEncoding::Json);
    let mut readings: [Vec<Drained>; 1 + THREADS.len()] = Default::default();
    for round in 0..=ROUNDS {
        let served = |threads: u32| {
            let (run, extra) =
                (format!("{topic}-{threads}-{round}"), format!("[workers]\nthreads = {threads}\n"));
            served::drain(connection, folder, &run, &filled, &extra).drained
        };
        let by_turns = [bare::drain(connection, &filled)].into_iter().chain(THREADS.map(served));
        for (readings, reading) in readings.iter_mut().zip(by_turns) {
            if round > 0 {
                readings.push(reading);
            }
        }
    }
    print(&filled, &readings.map(|readings| medians(&readings)));
}

fn print(filled: &Filled, medians: &[Drained; 1 + THREADS.len()]) {
    let gigabytes = filled.bytes as f64 / 1e9;
    println!(
        "\nJSON on one partition, {} records, {gigabytes:.2} GB, {} page ids; medians of {ROUNDS} readings",
        filled.records, filled.pages
    );
    println!("  {:<28} {:>8} {:>11} {:>15} {:>14}", "", "MB/s", "records/s", "to one thread", "own CPU s/GB");
    for (name, reading) in ["bare consumer", "one worker thread", "one per core"].iter().zip(medians) {
        let rate = 1.0 / reading.elapsed.as_secs_f64();
        println!(
            "  {name:<28} {:>8.0} {:>11.0} {:>15.2} {:>14.2}",
            filled.bytes as f64 * rate / 1e6,
            filled.records as f64 * rate,
            medians[1].elapsed.as_secs_f64() * rate,
            reading.own.as_secs_f64() / gigabytes,
        );
    }
}
