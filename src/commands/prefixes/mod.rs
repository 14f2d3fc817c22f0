//! `kvset prefixes`: where prompts part, and what mending that would bring.

mod printed;

use crate::cli::args::PrefixesArgs;
use crate::cli::{Failure, json, print};
use crate::prefixes::find;
use crate::present::terminal::{Terminal, TerminalProgress};
use crate::replay::RequestLog;
use kvset_core::units::capacity::CapacitySpec;

/// Runs `kvset prefixes`.
pub fn run(args: &PrefixesArgs) -> Result<(), Failure> {
    let in_bytes = args.capacities.as_ref().is_some_and(CapacitySpec::is_in_bytes);
    if in_bytes && args.kv_bytes_per_token.is_none() {
        let reason = "--capacities is a size in bytes: give --kv-bytes-per-token, or pages (5000p)";
        return Err(Failure::usage(reason));
    }
    let options = args.replay_options();
    let mut bar = TerminalProgress::bytes(None);
    let log = RequestLog::read(&options, &mut |at| bar.advance_of(at.read_bytes, at.total_bytes))?;
    log.notes().iter().for_each(|line| bar.note(&format!("note: {line}")));
    let found = find(&log, &options, usize::from(args.top), args.show_text, &mut |step| bar.say(step))?;
    bar.finish("looked through");
    print(&if args.json { json(&found)? } else { printed::render(&found, &Terminal::of_stdout()) })
}
