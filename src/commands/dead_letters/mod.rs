//! `kvset dead-letters`: records that were refused, and why.

pub mod letter;
pub mod reading;

use crate::cli::Failure;
use crate::cli::args::DeadLettersArgs;
use crate::cli::interrupt::shutdown_by_signals;
use crate::commands::dead_letters::letter::{HEADING, Letter};
use crate::commands::dead_letters::reading::{LetterCounts, read_letters};
use crate::commands::watch::reading::NamedLog;
use crate::telemetry::logging;
use kvset_service::folder::outputs::with_suffix;
use kvset_settings::Settings;
use std::io::{self, Write as _};

/// Runs `kvset dead-letters`.
pub fn run(args: &DeadLettersArgs) -> Result<(), Failure> {
    let settings = Settings::load(args.config.file())?;
    logging::init(&settings.log).map_err(Failure::Usage)?;
    let shutdown = shutdown_by_signals()?;
    let configured =
        if args.prepare { &settings.prepare.dead_letter_topic } else { &settings.output.dead_letter_topic };
    let file = args.estimates.as_deref().or(settings.estimates_file());
    let file = file.filter(|_| args.topic.is_none() && !args.prepare);
    let file = file.map(|estimates| with_suffix(estimates, ".dead-letters"));
    let topic = args.topic.as_ref().unwrap_or(configured);
    let mut log = NamedLog::open(&settings, file.as_deref(), topic, args.from_beginning)?;
    if !args.json {
        writeln!(io::stdout().lock(), "{HEADING}")?;
    }
    let seen = read_letters(&mut *log.log, args, &shutdown, &mut |letter| show(letter, args.json, args.raw));
    eprint!("{}", summary(&seen?, &format!("{}{}", log.kind, log.name)));
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
fn summary(seen: &LetterCounts, log: &str) -> String {
    let mut text = format!("{} dead letters of {log}\n", seen.letters);
    for (code, letters) in &seen.by_code {
        text += &format!("{letters:>8}  {code}\n");
    }
    if seen.others > 0 {
        text += &format!("{} records of {log} are no dead letters\n", seen.others);
    }
    text
}
