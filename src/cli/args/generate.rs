//! Arguments of `kvset generate`.

use super::parse::page_size;
use super::{ConfigFile, SendArgs};
use clap::Args;
use kvset_core::units::PageSize;
use kvset_formats::workload::Workload;
use kvset_settings::{Span, TopicName};
use std::path::PathBuf;

/// Arguments of `kvset generate`.
#[derive(Debug, Args)]
#[command(after_help = "\
The trace is in weka's flat form: one JSON object per line with timestamp (ms), session_id, block_size,
hash_ids, ids_chained, input_length, output_length and duration_ms. The same options give the same bytes. With --topic,
requests go to Kafka as request events instead.

Examples:
  kvset generate --requests 10000 --output load.jsonl.zst
  kvset generate --duration 1d --sessions-per-day 2000 --seed 7 --output day.jsonl.gz
  kvset generate --requests 100 | head -1
  kvset generate --topic kvset.requests --create-topics --pool coding/eu --start now --speed 1")]
pub struct GenerateArgs {
    /// File to write; .zst and .gz are compressed, - is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Requests to write; fewer where --duration ends first.
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        default_value_t = 10_000,
        default_value_if("duration", clap::builder::ArgPredicate::IsPresent, "18446744073709551615"),
        hide_default_value = true,
        help = "Requests to write [default: 10000, or no limit with --duration]"
    )]
    pub requests: u64,
    /// Event time to cover, like 6h or 1d.
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Same seed and options, same requests.
    #[arg(long, value_name = "N", default_value_t = Workload::default().seed)]
    pub seed: u64,
    /// Event time of the first possible request: milliseconds since the epoch, `now`, or a time before it like
    /// `now-6h`; days begin at 0. With --topic, no request is sent before its time has come, since the service refuses
    /// events of the future.
    #[arg(
        long = "start",
        alias = "start-ms",
        value_name = "MS",
        default_value = "0",
        value_parser = moment,
        allow_negative_numbers = true
    )]
    pub start_ms: i64,
    /// Tokens per page.
    #[arg(long, value_name = "N", default_value = "64", value_parser = page_size)]
    pub page_size: PageSize,
    /// Sessions that begin per day, on average.
    #[arg(long, value_name = "N", default_value_t = Workload::default().sessions_per_day)]
    pub sessions_per_day: u64,
    /// Sessions alive at once, at most.
    #[arg(long, value_name = "N", default_value_t = Workload::default().max_sessions)]
    pub max_sessions: usize,
    /// Length of a day: a shorter one shows the daily rhythm sooner.
    #[arg(long, value_name = "TIME", default_value = "1d")]
    pub day: Span,
    /// System prompts that sessions share.
    #[arg(long, value_name = "N", default_value_t = Workload::default().system_prompts)]
    pub system_prompts: u64,
    /// Tokens of a system prompt with its tools, on average.
    #[arg(long, value_name = "N", default_value_t = Workload::default().system_tokens)]
    pub system_tokens: u64,
    /// Turns of a session, on average.
    #[arg(long, value_name = "N", default_value_t = Workload::default().mean_turns)]
    pub turns: u64,
    /// Tokens that a turn adds to the prompt, on average.
    #[arg(long, value_name = "N", default_value_t = Workload::default().mean_turn_tokens)]
    pub turn_tokens: u64,
    /// Tokens generated per turn, on average.
    #[arg(long, value_name = "N", default_value_t = Workload::default().mean_output_tokens)]
    pub output_tokens: u64,
    /// Write to this topic instead of a file, keyed by pool.
    #[arg(long, value_name = "TOPIC", conflicts_with = "output")]
    pub topic: Option<TopicName>,
    /// How to write there.
    #[command(flatten, next_help_heading = "With --topic")]
    pub sending: SendArgs,
    /// Where the configuration is: brokers and their security.
    #[command(flatten)]
    pub config: ConfigFile,
}

/// Reads a moment of event time.
fn moment(text: &str) -> Result<i64, String> {
    let before = match text.strip_prefix("now") {
        None => None,
        Some("") => Some(0),
        Some(before) => before.strip_prefix('-').and_then(|span| span.parse::<Span>().ok()).map(Span::as_ms),
    };
    if let Some(before) = before {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since_epoch = since_epoch.map_err(|_| "the clock of this machine is before 1970".to_owned())?;
        let now = i64::try_from(since_epoch.as_millis()).map_err(|error| error.to_string())?;
        return Ok(now.saturating_sub_unsigned(before));
    }
    text.parse().map_err(|_| "expected milliseconds since the epoch, `now`, or `now-6h`".to_owned())
}

impl GenerateArgs {
    /// The workload requested.
    pub fn workload(&self) -> Workload {
        Workload {
            seed: self.seed,
            start_ms: self.start_ms,
            day_ms: self.day.as_ms(),
            page_size: self.page_size,
            sessions_per_day: self.sessions_per_day,
            max_sessions: self.max_sessions,
            system_prompts: self.system_prompts,
            system_tokens: self.system_tokens,
            mean_turns: self.turns,
            mean_turn_tokens: self.turn_tokens,
            mean_output_tokens: self.output_tokens,
            ..Workload::default()
        }
    }

    /// Event time at which the trace ends (exclusive).
    pub fn end_ms(&self) -> i64 {
        let span = self.duration.and_then(|span| i64::try_from(span.as_ms()).ok());
        span.map_or(i64::MAX, |span| self.start_ms.saturating_add(span))
    }
}
