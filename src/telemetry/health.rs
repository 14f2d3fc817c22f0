//! What the service's loops note about themselves, and what follows for its health.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When the service counts as healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthBounds {
    /// Longest time between two turns of the poll loop.
    pub live_within: Duration,
    /// Most records that may wait in the log.
    pub ready_max_lag: u64,
}

/// How long no broker may be connected, or no commit go through, before results count as stale: clients connect anew
/// within seconds.
const AWAY_AFTER_MS: u64 = 10_000;

/// Shared notes, written by the loops and read by the server. All values are relaxed: each stands for
/// itself.
#[derive(Debug)]
pub struct Health {
    started: Instant,
    last_tick_ms: AtomicU64,
    assigned: AtomicBool,
    restoring: AtomicU64,
    lag_records: AtomicU64,
    stalled: AtomicU64,
    held: AtomicU64,
    /// When the first commit began after the last that went through; 0 where none did.
    committing_since_ms: AtomicU64,
    registry_away: AtomicBool,
    away_ms: AtomicU64,
    stopping: AtomicBool,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            last_tick_ms: AtomicU64::new(0),
            assigned: AtomicBool::new(false),
            restoring: AtomicU64::new(0),
            lag_records: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
            held: AtomicU64::new(0),
            committing_since_ms: AtomicU64::new(0),
            registry_away: AtomicBool::new(false),
            away_ms: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }
}

impl Health {
    /// Notes that nothing has happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The poll loop turned.
    pub fn tick(&self) {
        self.last_tick_ms.store(self.elapsed_ms().max(1), Ordering::Relaxed);
    }

    /// The group has decided which partitions this instance works on; that may be none.
    pub fn set_assigned(&self, assigned: bool) {
        self.assigned.store(assigned, Ordering::Relaxed);
    }

    /// So many partitions are catching up with their state.
    pub fn set_restoring(&self, partitions: u64) {
        self.restoring.store(partitions, Ordering::Relaxed);
    }

    /// So many records wait in the log, over all partitions.
    pub fn set_lag(&self, records: u64) {
        self.lag_records.store(records, Ordering::Relaxed);
    }

    /// In so many partitions records wait, and none has been processed for a while.
    pub fn set_stalled(&self, partitions: u64) {
        self.stalled.store(partitions, Ordering::Relaxed);
    }

    /// So many partitions cannot go on.
    pub fn set_held(&self, partitions: u64) {
        self.held.store(partitions, Ordering::Relaxed);
    }

    /// A commit begins; it may be tried again.
    pub fn commit_begins(&self) {
        // One that failed before began earlier; only the loop that commits says either.
        if self.committing_since_ms.load(Ordering::Relaxed) == 0 {
            self.committing_since_ms.store(self.elapsed_ms().max(1), Ordering::Relaxed);
        }
    }

    /// A commit went through.
    pub fn committed(&self) {
        self.committing_since_ms.store(0, Ordering::Relaxed);
    }

    /// For how long commits have not gone through that began; `None` where that is none.
    fn uncommitted_ms(&self) -> Option<u64> {
        let since = self.committing_since_ms.load(Ordering::Relaxed);
        (since > 0).then(|| self.elapsed_ms().saturating_sub(since))
    }

    /// Records wait for a schema registry that does not answer.
    pub fn set_registry_away(&self, away: bool) {
        self.registry_away.store(away, Ordering::Relaxed);
    }

    /// For so long no broker has been connected.
    pub fn set_away(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.away_ms.store(ms, Ordering::Relaxed);
    }

    /// The service is about to stop: no longer ready, still live.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the process works. Says nothing about the broker: restarting this process would not help
    /// an unreachable one. What comes before the first tick, connecting, ends by itself, with an error if need be.
    ///
    /// # Errors
    /// Why it does not.
    pub fn live(&self, bounds: HealthBounds) -> Result<(), String> {
        let last_tick_ms = self.last_tick_ms.load(Ordering::Relaxed);
        if last_tick_ms == 0 {
            return Ok(());
        }
        let age_ms = self.elapsed_ms().saturating_sub(last_tick_ms);
        let limit_ms = u64::try_from(bounds.live_within.as_millis()).unwrap_or(u64::MAX);
        if age_ms <= limit_ms {
            return Ok(());
        }
        Err(format!("the poll loop has not turned for {age_ms} ms (limit {limit_ms} ms)"))
    }

    /// Whether its results are up to date.
    ///
    /// # Errors
    /// Why they are not.
    pub fn ready(&self, bounds: HealthBounds) -> Result<(), String> {
        self.live(bounds)?;
        if self.stopping.load(Ordering::Relaxed) {
            return Err("stopping".to_owned());
        }
        if !self.assigned.load(Ordering::Relaxed) {
            return Err("no partitions assigned yet".to_owned());
        }
        let away_ms = self.away_ms.load(Ordering::Relaxed);
        if away_ms > AWAY_AFTER_MS {
            return Err(format!("no broker has been connected for {} s", away_ms / 1000));
        }
        if let Some(ms) = self.uncommitted_ms().filter(|ms| *ms > AWAY_AFTER_MS) {
            return Err(format!("no commit has gone through for {} s", ms / 1000));
        }
        if self.registry_away.load(Ordering::Relaxed) {
            return Err("records wait for the schema registry".to_owned());
        }
        let held = self.held.load(Ordering::Relaxed);
        if held > 0 {
            return Err(format!("{} held: the log and the page say why", are(held)));
        }
        let stalled = self.stalled.load(Ordering::Relaxed);
        if stalled > 0 {
            return Err(format!("records wait, and {} at a standstill", are(stalled)));
        }
        match (self.restoring.load(Ordering::Relaxed), self.lag_records.load(Ordering::Relaxed)) {
            (0, lag) if lag <= bounds.ready_max_lag => Ok(()),
            (0, lag) => Err(format!("{lag} records behind (limit {})", bounds.ready_max_lag)),
            (partitions, _) => Err(format!("{} restoring state", are(partitions))),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// So many partitions, as the subject of a sentence.
fn are(partitions: u64) -> String {
    match partitions {
        1 => "1 partition is".to_owned(),
        more => format!("{more} partitions are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: HealthBounds = HealthBounds { live_within: Duration::from_secs(60), ready_max_lag: 10 };

    #[test]
    fn readiness_needs_assignment_state_and_little_lag() {
        let health = Health::new();
        let why = |health: &Health| health.ready(BOUNDS).expect_err("not ready");
        assert_eq!(health.live(BOUNDS), Ok(()));
        assert!(why(&health).contains("assigned"));
        health.set_assigned(true);
        health.set_restoring(2);
        assert!(why(&health).contains("2 partitions"));
        health.set_restoring(0);
        health.set_lag(11);
        assert!(why(&health).contains("11 records behind (limit 10)"));
        health.set_lag(10);
        assert_eq!(health.ready(BOUNDS), Ok(()));
        health.set_away(Duration::from_secs(10));
        assert_eq!(health.ready(BOUNDS), Ok(()), "clients connect anew");
        health.set_away(Duration::from_secs(11));
        assert_eq!(why(&health), "no broker has been connected for 11 s");
        assert_eq!(health.live(BOUNDS), Ok(()), "a restart would not help");
        health.set_away(Duration::ZERO);
        health.set_registry_away(true);
        assert!(why(&health).contains("schema registry"));
        health.set_registry_away(false);
        health.set_stalled(3);
        assert_eq!(why(&health), "records wait, and 3 partitions are at a standstill");
        health.set_stalled(0);
        health.set_held(1);
        assert_eq!(why(&health), "1 partition is held: the log and the page say why");
        health.set_held(2);
        assert_eq!(why(&health), "2 partitions are held: the log and the page say why");
        health.set_held(0);
        health.set_stopping();
        assert_eq!(why(&health), "stopping");
        assert_eq!(health.live(BOUNDS), Ok(()));
    }

    #[test]
    fn a_loop_that_stands_still_is_not_alive_until_it_turns() {
        let bounds = HealthBounds { live_within: Duration::ZERO, ready_max_lag: 0 };
        let health = Health::new();
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(health.live(bounds), Ok(()), "it connects, which ends by itself");
        health.tick();
        std::thread::sleep(Duration::from_millis(3));
        assert!(health.live(bounds).expect_err("stands still").contains("has not turned"));
        let generous = HealthBounds { live_within: Duration::from_secs(60), ..bounds };
        health.tick();
        assert_eq!(health.live(generous), Ok(()));
    }

    /// Brokers went away under load, and everything was green for as long as one call waited for them.
    #[test]
    fn an_instance_whose_commits_do_not_go_through_is_not_ready() {
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).expect("up for a minute");
        let health = Health { started: long_ago, ..Health::new() };
        health.set_assigned(true);
        health.tick();
        health.commit_begins();
        assert_eq!(health.ready(BOUNDS), Ok(()), "one has just begun");
        health.committing_since_ms.store(40_000, Ordering::Relaxed);
        health.commit_begins();
        let why = health.ready(BOUNDS).expect_err("it was tried again");
        assert!(why.starts_with("no commit has gone through for 2"), "{why}");
        assert_eq!(health.live(BOUNDS), Ok(()), "a restart would not help");
        health.committed();
        assert_eq!(health.ready(BOUNDS), Ok(()));
    }
}
