//! The service's HTTP side with a service that the test plays: events in, answers out.

// Every test file is a program of its own and uses a part of this.
#![allow(dead_code)]

#[path = "../report_support/mod.rs"]
pub mod report_support;

use kvset::core::estimate::{Estimate, Status};
use kvset::core::units::EventTime;
use kvset::live::{Board, LiveFacts, router};
use kvset::pipeline::resume::{Origin, Resume};
use kvset::pipeline::task::{PoolActivity, PoolTime, TaskCounts};
use kvset::position::{NextOffset, Partition};
use kvset::service::events::{Observer, ServiceEvent};
use kvset::settings::Provisioned;
use kvset::telemetry::{Health, HealthBounds, Server, recorder};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const BOUNDS: HealthBounds = HealthBounds { live_within: Duration::from_secs(600), ready_max_lag: 100 };

/// A service that does what it is told.
pub struct Service {
    pub board: Arc<Board>,
    pub health: Arc<Health>,
    server: Server,
}

/// An answer over HTTP.
pub struct Answer {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }
}

/// Asks a server for a path, if what it has is not `known`.
pub fn get(address: &str, path: &str, known: Option<&str>) -> Answer {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(30)));
    let request = config.build().new_agent().get(format!("{address}{path}"));
    let request = match known {
        Some(tag) => request.header("If-None-Match", tag),
        None => request,
    };
    let mut answer = request.call().expect("answered");
    let body = answer.body_mut().read_to_string().expect("text");
    Answer { status: answer.status().as_u16(), headers: answer.headers().clone(), body }
}

impl Service {
    pub fn start(max_pools: u32) -> Self {
        Self::provisioned(max_pools, Provisioned::default())
    }

    /// A service whose pools hold so much today.
    pub fn provisioned(max_pools: u32, provisioned: Provisioned) -> Self {
        let (board, health) = (Arc::new(Board::new(max_pools, provisioned)), Arc::new(Health::new()));
        let live = LiveFacts { board: Arc::clone(&board), health: Arc::clone(&health), bounds: BOUNDS };
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let metrics = recorder().expect("a recorder").handle();
        let server =
            Server::start(any, &[], metrics, Arc::clone(&health), BOUNDS, router(live)).expect("a free port");
        health.set_assigned(true);
        Self { board, health, server }
    }

    pub fn address(&self) -> String {
        format!("http://{}", self.server.address())
    }

    pub fn stop(self) {
        self.server.stop();
    }

    pub fn get(&self, path: &str) -> Answer {
        get(&self.address(), path, None)
    }

    /// Asks for what has another tag than this one.
    pub fn ask(&self, path: &str, known: Option<&str>) -> Answer {
        get(&self.address(), path, known)
    }

    pub fn take_up(&self, partition: i32, publish_from: i64) {
        let resume = Resume {
            origin: Origin::Rebuild,
            replay_from: NextOffset(0),
            publish_from: NextOffset(publish_from),
            count_from: NextOffset(0),
            warm_up: false,
            set_aside: Vec::new(),
            explanation: String::new(),
        };
        let (partition, log_end) = (Partition(partition), NextOffset(publish_from));
        self.board.on(&ServiceEvent::Assigned { partition, resume: &resume, log_end });
    }

    /// A worker handed these out, of a partition with so many pools.
    pub fn progress(&self, partition: i32, pools: usize, estimates: &[Estimate]) {
        let next = estimates.iter().map(|estimate| estimate.next_offset).max().unwrap_or(0);
        let key = |estimate: &Estimate| (estimate.pool.clone(), estimate.window);
        let time = |estimate: &Estimate| PoolTime { watermark: EventTime(estimate.end_ms), next_close: None };
        let activity = |estimate: &Estimate| {
            let time = Some(time(estimate));
            (estimate.pool.clone(), PoolActivity { requests: 3, pages: 7, time, ..PoolActivity::default() })
        };
        let counts = TaskCounts {
            records: 1,
            pools: estimates.iter().map(activity).collect(),
            memory: estimates.iter().map(|estimate| (estimate.pool.clone(), 4096)).collect(),
            latest: estimates.iter().map(|estimate| (key(estimate), estimate.clone())).collect(),
            ..TaskCounts::default()
        };
        self.board.on(&ServiceEvent::Progress {
            partition: Partition(partition),
            next: NextOffset(next),
            counts: &counts,
            time: counts.time(),
            pools,
        });
    }

    /// The partition goes on from a state that knows these, with a window that closes at the last.
    pub fn restore(&self, partition: i32, latest: &[Estimate]) {
        let end = latest.iter().map(|estimate| estimate.end_ms).max();
        let time =
            end.map(|end| PoolTime { watermark: EventTime(end), next_close: Some(EventTime(end + 300_000)) });
        self.board.on(&ServiceEvent::Restored {
            partition: Partition(partition),
            next: NextOffset(latest.iter().map(|estimate| estimate.next_offset).max().unwrap_or(0)),
            time,
            times: &[],
            pools: latest.len(),
            latest,
        });
    }

    pub fn commit(&self) {
        self.board.on(&ServiceEvent::Committed { outputs: &[], partitions: 1, took: Duration::ZERO });
    }

    /// Hands out and commits.
    pub fn publish(&self, estimates: &[Estimate]) {
        self.progress(estimates.first().map_or(0, |first| first.partition), estimates.len(), estimates);
        self.commit();
    }
}

/// The final estimate of a window that closed after so many minutes of a Sunday.
pub fn closed(pool: &str, window: &str, minute: i64) -> Estimate {
    const SUNDAY_MS: i64 = 1_794_700_800_000;
    let week = report_support::week_pool().estimate.into_owned();
    let end_ms = SUNDAY_MS + minute * 60_000;
    let requests = 3000 + 40 * (minute % 7) as u64;
    let mut required = week.required;
    for entry in required.iter_mut().flat_map(|target| &mut target.coverage) {
        let grown = |pages: u64| pages * (200 + minute as u64 % 35) / 200;
        entry.pages = entry.pages.map(grown);
        entry.bytes = entry.pages.map(|pages| pages * report_support::PAGE_BYTES);
    }
    report_support::estimate_recommending(Estimate {
        pool: pool.to_owned(),
        window: window.parse().expect("a window"),
        start_ms: if window == "all" { SUNDAY_MS } else { end_ms - 300_000 },
        end_ms,
        status: Status::Final,
        next_offset: minute,
        requests: if window == "all" { requests * minute as u64 / 5 } else { requests },
        requests_with_reuse: requests * 9 / 10,
        accumulated_pages: 5_000_000 + 20_000 * minute as u64,
        tracked_pages: 5_000_000,
        required,
        capacities: week.capacities,
        ..report_support::estimate(10_000 + minute as u64)
    })
}
