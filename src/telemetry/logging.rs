//! The log: on standard error, for people or for machines.

use crate::present::words::{in_order, json_in_order};
use kvset_settings::{LogFormat, LogSettings};
use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Sets up the process's log.
///
/// # Errors
/// The directives cannot be read, or there is a log already.
pub fn init(log: &LogSettings) -> anyhow::Result<()> {
    let is_json = log.format == LogFormat::Json;
    let filter = filter(log.level.as_str()).map_err(|error| {
        anyhow::anyhow!(
            "log.level cannot be read: {error}; write a level like info, or directives like info,kvset=debug"
        )
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || OrderedLines { out: std::io::stderr(), is_json })
        .with_ansi(colours(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref()));
    match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(|error| anyhow::anyhow!("the log is already set up: {error}"))?;
    IS_JSON.store(is_json, Ordering::Relaxed);
    Ok(())
}

/// Lines of the log without what would reorder them: names of pools and topics stand in them.
struct OrderedLines<W> {
    out: W,
    is_json: bool,
}

impl<W: io::Write> io::Write for OrderedLines<W> {
    /// A line comes in one piece.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = if self.is_json { json_in_order(&text) } else { in_order(&text) };
        self.out.write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whether the process's log is for machines, who read every line of standard error as JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Whether what is said on standard error has to be a line of the log.
pub fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// What `log.level` asks for. A plain `info` leaves out the ten tries that one attempt to reach an object store
/// is: whoever made the attempt tells of its failure.
fn filter(directives: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    let is_info = directives.trim().parse().is_ok_and(|level: LevelFilter| level == LevelFilter::INFO);
    EnvFilter::try_new(if is_info { "info,object_store=warn" } else { directives })
}

/// Whether to colour: on terminals, unless NO_COLOR is set to anything (no-color.org).
fn colours(terminal: bool, no_color: Option<&std::ffi::OsStr>) -> bool {
    terminal && no_color.is_none_or(std::ffi::OsStr::is_empty)
}

/// From here on a panic is logged by its place alone.
pub fn leave_out_panic_messages() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(
            "panic at {place}; its message is left out, since it may quote a prompt: report the place"
        );
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_line_of_the_log_does_not_reorder_it() {
        use std::io::Write as _;
        for (is_json, expected) in [(false, "pool a\u{fffd}b"), (true, "pool a\\u202eb")] {
            let mut writer = OrderedLines { out: Vec::new(), is_json };
            writer.write_all("pool a\u{202e}b".as_bytes()).expect("memory");
            assert_eq!(String::from_utf8_lossy(&writer.out), expected);
        }
    }

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        assert!(colours(true, None));
        assert!(colours(true, Some("".as_ref())), "an empty NO_COLOR asks for nothing");
        assert!(!colours(true, Some("1".as_ref())));
        assert!(!colours(false, None));
    }

    #[test]
    fn tries_of_the_object_store_are_told_of_only_when_asked_for() {
        let told = |directives| filter(directives).expect("directives").to_string();
        for plain in ["info", "INFO", " info "] {
            assert!(told(plain).contains("object_store=warn"), "{plain}");
        }
        for asked in ["off", "error", "debug", "info,object_store=info"] {
            assert!(!told(asked).contains("object_store=warn"), "{asked}");
        }
    }

    #[test]
    fn a_second_log_is_refused() {
        let log = LogSettings::default();
        let outcomes = [init(&log), init(&log)];
        let refused = outcomes[1].as_ref().expect_err("there is one").to_string();
        assert!(refused.starts_with("the log is already set up"), "{refused}");
    }
}
