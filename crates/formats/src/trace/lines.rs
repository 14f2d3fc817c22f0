//! Lines of bounded length, without their ends.

use std::io::{self, BufRead, Read};
use std::ops::Range;

/// The byte-order mark that some editors put in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a step to the next line found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// [`Lines::line`] holds a line that is not blank.
    Line,
    /// A line longer than the limit was passed over.
    TooLong,
    /// A row ends before its length says, or what it is packed in is damaged; lines have no length.
    Cut,
    /// The input is at its end.
    End,
}

/// Reads line by line into one buffer.
pub(super) struct Lines {
    input: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
    limit: usize,
    /// A step taken ahead to look at the first line.
    ahead: Option<Step>,
}

impl Lines {
    /// Lines of at most `limit` bytes, ends not counted.
    pub fn new(input: Box<dyn BufRead + Send>, limit: usize) -> Self {
        Self { input, line: Vec::new(), number: 0, limit, ahead: None }
    }

    /// The line last stepped to, without `\n` or `\r\n`.
    pub fn line(&self) -> &[u8] {
        &self.line[self.content()]
    }

    /// Appends the line last stepped to; returns where it lies then. Into an empty buffer it is not copied: that one
    /// takes the place of the line's own, and the line is gone here.
    pub fn move_line(&mut self, text: &mut Vec<u8>) -> Range<usize> {
        let content = self.content();
        if text.is_empty() {
            std::mem::swap(text, &mut self.line);
            self.line.clear();
            return content;
        }
        let begin = text.len();
        text.extend_from_slice(&self.line[content]);
        begin..text.len()
    }

    /// Where in its buffer the line lies, without the byte-order mark and the line's end.
    fn content(&self) -> Range<usize> {
        let has_mark = self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK);
        let begin = if has_mark { BYTE_ORDER_MARK.len() } else { 0 };
        begin..begin + self.line[begin..].trim_ascii_end().len()
    }

    /// Number of the line last stepped to, counted from 1; 0 before the first.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The longest line that is read, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Looks at the first line that is not blank; the next step finds it again.
    pub fn peek(&mut self) -> io::Result<Step> {
        let step = self.step()?;
        self.ahead = Some(step);
        Ok(step)
    }

    /// Goes to the next line that is not blank.
    pub fn step(&mut self) -> io::Result<Step> {
        if let Some(step) = self.ahead.take() {
            return Ok(step);
        }
        loop {
            let step = self.read_line()?;
            if step != Step::Line || !self.line().trim_ascii_start().is_empty() {
                return Ok(step);
            }
        }
    }

    fn read_line(&mut self) -> io::Result<Step> {
        /// The longest line end, `\r\n`.
        const END_BYTES: usize = 2;
        self.line.clear();
        let most = self.limit.saturating_add(END_BYTES) as u64;
        let count = self.input.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        if count == 0 {
            return Ok(Step::End);
        }
        self.number += 1;
        if self.line.last() != Some(&b'\n') && count as u64 == most {
            self.skip_to_line_end()?;
            return Ok(Step::TooLong);
        }
        Ok(if self.line().len() > self.limit { Step::TooLong } else { Step::Line })
    }

    /// Passes over the rest of a line without keeping it.
    fn skip_to_line_end(&mut self) -> io::Result<()> {
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let (used, done) = match end {
                Some(position) => (position + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.input.consume(used);
            if done {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn steps(text: &'static [u8], limit: usize) -> Vec<(u64, Step, Vec<u8>)> {
        let mut lines = Lines::new(Box::new(Cursor::new(text)), limit);
        let mut found = Vec::new();
        loop {
            match lines.step().expect("memory does not fail") {
                Step::Cut | Step::End => return found,
                Step::TooLong => found.push((lines.number(), Step::TooLong, Vec::new())),
                Step::Line => found.push((lines.number(), Step::Line, lines.line().to_vec())),
            }
        }
    }

    #[test]
    fn blank_lines_line_ends_and_the_byte_order_mark_are_not_content() {
        let found = steps(b"\xef\xbb\xbf{1}\r\n\n  \t\r\n{2}\n\xef\xbb\xbf{3}", 10);
        let expected: [(u64, Step, &[u8]); 3] =
            [(1, Step::Line, b"{1}"), (4, Step::Line, b"{2}"), (5, Step::Line, b"\xef\xbb\xbf{3}")];
        assert_eq!(found, expected.map(|(number, step, line)| (number, step, line.to_vec())));
    }

    #[test]
    fn a_line_over_the_limit_is_passed_over_and_the_next_is_found() {
        let found = steps(b"1234\n12345\r\n123456\n1234567890123\nab\n1234567", 5);
        let kinds: Vec<_> = found.iter().map(|(number, step, _)| (*number, *step)).collect();
        use Step::{Line, TooLong};
        assert_eq!(kinds, [(1, Line), (2, Line), (3, TooLong), (4, TooLong), (5, Line), (6, TooLong)]);
    }

    #[test]
    fn lines_moved_into_one_text_are_the_lines() {
        let mut lines = Lines::new(Box::new(Cursor::new(b"\xef\xbb\xbfone\r\ntwo\nthree")), 10);
        let (mut text, mut found) = (Vec::new(), Vec::new());
        while lines.step().expect("memory") == Step::Line {
            found.push(lines.move_line(&mut text));
        }
        let found: Vec<_> = found.into_iter().map(|line| &text[line]).collect();
        assert_eq!(found, [&b"one"[..], b"two", b"three"]);
    }

    #[test]
    fn a_peeked_line_is_stepped_to_once() {
        let mut lines = Lines::new(Box::new(Cursor::new(b"\na\nb\n")), 5);
        assert_eq!(lines.peek().expect("memory"), Step::Line);
        assert_eq!((lines.line(), lines.number()), (&b"a"[..], 2));
        assert_eq!(lines.step().expect("memory"), Step::Line);
        assert_eq!(lines.line(), b"a");
        assert_eq!(lines.step().expect("memory"), Step::Line);
        assert_eq!(lines.line(), b"b");
        assert_eq!(lines.step().expect("memory"), Step::End);
    }
}
