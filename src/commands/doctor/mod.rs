//! `kvset doctor`: what a log, of files or of a topic, can and cannot tell.

mod printed;
mod topic;

use crate::cli::args::DoctorArgs;
use crate::cli::{Failure, json, print};
use crate::commands::first_records;
use crate::doctor::{Diagnosis, examine};
use crate::present::terminal::{Terminal, TerminalProgress};
use kvset_settings::Settings;

/// Runs `kvset doctor`.
pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let options = args.replay_options();
    let topic = match args.trace.traces.as_slice() {
        [only] => first_records::topic_of(only),
        _ => None,
    };
    let read = match topic {
        Some(topic) => Some(topic::read(&Settings::load(args.config.file())?, topic, args.records)?),
        None => None,
    };
    let mut bar = TerminalProgress::bytes(None);
    let topic = read.as_ref().map(|(recording, facts)| (recording, facts));
    let diagnosis = examine(&options, topic, &mut |at| bar.advance_of(at.read_bytes, at.total_bytes))?;
    bar.finish("looked through");
    print(&if args.json { json(&diagnosis)? } else { printed::render(&diagnosis, &Terminal::of_stdout()) })?;
    answered(&diagnosis)
}

fn answered(diagnosis: &Diagnosis) -> Result<(), Failure> {
    let Some(why) = &diagnosis.why_not else { return Ok(()) };
    Err(anyhow::anyhow!("a replay of this log gives no answer: {why}").into())
}
