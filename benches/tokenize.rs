//! Tokens a second and core from chat requests: tokenising alone, and the whole of what a thread of
//! `kvset prepare` does with a record, with and without what was met before.
//!
//! `cargo bench --features tokenize --bench tokenize -- FOLDER` takes a model directory with a `requests.jsonl`, which
//! `benches/tokenize_baseline.py FOLDER` makes and measures Python's transformers on. Rates are of wall
//! time and of processor time: on a machine with other work only the latter says much.

use kvset::codec::SourceRecord;
use kvset::core::engines::chat_engine::ChatEngine;
use kvset::prepare::{Preparer, RawRecord, Tokenizers};
use kvset::service::prepare::recipe;
use kvset::settings::Settings;
use kvset::tokenize::{Model, RequestTokenizer, TokenizeLimits};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

fn main() {
    // Cargo itself passes `--bench`.
    let Some(folder) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')) else {
        println!("skipped: name the folder that benches/tokenize_baseline.py made");
        return;
    };
    let folder = PathBuf::from(folder);
    let model = Arc::new(Model::load(&folder).expect("a usable model"));
    let requests = std::fs::read_to_string(folder.join("requests.jsonl")).expect("requests.jsonl");
    let bodies: Vec<&str> = requests.lines().collect();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let remembering = TokenizeLimits::default().cache_bytes;
    for (name, cache_bytes) in [("all anew", 0), ("remembering", remembering)] {
        let limits = TokenizeLimits { cache_bytes, ..TokenizeLimits::default() };
        tokenize(&format!("tokenise, {name}"), &model, &bodies, limits);
    }
    for (name, cache_bytes) in [("all anew", 0), ("remembering", remembering)] {
        let limits = TokenizeLimits { cache_bytes, ..TokenizeLimits::default() };
        let one = prepare(&format!("prepare, {name}"), &model, &bodies, 1, limits);
        let all = prepare(&format!("prepare, {name}"), &model, &bodies, threads, limits);
        println!(
            "  {threads} threads: {:.2} x the rate of one by the wall clock, {:.2} x the processor time a token",
            all.wall / one.wall,
            one.processor / all.processor
        );
    }
}

/// Tokens a second.
struct Rate {
    wall: f64,
    processor: f64,
}

/// Runs `work`, which gives the tokens it made, and says how fast that was.
fn measure(name: &str, requests: usize, threads: usize, work: impl FnOnce() -> usize) -> Rate {
    let (start, before) = (Instant::now(), processor_seconds());
    let tokens = work();
    let wall = tokens as f64 / start.elapsed().as_secs_f64();
    let processor = tokens as f64 / (processor_seconds() - before);
    println!(
        "{name}, {threads} threads: {requests} requests, {tokens} tokens, {wall:.0} tokens/s, {processor:.0} tokens/s \
         of processor time"
    );
    Rate { wall, processor }
}

/// Processor time of this process, all threads together; wall time where the system does not tell.
fn processor_seconds() -> f64 {
    /// The unit of times in /proc, on every Linux.
    const TICKS_A_SECOND: f64 = 100.0;
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let wall = START.get_or_init(Instant::now).elapsed().as_secs_f64();
    let Ok(text) = std::fs::read_to_string("/proc/self/stat") else { return wall };
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|ticks| ticks.parse::<f64>().ok());
    // Fields 14 and 15 of all, which are counted from 1; two are before the bracket.
    ticks(11).zip(ticks(12)).map_or(wall, |(user, system)| (user + system) / TICKS_A_SECOND)
}

fn tokenize(name: &str, model: &Arc<Model>, bodies: &[&str], limits: TokenizeLimits) {
    let mut tokenizer = RequestTokenizer::new(Arc::clone(model), limits);
    let tokens = |body: &&str| tokenizer.tokenize(body.as_bytes(), None).expect("a request").tokens();
    measure(name, bodies.len(), 1, || bodies.iter().map(tokens).sum());
}

/// Threads take one record after another, whichever is free, as prepare's threads do.
fn prepare(name: &str, model: &Arc<Model>, bodies: &[&str], threads: usize, limits: TokenizeLimits) -> Rate {
    let recipe = Arc::new(recipe(&Settings::default()));
    let tokenizers = Tokenizers::new([], Some(Arc::clone(model)), limits, ChatEngine::default());
    let next = AtomicUsize::new(0);
    let run = |mut preparer: Preparer| {
        let mut tokens = 0;
        while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (topic, value) = ("raw", Some(body.as_bytes()));
            let source = SourceRecord {
                schema_header: None,
                topic,
                partition: 0,
                offset: 0,
                timestamp_ms: Some(1),
                key: None,
                value,
            };
            let prepared = preparer.prepare(&RawRecord { source, headers: Vec::new() });
            assert_eq!(prepared.refused, None);
            tokens += prepared.total().tokens as usize;
        }
        tokens
    };
    measure(name, bodies.len(), threads, || {
        std::thread::scope(|scope| {
            let start = |_| {
                let preparer = Preparer::new(Arc::clone(&recipe), tokenizers.clone());
                scope.spawn(|| run(preparer))
            };
            let handles: Vec<_> = (0..threads).map(start).collect();
            handles.into_iter().map(|handle| handle.join().expect("no panic")).sum()
        })
    })
}
