//! What is committed of a folder, durable: one line a commit, written ahead of the outputs that it holds.
//!
//! A commit is its line in the journal. The line has the outputs, which are written to their files after it, so these never hold what
//! is not committed. A line that was not written whole is no commit.

use super::outputs::LinesFile;
use super::positions::{Advance, FolderPositions};
use kvset_kafka::kafka::KafkaFailure;
use kvset_pipeline::publish::FailureKind;
use kvset_snapshot::files::{DiskFiles, Files};
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
    pub outputs: [LinesFile; 2],
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    /// Bytes after it was written anew.
    begin: u64,
    files: DiskFiles,
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
        let outputs =
            [LinesFile::new(estimates, at, lines), LinesFile::new(letters, letters_at, letter_lines)];
        let files = DiskFiles::new(Some(lock));
        let mut journal = Self { identity, positions, outputs, path, file: None, bytes, begin: 0, files };
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
        for (file, (_, lines)) in self.outputs.iter_mut().zip(line.outputs) {
            file.add(lines);
        }
        if let Err(failure) = self.settle() {
            tracing::warn!("{failure}");
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), KafkaFailure> {
        for file in &mut self.outputs {
            let settled = file.settle();
            settled.map_err(|error| failed(FailureKind::Abortable, "writing", file.path(), &error))?;
        }
        Ok(())
    }

    /// Writes the journal anew, as one line. Everything is settled.
    fn write_anew(&mut self) -> io::Result<()> {
        self.file = None;
        let [estimates, letters] = &self.outputs;
        let outputs = [(estimates.committed(), String::new()), (letters.committed(), String::new())];
        let begins = Some(self.identity.clone());
        let text = line_of(&JournalLine { begins, advance: self.positions.whole(), outputs })?;
        let (directory, new) =
            (self.path.parent().unwrap_or(Path::new(".")), self.path.with_extension("new"));
        if new.exists() {
            self.files.remove(&new)?;
        }
        self.files.sync(self.files.write_new(&new, &[text.as_bytes()])?)?;
        self.files.rename(&new, &self.path)?;
        self.files.sync_dir(directory)?;
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
}
