//! The command itself: what it says, and what kills and signals do to a run.

use super::*;
use crate::program::kvset;
use assert_cmd::Command;
use std::process::{Child, Stdio};
use std::time::Instant;

pub(super) fn backfill(config: &Path, args: &[&str]) -> Command {
    let mut command = kvset(&["backfill", "--config"]);
    command.arg(config).args(args).timeout(PATIENCE);
    command
}

#[test]
fn the_command_says_what_it_did_and_what_was_wrong() {
    let input = generated(100);
    for bench in Bench::all(&input) {
        let config = bench.configure();
        // The mock has no admin interface to create topics with.
        bench.options("cli", "earliest", "latest", BackfillWarmUp::None);
        let page = bench.folder.path().join("report.html");
        let args = ["--from", "earliest", "--run-id", "cli", "--json", "--report"];
        let done = backfill(&config, &args).arg(&page).assert().success();
        let result: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
        assert_eq!(result["records"], input.records());
        assert_eq!(result["partitions"][1]["to"], input.records() / 2);
        assert!(result["estimates"].as_u64() > Some(10) && result["resumed"] == false, "{result}");
        assert!(std::fs::read_to_string(&page).expect("written").contains("Backfill run"));
        let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(said.contains("--run-id cli goes on with it"), "{said}");
        let again = backfill(&config, &["--from", "earliest", "--run-id", "cli"]).assert().success();
        let text = String::from_utf8_lossy(&again.get_output().stdout).into_owned();
        assert!(text.contains("complete: 0 records read"), "{text}");

        let live = bench.settings.output.topic.as_str();
        for (args, code, why) in [
            (&["--from", "earliest", "--output-topic", live][..], 2, "topic of its own"),
            (&["--from", "5", "--to", "3"], 2, "--from is after --to"),
            (&["--from", "5", "--to", "5"], 2, "no record between"),
            (&["--from", "5", "--run-id", "cli"], 2, "another --run-id"),
            (&["--from", "earliest", "--run-id", "fresh"], 1, "--create-topics"),
        ] {
            let failed = backfill(&config, args).assert().code(code);
            let said = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
            assert!(said.contains(why), "{args:?}: {said}");
            assert!(failed.get_output().stdout.is_empty(), "{args:?}");
        }
        let unknown = backfill(&config, &["--from", "earliest"])
            .env("KVSET__INPUT__TOPIC", "no-such-topic")
            .assert()
            .code(1);
        let said = String::from_utf8_lossy(&unknown.get_output().stderr).into_owned();
        assert!(said.contains("topic `no-such-topic` (input.topic) does not exist"), "{said}");
    }
}

fn spawn(config: &Path, run: &str) -> Child {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kvset"));
    command.args(["backfill", "--from", "earliest", "--run-id", run, "--config"]).arg(config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts")
}

#[test]
fn kills_leave_no_trace_in_what_a_run_published() {
    let Some(broker) = Broker::real() else { return };
    let input = generated(1500);
    let bench = Bench::on(broker);
    bench.broker.create("requests", PARTITIONS);
    bench.produce(&input);
    let live = bench.live(input.records());
    let config = bench.configure();
    let options = bench.options("killed", "earliest", "latest", BackfillWarmUp::None);
    let topics =
        [&bench.settings.output.topic, &bench.settings.output.dead_letter_topic].map(|topic| OutputTopic {
            name: format!("{topic}.backfill.{}", options.run_id),
            partitions: NonZeroU32::new(PARTITIONS).expect("not zero"),
        });
    let [estimates, dead_letters] = topics;
    let outputs = OutputTopics { results: estimates, dead_letters };
    let published = || count(&Published::read(&bench.broker, &outputs));
    let mut midway = 0;
    for _ in 0..4 {
        let before = published();
        let mut child = spawn(&config, "killed");
        let begin = Instant::now();
        while child.try_wait().expect("our child").is_none() && published() < before + count(&live) / 6 {
            assert!(begin.elapsed() < PATIENCE, "nothing is published");
        }
        midway += usize::from(child.try_wait().expect("our child").is_none());
        child.kill().and_then(|()| child.wait()).expect("our child");
    }
    assert!(midway > 1, "killed {midway} times before the end: too few");
    let done = backfill(&config, &["--from", "earliest", "--run-id", "killed", "--json"]).assert().success();
    let result: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
    assert_eq!(result["resumed"], true);
    assert!(Published::read(&bench.broker, &outputs) == live, "killed {midway} times midway");
}

#[test]
fn a_signal_stops_a_run_in_order_and_says_how_to_go_on() {
    let Some(broker) = Broker::real() else { return };
    let input = generated(1500);
    let bench = Bench::on(broker);
    bench.broker.create("requests", PARTITIONS);
    bench.produce(&input);
    let config = bench.configure();
    let backfill = bench.prepare("asked", "earliest", "latest", BackfillWarmUp::None).expect("a range");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kvset"));
    command.args(["backfill", "--from", "earliest", "--run-id", "asked", "--config"]).arg(&config);
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let begin = Instant::now();
    while count(&Published::read(&bench.broker, &backfill.plan.stream.outputs)) == 0 {
        assert!(begin.elapsed() < PATIENCE, "nothing is published");
    }
    let asked = std::process::Command::new("kill").arg(child.id().to_string()).status().expect("kill runs");
    let output = child.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(asked.success() && output.status.code() == Some(1), "{said}");
    assert!(said.contains("stopped by a signal after") && said.contains("--run-id asked goes on"), "{said}");
    let rest = bench.prepare("asked", "earliest", "latest", BackfillWarmUp::None).expect("a range");
    assert!(rest.reached.values().any(|next| next.0 > 0) && to_the_end(&rest).complete);
    let by_pool: BTreeMap<_, _> = Published::read(&bench.broker, &rest.plan.stream.outputs).estimates;
    assert_eq!(by_pool, bench.live(input.records()).estimates);
}
