//! What a check found.

use std::fmt;

/// What became of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As it must be.
    Good,
    /// It could not be reported, or there is nothing to tell.
    Untried,
    /// The service would not work.
    Bad,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What: a word or two.
    pub what: String,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found, and what to do where it is bad.
    pub said: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.verdict {
            Verdict::Good => "ok",
            Verdict::Untried => "-",
            Verdict::Bad => "FAILED",
        };
        write!(f, "{word:<7} {:<18} {}", self.what, self.said)
    }
}

/// One finding of these words.
pub(super) fn finding(what: impl Into<String>, verdict: Verdict, said: impl Into<String>) -> Finding {
    Finding { what: what.into(), verdict, said: said.into() }
}

/// Good with these words, or bad with those of the error.
pub(super) fn judged<T, E: fmt::Display>(
    what: impl Into<String>,
    found: Result<T, E>,
    good: impl FnOnce(T) -> String,
) -> Finding {
    match found {
        Ok(found) => finding(what, Verdict::Good, good(found)),
        Err(error) => finding(what, Verdict::Bad, error.to_string()),
    }
}
