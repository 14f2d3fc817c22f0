//! A history of bounded length, whatever the log's.

use crate::report_support::estimate;
use kvset::core::estimate::Estimate;
use kvset::present::pool::{EstimateHistory, HistoryRecorder};

/// Records a log of `requests` requests, one a second, except that one goes back in time.
fn recorded(requests: u64, back_at: Option<u64>) -> kvset::present::pool::PoolEstimates {
    let mut recorder = HistoryRecorder::default();
    for request in 1..=requests {
        let time = if back_at == Some(request) { 0 } else { request as i64 * 1000 };
        if recorder.is_due(request, time) {
            recorder.record(&estimate(request), request);
        }
    }
    let last = estimate(requests);
    recorder.finish((requests > 0).then_some((&last, requests)))
}

#[test]
fn points_stay_few_evenly_spaced_and_reach_the_end() {
    for requests in [0, 1, 2, 255, 256, 257, 1000, 4002, 100_003] {
        let seen: Vec<u64> =
            recorded(requests, None).points.iter().map(|point| point.requests_seen).collect();
        assert!(seen.len() <= 257, "{} points of {requests}", seen.len());
        assert!(seen.len() as u64 >= requests.min(100), "{} points of {requests}", seen.len());
        assert_eq!(seen.last().copied().unwrap_or(0), requests);
        let gaps: Vec<u64> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let even = gaps.split_last().map_or(&[][..], |(_, even)| even);
        assert!(even.windows(2).all(|pair| pair[0] == pair[1]), "uneven: {gaps:?}");
    }
}

#[test]
fn a_log_that_goes_back_in_time_has_no_time_axis() {
    assert!(recorded(1000, None).points.iter().all(|point| point.span_ms.is_some()));
    assert!(recorded(1000, Some(700)).points.iter().all(|point| point.span_ms.is_none()));
}

/// The history of so many estimates of this kind of window, ten requests each.
fn published(estimates: i64, window: &str) -> kvset::present::pool::PoolEstimates {
    let mut history = EstimateHistory::of_at_most(16);
    for index in 1..=estimates {
        let window = window.parse().expect("a window");
        history.add(&Estimate { window, end_ms: index * 1000, requests: 10, ..estimate(1) });
    }
    history.history()
}

#[test]
fn published_estimates_stay_few_evenly_spaced_and_end_with_the_newest() {
    for estimates in [0, 1, 16, 17, 33, 1000, 12_345] {
        let points = published(estimates, "tumbling:1s").points;
        let ends: Vec<i64> = points.iter().filter_map(|point| Some(point.span_ms?.1)).collect();
        assert!(ends.len() <= 17 && ends.len() as i64 >= estimates.min(8), "{ends:?} of {estimates}");
        assert_eq!(ends.last().copied().unwrap_or(0), estimates * 1000);
        let gaps: Vec<i64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let even = gaps.split_last().map_or(&[][..], |(_, even)| even);
        assert!(even.windows(2).all(|pair| pair[0] == pair[1]), "uneven: {gaps:?}");
        assert_eq!(points.last().map_or(0, |point| point.requests_seen), estimates as u64 * 10);
    }
}

#[test]
fn overlapping_windows_do_not_tell_how_many_requests_were_seen() {
    let seen = |window: &str| published(40, window).points.last().map(|point| point.requests_seen);
    assert_eq!(seen("tumbling:1s"), Some(400));
    assert_eq!(seen("all"), Some(10), "it holds every request itself");
    assert_eq!(seen("last:10"), Some(0));
}
