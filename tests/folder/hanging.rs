//! What waits for ever in a folder: a pipe that nobody writes to, and a file that its mount does not open.

use crate::bench::{Bench, events, lines};
use crate::program::kvset;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What holds a lease on the file at its first argument: whoever opens the file waits, as on a mount that hangs.
const LEASE: &str = "\
import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
held = open(sys.argv[1], 'r+b')
fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
sys.stdin.read()
";

#[test]
#[cfg(unix)]
fn a_pipe_is_passed_over_and_named() {
    let bench = Bench::new();
    bench.write("a.jsonl", &events(1, 50, "m"));
    assert!(Command::new("mkfifo").arg(bench.path("x.jsonl")).status().expect("run").success());
    let ran = bench.run("run");
    assert_eq!((ran.succeeded, ran.records), (true, 50), "{}", ran.said);
    assert!(ran.said.contains("x.jsonl is not read: it is no regular file"), "{}", ran.said);
}

/// Begins to hold a file; ends with its standard input.
fn hold(path: &Path) -> Child {
    let mut command = Command::new("python3");
    command.args(["-c", LEASE]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = command.spawn().expect("started");
    let mut said = String::new();
    BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut said).expect("readable");
    assert_eq!(said, "held\n", "no lease on {}", path.display());
    holder
}

/// A service whose read hung was live and ready for ever.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_hangs_is_seen_by_health_and_read_when_it_answers() {
    let (bench, events) = (Bench::new(), events(2, 100, "m"));
    bench.write("a.jsonl", &events[..50]);
    let log = bench.place.path().join("run.log");
    let mut command = bench.command("run", &[]);
    command.env("KVSET__HTTP__LISTEN", "127.0.0.1:0").env("KVSET__HTTP__LIVE_WITHIN", "1s");
    let mut child = command.stderr(std::fs::File::create(&log).expect("made")).spawn().expect("started");
    let begin = Instant::now();
    let wait = |what: &str, until: &dyn Fn() -> bool| {
        while !until() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{what}: {:?}", lines(&log));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let address = || {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        Some(said.split_once("serving on ")?.1.split_whitespace().next()?.to_owned())
    };
    wait("serves", &|| address().is_some());
    let url = address().expect("an address");
    let health = |more: &[&str]| {
        let output = kvset(&[&["health", "--url", &url], more].concat()).output().expect("run");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    wait("ready", &|| health(&[]).0 && health(&["--live"]).0);
    // Under another name, so that nobody opens it before it is held.
    bench.write("b.txt", &events[50..]);
    let mut holder = hold(&bench.path("b.txt"));
    std::fs::rename(bench.path("b.txt"), bench.path("b.jsonl")).expect("renamed");
    for more in [&[][..], &["--live"]] {
        wait("seen", &|| health(more).1.contains("the poll loop has not turned"));
    }
    drop(holder.stdin.take());
    assert!(holder.wait().expect("ended").success());
    wait("goes on", &|| health(&[]).0 && bench.log_of("run").lines().count() == 100);
    child.kill().expect("killed");
    child.wait().expect("gone");
}
