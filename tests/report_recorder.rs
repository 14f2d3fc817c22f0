//! A history of bounded length, whatever the log's.

mod report_support;

use kvset::report::HistoryRecorder;
use report_support::estimate;

/// Records a log of `requests` requests, one a second, except that one goes back in time.
fn recorded(requests: u64, back_at: Option<u64>) -> kvset::report::History {
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
