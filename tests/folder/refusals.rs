//! What keeps a folder from being followed, and what the other commands say of it.

use crate::bench::{Bench, events};
use crate::kafka_support::wait_for;
use crate::program::kvset;
use std::fs;
use std::process::Stdio;

/// Exit code and standard error of the program in the bench's place.
fn said(bench: &Bench, args: &[&str], settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = kvset(args);
    command.current_dir(bench.place.path()).env("KVSET__HTTP__LISTEN", "");
    settings.iter().for_each(|(name, value)| {
        command.env(name, value);
    });
    let output = command.output().expect("run");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[track_caller]
fn refused(bench: &Bench, args: &[&str], settings: &[(&str, &str)], parts: &[&str]) {
    let (code, text) = said(bench, args, settings);
    assert!(matches!(code, Some(1 | 2)), "{args:?}: {code:?} {text}");
    for part in parts {
        assert!(text.contains(part), "{args:?}: `{part}` is missing in {text}");
    }
}

#[test]
fn a_folder_that_cannot_be_followed_is_refused_with_what_to_do() {
    let bench = Bench::new();
    refused(&bench, &["run", "--folder", "none"], &[], &["folder of events none cannot be read", "make it"]);
    refused(&bench, &["run", "--folder", "kvset.toml"], &[], &["name the folder that it lies in"]);
    refused(
        &bench,
        &["run", "--folder", "events", "--estimates", "events/out.jsonl"],
        &[],
        &["output.file", "name one elsewhere"],
    );
    let within = bench.path("out.jsonl").display().to_string();
    refused(
        &bench,
        &["run", "--folder", "events", "--estimates", &within],
        &[],
        &["lies in the folder of events"],
    );
    let mistyped = ["run", "--folder", "events", "--estimates", "mistyped/out.jsonl", "--until-end"];
    refused(&bench, &mistyped, &[], &["its directory mistyped cannot be used", "--estimates"]);
    assert!(!bench.place.path().join("mistyped").exists(), "a mistyped path made directories");
    refused(&bench, &["run", "--estimates", "out.jsonl"], &[], &["--folder", "input.folder"]);
    refused(&bench, &["run", "--until-end"], &[], &["--folder", "input.folder"]);
    let avro = [("KVSET__OUTPUT__ENCODING", "avro")];
    refused(&bench, &["run", "--folder", "events"], &avro, &["output.encoding", "JSON lines"]);
    fs::write(bench.place.path().join("old.jsonl"), "{}\n").expect("written");
    refused(
        &bench,
        &["run", "--folder", "events", "--estimates", "old.jsonl"],
        &[],
        &["old.jsonl has estimates", "name another"],
    );
}

#[test]
fn two_processes_and_two_folders_do_not_share_one_file() {
    let bench = Bench::new();
    bench.write("a.jsonl", &events(1, 50, "m"));
    let mut child = bench.command("run", &[]).stderr(Stdio::null()).spawn().expect("started");
    let journal = bench.place.path().join("run.jsonl.positions/journal");
    wait_for(|| {
        assert_eq!(child.try_wait().expect("ours"), None, "it ended before it read the file");
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("a.jsonl"))
    });
    let second = bench.run("run");
    assert!(!second.succeeded && second.said.contains("run.jsonl.positions"), "{}", second.said);
    child.kill().expect("killed");
    child.wait().expect("gone");
    fs::create_dir(bench.place.path().join("others")).expect("made");
    refused(
        &bench,
        &["run", "--folder", "others", "--estimates", "run.jsonl", "--until-end"],
        &[("KVSET__STATE__DIRECTORY", "run-state")],
        &["run.jsonl has the estimates of folder", "for another folder"],
    );
}

#[test]
fn commands_of_topics_say_what_to_do_with_a_folder() {
    let bench = Bench::new();
    let folder = [("KVSET__INPUT__FOLDER", "events")];
    for (args, part) in [
        (&["backfill", "--from", "earliest"][..], "kvset replay"),
        (&["skip", "--partition", "0", "--offset", "1"], "mend, move or remove the file"),
        (&["run", "--create-topics"], "there are no topics"),
    ] {
        refused(&bench, args, &folder, &[part, "input.folder"]);
    }
    let (code, text) = said(&bench, &["config", "check", "--connect"], &folder);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("ok      input.folder") && text.contains("ok      output.file"), "{text}");
    assert!(!bench.place.path().join("kvset-estimates.jsonl").exists(), "nothing is left of it");
    let missing = [("KVSET__INPUT__FOLDER", "none")];
    refused(&bench, &["config", "check", "--connect"], &missing, &["FAILED  input.folder"]);
    bench.write("a.jsonl", &events(1, 50, "m"));
    assert!(bench.run("run").succeeded);
    let (code, text) = said(&bench, &["snapshot", "list", "--directory", "run-state"], &[]);
    assert!(code == Some(0) && text.contains("folder."), "{text}");
}
