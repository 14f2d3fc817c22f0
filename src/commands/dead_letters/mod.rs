//! `kvset dead-letters`: records that were refused, and why.

pub mod letter;
pub mod reading;

use crate::cli::Failure;
use crate::cli::args::DeadLettersArgs;
use crate::cli::interrupt::shutdown_by_signals;
use crate::commands::dead_letters::letter::{HEADING, Letter};
use crate::commands::dead_letters::reading::{LetterCounts, read_letters};
use crate::commands::serving::require_topics;
use crate::commands::watch::reading::WatchOptions;
use crate::telemetry::logging;
use kvset_kafka::kafka::reader::From;
use kvset_kafka::kafka::topics::FIRST_ANSWER;
use kvset_service::plan::connection;
use kvset_settings::Settings;
use std::io::{self, Write as _};

/// Runs `kvset dead-letters`.
pub fn run(args: &DeadLettersArgs) -> Result<(), Failure> {
    let settings = Settings::load(args.config.file())?;
    if args.topic.is_none() && !args.prepare {
        let file = settings.output.file.display();
        let instead = format!("dead letters are lines of {file}.dead-letters; --topic names a topic");
        require_topics(&settings, "dead-letters", &instead)?;
    }
    logging::init(&settings.log).map_err(Failure::Usage)?;
    let shutdown = shutdown_by_signals()?;
    let configured =
        if args.prepare { &settings.prepare.dead_letter_topic } else { &settings.output.dead_letter_topic };
    let options = WatchOptions {
        connection: connection(&settings.kafka).map_err(|error| Failure::Usage(error.into()))?,
        topic: args.topic.as_ref().unwrap_or(configured).as_str().to_owned(),
        from: if args.from_beginning { From::Beginning } else { From::Now },
        until_end: args.until_end,
        only: args.codes.clone(),
        retry_for: settings.kafka.retry_for.as_duration().min(FIRST_ANSWER),
    };
    let limit = args.limit.map(std::num::NonZeroU64::get);
    if !args.json {
        writeln!(io::stdout().lock(), "{HEADING}")?;
    }
    let seen = read_letters(&options, limit, &shutdown, &mut |letter| show(letter, args.json, args.raw));
    let seen = seen?;
    eprint!("{}", summary(&seen, &options.topic));
    Ok(())
}

fn show(letter: &Letter, json: bool, raw: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &letter.as_json(raw))?;
        return writeln!(out);
    }
    writeln!(out, "{}", letter.line())?;
    if raw { write!(out, "{}", letter.payload_lines()) } else { Ok(()) }
}

/// How many there were, code by code.
fn summary(seen: &LetterCounts, topic: &str) -> String {
    let mut text = format!("{} dead letters of topic {topic}\n", seen.letters);
    for (code, letters) in &seen.by_code {
        text += &format!("{letters:>8}  {code}\n");
    }
    if seen.others > 0 {
        text += &format!("{} records of the topic are no dead letters\n", seen.others);
    }
    text
}
