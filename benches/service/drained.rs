//! What it took to read a topic.

use crate::usage;
use std::time::{Duration, Instant};

/// Time and processor time of one reading.
#[derive(Debug, Clone, Copy)]
pub struct Drained {
    pub elapsed: Duration,
    /// Processor time of this process.
    pub own: Duration,
    /// Processor time of the broker, where it is known.
    pub broker: Option<Duration>,
}

/// Runs from the moment partitions are assigned.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    begin: Instant,
    own: Duration,
    broker: Option<Duration>,
}

impl Clock {
    pub fn start() -> Self {
        Self { own: usage::own(), broker: usage::of_broker(), begin: Instant::now() }
    }

    pub fn stop(&self) -> Drained {
        let elapsed = self.begin.elapsed();
        let broker = usage::of_broker().zip(self.broker).map(|(now, then)| now.saturating_sub(then));
        Drained { elapsed, own: usage::own().saturating_sub(self.own), broker }
    }
}

/// The median of each of the three.
pub fn medians(readings: &[Drained]) -> Drained {
    let middle = |of: &dyn Fn(&Drained) -> Duration| {
        let mut values: Vec<_> = readings.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    Drained {
        elapsed: middle(&|reading| reading.elapsed),
        own: middle(&|reading| reading.own),
        broker: readings[0].broker.map(|_| middle(&|reading| reading.broker.unwrap_or_default())),
    }
}
