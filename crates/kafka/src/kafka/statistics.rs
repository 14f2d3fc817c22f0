//! What the clients of this process report on themselves: librdkafka's statistics, summed over brokers
//! and over the clients of one role, so that their number does not grow with the cluster.

use rdkafka::Statistics;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A role of a client in the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRole {
    /// Consumes the input topic.
    Source,
    /// Publishes results.
    Sink,
}

impl ClientRole {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Source, Self::Sink];

    /// Its name, as metrics show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Sink => "sink",
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Source => 0,
            Self::Sink => 1,
        }
    }
}

/// What is known of the clients of one role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientFigures {
    /// Bytes received from brokers since the process began.
    pub received_bytes: u64,
    /// Bytes sent to brokers since the process began.
    pub sent_bytes: u64,
    /// Requests that brokers have not answered within their time, since the process began.
    pub timeouts: u64,
    /// Requests sent and not answered yet, by the last report.
    pub in_flight: u64,
    /// Requests that wait to be sent, by the last report.
    pub queued: u64,
    /// Mean round trip of a request to the slowest broker, over the time of the last report in which a
    /// broker answered.
    pub round_trip: Option<Duration>,
}

static FIGURES: Mutex<[ClientFigures; 2]> = Mutex::new([NOTHING; 2]);

const NOTHING: ClientFigures = ClientFigures {
    received_bytes: 0,
    sent_bytes: 0,
    timeouts: 0,
    in_flight: 0,
    queued: 0,
    round_trip: None,
};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Figures are whole after every statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of the clients of this role.
pub fn figures(client: ClientRole) -> ClientFigures {
    lock(&FIGURES)[client.index()]
}

/// librdkafka counts with a sign; nothing here is below zero but what it does not know.
fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// Adds the reports of one client to the figures of its role.
#[derive(Debug)]
pub(super) struct ClientMeter {
    client: ClientRole,
    last: Mutex<ClientFigures>,
}

impl ClientMeter {
    /// For a new client.
    pub(super) fn of(client: ClientRole) -> Self {
        Self { client, last: Mutex::default() }
    }

    /// Takes in a report.
    pub(super) fn note(&self, statistics: &Statistics) {
        let report = ClientFigures::of(statistics);
        let last = std::mem::replace(&mut *lock(&self.last), report);
        lock(&FIGURES)[self.client.index()].add(report, last);
    }
}

impl ClientFigures {
    /// One report of one client: its totals since that client began, and how it stands.
    fn of(statistics: &Statistics) -> Self {
        let mut report = Self {
            received_bytes: unsigned(statistics.rx_bytes),
            sent_bytes: unsigned(statistics.tx_bytes),
            ..NOTHING
        };
        for broker in statistics.brokers.values() {
            report.timeouts += broker.req_timeouts;
            report.in_flight += unsigned(broker.waitresp_cnt);
            report.queued += unsigned(broker.outbuf_cnt);
            // A window without a measurement has a mean of nothing.
            let measured = broker.rtt.as_ref().filter(|rtt| rtt.cnt > 0);
            let mean = measured.map(|rtt| Duration::from_micros(unsigned(rtt.avg)));
            report.round_trip = report.round_trip.max(mean);
        }
        report
    }

    /// Adds a report to the one before it of the same client. A client's totals only grow; those of its
    /// role go on where a client before it ended.
    fn add(&mut self, report: Self, last: Self) {
        self.received_bytes += report.received_bytes.saturating_sub(last.received_bytes);
        self.sent_bytes += report.sent_bytes.saturating_sub(last.sent_bytes);
        self.timeouts += report.timeouts.saturating_sub(last.timeouts);
        self.in_flight = report.in_flight;
        self.queued = report.queued;
        self.round_trip = report.round_trip.or(self.round_trip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_go_on_when_a_new_client_begins_again_at_zero() {
        let report = |received_bytes, in_flight, round_trip| ClientFigures {
            received_bytes,
            in_flight,
            round_trip,
            ..ClientFigures::default()
        };
        let (mut figures, slow) = (NOTHING, Some(Duration::from_millis(3)));
        let (first, second) = (report(100, 2, slow), report(150, 1, None));
        figures.add(first, ClientFigures::default());
        figures.add(second, first);
        figures.add(report(30, 0, None), ClientFigures::default());
        assert_eq!(figures, ClientFigures { received_bytes: 180, round_trip: slow, ..NOTHING });
    }
}
