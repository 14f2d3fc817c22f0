//! TerminalProgress of long work, on standard error and only where that is a terminal.

use crate::present::words::in_order;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;

/// Bytes with and without a known total.
const BYTES: [&str; 2] = [
    "{bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left  {msg}",
    "{spinner} {binary_bytes}, {binary_bytes_per_sec}, {elapsed}  {msg}",
];
/// Requests with and without a known total.
const REQUESTS: [&str; 2] = [
    "{bar:30} {human_pos} of {human_len} requests, {per_sec}, {eta} left  {msg}",
    "{spinner} {human_pos} requests, {per_sec}, {elapsed}  {msg}",
];

/// Replays of one log, with and without a known total.
const REPLAYS: [&str; 2] = [
    "{bar:30} {human_pos} of {human_len} replays, {eta} left  {msg}",
    "{spinner} {human_pos} replays, {elapsed}  {msg}",
];

/// Offsets of a log, gaps counted too, with and without a known total.
const OFFSETS: [&str; 2] = [
    "{bar:30} {human_pos} of {human_len} offsets, {per_sec}, {eta} left  {msg}",
    "{spinner} {human_pos} offsets, {per_sec}, {elapsed}  {msg}",
];

/// A bar with rate and time left; nothing at all where nobody watches.
#[derive(Debug)]
pub struct TerminalProgress {
    bar: ProgressBar,
    /// How the bar looks once a total is known.
    with_total: &'static str,
}

impl TerminalProgress {
    /// Counts bytes read, of a total where it is known.
    pub fn bytes(total: Option<u64>) -> Self {
        Self::new(total, BYTES)
    }

    /// Counts requests, of a total where it is known.
    pub fn requests(total: Option<u64>) -> Self {
        Self::new(total, REQUESTS)
    }

    /// Counts offsets of a total, some of which were done before.
    pub fn offsets(total: u64, before: u64) -> Self {
        let progress = Self::new(Some(total), OFFSETS);
        progress.bar.set_position(before);
        // What others did tells nothing of how fast this goes.
        progress.bar.reset_eta();
        progress
    }

    /// Counts replays of one log.
    pub fn replays() -> Self {
        Self::new(None, REPLAYS)
    }

    fn new(total: Option<u64>, [with_total, without]: [&'static str; 2]) -> Self {
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr())
        } else {
            ProgressBar::hidden()
        };
        let template = if total.is_some() { with_total } else { without };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, with_total }
    }

    /// How far the work is.
    pub fn advance_to(&mut self, position: u64) {
        self.bar.set_position(position);
    }

    /// How far the work is, of a total that is only now known.
    pub fn advance_of(&mut self, position: u64, total: Option<u64>) {
        if let Some(total) = total.filter(|total| self.bar.length() != Some(*total))
            && let Ok(style) = ProgressStyle::with_template(self.with_total)
        {
            self.bar.set_length(total);
            self.bar.set_style(style);
        }
        self.bar.set_position(position);
    }

    /// A word alongside the bar.
    pub fn say(&mut self, message: impl Into<String>) {
        self.bar.set_message(message.into());
    }

    /// A line above the bar; on standard error in any case.
    pub fn note(&mut self, line: &str) {
        self.bar.suspend(|| eprintln!("{}", in_order(line)));
    }

    /// Removes the bar and leaves a closing line, where somebody watched.
    pub fn finish(self, line: &str) {
        if self.bar.is_hidden() { self.bar.finish_and_clear() } else { self.conclude(line) }
    }

    /// Removes the bar and leaves a closing line in any case: what was done where no file shows it.
    pub fn conclude(self, line: &str) {
        self.bar.finish_and_clear();
        eprintln!("{}", in_order(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_valid() {
        for template in [BYTES, REQUESTS, REPLAYS, OFFSETS].concat() {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
