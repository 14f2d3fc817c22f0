//! Committed estimates of a folder, as lines of a file that is rotated.

use super::log::RecordLog;
use anyhow::Context as _;
use kvset_kafka::kafka::reader::{From, ReadRecord};
use kvset_service::folder::outputs::with_suffix;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest line; an estimate is shorter by far.
const MAX_LINE: usize = 16 << 20;

/// Follows a file of lines, and what takes its place.
pub(super) struct LinesLog {
    path: PathBuf,
    /// None while the file is not there.
    file: Option<BufReader<File>>,
    /// Bytes before the line that is read.
    at: u64,
    line: Vec<u8>,
    was_at_end: bool,
}

fn opened(path: &Path) -> anyhow::Result<Option<BufReader<File>>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => Ok(Some(BufReader::new(opened.with_context(|| path.display().to_string())?))),
    }
}

impl LinesLog {
    /// From the oldest line that is kept, or from the next one.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn open(path: &Path, from: From) -> anyhow::Result<Self> {
        let former = if from == From::Beginning { opened(&with_suffix(path, ".1"))? } else { None };
        let (mut file, mut at) = (former, 0);
        if file.is_none() {
            file = opened(path)?;
        }
        if file.is_none() {
            eprintln!("note: {} is not there yet", path.display());
        }
        if let (Some(file), From::Now) = (&mut file, from) {
            at = file.seek(SeekFrom::End(0))?;
        }
        Ok(Self { path: path.to_owned(), file, at, line: Vec::new(), was_at_end: false })
    }

    /// Goes to the file that has the name now, where that is another one; it is read from its begin.
    fn turn(&mut self) -> anyhow::Result<bool> {
        let now = opened(&self.path)?;
        let id = |file: &BufReader<File>| file.get_ref().metadata().map(|it| file_id(&it));
        let is_other = match (&now, &self.file) {
            (Some(now), Some(before)) => id(now)? != id(before)?,
            (now, _) => now.is_some(),
        };
        if is_other {
            (self.file, self.at) = (now, 0);
            self.line.clear();
        }
        Ok(is_other)
    }
}

#[cfg(unix)]
fn file_id(metadata: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

/// Elsewhere a file is told by when it was made.
#[cfg(not(unix))]
fn file_id(metadata: &std::fs::Metadata) -> Option<std::time::SystemTime> {
    metadata.created().ok()
}

impl RecordLog for LinesLog {
    fn next(&mut self, timeout: Duration) -> anyhow::Result<Option<ReadRecord>> {
        if let Some(file) = &mut self.file {
            let room = (MAX_LINE - self.line.len()) as u64;
            file.take(room).read_until(b'\n', &mut self.line)?;
            if self.line.ends_with(b"\n") || self.line.len() == MAX_LINE {
                let (offset, value) = (self.at.cast_signed(), std::mem::take(&mut self.line));
                self.at += value.len() as u64;
                let (key, timestamp_ms, headers) = Default::default();
                return Ok(Some(ReadRecord {
                    partition: 0,
                    offset,
                    timestamp_ms,
                    key,
                    value: Some(value),
                    headers,
                }));
            }
        }
        if !self.turn()? {
            self.was_at_end = true;
            std::thread::sleep(timeout);
        }
        Ok(None)
    }

    fn at_end(&self) -> bool {
        self.was_at_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn all(log: &mut LinesLog) -> Vec<String> {
        log.was_at_end = false;
        let mut lines = Vec::new();
        while !log.at_end() {
            let record = log.next(Duration::ZERO).expect("readable");
            lines
                .extend(record.map(|record| String::from_utf8(record.value.expect("a line")).expect("text")));
        }
        lines
    }

    #[test]
    fn lines_are_followed_over_a_rotation_and_half_a_line_waits() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, former) = (folder.path().join("out"), folder.path().join("out.1"));
        let mut log = LinesLog::open(&path, From::Beginning).expect("nothing yet");
        assert!(all(&mut log).is_empty());
        fs::write(&path, "one\ntw").expect("written");
        assert_eq!(all(&mut log), ["one\n"]);
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, b"o\n"))
            .expect("written");
        fs::rename(&path, &former).expect("renamed");
        fs::write(&path, "three\n").expect("written");
        assert_eq!(all(&mut log), ["two\n", "three\n"]);
        let mut now = LinesLog::open(&path, From::Now).expect("there");
        assert!(all(&mut now).is_empty());
        let mut kept = LinesLog::open(&path, From::Beginning).expect("there");
        assert_eq!(all(&mut kept), ["one\n", "two\n", "three\n"]);
    }
}
