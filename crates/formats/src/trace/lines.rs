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
        &self.line[self.content(&self.line)]
    }

    /// Where in its buffer a line lies, without the byte-order mark and the line's end.
    fn content(&self, line: &[u8]) -> Range<usize> {
        let has_mark = self.number == 1 && line.starts_with(BYTE_ORDER_MARK);
        let begin = if has_mark { BYTE_ORDER_MARK.len() } else { 0 };
        begin..begin + line[begin..].trim_ascii_end().len()
    }

    /// Number of the line last stepped to, counted from 1; 0 before the first.
    pub fn number(&self) -> u64 {
        self.number
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
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let read = self.read_line(&mut line);
        self.line = line;
        read.map(|(step, _)| step)
    }

    /// Goes to the next line that is not blank and appends it to a text; returns where it lies there, without its end.
    pub fn append_next(&mut self, text: &mut Vec<u8>) -> io::Result<(Step, Range<usize>)> {
        let Some(step) = self.ahead.take() else { return self.read_line(text) };
        let begin = text.len();
        text.extend_from_slice(self.line());
        Ok((step, begin..text.len()))
    }

    /// Appends the next line that is not blank; returns where it lies.
    fn read_line(&mut self, text: &mut Vec<u8>) -> io::Result<(Step, Range<usize>)> {
        let begin = text.len();
        loop {
            let step = self.read_any_line(text)?;
            let line = self.content(&text[begin..]);
            let line = begin + line.start..begin + line.end;
            if step == Step::Line && !text[line.clone()].trim_ascii_start().is_empty() {
                return Ok((step, line));
            }
            text.truncate(begin);
            if step != Step::Line {
                return Ok((step, begin..begin));
            }
        }
    }

    /// Appends the next line, up to its end or the limit.
    fn read_any_line(&mut self, text: &mut Vec<u8>) -> io::Result<Step> {
        /// The longest line end, `\r\n`.
        const END_BYTES: usize = 2;
        let begin = text.len();
        let most = self.limit.saturating_add(END_BYTES) as u64;
        let count = self.input.by_ref().take(most).read_until(b'\n', text)?;
        if count == 0 {
            return Ok(Step::End);
        }
        self.number += 1;
        if text.last() != Some(&b'\n') && count as u64 == most {
            self.skip_to_line_end()?;
            return Ok(Step::TooLong);
        }
        Ok(if self.content(&text[begin..]).len() > self.limit { Step::TooLong } else { Step::Line })
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
    fn lines_appended_to_one_text_are_the_lines() {
        for peeked in [false, true] {
            let bytes = b"\xef\xbb\xbfone\r\n\n  \ntwo\n12345678901234\nthree";
            let mut lines = Lines::new(Box::new(Cursor::new(bytes)), 10);
            if peeked {
                lines.peek().expect("memory");
            }
            let (mut text, mut found) = (Vec::new(), Vec::new());
            loop {
                match lines.append_next(&mut text).expect("memory") {
                    (Step::Line, line) => found.push((lines.number(), line)),
                    (Step::TooLong, _) => assert_eq!(lines.number(), 5),
                    (Step::Cut | Step::End, _) => break,
                }
            }
            let found: Vec<_> = found.into_iter().map(|(number, line)| (number, &text[line])).collect();
            assert_eq!(found, [(1, &b"one"[..]), (4, b"two"), (6, b"three")]);
        }
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
