//! Usage, help and exit codes of the program as scripts see it.

use crate::support::program::kvset;
use std::process::{Command as Process, Stdio};

/// Every command there is, with what asks for its help.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["run"],
    &["backfill"],
    &["demo"],
    &["replay"],
    &["prepare"],
    &["produce"],
    &["watch"],
    &["health"],
    &["dead-letters"],
    &["skip"],
    &["snapshot"],
    &["snapshot", "list"],
    &["snapshot", "inspect"],
    &["snapshot", "verify"],
    &["config"],
    &["config", "default"],
    &["config", "reference"],
    &["config", "check"],
    &["config", "show"],
    &["generate"],
    &["doctor"],
    &["tune"],
    &["prefixes"],
    &["model"],
    &["completions"],
    &["man"],
];

fn stdout(args: &[&str]) -> String {
    let output = kvset(args).assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn every_command_has_help_with_an_example_and_without_colours() {
    for command in COMMANDS {
        let help = stdout(&[command, &["--help"][..]].concat());
        assert!(help.contains("Usage: kvset"), "{command:?}");
        assert!(!help.contains('\u{1b}'), "{command:?} prints ANSI codes into a pipe");
        assert!(help.contains("Example"), "{command:?} shows no example");
    }
}

#[test]
fn every_command_of_the_help_is_tested() {
    let help = stdout(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in listed.take_while(|line| !line.is_empty()) {
        let name = line.split_whitespace().next().expect("a name");
        assert!(name == "help" || COMMANDS.contains(&&[name][..]), "{name} is not in COMMANDS");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_says_so_on_standard_error() {
    for args in [
        &[][..],
        &["no-such-command"],
        &["config"],
        &["config", "chek"],
        &["config", "default", "--no-such-option"],
        &["generate", "--requests", "many"],
        &["generate", "--page-size", "0"],
        &["generate", "--day", "5 fortnights"],
        &["generate", "--turns", "100000000"],
        &["backfill"],
        &["backfill", "--from", "yesterday"],
        &["backfill", "--from", "earliest", "--run-id", "../state"],
        &["backfill", "--from", "earliest", "--warm-up", "20%"],
        &["backfill", "--from", "earliest", "--output-topic", "kvset.estimates"],
        &["backfill", "--from", "earliest", "--state-dir", "kvset-state"],
        &["model", "config.json", "--kv-dtype", "int3"],
        &["model", "config.json", "--tp", "0"],
        &["completions", "no-such-shell"],
        &["health", "--url", "localhost:9464"],
        &["health", "--url", "http://me:hunter2@localhost"],
        &["health", "--url", ""],
    ] {
        let assert = kvset(args).assert().code(2);
        let output = assert.get_output();
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
        assert!(!output.stderr.contains(&0x1b), "{args:?} prints ANSI codes into a pipe");
    }
}

#[test]
fn no_color_is_honoured_and_the_version_is_known() {
    let output = kvset(&["no-such-command"]).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "0").assert().code(2);
    assert!(!output.get_output().stderr.contains(&0x1b));
    assert_eq!(stdout(&["-V"]), format!("kvset {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = Process::new(env!("CARGO_BIN_EXE_kvset"))
        .args(["generate", "--requests", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&["completions", shell]);
        assert!(script.contains("generate") && script.contains("completions"), "{shell}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let pages = directory.path().join("man1");
    assert_eq!(stdout(&["man", pages.to_str().expect("UTF-8")]), "");
    for page in ["kvset.1", "kvset-config.1", "kvset-config-check.1", "kvset-generate.1"] {
        assert!(pages.join(page).is_file(), "{page}");
    }
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("written");
    let failed = kvset(&["man", file.join("below").to_str().expect("UTF-8")]).assert().code(1);
    let said = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(said.starts_with("error: cannot write manual pages to"), "{said}");
}
