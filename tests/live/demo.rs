//! The page and the API over the real program: what the demonstration commits is what they show.

use crate::live_support::get;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Killed when dropped.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_demonstration_serves_what_it_commits() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvset"));
    command.args(["demo", "--duration", "5m", "--json", "--listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut demo = Demo(command.spawn().expect("the program starts"));
    let said = BufReader::new(demo.0.stderr.take().expect("piped"));
    // Kept open: a program that cannot say what it has to would end.
    let mut said = said.lines();
    let address = said
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| Some(line.strip_prefix("live page on ")?.trim_end_matches('/').to_owned()));
    let address = address.expect("it says where");
    let begin = Instant::now();
    let shown = loop {
        let answer = get(&address, "/api/v1/estimates?pool=coding/eu&window=all", None).json();
        if let Some(estimate) = answer["estimates"].get(0) {
            break estimate.clone();
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "no estimate was shown");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(shown["requests"].as_u64().is_some_and(|requests| requests > 0), "{shown}");
    let overview = get(&address, "/api/v1/pools", None).json();
    let names: Vec<_> =
        overview["pools"].as_array().expect("a list").iter().map(|pool| &pool["pool"]).collect();
    assert_eq!(names, ["agents/us", "coding/eu"]);
    assert_eq!(overview["partitions"].as_array().map(Vec::len), Some(2));
    assert!(get(&address, "/?pool=coding/eu", None).body.contains("Pool coding/eu"));
    assert!(get(&address, "/metrics", None).body.contains("kvset_window_requests"));
}
