//! A file of committed lines: what is in it is what the journal says, whenever the process was killed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Size from which on the file makes room for the next one.
const FULL_BYTES: u64 = 64 << 20;

/// Lines that are committed, and where in the file they belong.
#[derive(Debug, Default)]
pub(super) struct LinesFile {
    path: PathBuf,
    /// Bytes before `unsettled`.
    bytes: u64,
    /// Committed, and maybe not in the file yet.
    unsettled: String,
    pub(super) full: u64,
}

/// A path with more behind its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn length(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// How a file is opened for writing: for its owner and whom the owner's group lets read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options
}

/// Puts a text in the place of a file: whoever reads it finds the former one or this one, and if it is `durable` also
/// after the machine stopped.
///
/// # Errors
/// What the system says; the former one is there then.
pub(super) fn replace(path: &Path, text: &str, durable: bool) -> io::Result<()> {
    let new = with_suffix(path, ".new");
    let mut file = private().truncate(true).open(&new)?;
    file.write_all(text.as_bytes())?;
    if durable {
        file.sync_all()?;
    }
    fs::rename(&new, path)?;
    if durable { sync_names(path) } else { Ok(()) }
}

/// Makes the names in the directory of a file durable.
fn sync_names(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if cfg!(unix) { File::open(directory.unwrap_or(Path::new(".")))?.sync_all() } else { Ok(()) }
}

impl LinesFile {
    /// A file of which so much is committed, the last of it these lines.
    pub fn new(path: PathBuf, bytes: u64, unsettled: String) -> Self {
        Self { path, bytes, unsettled, full: FULL_BYTES }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of everything committed.
    pub fn committed(&self) -> u64 {
        self.bytes + self.unsettled.len() as u64
    }

    /// These lines are committed behind all others.
    pub fn add(&mut self, lines: String) {
        self.unsettled += &lines;
    }

    /// Brings the file to what is committed: what a process that was killed did not write is written, and what is no
    /// line of ours is cut off. One that somebody else has removed begins anew.
    ///
    /// # Errors
    /// What the system says, or that the file has lost lines.
    pub fn settle(&mut self) -> io::Result<()> {
        let former = with_suffix(&self.path, ".1");
        let found = match length(&self.path)? {
            // Killed between two steps of making room.
            None if self.committed() > 0 && length(&former)? == Some(self.committed()) => {
                fs::rename(&former, &self.path)?;
                sync_names(&self.path)?;
                self.committed()
            }
            found => found.unwrap_or(0),
        };
        if found < self.bytes {
            if found > 0 {
                let (bytes, path) = (self.bytes, self.path.display());
                return Err(io::Error::other(format!(
                    "{path} has {found} of its {bytes} committed bytes: bring it back, or move it away to begin another"
                )));
            }
            tracing::warn!("{} was removed or emptied: it begins anew", self.path.display());
            (self.bytes, self.unsettled) = (0, String::new());
        }
        if found == self.committed() && self.unsettled.is_empty() {
            return Ok(());
        }
        let mut file = private().read(true).truncate(false).open(&self.path)?;
        let written = found.saturating_sub(self.bytes).min(self.unsettled.len() as u64);
        file.seek(SeekFrom::Start(self.bytes))?;
        let mut there = Vec::new();
        (&file).take(written).read_to_end(&mut there)?;
        if !self.unsettled.as_bytes().starts_with(&there) || found > self.committed() {
            tracing::warn!("{}: what was not committed is cut off", self.path.display());
        }
        file.seek(SeekFrom::Start(self.bytes))?;
        file.write_all(self.unsettled.as_bytes())?;
        file.set_len(self.committed())?;
        file.sync_all()?;
        if found == 0 {
            sync_names(&self.path)?;
        }
        (self.bytes, self.unsettled) = (self.committed(), String::new());
        Ok(())
    }

    /// Puts a full file, all of which is settled, in the place of the former one.
    ///
    /// # Errors
    /// What the system says.
    pub fn make_room(&mut self) -> io::Result<()> {
        if self.bytes < self.full {
            return Ok(());
        }
        fs::rename(&self.path, with_suffix(&self.path, ".1"))?;
        sync_names(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_file_is_brought_to_what_is_committed_from_wherever_a_kill_left_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.jsonl");
        for left in ["one\n", "one\ntw", "one\ntwo\n", "one\ntwo\nmore", "one\nxxxxxxx"] {
            fs::write(&path, left).expect("written");
            let mut file = LinesFile::new(path.clone(), 4, "two\n".to_owned());
            file.settle().expect("settled");
            assert_eq!((text(&path).as_str(), file.committed()), ("one\ntwo\n", 8), "{left:?}");
            file.add("three\n".to_owned());
            file.settle().expect("settled");
            assert_eq!(text(&path), "one\ntwo\nthree\n");
        }
        fs::write(&path, "on").expect("written");
        let lost = LinesFile::new(path.clone(), 4, String::new()).settle().expect_err("lines are gone");
        assert!(lost.to_string().contains("has 2 of its 4 committed bytes"), "{lost}");
        fs::remove_file(&path).expect("removed");
        let mut anew = LinesFile::new(path.clone(), 4, String::new());
        anew.settle().expect("begun anew");
        anew.add("four\n".to_owned());
        anew.settle().expect("settled");
        assert_eq!((text(&path).as_str(), anew.committed()), ("four\n", 5));
    }

    #[test]
    fn a_full_file_makes_room_and_a_kill_in_between_takes_that_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.jsonl");
        let mut file = LinesFile { full: 4, ..LinesFile::new(path.clone(), 0, "one\n".to_owned()) };
        file.settle().expect("settled");
        file.make_room().expect("moved");
        assert_eq!(
            (file.committed(), path.exists(), text(&with_suffix(&path, ".1")).as_str()),
            (0, false, "one\n")
        );
        // The journal says four bytes still.
        LinesFile::new(path.clone(), 4, String::new()).settle().expect("settled");
        assert_eq!((text(&path).as_str(), with_suffix(&path, ".1").exists()), ("one\n", false));
        file.make_room().expect("it is not full");
        fs::rename(&path, with_suffix(&path, ".1")).expect("moved");
        file.add("two\n".to_owned());
        file.settle().expect("settled");
        assert_eq!(text(&path), "two\n");
    }
}
