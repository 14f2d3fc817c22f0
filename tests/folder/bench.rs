//! A folder of events, and what a run of the program over it leaves.

use crate::program::kvset;
use kvset::codec::{RequestEncoding, encode_request};
use kvset::commands::produce::producing::message_of;
use kvset::workload::{Generator, Workload};
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Windows that close often, and snapshots and commits as often as they may.
pub const SETTINGS: &str = "\
[estimate]
windows = [\"tumbling:1m\", \"last:100\", \"all\"]
[commit]
every = \"20ms\"
[state]
checkpoint_every = \"1s\"
[dead_letters]
max_share = 1.0
[http]
listen = \"\"
";

/// Request events of a pool, as lines of JSON in the order of their times.
pub fn events(seed: u64, count: usize, pool: &str) -> Vec<String> {
    let workload = Workload { seed, start_ms: 36_000_000, ..Workload::default() };
    let rows = Generator::new(workload).expect("a workload").take(count);
    rows.map(|request| {
        let mut value = Vec::new();
        encode_request(&message_of(&request.as_row()), RequestEncoding::Json, &mut value).expect("encodes");
        let mut event: Value = serde_json::from_slice(&value).expect("JSON");
        event["pool"] = pool.into();
        // In the order of their times, whatever they took.
        event.as_object_mut().expect("an object").remove("duration_ms");
        event.to_string()
    })
    .collect()
}

/// What a run said and came to.
#[derive(Debug)]
pub struct Ran {
    pub said: String,
    pub succeeded: bool,
    pub records: u64,
}

/// A place with a folder, a configuration, and the files of a run.
pub struct Bench {
    pub place: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        let place = tempfile::tempdir().expect("a directory");
        fs::create_dir(place.path().join("events")).expect("made");
        fs::write(place.path().join("kvset.toml"), SETTINGS).expect("written");
        Self { place }
    }

    pub fn events(&self) -> PathBuf {
        self.place.path().join("events")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.events().join(name)
    }

    pub fn write(&self, name: &str, lines: &[String]) {
        fs::write(self.path(name), joined(lines)).expect("written");
    }

    pub fn append(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path(name)).expect("opened");
        file.write_all(text.as_bytes()).expect("written");
    }

    /// The program over the folder, with files of this name.
    pub fn command(&self, run: &str, more: &[&str]) -> Command {
        let prepared = kvset(&[&["run", "--config", "kvset.toml", "--folder", "events"], more].concat());
        let mut command = Command::new(prepared.get_program());
        command.args(prepared.get_args()).arg("--estimates").arg(format!("{run}.jsonl"));
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KVSET")).for_each(
            |(name, _)| {
                command.env_remove(name);
            },
        );
        command.current_dir(self.place.path()).env("KVSET__STATE__DIRECTORY", format!("{run}-state"));
        command
    }

    /// Runs to the end of what is there.
    pub fn run(&self, run: &str) -> Ran {
        let output = self.command(run, &["--until-end"]).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let records = said.split(" records processed").next().and_then(|text| text.split(": ").last());
        let records = records.map_or(0, |text| text.replace(',', "").parse().unwrap_or_default());
        Ran { said, succeeded: output.status.success(), records }
    }

    /// The estimates of a run, and its dead letters.
    pub fn published(&self, run: &str) -> [Vec<String>; 2] {
        ["", ".dead-letters"].map(|suffix| lines(&self.place.path().join(format!("{run}.jsonl{suffix}"))))
    }

    /// What a compacted topic would have of a run's estimates, and what its file of the newest says.
    pub fn newest(&self, run: &str) -> [Vec<String>; 2] {
        let mut newest: Vec<String> = Vec::new();
        let key = |line: &str| {
            let estimate: Value = serde_json::from_str(line).expect("JSON");
            [estimate["pool"].to_string(), estimate["window"].to_string()]
        };
        for line in &self.published(run)[0] {
            newest.retain(|other| key(other) != key(line));
            newest.push(line.clone());
        }
        [newest, lines(&self.place.path().join(format!("{run}.jsonl.newest")))]
    }

    /// The log in the order in which a run took it, as its journal says; from files that are all there.
    pub fn log_of(&self, run: &str) -> String {
        let journal = self.place.path().join(format!("{run}.jsonl.positions/journal"));
        let (mut names, mut log) = (std::collections::BTreeMap::new(), String::new());
        let entries: Vec<Value> = lines(&journal)
            .iter()
            .map(|line| serde_json::from_str(line.split_once(' ').expect("a hash").1).expect("JSON"))
            .collect();
        for entry in &entries {
            for file in entry["advance"]["files"].as_array().expect("files") {
                names.insert(file["id"].as_u64(), file["name"].as_str().expect("a name").to_owned());
            }
        }
        for entry in &entries {
            for stretch in entry["advance"]["stretches"].as_array().expect("stretches") {
                let text = fs::read_to_string(self.path(&names[&stretch["file"].as_u64()])).expect("there");
                let at = |name: &str| stretch[name].as_u64().expect("a number") as usize;
                log += &text[at("start")..at("end")];
            }
        }
        log
    }
}

pub fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

pub fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
