//! The log: on standard error, for people or for machines.

use kvset_settings::{Log, LogFormat};
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The directives cannot be read.
    #[error("log.level cannot be read: {0}; write a level like info, or directives like info,kvset=debug")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The process has a log already.
    #[error("the log is already set up: {0}")]
    Taken(Box<dyn std::error::Error + Send + Sync>),
}

/// Sets up the process's log.
///
/// # Errors
/// The directives cannot be read, or there is a log already.
pub fn init(log: &Log) -> Result<(), LoggingError> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(log.level.as_str())?)
        .with_writer(std::io::stderr)
        .with_ansi(colours(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref()));
    match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(LoggingError::Taken)?;
    IS_JSON.store(log.format == LogFormat::Json, Ordering::Relaxed);
    Ok(())
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
        let log = Log::default();
        let outcomes = [init(&log), init(&log)];
        assert!(matches!(outcomes[1], Err(LoggingError::Taken(_))));
    }
}
