//! `kvset snapshot` as a script sees it.

use assert_cmd::Command;
use kvset::pipeline::facts::{Fingerprint, PartitionId, SnapshotFact};
use kvset::pipeline::resume::{LostHistory, ResumeFacts, StartFrom, decide};
use kvset::pipeline::task::PartitionTask;
use kvset::position::{LogRange, NextOffset, Partition};
use kvset::service::plan::task_config;
use kvset::settings::Settings;
use kvset::snapshot::capture::capture;
use kvset::snapshot::directory::DirectoryStore;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::store::SnapshotStore;
use std::num::NonZeroUsize;
use std::sync::Arc;

fn kvset(directory: &std::path::Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvset"));
    let output = command.arg("snapshot").args(arguments).arg("--directory").arg(directory).output();
    let output = output.expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

#[test]
fn sound_and_rotten_snapshots_are_told_by_exit_code_and_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = DirectoryStore::open(folder.path(), NonZeroUsize::MIN).expect("nobody else is here");
    let saved = service.save(&Snapshot {
        partition: PartitionId::new("requests", 3).expect("a legal name"),
        fact: SnapshotFact { next_offset: NextOffset(7), fingerprint: Fingerprint(1), last_record: None },
        body: vec![1, 2, 3].into(),
    });
    let path = saved.expect("a disk").place;
    // The service runs on: looking needs no lock.
    let (code, out, err) = kvset(folder.path(), &["list"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("requests-3") && out.ends_with("1 snapshot, 0 unsound\n"), "{out}");
    assert_eq!(kvset(folder.path(), &["inspect", "requests-3", "--at", "7"]).0, 0);
    assert_eq!(kvset(folder.path(), &["verify", "--partition", "requests-3"]).0, 0);

    let mut bytes = std::fs::read(&path).expect("the file");
    *bytes.last_mut().expect("a body") ^= 1;
    std::fs::write(&path, bytes).expect("a disk");
    let (code, out, err) = kvset(folder.path(), &["verify", "--json"]);
    assert_eq!((code, err.as_str()), (1, "error: 1 unsound, as listed\n"));
    let found: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let problem = found["snapshots"][0]["problem"].as_str().expect("a problem");
    assert!(problem.contains("the body does not match its checksum"), "{problem}");
    assert_eq!(kvset(folder.path(), &["list"]).0, 0, "its header is sound");
}

/// The state of a partition that has seen nothing yet.
fn empty_task() -> Vec<u8> {
    let facts = ResumeFacts {
        committed: None,
        log: LogRange { start: NextOffset(0), end: NextOffset(0) },
        snapshots: &[],
        parked: None,
        start: StartFrom::Earliest,
        lost_history: LostHistory::Refuse,
    };
    let resume = decide(&facts).expect("a fresh start");
    let config = Arc::new(task_config(&Settings::default()).expect("usable"));
    capture(&PartitionTask::new(config, Partition(3), &resume).image(), Vec::new()).expect("bytes")
}

#[test]
fn states_of_this_configuration_are_decoded_and_others_only_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = DirectoryStore::open(folder.path(), NonZeroUsize::MAX).expect("nobody else is here");
    let own = Fingerprint(Settings::default().fingerprint());
    let cases = [(7, own, empty_task()), (8, Fingerprint(1), vec![255; 3]), (9, own, vec![255; 3])];
    for (next_offset, fingerprint, body) in cases {
        let partition = PartitionId::new("requests", 3).expect("a legal name");
        let fact = SnapshotFact { next_offset: NextOffset(next_offset), fingerprint, last_record: None };
        service.save(&Snapshot { partition, fact, body: body.into() }).expect("a disk");
    }
    let (code, out, err) = kvset(folder.path(), &["verify", "--json"]);
    assert_eq!((code, err.as_str()), (1, "error: 1 unsound, as listed\n"));
    let found: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let [rotten, other, sound] = [0, 1, 2].map(|index| &found["snapshots"][index]);
    let problem = rotten["problem"].as_str().expect("a problem");
    assert!(problem.contains("is not the state this program keeps"), "{problem}");
    assert_eq!((rotten["verified"].as_str(), other["verified"].as_str()), (None, Some("checksums")));
    assert_eq!((sound["verified"].as_str(), sound["problem"].as_str()), (Some("state"), None));
    let (code, out, _) = kvset(folder.path(), &["inspect", "requests-3", "--at", "8"]);
    assert!(code == 0 && out.ends_with("state          sound checksums\n"), "{out}");
}

#[test]
fn what_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(kvset(folder.path(), &["list"]).1, "no snapshots\n");
    let (code, _, err) = kvset(folder.path(), &["inspect", "requests-3"]);
    assert_eq!(code, 1);
    assert!(err.starts_with("error: no such snapshot of requests-3: "), "{err}");
    let (code, _, err) = kvset(&folder.path().join("nowhere"), &["list"]);
    assert_eq!(code, 2);
    assert!(err.contains("name one with --directory"), "{err}");
    assert_eq!(kvset(folder.path(), &["inspect", "requests"]).0, 2, "no partition");
}
