//! What is committed of a folder, durable: one line a commit, written ahead of the outputs that it holds.
//!
//! A commit is its line in the journal. The line has the outputs, which are written to their files after it, so these
//! never hold what is not committed. A line that was not written whole is no commit.

use super::newest::NewestFile;
use super::outputs::{LinesFile, replace, with_suffix};
use super::positions::{Advance, FolderPositions};
use kvset_kafka::kafka::KafkaFailure;
use kvset_pipeline::publish::FailureKind;
use kvset_snapshot::lock::acquire;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes that a journal grows by, beyond twice its state, until it is written anew.
const SLACK_BYTES: u64 = 4 << 20;

/// One line of the journal.
#[derive(Debug, Default, Serialize, Deserialize)]
struct JournalLine {
    /// Of the first line: which folder this is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    begins: Option<FolderIdentity>,
    advance: Advance,
    /// Bytes of estimates and dead letters before these lines, and the lines.
    outputs: [(u64, String); 2],
}

/// What a journal is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderIdentity {
    /// What stands for the topic in the names of snapshots and in dead letters.
    pub topic: String,
    /// The folder, as it was named first.
    pub folder: PathBuf,
}

/// The journal of a folder, held by this process alone.
pub(super) struct FolderJournal {
    pub identity: FolderIdentity,
    pub positions: FolderPositions,
    /// Estimates and dead letters.
    outputs: [LinesFile; 2],
    newest: NewestFile,
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    /// Bytes after it was written anew.
    begin: u64,
    _lock: File,
}

fn line_of(line: &JournalLine) -> io::Result<String> {
    let text = serde_json::to_string(line)?;
    Ok(format!("{:016x} {text}\n", xxh3_64(text.as_bytes())))
}

fn parse(line: &str) -> Option<JournalLine> {
    let (hash, text) = line.strip_suffix('\n')?.split_once(' ')?;
    let is_whole = u64::from_str_radix(hash, 16) == Ok(xxh3_64(text.as_bytes()));
    serde_json::from_str(text).ok().filter(|_| is_whole)
}

/// What failed, of which file, and what to do.
pub(super) fn failed(kind: FailureKind, doing: &str, path: &Path, error: &io::Error) -> KafkaFailure {
    let cure = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there",
        io::ErrorKind::ReadOnlyFilesystem => {
            "the disk is read-only: name a file elsewhere (output.file, --estimates)"
        }
        io::ErrorKind::PermissionDenied => {
            "let this user write there, or name a file elsewhere (output.file, --estimates)"
        }
        io::ErrorKind::NotFound => "make its directory",
        _ => "see to that disk",
    };
    KafkaFailure {
        kind,
        message: format!("{doing} {}: {error}; {cure}. Nothing that is committed is lost", path.display()),
    }
}

impl FolderJournal {
    /// Opens the journal in a directory, or begins one. Outputs are brought to what is committed.
    ///
    /// # Errors
    /// Another process has it; it is damaged; the disk fails.
    pub fn open(
        directory: &Path,
        paths: [PathBuf; 2],
        begins: &FolderIdentity,
    ) -> Result<Self, KafkaFailure> {
        let fatal = |doing: &str, error: &io::Error| failed(FailureKind::Fatal, doing, directory, error);
        let lock = acquire(directory).map_err(|error| KafkaFailure::fatal(error.to_string()))?;
        let path = directory.join("journal");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|error| fatal("reading positions in", &error))?,
        };
        let (mut positions, mut identity, mut outputs) =
            (FolderPositions::default(), None, [(0, String::new()), (0, String::new())]);
        let (mut bytes, mut is_rotten) = (0, false);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match std::str::from_utf8(line).ok().and_then(parse) {
                // One that was not written whole is the last.
                Some(_) if is_rotten => {
                    let message = format!(
                        "{} is damaged at byte {bytes}: bring back a copy, or remove {} and the estimates beside it, to read \
                         the folder anew",
                        path.display(),
                        directory.display()
                    );
                    return Err(KafkaFailure::fatal(message));
                }
                Some(line_read) => {
                    identity = identity.or(line_read.begins);
                    positions.apply(line_read.advance);
                    outputs = line_read.outputs;
                    bytes += line.len() as u64;
                }
                None => is_rotten = true,
            }
        }
        let is_new = identity.is_none();
        let identity = identity.unwrap_or_else(|| begins.clone());
        let [estimates, letters] = paths;
        if is_new && fs::metadata(&estimates).is_ok_and(|there| there.len() > 0) {
            let (file, positions) = (estimates.display(), directory.display());
            let message = format!(
                "{file} has estimates, and {positions}, which would say of what, is not there: move the file away, or name \
                 another (output.file, --estimates)"
            );
            return Err(KafkaFailure::fatal(message));
        }
        let [(at, lines), (letters_at, letter_lines)] = outputs;
        let mut newest = NewestFile::new(with_suffix(&estimates, ".newest"));
        if !is_new {
            let read = newest.read(&[with_suffix(&estimates, ".1"), estimates.clone()]);
            read.map_err(|error| failed(FailureKind::Fatal, "reading", newest.path(), &error))?;
        }
        newest.add(&lines);
        let outputs =
            [LinesFile::new(estimates, at, lines), LinesFile::new(letters, letters_at, letter_lines)];
        let mut journal =
            Self { identity, positions, outputs, newest, path, file: None, bytes, begin: 0, _lock: lock };
        journal.settle().map_err(|failure| KafkaFailure { kind: FailureKind::Fatal, ..failure })?;
        journal.write_anew().map_err(|error| fatal("writing positions in", &error))?;
        Ok(journal)
    }

    /// Gets ready for a commit: everything that is committed is in its file, and there is room.
    ///
    /// # Errors
    /// The disk fails; the same may be tried again.
    pub fn prepare(&mut self) -> Result<(), KafkaFailure> {
        self.settle()?;
        for file in &mut self.outputs {
            let made = file.make_room();
            made.map_err(|error| failed(FailureKind::Abortable, "making room in", file.path(), &error))?;
        }
        if self.file.is_none() || self.bytes > 2 * self.begin + SLACK_BYTES {
            let written = self.write_anew();
            written.map_err(|error| failed(FailureKind::Abortable, "writing", &self.path, &error))?;
        }
        Ok(())
    }

    /// Commits everything before `next` with what came of it.
    ///
    /// # Errors
    /// The disk fails: whether it is committed is known, unless the failure is fatal.
    pub fn commit(&mut self, next: i64, lines: [String; 2]) -> Result<(), KafkaFailure> {
        let [estimates, letters] = lines;
        let outputs = [(self.outputs[0].committed(), estimates), (self.outputs[1].committed(), letters)];
        let line = JournalLine { begins: None, advance: self.positions.until(next), outputs };
        let of = |kind| {
            let path = self.path.clone();
            move |error: io::Error| failed(kind, "writing", &path, &error)
        };
        let text = line_of(&line).map_err(of(FailureKind::Fatal))?;
        let file = self.file.as_mut().ok_or_else(|| KafkaFailure::fatal("a commit that was not begun"))?;
        if let Err(error) = file.write_all(text.as_bytes()) {
            // Half a line would be no commit, and hide the next one.
            let kind = file.set_len(self.bytes).map_or(FailureKind::Fatal, |()| FailureKind::Abortable);
            return Err(of(kind)(error));
        }
        file.sync_data().map_err(of(FailureKind::Fatal))?;
        self.bytes += text.len() as u64;
        self.positions.apply(line.advance);
        self.newest.add(&line.outputs[0].1);
        for (file, (_, lines)) in self.outputs.iter_mut().zip(line.outputs) {
            file.add(lines);
        }
        if let Err(failure) = self.settle() {
            tracing::warn!("{failure}");
        }
        Ok(())
    }

    /// Commits that files were cut off, whether or not a record follows: a start would take what is appended since
    /// for what it has read.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn keep_cuts(&mut self) -> Result<(), KafkaFailure> {
        match self.positions.committed().filter(|_| self.positions.has_new_cut()) {
            Some(next) => {
                self.prepare()?;
                self.commit(next, Default::default())
            }
            None => Ok(()),
        }
    }

    fn settle(&mut self) -> Result<(), KafkaFailure> {
        for file in &mut self.outputs {
            let settled = file.settle();
            settled.map_err(|error| failed(FailureKind::Abortable, "writing", file.path(), &error))?;
        }
        let settled = self.newest.settle();
        settled.map_err(|error| failed(FailureKind::Abortable, "writing", self.newest.path(), &error))
    }

    /// Writes the journal anew, as one line. Everything is settled.
    fn write_anew(&mut self) -> io::Result<()> {
        self.file = None;
        let [estimates, letters] = &self.outputs;
        let outputs = [(estimates.committed(), String::new()), (letters.committed(), String::new())];
        let begins = Some(self.identity.clone());
        let text = line_of(&JournalLine { begins, advance: self.positions.whole(), outputs })?;
        replace(&self.path, &text, true)?;
        self.file = Some(OpenOptions::new().append(true).open(&self.path)?);
        (self.bytes, self.begin) = (text.len() as u64, text.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> Result<FolderJournal, KafkaFailure> {
        let paths = ["out.jsonl", "letters.jsonl"].map(|name| folder.join(name));
        let begins = FolderIdentity { topic: "folder.1".to_owned(), folder: PathBuf::from("/events") };
        FolderJournal::open(&folder.join("positions"), paths, &begins)
    }

    /// Commits one line a record.
    fn commit(journal: &mut FolderJournal, number: i64) {
        let file = journal.positions.name(1, "a.jsonl");
        journal.positions.hand_out(file, number as u64, number as u64 + 1);
        journal.prepare().expect("ready");
        journal.commit(number + 1, [format!("{number}\n"), String::new()]).expect("committed");
    }

    /// A journal cut at every byte gives the commits that are whole, and their outputs.
    #[test]
    fn a_kill_at_any_byte_of_the_journal_leaves_whole_commits() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out.jsonl");
        let path = folder.path().join("positions/journal");
        let mut journal = open(folder.path()).expect("new");
        (0..3).for_each(|number| commit(&mut journal, number));
        assert!(open(folder.path()).is_err_and(|held| held.message.contains("process")), "it is held");
        drop(journal);
        let whole = fs::read(&path).expect("there");
        let ends: Vec<usize> =
            whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
        assert_eq!(ends.len(), 4);
        for cut in ends[0]..=whole.len() {
            let commits = ends.iter().filter(|end| **end <= cut).count() as i64 - 1;
            fs::write(&path, &whole[..cut]).expect("written");
            // The output that belongs to the last commit was written, in part or not at all.
            let written: String = (0..commits).map(|number| format!("{number}\n")).collect();
            fs::write(&out, &written[..written.len().saturating_sub(cut % 3)]).expect("written");
            let mut journal = open(folder.path()).unwrap_or_else(|failure| panic!("cut at {cut}: {failure}"));
            assert_eq!(journal.positions.next(), commits, "cut at {cut}");
            assert_eq!(fs::read_to_string(&out).expect("there"), written, "cut at {cut}");
            (commits..4).for_each(|number| commit(&mut journal, number));
            assert_eq!(fs::read_to_string(&out).expect("there"), "0\n1\n2\n3\n");
        }
    }

    #[test]
    fn damage_before_the_end_and_estimates_of_nobody_are_refused_with_the_way_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("positions/journal");
        let mut journal = open(folder.path()).expect("new");
        (0..2).for_each(|number| commit(&mut journal, number));
        drop(journal);
        let mut rotten = fs::read(&path).expect("there");
        rotten[20] ^= 1;
        fs::write(&path, rotten).expect("written");
        let refused = |what: &str| {
            let failure = open(folder.path()).map(drop).expect_err("refused");
            assert!(failure.message.contains(what), "{failure}");
        };
        refused("is damaged at byte 0");
        fs::remove_file(&path).expect("removed");
        refused("has estimates");
    }

    #[test]
    fn a_journal_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = open(folder.path()).expect("new");
        for number in 0..20 {
            let file = journal.positions.name(1, "a.jsonl");
            journal.positions.hand_out(file, number, number + 1);
            journal.prepare().expect("ready");
            journal.commit(number as i64 + 1, ["x".repeat(1 << 20), String::new()]).expect("committed");
        }
        let bytes = fs::metadata(folder.path().join("positions/journal")).expect("there").len();
        assert!(bytes < SLACK_BYTES + (3 << 20), "{bytes}");
    }

    type Disk = std::collections::BTreeMap<PathBuf, Vec<u8>>;

    const FILES: [&str; 6] = [
        "out.jsonl.1",
        "out.jsonl",
        "letters.jsonl.1",
        "letters.jsonl",
        "out.jsonl.newest",
        "positions/journal",
    ];

    fn disk(folder: &Path) -> Disk {
        let file = |name: &str| Some((folder.join(name), fs::read(folder.join(name)).ok()?));
        FILES.iter().filter_map(|name| file(name)).collect()
    }

    /// One state with these files as they are in another.
    fn with(mut disk: Disk, files: &[&str], other: &Disk, folder: &Path) -> Disk {
        for path in files.iter().map(|name| folder.join(name)) {
            match other.get(&path) {
                Some(bytes) => disk.insert(path, bytes.clone()),
                None => disk.remove(&path),
            };
        }
        disk
    }

    /// Lives that end at a step and a byte that a seed chooses, also between the steps of making room.
    #[test]
    fn lives_that_end_anywhere_leave_what_is_committed_and_nothing_else() {
        let only = std::env::var("KVSET_SEED").ok().map(|seed| seed.parse().expect("a number"));
        let seeds = only.map_or(0..40, |seed: u64| seed..seed + 1);
        let mut ends = [0; 8];
        for seed in seeds {
            let mut dice = seed;
            let mut below = move |end: usize| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (dice >> 33) as usize % end
            };
            let place = tempfile::tempdir().expect("a folder");
            let folder = place.path();
            let (mut expected, mut next) = ([String::new(), String::new()], 0);
            for life in 0..12 {
                let mut journal =
                    open(folder).unwrap_or_else(|failure| panic!("seed {seed}, life {life}: {failure}"));
                assert_eq!(journal.positions.next(), next, "seed {seed}, life {life}");
                for (name, all) in ["out.jsonl", "letters.jsonl"].iter().zip(&expected) {
                    let there = [".1", ""].map(|end| fs::read_to_string(folder.join(format!("{name}{end}"))));
                    let there = there.map(Result::unwrap_or_default).concat();
                    assert!(all.ends_with(&there), "seed {seed}, life {life}: {name} has {there}, not {all}");
                    assert!(all.is_empty() || !there.is_empty(), "seed {seed}, life {life}: {name} is empty");
                }
                let newest = fs::read_to_string(folder.join("out.jsonl.newest")).expect("there");
                let mut keys = std::collections::BTreeSet::new();
                let mut last: Vec<&str> =
                    expected[0].lines().rev().filter(|line| keys.insert(line.split(',').next())).collect();
                last.reverse();
                assert_eq!(newest.lines().collect::<Vec<_>>(), last, "seed {seed}, life {life}");
                journal.outputs.iter_mut().for_each(|file| file.full = 150);
                let whole = below(4);
                for number in 0..=whole {
                    let line = |at| format!("{{\"pool\":\"{}\",\"window\":\"all\",\"at\":{at}}}\n", at % 3);
                    let estimates: String = (0..below(3)).map(|more| line(10 * next + more as i64)).collect();
                    let letters = if below(2) == 0 { format!("letter {next}\n") } else { String::new() };
                    let before = disk(folder);
                    let file = journal.positions.name(1, "a.jsonl");
                    journal.positions.hand_out(file, next as u64, next as u64 + 1);
                    journal.prepare().expect("ready");
                    let ready = disk(folder);
                    journal.commit(next + 1, [estimates.clone(), letters.clone()]).expect("committed");
                    let after = disk(folder);
                    let end = if number < whole { 7 } else { below(8) };
                    ends[end] += 1;
                    if end > 3 {
                        next += 1;
                        expected[0] += &estimates;
                        expected[1] += &letters;
                    }
                    if number < whole {
                        continue;
                    }
                    // As far as it came: room for each file, the journal, the files, the newest.
                    let steps: [&[&str]; 7] = [
                        &FILES[..2],
                        &FILES[2..4],
                        &FILES[5..],
                        &FILES[5..],
                        &FILES[..2],
                        &FILES[2..4],
                        &FILES[4..5],
                    ];
                    let mut left = before;
                    for (step, files) in steps.iter().enumerate().take(end) {
                        left = with(left, files, if step < 3 { &ready } else { &after }, folder);
                    }
                    // And into the middle of the next step, where that appends to a file.
                    if (3..6).contains(&end) {
                        let path = folder.join(steps[end].last().expect("a file"));
                        let now = left.get(&path).map_or(0, Vec::len);
                        let then = after.get(&path).cloned().unwrap_or_default();
                        if then.len() > now {
                            left.insert(path, then[..now + below(then.len() - now)].to_vec());
                        }
                    }
                    for name in FILES {
                        drop(fs::remove_file(folder.join(name)));
                    }
                    for (path, bytes) in left {
                        fs::write(path, bytes).expect("written");
                    }
                }
                drop(journal);
            }
        }
        assert!(only.is_some() || ends.iter().all(|count| *count > 10), "{ends:?}");
    }
}
