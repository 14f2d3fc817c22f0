//! What a check found.

use std::fmt;

/// What became of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckVerdict {
    /// As it must be.
    Good,
    /// It could not be reported, or there is nothing to tell.
    Untried,
    /// The service would not work.
    Bad,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectCheck {
    /// What: a word or two.
    pub what: String,
    /// How it stands.
    pub verdict: CheckVerdict,
    /// What was found, and what to do where it is bad.
    pub said: String,
}

impl fmt::Display for ConnectCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.verdict {
            CheckVerdict::Good => "ok",
            CheckVerdict::Untried => "-",
            CheckVerdict::Bad => "FAILED",
        };
        write!(f, "{word:<7} {:<18} {}", self.what, self.said)
    }
}

/// One finding of these words.
pub(super) fn finding(
    what: impl Into<String>,
    verdict: CheckVerdict,
    said: impl Into<String>,
) -> ConnectCheck {
    ConnectCheck { what: what.into(), verdict, said: said.into() }
}

/// Good with these words, or bad with those of the error.
pub(super) fn judged<T, E: fmt::Display>(
    what: impl Into<String>,
    found: Result<T, E>,
    good: impl FnOnce(T) -> String,
) -> ConnectCheck {
    match found {
        Ok(found) => finding(what, CheckVerdict::Good, good(found)),
        Err(error) => finding(what, CheckVerdict::Bad, error.to_string()),
    }
}
