//! Options whose count may be left out, before anything that is no count.

use std::ffi::OsString;

/// Writes the count out where an option stands without one: the parser would take what follows for it.
pub fn with_default_count(
    option: &str,
    count: &str,
    arguments: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let is_count = |next: &OsString| {
        let digits = next.to_str().map(|next| next.strip_prefix('-').unwrap_or(next));
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut written = Vec::new();
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            written.push(argument);
            written.extend(arguments);
            break;
        }
        let is_bare = argument == option && !arguments.peek().is_some_and(is_count);
        written.push(if is_bare { format!("{option}={count}").into() } else { argument });
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_left_out_is_written_out() {
        let written = |line: &str| {
            let arguments = line.split(' ').map(OsString::from);
            let written = with_default_count("--tenants", "10", arguments);
            written.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(written("replay --tenants trace.jsonl"), "replay --tenants=10 trace.jsonl");
        assert_eq!(written("replay --tenants 5 trace"), "replay --tenants 5 trace");
        assert_eq!(written("replay trace --tenants"), "replay trace --tenants=10");
        assert_eq!(written("replay --tenants=3 trace"), "replay --tenants=3 trace");
        assert_eq!(written("replay --tenants --json x"), "replay --tenants=10 --json x");
        assert_eq!(written("replay -- --tenants x"), "replay -- --tenants x");
        assert_eq!(written("replay --tenants -1 x"), "replay --tenants -1 x", "to be refused as a count");
    }
}
