//! How a command ends badly: which exit code, and what is said about it.

use crate::present::words::{in_order, json_in_order};
use crate::telemetry::logging;
use kvset_formats::time::date_of_ms;
use kvset_settings::SettingsError;
use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// A command that did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// Wrong usage or configuration: exit code 2.
    Usage(anyhow::Error),
    /// Something failed while it ran: exit code 1.
    Runtime(anyhow::Error),
}

impl Failure {
    /// Wrong usage, in words that name the argument and what to write instead.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(anyhow::Error::msg(message.into()))
    }

    /// Says what went wrong on standard error and gives the exit code. A reader that closed the pipe has
    /// what it wanted, so that ends quietly.
    pub fn report(&self) -> ExitCode {
        let (error, code) = match self {
            Self::Runtime(error) if is_broken_pipe(error) => return ExitCode::SUCCESS,
            Self::Usage(error) => (error, 2),
            Self::Runtime(error) => (error, 1),
        };
        let text = describe(error);
        let text = if logging::is_json() { as_line_of_the_log(&text) } else { in_order(&text).into_owned() };
        let said = io::Write::write_all(&mut io::stderr(), text.as_bytes());
        // With standard error gone too, the exit code is all that is left to say.
        ExitCode::from(if said.is_ok() { code } else { code.max(1) })
    }
}

/// An error as a line of the log, for who reads every line of standard error as JSON; there at any level.
fn as_line_of_the_log(text: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = serde_json::json!({
        "timestamp": date_of_ms(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)),
        "level": "ERROR",
        "message": text.trim_start_matches("error: ").trim_end(),
        "target": "kvset",
    });
    json_in_order(&line.to_string()).into_owned() + "\n"
}

/// `error:` and the message, then each cause on a line of its own, unless the one before says it.
fn describe(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    let mut text = format!("error: {said}\n");
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !said.contains(&cause) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  caused by: {cause}");
        }
        said = cause;
    }
    text
}

/// Whether the reader of standard output went away.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::Usage(error.into())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Runtime(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Runtime(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn causes_follow_the_message_once_each() {
        let cause = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let error = Err::<(), _>(cause).context("cannot open trace x").expect_err("an error");
        assert_eq!(describe(&error), "error: cannot open trace x\n  caused by: no such file\n");
        let error =
            Err::<(), _>(io::Error::other("full")).context("cannot write: full").expect_err("an error");
        assert_eq!(describe(&error), "error: cannot write: full\n");
    }

    #[test]
    fn a_closed_pipe_is_found_under_any_wrapping() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::from(pipe()).context("writing")));
        assert!(is_broken_pipe(&serde_json::Error::io(pipe()).into()));
        assert!(!is_broken_pipe(&io::Error::other("disk").into()));
    }
}
