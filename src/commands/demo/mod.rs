//! `kvset demo`: all of it in one command.

pub mod session;

use crate::cli::Failure;
use crate::cli::args::DemoArgs;
use crate::cli::interrupt::shutdown_by_signals;
use crate::commands::demo::session::{DemoOptions, DemoSummary, demo};
use crate::commands::serving::{plan_failure, serve_http};
use crate::live::Board;
use crate::present::terminal::live::LiveEstimates;
use crate::present::terminal::{Terminal, answer_in_words};
use crate::present::words::integer;
use crate::telemetry::service_metrics::ServiceMetrics;
use crate::telemetry::{Health, logging, set_configured};
use kvset_core::estimate::Estimate;
use kvset_core::units::window::WindowKind;
use kvset_service::events::Observer;
use kvset_settings::{Listen, LogFilter, Provisioned, Settings, Span, TokenCost};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

/// Requests after which the demonstration recommends: it is to be seen within seconds, and bought by nobody.
const MIN_REQUESTS: u64 = 100;
/// Event time of the demonstration's windows: at the default speed, about one closes every second.
const WINDOW_MS: u64 = 600_000;
/// Bytes per token of the demonstration's model: Llama-3.1-8B in bf16.
const BYTES_A_TOKEN: f64 = 131_072.0;
/// Most pools that are concluded about.
const MOST_POOLS: usize = 20;

/// Runs `kvset demo`.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let settings = settings(args)?;
    logging::init(&settings.log).map_err(Failure::Usage)?;
    let shutdown = shutdown_by_signals()?;
    shutdown.begin();
    let load = match &args.trace {
        Some(path) => format!("trace {}", path.display()),
        None => "generated agentic load".to_owned(),
    };
    let heading = format!("{load}, event time at {} times the clock; Ctrl-C ends", args.speed);
    eprintln!("starting an embedded broker: {heading}");
    let health = Arc::new(Health::new());
    let board = Arc::new(Board::new(settings.http.max_pool_labels, settings.provisioned()));
    let server = serve_http(&settings.http, &health, Some(&board))?;
    if let Some(server) = &server {
        eprintln!("live page on http://{}/", server.address());
    }
    // Nothing of a demonstration is kept, so there are no snapshots.
    let provisioned = settings.provisioned();
    let metrics =
        ServiceMetrics::new(health, settings.http.max_pool_labels, provisioned.clone()).without_snapshots();
    metrics.begin_service(&settings.estimate.windows);
    set_configured(settings.kafka.group.clone(), settings.fingerprint_hex());
    let mut live = LiveEstimates::new(args.json, heading, provisioned.clone());
    let mut newest = BTreeMap::new();
    let options = DemoOptions {
        settings,
        duration: args.duration.map(Span::as_duration),
        trace: args.trace.clone(),
        speed: args.speed,
    };
    let outcome = demo(&options, &shutdown, &[&metrics as &dyn Observer, &*board], &mut |estimate| {
        estimate.iter().for_each(|estimate| observe(&mut newest, estimate));
        live.show(estimate)
    });
    live.finish()?;
    if let Some(server) = server {
        server.stop();
    }
    let summary = outcome.map_err(|error| match error.downcast() {
        Ok(unplanned) => plan_failure(unplanned),
        Err(error) => Failure::Runtime(error),
    })?;
    let bytes_per_token = options.settings.estimate.kv_bytes_per_token.map(TokenCost::get);
    let terminal = if args.json { Terminal::default() } else { Terminal::of_stdout() };
    let conclusion = conclusion(&newest, &provisioned, bytes_per_token, &terminal);
    let done: String = report(&summary).lines().map(|line| terminal.paragraph(line)).collect();
    let text = format!("{done}\n{conclusion}");
    if args.json {
        eprint!("{text}")
    } else {
        print!("\n{text}")
    }
    Ok(())
}

/// Keeps the newest estimate of each pool over the window to act on, which is what the demonstration concludes from.
fn observe(newest: &mut BTreeMap<String, Estimate>, estimate: &Estimate) {
    let known = newest.get(&estimate.pool);
    let is_newer = known.is_none_or(|known| known.end_ms <= estimate.end_ms);
    if estimate.act_on && is_newer && (known.is_some() || newest.len() < MOST_POOLS) {
        newest.insert(estimate.pool.clone(), estimate.clone());
    }
}

/// What was found, and what to try next.
fn conclusion(
    newest: &BTreeMap<String, Estimate>,
    provisioned: &Provisioned,
    bytes_per_token: Option<f64>,
    terminal: &Terminal,
) -> String {
    let answers = newest.values().map(|estimate| terminal.paragraph(&answer_in_words(estimate, provisioned)));
    let found = match newest.is_empty() {
        true => "No window has closed yet, so there is nothing to conclude: let it run longer.\n".to_owned(),
        false => answers.collect(),
    };
    let cost = bytes_per_token.map_or_else(String::new, |cost| format!(" --kv-bytes-per-token {cost}"));
    format!(
        "{found}\n{}\n  kvset generate --requests 2000 --output load.jsonl.zst\n  kvset replay{cost} load.jsonl.zst\n\n{}\n  \
         kvset run --folder /var/log/kvset\n",
        terminal.paragraph(
            "Next, the same from a file, with the hit-rate curve (then from a trace of your own):"
        ),
        terminal
            .paragraph("Or live, without a broker, from the folder that vLLM writes with kvset's connector:"),
    )
}

/// The configuration, with windows short enough to see them close where none is given.
fn settings(args: &DemoArgs) -> Result<Settings, Failure> {
    let mut settings = Settings::load(args.config.file())?;
    settings.http.listen = Listen(args.listen);
    if args.config.file().is_none() {
        settings.estimate.windows = vec![WindowKind::Tumbling { size_ms: WINDOW_MS }, WindowKind::All];
        settings.estimate.publish_every = Span::from_ms(WINDOW_MS);
        settings.estimate.min_requests = MIN_REQUESTS;
        settings.estimate.kv_bytes_per_token = TokenCost::new(BYTES_A_TOKEN);
        // What people want to see is on standard output; the log is for what goes wrong.
        if let Some(quiet) = LogFilter::new("warn") {
            settings.log.level = quiet;
        }
    }
    Ok(settings)
}

/// Says what was done.
fn report(summary: &DemoSummary) -> String {
    let service = &summary.service;
    format!(
        "produced  {} requests to topic {} (offsets {})\nestimated {} records in {} commits\npublished {} \
         estimates to topic {} (offsets {}), {} dead letters to topic {}",
        integer(summary.produced),
        summary.input,
        offsets(&service.next_offsets, |next| next.0),
        integer(service.records),
        integer(service.commits),
        integer(service.results),
        summary.estimates,
        offsets(&summary.estimate_offsets, |next| *next),
        integer(service.dead_letters),
        summary.dead_letters,
    )
}

/// `0: 0..120, 1: 0..77`.
fn offsets<P: Display, N>(next_offsets: &BTreeMap<P, N>, number: impl Fn(&N) -> i64) -> String {
    let ranges = next_offsets.iter().map(|(partition, next)| format!("{partition}: 0..{}", number(next)));
    let ranges: Vec<_> = ranges.collect();
    if ranges.is_empty() { "none".to_owned() } else { ranges.join(", ") }
}
