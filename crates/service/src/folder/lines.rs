//! Lines of one file, plain, compressed or those of an Avro container, as far as they are whole.

use kvset_formats::codec::{CONTAINER_MAGIC, ContainerLines};
use kvset_formats::trace::decompress;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Number;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes asked of a file at once.
const BUFFER_BYTES: usize = 256 * 1024;
/// Bytes of a line that is too long which are passed at once.
const PASSED_BYTES: u64 = 64 * 1024;
/// The byte-order mark that some editors put in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line that is no blank one, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WholeLine {
    /// Its bytes. Of one that is too long no more than shows that.
    pub bytes: Vec<u8>,
    /// Where the line before it ended, in bytes of the file as it was before it was compressed; of a container, of its
    /// events as lines of JSON.
    pub start: u64,
    /// Where the next one begins.
    pub end: u64,
}

/// What makes a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineRules {
    /// Bytes at which it is cut.
    pub most: usize,
    /// Whether a last one needs no end if it is a whole object, since its file grows no further. That of a compressed
    /// file never does.
    pub complete: bool,
}

/// Reads the lines of a file from some place on.
pub(super) struct FileLines {
    rules: LineRules,
    input: Box<dyn BufRead + Send>,
    packed: bool,
    start: u64,
    /// Bytes that were read since `start`.
    read: u64,
    line: Vec<u8>,
}

impl FileLines {
    /// Opens a file at the begin of a line.
    ///
    /// # Errors
    /// What the system says; a compressed file that ends before.
    pub fn open(path: &Path, start: u64, rules: LineRules) -> io::Result<Self> {
        let (mut input, mut packed) = decompress(File::open(path)?)?;
        if input.fill_buf()?.starts_with(&CONTAINER_MAGIC) {
            (input, packed) = (Box::new(BufReader::new(ContainerLines::open(input)?)), true);
        }
        if packed {
            if io::copy(&mut (&mut input).take(start), &mut io::sink())? < start {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        } else {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(start))?;
            input = Box::new(BufReader::with_capacity(BUFFER_BYTES, file));
        }
        Ok(Self { rules, input, packed, start, read: 0, line: Vec::new() })
    }

    /// Whether the file is compressed or a container: what is read of it are not its own bytes.
    pub fn is_packed(&self) -> bool {
        self.packed
    }

    /// Bytes of the line that has no end yet.
    pub fn unfinished(&self) -> u64 {
        self.read
    }

    /// Whether what was read last is a line without its end.
    pub fn is_within_line(&self) -> bool {
        !self.line.trim_ascii().is_empty()
    }

    /// The next line; none while it has no end.
    ///
    /// # Errors
    /// What the system says, or that compressed data is damaged or not all there.
    pub fn next(&mut self) -> io::Result<Option<WholeLine>> {
        loop {
            let room = (self.rules.most as u64 + 2).saturating_sub(self.line.len() as u64);
            let mut passed = Vec::new();
            let (into, limit) = if room > 0 { (&mut self.line, room) } else { (&mut passed, PASSED_BYTES) };
            let read = (&mut self.input).take(limit).read_until(b'\n', into)?;
            let has_end = read > 0 && into.last() == Some(&b'\n');
            self.read += read as u64;
            if read > 0 && !has_end {
                continue;
            }
            let is_last = read == 0 && (self.rules.complete || self.packed) && is_object(&self.line);
            if !has_end && !is_last {
                return Ok(None);
            }
            if self.line.iter().all(u8::is_ascii_whitespace) {
                self.line.clear();
                continue;
            }
            let mut bytes = std::mem::take(&mut self.line);
            while matches!(bytes.last(), Some(b'\n' | b'\r')) {
                bytes.pop();
            }
            if self.start == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
                bytes.drain(..BYTE_ORDER_MARK.len());
            }
            let (start, end) = (self.start, self.start + self.read);
            (self.start, self.read) = (end, 0);
            return Ok(Some(WholeLine { bytes, start, end }));
        }
    }
}

/// Whether this is a whole object, to which nothing can be added.
fn is_object(bytes: &[u8]) -> bool {
    serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(bytes).is_ok()
}

/// The part of an event that says when it was written.
#[derive(Deserialize)]
struct WrittenAt {
    event_time: Number,
    duration_ms: Option<Number>,
}

/// When an event was written, which is when its request ended, in milliseconds; the earliest time for what is no event.
pub(super) fn written_at(bytes: &[u8]) -> i64 {
    let whole = |number: &Number| number.as_f64().map_or(0, |ms| ms as i64);
    serde_json::from_slice::<WrittenAt>(bytes)
        .map_or(i64::MIN, |at| whole(&at.event_time).saturating_add(at.duration_ms.as_ref().map_or(0, whole)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all(path: &Path, start: u64, complete: bool) -> Vec<(String, u64, u64)> {
        let mut lines = FileLines::open(path, start, LineRules { most: 20, complete }).expect("there");
        let mut found = Vec::new();
        while let Some(WholeLine { bytes, start, end }) = lines.next().expect("readable") {
            found.push((String::from_utf8(bytes).expect("text"), start, end));
        }
        found
    }

    #[test]
    fn a_half_written_line_waits_for_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.jsonl");
        let mut file = File::create(&path).expect("made");
        file.write_all(b"\xef\xbb\xbf{\"a\":1}\r\n\n  \n{\"b\"").expect("written");
        let mut lines = FileLines::open(&path, 0, LineRules { most: 20, complete: true }).expect("there");
        let first = lines.next().expect("readable").expect("whole");
        assert_eq!((&first.bytes[..], first.start, first.end), (&b"{\"a\":1}"[..], 0, 12));
        assert_eq!(lines.next().expect("readable"), None, "no object is half an object");
        assert_eq!(lines.unfinished(), 8);
        lines.rules.complete = false;
        file.write_all(b":2}").expect("written");
        assert_eq!(lines.next().expect("readable"), None);
        file.write_all(b"\n").expect("written");
        let second = lines.next().expect("readable").expect("whole");
        assert_eq!((&second.bytes[..], second.start, second.end), (&b"{\"b\":2}"[..], 12, 24));
        assert_eq!(all(&path, 12, false), [("{\"b\":2}".to_owned(), 12, 24)]);
    }

    #[test]
    fn the_last_line_of_what_is_complete_needs_no_end_and_a_long_line_is_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.jsonl");
        let long = "x".repeat(100_000);
        std::fs::write(&path, format!("{long}\n{{}}")).expect("written");
        let cut = "x".repeat(22);
        assert_eq!(all(&path, 0, false), [(cut.clone(), 0, 100_001)]);
        assert_eq!(all(&path, 0, true), [(cut.clone(), 0, 100_001), ("{}".to_owned(), 100_001, 100_003)]);
    }

    #[test]
    fn an_event_is_written_when_its_request_ends() {
        assert_eq!(written_at(br#"{"event_time": 7, "page_ids": [1], "duration_ms": 5}"#), 12);
        assert_eq!(written_at(br#"{"page_ids": [], "event_time": 7}"#), 7);
        assert_eq!(written_at(b"nothing"), i64::MIN);
    }
}
