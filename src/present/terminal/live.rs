//! Estimates as they arrive: a live table on a terminal, a line each elsewhere, or JSON lines.

use super::estimates::{COVERAGES, marked};
use super::{EstimateTable, Terminal, recommended, recommended_at, window};
use crate::present::document::Cell;
use crate::present::words::{capacity, hit_rate, in_order, integer, json_in_order};
use kvset_core::estimate::Estimate;
use kvset_core::units::ratio::Ratio;
use kvset_formats::time::{date_of_ms, words};
use kvset_settings::Provisioned;
use std::io::{self, IsTerminal as _, Write};
use std::time::{Duration, Instant};

/// Time between two drawings of the table.
const REDRAW: Duration = Duration::from_millis(200);
/// To the top left, and everything below cleared.
const HOME: &str = "\x1b[H\x1b[2J";

/// Shows estimates on standard output.
#[derive(Debug)]
pub struct LiveEstimates {
    form: OutputForm,
    heading: String,
    table: EstimateTable,
    changed: bool,
    drawn: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputForm {
    Json,
    Table,
    Lines,
}

impl LiveEstimates {
    /// JSON lines if requested; else a table under this heading where standard output is a terminal. The
    /// table compares with what pools hold today.
    pub fn new(json: bool, heading: impl Into<String>, provisioned: Provisioned) -> Self {
        let form = match (json, io::stdout().is_terminal()) {
            (true, _) => OutputForm::Json,
            (false, true) => OutputForm::Table,
            (false, false) => OutputForm::Lines,
        };
        let (table, drawn) = (EstimateTable::comparing_with(provisioned), Instant::now());
        Self { form, heading: heading.into(), table, changed: false, drawn }
    }

    /// Takes an estimate in, or notes that nothing new has come for a moment.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn show(&mut self, estimate: Option<Estimate>) -> io::Result<()> {
        match (self.form, estimate) {
            (OutputForm::Json, Some(estimate)) => {
                let line = serde_json::to_string(&estimate)?;
                writeln!(io::stdout().lock(), "{}", json_in_order(&line))?;
            }
            (OutputForm::Lines, Some(estimate)) => {
                writeln!(io::stdout().lock(), "{}", in_order(&line(&estimate)))?;
            }
            (OutputForm::Table, Some(estimate)) => {
                self.table.observe(estimate);
                self.changed = true;
            }
            (_, None) => {}
        }
        if self.changed && self.drawn.elapsed() >= REDRAW { self.draw() } else { Ok(()) }
    }

    /// Draws what was not drawn yet.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.changed { self.draw() } else { io::stdout().flush() }
    }

    fn draw(&mut self) -> io::Result<()> {
        (self.changed, self.drawn) = (false, Instant::now());
        let terminal = Terminal::of_stdout();
        let mut out = io::stdout().lock();
        let table = self.table.render(&terminal);
        write!(out, "{HOME}{}\n{}", terminal.paragraph(&self.heading), in_order(&table))?;
        out.flush()
    }
}

/// An estimate in one line.
fn line(estimate: &Estimate) -> String {
    let needs = COVERAGES.map(|(thousandths, name)| {
        let found = recommended_at(estimate, Ratio::per_mille(thousandths));
        let need = found.map_or_else(|| Cell::Unknown.text(), |found| marked(found, estimate.page_bytes));
        format!("{name} {need}")
    });
    format!(
        "{} {} ending {}: {} requests, accumulated {}, recommended {}, hit rate {} unlimited{}",
        estimate.pool,
        window(estimate),
        clock(estimate.end_ms),
        integer(estimate.requests),
        capacity(estimate.accumulated_pages, estimate.page_bytes),
        needs.join(", "),
        hit_rate(estimate.theoretical.prefix_hit_rate, estimate.theoretical.hit_rate_tokens),
        recommended(estimate).map_or_else(String::new, |plan| format!(", tiers {plan}")),
    )
}

/// A moment of event time: a date where it is one, else the time since the trace's zero.
fn clock(ms: i64) -> String {
    /// Event times before 2001 count from a trace's own zero.
    const DATES_FROM_MS: i64 = 978_307_200_000;
    if ms >= DATES_FROM_MS {
        date_of_ms(ms)
    } else {
        words(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_dates_or_as_time_since_the_start() {
        assert_eq!(clock(1_700_000_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(clock(3_660_000), "1h 1m");
        assert_eq!(clock(-5), "0s");
    }
}
