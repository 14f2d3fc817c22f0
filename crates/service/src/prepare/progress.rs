//! Lines that tell how far prepare has come.

use crate::events::{Observer, PrepareCounts, ServiceEvent};
use kvset_prepare::PoolShare;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(10);

/// Logs a line now and then, and hands every event on.
pub struct ProgressLog<'o> {
    next: &'o dyn Observer,
    noted: Mutex<NotedProgress>,
}

struct NotedProgress {
    since: Instant,
    total: PoolShare,
    records: u64,
    /// The same when the last line was written.
    told: (u64, u64),
    refused: BTreeMap<&'static str, u64>,
}

impl<'o> ProgressLog<'o> {
    /// Logs, and forwards to `next`.
    pub fn before(next: &'o dyn Observer) -> Self {
        let (total, refused) = (PoolShare::default(), BTreeMap::new());
        let noted = NotedProgress { since: Instant::now(), total, records: 0, told: (0, 0), refused };
        Self { next, noted: Mutex::new(noted) }
    }
}

impl Observer for ProgressLog<'_> {
    fn on(&self, event: &ServiceEvent<'_>) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            ServiceEvent::Prepared { counts, .. } => noted.add(counts),
            ServiceEvent::Polled { lag, .. } if noted.since.elapsed() >= EVERY => {
                noted.tell(lag.iter().map(|(_, records)| records).sum());
            }
            _ => {}
        }
        drop(noted);
        self.next.on(event);
    }
}

impl NotedProgress {
    fn add(&mut self, counts: &PrepareCounts) {
        self.records += counts.records;
        counts.pools.values().for_each(|pool| self.total.add(*pool));
        for (code, records) in &counts.refused {
            *self.refused.entry(code.name()).or_default() += records;
        }
    }

    fn tell(&mut self, lag: u64) {
        let seconds = self.since.elapsed().as_secs_f64();
        let (records, tokens) = self.told;
        let rate = |now: u64, before: u64| (now - before) as f64 / seconds;
        tracing::info!(
            "prepared {} records ({:.0}/s) to {} requests of {} tokens ({:.0}/s) and {} pages; {} refused; {lag} behind",
            self.records,
            rate(self.records, records),
            self.total.requests,
            self.total.tokens,
            rate(self.total.tokens, tokens),
            self.total.pages,
            refused(&self.refused),
        );
        (self.since, self.told) = (Instant::now(), (self.records, self.total.tokens));
    }
}

/// `3 (undecodable 2, missing_field 1)`, or `0`.
fn refused(refused: &BTreeMap<&'static str, u64>) -> String {
    let codes: Vec<String> = refused.iter().map(|(code, records)| format!("{code} {records}")).collect();
    match refused.values().sum() {
        0u64 => "0".to_owned(),
        all => format!("{all} ({})", codes.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_by_code() {
        assert_eq!(refused(&BTreeMap::new()), "0");
        let some = BTreeMap::from([("undecodable", 2), ("missing_field", 1)]);
        assert_eq!(refused(&some), "3 (missing_field 1, undecodable 2)");
    }
}
