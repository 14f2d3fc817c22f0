//! The stated sampling error against the exact result: other ids for the same pages are another sample.

use kvset::core::estimate::Estimate;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::{Arrival, Pool};
use kvset::core::request::event::RequestEvent;
use kvset::core::units::Offset;
use kvset::core::units::pages::{PageIds, mix};
use kvset::core::units::ratio::Ratio;
use kvset::core::units::window::WindowKind;
use kvset::workload::{GeneratedRequest, Generator, Workload};
use kvset_core::engines::config::CacheConfig;
use std::sync::Arc;

const REQUESTS: usize = 1500;
const SAMPLES: u64 = 24;

/// The estimate over all requests, at this rate, of pages with ids of their own.
fn estimate(requests: &[GeneratedRequest], rate: &str, salt: u64) -> Estimate {
    let config = PoolConfig {
        cache: CacheConfig {
            sample_rate: rate.parse().expect("a share"),
            coverages: [950, 990].map(Ratio::per_mille).into(),
            ..CacheConfig::default()
        },
        windows: vec![WindowKind::All],
        ..PoolConfig::default()
    };
    let mut pool = Pool::new("p", 0, Arc::new(config)).expect("usable");
    for (offset, request) in requests.iter().enumerate() {
        let ids: Vec<u64> = request.page_ids.iter().map(|id| mix(id ^ mix(salt))).collect();
        let event = RequestEvent { page_ids: PageIds::from_slice(&ids), ..request.as_row().event };
        let arrival = Arrival { offset: Offset(offset as i64), counted: true, watermark: None };
        pool.observe(&event, arrival).expect("a sound request");
    }
    let mut estimates = Vec::new();
    pool.finish(Offset(REQUESTS as i64), &mut estimates);
    estimates.pop().expect("requests were counted")
}

fn required(estimate: &Estimate) -> Vec<u64> {
    estimate.required[0].coverage.iter().map(|found| found.pages.expect("within the bound")).collect()
}

#[test]
fn required_capacities_err_by_what_is_stated() {
    let requests: Vec<_> = Generator::new(Workload::default()).expect("valid").take(REQUESTS).collect();
    let exact = estimate(&requests, "1", 0);
    assert_eq!((exact.sample_error, exact.error_of(100), exact.too_few_followed()), (0.0, 0.0, None));
    let samples: Vec<_> = (1..=SAMPLES).map(|salt| estimate(&requests, "0.1", salt)).collect();
    for (coverage, truth) in required(&exact).into_iter().enumerate() {
        // In units of the error stated alongside each.
        let errors = samples.iter().map(|sample| {
            let found = required(sample)[coverage];
            let stated = sample.error_of(found);
            assert!(stated <= sample.sample_error, "one figure for all is the largest");
            (found as f64 / truth as f64 - 1.0) / stated
        });
        let squares: f64 = errors.map(|error| error * error).sum();
        let rms = (squares / SAMPLES as f64).sqrt();
        assert!((0.1..1.5).contains(&rms), "{rms} standard errors at coverage {coverage}");
    }
}
