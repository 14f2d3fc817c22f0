//! Tokens a second and core from chat requests, with and without what was met before.
//!
//! `cargo bench --bench tokenize -- FOLDER` takes a model directory with a `requests.jsonl`, which
//! `benches/tokenize_baseline.py FOLDER` makes and measures Python's transformers on.

use kvset::tokenize::{Model, RequestTokenizer, TokenizeLimits};
use std::path::PathBuf;
use std::sync::Arc;
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
    for (name, cache_bytes) in [("all anew", 0), ("remembering", TokenizeLimits::default().cache_bytes)] {
        measure(name, &model, &bodies, 1, cache_bytes);
    }
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    measure("all anew", &model, &bodies, threads, 0);
}

/// Every thread tokenises all bodies for itself.
fn measure(name: &str, model: &Arc<Model>, bodies: &[&str], threads: usize, cache_bytes: usize) {
    let run = || {
        let limits = TokenizeLimits { cache_bytes, ..TokenizeLimits::default() };
        let mut tokenizer = RequestTokenizer::new(Arc::clone(model), limits);
        let tokens = |body: &&str| tokenizer.tokenize(body.as_bytes(), None).expect("a request").tokens();
        bodies.iter().map(tokens).sum::<usize>()
    };
    let start = Instant::now();
    let tokens: usize = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).sum()
    });
    let rate = tokens as f64 / start.elapsed().as_secs_f64();
    println!(
        "{name}, {threads} threads: {} requests, {tokens} tokens, {rate:.0} tokens/s",
        bodies.len() * threads
    );
}
