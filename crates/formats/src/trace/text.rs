//! Text of whole lines, read many at a time.

use crate::census::RowSample;
use memchr::{memchr, memrchr};
use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

/// The byte-order mark that some editors put in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The longest line end, `\r\n`.
const END_BYTES: usize = 2;
/// Bytes asked of the input at once: so many that a buffered one reads them straight into the text.
const READ_BYTES: usize = 256 * 1024;
/// Bytes asked at first, twice as many each time: a row that is read by itself needs no more.
const FIRST_BYTES: usize = 4 * 1024;
/// Bytes of a text that is looked at before it is read: a processor's cache holds it.
const LOOK_BYTES: usize = if cfg!(test) { 8 } else { 1 << 20 };

/// Which UTF-16 a file that begins so is in, by the name that iconv has for it: by its byte-order mark, or, where tools
/// leave that out, by a zero behind or in front of each of two letters.
pub(super) fn utf16(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [1..=0x7f, 0, 1..=0x7f, 0, ..] => Some("UTF-16LE"),
        [0, 1..=0x7f, 0, 1..=0x7f, ..] => Some("UTF-16BE"),
        _ => None,
    }
}

/// Whether a line is a comment, which JSON has none of. What Prometheus writes in front of its metrics says what it is.
pub(super) fn is_comment(line: &[u8]) -> bool {
    let is_of_metrics = || [&b"# HELP "[..], b"# TYPE "].iter().any(|head| line.starts_with(head));
    line.starts_with(b"//") || (line.starts_with(b"#") && !is_of_metrics())
}

/// Whole lines, each but the last with its end; kept for its memory.
#[derive(Default)]
pub(super) struct Text {
    /// The text, and what was read into before.
    bytes: Vec<u8>,
    filled: usize,
}

impl Text {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Reads on behind what there is; returns how many bytes the input gave, which do not count yet.
    fn read_behind(&mut self, input: &mut dyn BufRead) -> io::Result<usize> {
        let end = self.filled + self.bytes.len().clamp(FIRST_BYTES, READ_BYTES);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        loop {
            match input.read(&mut self.bytes[self.filled..end]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Replaces the text.
    fn set(&mut self, bytes: &[u8]) {
        if self.bytes.len() < bytes.len() {
            self.bytes.resize(bytes.len(), 0);
        }
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.filled = bytes.len();
    }
}

/// Reads a stream as texts, one after the other.
pub(super) struct Texts {
    input: Box<dyn BufRead + Send>,
    /// Texts to be read before all others: those that were looked at or [given back](Self::give_back).
    ahead: VecDeque<Text>,
    /// What was read behind the last text that came from the input: the begin of a line.
    rest: Vec<u8>,
    limit: usize,
    /// Whether what comes next is still of a line that is too long.
    skips: bool,
    begun: bool,
    /// Why the stream cannot be read on, or that it is at its end.
    ended: Option<io::Result<()>>,
    /// What looks at the rows that are read.
    sample: Option<Arc<Mutex<RowSample>>>,
}

impl Texts {
    /// Texts with lines of at most `limit` bytes, ends not counted. Of a longer one they have no more than shows that.
    pub fn new(input: Box<dyn BufRead + Send>, limit: usize) -> Self {
        let (ahead, rest) = (VecDeque::new(), Vec::new());
        Self { input, ahead, rest, limit, skips: false, begun: false, ended: None, sample: None }
    }

    /// Reads on through another stream, which begins where this one's is.
    pub fn through<E>(
        &mut self,
        other: impl FnOnce(Box<dyn BufRead + Send>) -> Result<Box<dyn BufRead + Send>, E>,
    ) -> Result<(), E> {
        let input = std::mem::replace(&mut self.input, Box::new(io::empty()));
        self.input = other(input)?;
        Ok(())
    }

    /// Shows the rows of every text that is read from now on.
    pub fn watch(&mut self, sample: Arc<Mutex<RowSample>>) {
        self.sample = Some(sample);
    }

    /// The longest line that is read, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Has the last text's lines from there on read once more.
    pub fn give_back(&mut self, lines: &[u8]) {
        if !lines.is_empty() {
            let mut text = Text::default();
            text.set(lines);
            self.ahead.push_front(text);
        }
    }

    /// Shows `look` the texts to come, until it breaks or has seen so many bytes; they are still to come then, as
    /// they lie.
    pub fn look_ahead(&mut self, bytes: usize, mut look: impl FnMut(&[u8]) -> ControlFlow<()>) {
        let (mut seen, mut ahead) = (0, VecDeque::new());
        while seen < bytes {
            let mut text = Text::default();
            match self.next(&mut text, LOOK_BYTES) {
                Ok(true) => {}
                Ok(false) => break,
                // Whoever reads up to there meets it.
                Err(error) => {
                    self.ended = Some(Err(error));
                    break;
                }
            }
            seen += text.filled;
            let flow = look(text.as_bytes());
            ahead.push_back(text);
            if flow.is_break() {
                break;
            }
        }
        ahead.append(&mut self.ahead);
        self.ahead = ahead;
    }

    /// Reads lines of so many bytes or some more, fewer only where nothing follows, or more of a line that is too
    /// long, or where they were looked at before; false where none is left.
    ///
    /// # Errors
    /// The stream cannot be read on. All whole lines before that were read, and there are none after it.
    pub fn read(&mut self, text: &mut Text, bytes: usize) -> io::Result<bool> {
        let has_lines = self.next(text, bytes)?;
        if let Some(sample) = self.sample.as_ref().filter(|_| has_lines) {
            sample.lock().unwrap_or_else(PoisonError::into_inner).add_lines(text.as_bytes(), self.limit);
        }
        Ok(has_lines)
    }

    /// The next text.
    fn next(&mut self, text: &mut Text, bytes: usize) -> io::Result<bool> {
        if let Some(ahead) = self.ahead.pop_front() {
            *text = ahead;
            return Ok(true);
        }
        text.set(&self.rest);
        self.rest.clear();
        let (mut lines, mut searched) = (0, 0);
        loop {
            if let Some(end) = memrchr(b'\n', &text.as_bytes()[searched..]) {
                lines = searched + end + 1;
            }
            searched = text.filled;
            if text.filled - lines > self.limit.saturating_add(END_BYTES) {
                self.cut(text, lines);
                lines = text.filled;
                break;
            }
            if self.ended.is_some() || (lines > 0 && lines >= bytes) {
                break;
            }
            searched -= self.read_on(text);
        }
        match &self.ended {
            None => self.rest.extend_from_slice(&text.as_bytes()[lines..]),
            Some(Ok(())) => lines = text.filled,
            // What came of the line that breaks off is nobody's.
            Some(Err(_)) => {}
        }
        text.filled = lines;
        match &mut self.ended {
            Some(ended) if lines == 0 => std::mem::replace(ended, Ok(())).map(|()| false),
            _ => Ok(true),
        }
    }

    /// Appends what the input gives next, but for what is left of a line that is too long; returns how many bytes of
    /// the text before were taken away.
    fn read_on(&mut self, text: &mut Text) -> usize {
        let count = match text.read_behind(&mut self.input) {
            Ok(count @ 1..) => count,
            ended => {
                self.ended = Some(ended.map(|_| ()));
                return 0;
            }
        };
        let begin = text.filled;
        let read = &mut text.bytes[begin..begin + count];
        let mut skipped = 0;
        if self.skips {
            let end = memchr(b'\n', read);
            self.skips = end.is_none();
            skipped = end.map_or(count, |end| end + 1);
            read.copy_within(skipped.., 0);
        }
        text.filled += count - skipped;
        if self.begun || BYTE_ORDER_MARK.starts_with(text.as_bytes()) && text.filled < BYTE_ORDER_MARK.len() {
            return 0;
        }
        self.begun = true;
        match text.as_bytes().strip_prefix(BYTE_ORDER_MARK).map(<[u8]>::len) {
            Some(length) => {
                text.bytes.copy_within(BYTE_ORDER_MARK.len()..text.filled, 0);
                text.filled = length;
                begin
            }
            None => 0,
        }
    }

    /// Leaves of the line that begins there, whose end was not found, what shows that it is too long.
    fn cut(&mut self, text: &mut Text, begin: usize) {
        text.filled = begin + self.limit + END_BYTES + 1;
        text.bytes[text.filled - 1] = b'\n';
        self.skips = true;
    }
}

/// A line of a text that is not blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextLine {
    /// Where it lies, without its end.
    Whole(Range<usize>),
    /// Longer than the limit.
    TooLong,
}

/// A way through the lines of a text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LineWalk {
    /// Where the next line begins.
    pub next: usize,
    /// Lines passed, blank ones and comments too.
    pub number: u64,
    /// Comments among them.
    pub comments: u64,
}

impl LineWalk {
    /// Adds what another text had.
    pub fn add(&mut self, other: Self) {
        self.number += other.number;
        self.comments += other.comments;
    }

    /// Goes to the next line that is neither blank nor a comment, if there is one; none may have more than `limit`
    /// bytes.
    pub fn step(&mut self, text: &[u8], limit: usize) -> Option<TextLine> {
        while self.next < text.len() {
            let begin = self.next;
            let end = memchr(b'\n', &text[begin..]);
            self.next = end.map_or(text.len(), |end| begin + end + 1);
            self.number += 1;
            let line = &text[begin..self.next];
            let content = line.trim_ascii_end();
            let most = limit.saturating_add(END_BYTES) - usize::from(end.is_none());
            if line.len() > most || content.len() > limit {
                return Some(TextLine::TooLong);
            }
            let start = content.trim_ascii_start();
            if is_comment(start) {
                self.comments += 1;
            } else if !start.is_empty() {
                return Some(TextLine::Whole(begin..begin + content.len()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{BufReader, Read};

    /// Gives at most so many bytes at once, and an error behind all of them where one is wanted.
    struct Slow {
        bytes: Vec<u8>,
        at: usize,
        at_once: usize,
        breaks: bool,
    }

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(self.at_once).min(self.bytes.len() - self.at);
            if count == 0 && self.breaks {
                return Err(io::Error::other("broken"));
            }
            buffer[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
            self.at += count;
            Ok(count)
        }
    }

    fn texts(bytes: &[u8], at_once: usize, limit: usize, breaks: bool) -> Texts {
        let slow = Slow { bytes: bytes.to_vec(), at: 0, at_once, breaks };
        Texts::new(Box::new(BufReader::with_capacity(1, slow)), limit)
    }

    /// Number and content of each line, nothing of a long one.
    type Told = Vec<(u64, Option<Vec<u8>>)>;

    /// The lines, and whether the stream broke.
    fn lines(mut texts: Texts, bytes: usize) -> (Told, bool) {
        let (limit, mut text, mut found, mut before) = (texts.limit(), Text::default(), Vec::new(), 0);
        loop {
            match texts.read(&mut text, bytes) {
                Ok(true) => {}
                Ok(false) => return (found, false),
                Err(_) => {
                    assert!(!texts.read(&mut text, bytes).expect("an error is told once"));
                    return (found, true);
                }
            }
            let mut walk = LineWalk::default();
            while let Some(line) = walk.step(text.as_bytes(), limit) {
                let content = match line {
                    TextLine::Whole(content) => Some(text.as_bytes()[content].to_vec()),
                    TextLine::TooLong => None,
                };
                found.push((before + walk.number, content));
            }
            assert!(walk.number > 0, "a text has a line");
            before += walk.number;
        }
    }

    /// The same, line by line.
    fn expected(bytes: &[u8], limit: usize, breaks: bool) -> Told {
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let mut found = Vec::new();
        for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            let (ends, content) = (line.ends_with(b"\n"), line.trim_ascii_end());
            // Of a line that the stream broke off in, only that it was too long by then is known.
            let is_cut = breaks && !ends;
            let most = limit + END_BYTES;
            let is_long = line.len() > most || (line.len() == most && !ends) || content.len() > limit;
            if is_cut && line.len() <= most {
                continue;
            }
            if is_long {
                found.push((number, None));
            } else if !content.trim_ascii_start().is_empty() {
                found.push((number, Some(content.to_vec())));
            }
        }
        found
    }

    proptest! {
        #[test]
        fn texts_have_the_lines_of_the_stream(
            bytes in r"(\u{feff})?[ab \r\n]{0,60}",
            at_once in 1usize..20,
            at_least in 0usize..30,
            limit in 1usize..12,
            looked_at in 0usize..80,
            breaks: bool,
        ) {
            let mut texts = texts(bytes.as_bytes(), at_once, limit, breaks);
            texts.look_ahead(looked_at, |_| ControlFlow::Continue(()));
            let (found, broke) = lines(texts, at_least);
            prop_assert_eq!(broke, breaks);
            prop_assert_eq!(found, expected(bytes.as_bytes(), limit, breaks));
        }
    }

    #[test]
    fn a_text_has_as_many_bytes_as_were_asked_for_and_ends_with_a_line() {
        let mut texts = texts(b"one\ntwo\nthree\nfour", 4, 10, false);
        let (mut text, mut found) = (Text::default(), Vec::new());
        while texts.read(&mut text, 5).expect("memory") {
            found.push(String::from_utf8(text.as_bytes().to_vec()).expect("text"));
        }
        assert_eq!(found, ["one\ntwo\n", "three\n", "four"]);
    }

    #[test]
    fn lines_given_back_are_read_again() {
        let mut texts = texts(b"one\ntwo\nthree", 9, 10, false);
        let mut text = Text::default();
        assert!(texts.read(&mut text, 0).expect("memory"));
        texts.give_back(&text.as_bytes()[4..]);
        for line in [&b"two\n"[..], b"three"] {
            assert!(texts.read(&mut text, 100).expect("memory"));
            assert_eq!(text.as_bytes(), line);
        }
        assert!(!texts.read(&mut text, 100).expect("memory"));
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_the_limit() {
        let mut texts = texts(&[b'a'; 1 << 22], READ_BYTES, 100, false);
        let mut text = Text::default();
        assert!(texts.read(&mut text, 1 << 20).expect("memory"));
        assert!(!texts.read(&mut text, 1 << 20).expect("memory"));
        assert!(text.bytes.capacity() < 4 * READ_BYTES, "{}", text.bytes.capacity());
    }
}
