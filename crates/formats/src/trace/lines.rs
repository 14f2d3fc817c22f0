//! Lines of bounded length, without their ends, one by one.

use super::text::{LineWalk, Text, TextLine, Texts};
use crate::census::RowSample;
use crate::record::fault::RowFault;
use std::io::{self, BufRead};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex};

/// What a step to the next line found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineStep {
    /// [`RowReader::row`] holds a line that is not blank.
    Line,
    /// A line longer than the limit was passed over.
    TooLong,
    /// A row ends before its length says, or what it is packed in is damaged; lines have no length.
    Cut,
    /// The input is at its end.
    End,
}

/// Reads row by row.
pub(super) trait RowReader: Send {
    /// The row last stepped to; of a line, without `\n` or `\r\n`.
    fn row(&self) -> &[u8];

    /// Its number, counted from 1; 0 before the first.
    fn number(&self) -> u64;

    /// The longest row that is read, in bytes.
    fn limit(&self) -> usize;

    /// Comments between the rows so far.
    fn comments(&self) -> u64 {
        0
    }

    /// Goes to the next row that is neither blank nor a comment.
    fn step(&mut self) -> io::Result<LineStep>;

    /// Goes to the next row; why it cannot be read, where it cannot; nothing at the end.
    fn next_row(&mut self) -> io::Result<Option<Result<(), RowFault>>> {
        Ok(match self.step()? {
            LineStep::Line => Some(Ok(())),
            LineStep::TooLong => Some(Err(RowFault::LineTooLong { limit: self.limit() })),
            LineStep::Cut => Some(Err(RowFault::CutOff)),
            LineStep::End => None,
        })
    }
}

/// Reads line by line.
pub(super) struct LineReader {
    texts: Texts,
    text: Text,
    walk: LineWalk,
    /// What was passed in the texts before this one.
    passed: LineWalk,
    /// Where the line last stepped to lies, without its end.
    line: Range<usize>,
    /// A step taken ahead to look at the first line, and the way up to it.
    ahead: Option<(LineStep, LineWalk)>,
}

impl LineReader {
    /// Lines of at most `limit` bytes, ends not counted.
    pub fn new(input: Box<dyn BufRead + Send>, limit: usize) -> Self {
        Self::of(Texts::new(input, limit))
    }

    fn of(texts: Texts) -> Self {
        let (walk, passed) = (LineWalk::default(), LineWalk::default());
        Self { texts, text: Text::default(), walk, passed, line: 0..0, ahead: None }
    }

    /// As [`Texts::through`].
    pub fn through<E>(
        &mut self,
        other: impl FnOnce(Box<dyn BufRead + Send>) -> Result<Box<dyn BufRead + Send>, E>,
    ) -> Result<(), E> {
        self.texts.through(other)
    }

    /// Looks at the first line that is not blank; the next step finds it again.
    pub fn peek(&mut self) -> io::Result<LineStep> {
        let (step, before) = self.advance()?;
        self.ahead = Some((step, before));
        Ok(step)
    }

    /// Shows `look` the lines to come, until it breaks or has seen so many bytes or some more; they are still to come
    /// then.
    pub fn look_ahead(&mut self, bytes: usize, look: impl FnMut(&[u8]) -> ControlFlow<()>) {
        self.texts_to_come().look_ahead(bytes, look);
    }

    /// Has all lines to come looked at as they are read.
    pub fn watch(&mut self, sample: &Arc<Mutex<RowSample>>) {
        self.texts_to_come().watch(Arc::clone(sample));
    }

    /// The texts with all lines to come; nothing of them was read then.
    fn texts_to_come(&mut self) -> &mut Texts {
        let limit = self.limit();
        let lines = std::mem::replace(self, Self::new(Box::new(io::empty()), limit));
        let (texts, passed) = lines.into_texts();
        *self = Self { passed, ..Self::of(texts) };
        &mut self.texts
    }

    /// All lines that [`RowReader::step`] would go to, as texts, and what was passed before them.
    pub fn into_texts(mut self) -> (Texts, LineWalk) {
        let walk = self.ahead.map_or(self.walk, |(_, before)| before);
        self.texts.give_back(&self.text.as_bytes()[walk.next..]);
        self.passed.add(walk);
        (self.texts, self.passed)
    }

    /// Goes to the next line that is not blank; returns also where in the text it was looked for.
    fn advance(&mut self) -> io::Result<(LineStep, LineWalk)> {
        loop {
            let before = self.walk;
            match self.walk.step(self.text.as_bytes(), self.texts.limit()) {
                Some(TextLine::Whole(line)) => {
                    self.line = line;
                    return Ok((LineStep::Line, before));
                }
                Some(TextLine::TooLong) => return Ok((LineStep::TooLong, before)),
                None => {}
            }
            self.passed.add(std::mem::take(&mut self.walk));
            // What can be read at once.
            if !self.texts.read(&mut self.text, 0)? {
                return Ok((LineStep::End, self.walk));
            }
        }
    }
}

impl RowReader for LineReader {
    fn row(&self) -> &[u8] {
        &self.text.as_bytes()[self.line.clone()]
    }

    fn number(&self) -> u64 {
        self.passed.number + self.walk.number
    }

    fn limit(&self) -> usize {
        self.texts.limit()
    }

    fn comments(&self) -> u64 {
        self.passed.comments + self.walk.comments
    }

    fn step(&mut self) -> io::Result<LineStep> {
        match self.ahead.take() {
            Some((step, _)) => Ok(step),
            None => self.advance().map(|(step, _)| step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn steps(text: &'static [u8], limit: usize) -> Vec<(u64, LineStep, Vec<u8>)> {
        let mut lines = LineReader::new(Box::new(Cursor::new(text)), limit);
        let mut found = Vec::new();
        loop {
            match lines.step().expect("memory does not fail") {
                LineStep::Cut | LineStep::End => return found,
                LineStep::TooLong => found.push((lines.number(), LineStep::TooLong, Vec::new())),
                LineStep::Line => found.push((lines.number(), LineStep::Line, lines.row().to_vec())),
            }
        }
    }

    #[test]
    fn blank_lines_line_ends_and_the_byte_order_mark_are_not_content() {
        let found = steps(b"\xef\xbb\xbf{1}\r\n\n  \t\r\n{2}\n\xef\xbb\xbf{3}", 10);
        let expected: [(u64, LineStep, &[u8]); 3] = [
            (1, LineStep::Line, b"{1}"),
            (4, LineStep::Line, b"{2}"),
            (5, LineStep::Line, b"\xef\xbb\xbf{3}"),
        ];
        assert_eq!(found, expected.map(|(number, step, line)| (number, step, line.to_vec())));
    }

    #[test]
    fn a_line_over_the_limit_is_passed_over_and_the_next_is_found() {
        let found = steps(b"1234\n12345\r\n123456\n1234567890123\nab\n1234567", 5);
        let kinds: Vec<_> = found.iter().map(|(number, step, _)| (*number, *step)).collect();
        use LineStep::{Line, TooLong};
        assert_eq!(kinds, [(1, Line), (2, Line), (3, TooLong), (4, TooLong), (5, Line), (6, TooLong)]);
    }

    #[test]
    fn texts_go_on_at_the_line_that_was_looked_at() {
        for peeked in [false, true] {
            let bytes = b"\xef\xbb\xbf\r\n \none\r\ntwo\n12345678901234\nthree";
            let mut lines = LineReader::new(Box::new(Cursor::new(bytes)), 10);
            if peeked {
                assert_eq!(lines.peek().expect("memory"), LineStep::Line);
            }
            let (mut texts, LineWalk { number: mut before, .. }) = lines.into_texts();
            let (mut text, mut found) = (Text::default(), Vec::new());
            while texts.read(&mut text, 100).expect("memory") {
                let mut walk = LineWalk::default();
                while let Some(line) = walk.step(text.as_bytes(), 10) {
                    let content =
                        if let TextLine::Whole(content) = line { &text.as_bytes()[content] } else { b"?" };
                    found.push((before + walk.number, content.to_vec()));
                }
                before += walk.number;
            }
            let found: Vec<_> = found.iter().map(|(number, line)| (*number, line.as_slice())).collect();
            assert_eq!(found, [(3, &b"one"[..]), (4, b"two"), (5, b"?"), (6, b"three")]);
        }
    }

    #[test]
    fn comments_are_no_lines_and_are_counted() {
        let text = b"# exported\n// by us\n{1}\n  # and so on\n# HELP a metric\n{2}\n#";
        let mut lines = LineReader::new(Box::new(Cursor::new(text)), 20);
        assert_eq!(lines.peek().expect("memory"), LineStep::Line);
        lines.look_ahead(1, |_| ControlFlow::Break(()));
        let mut found = Vec::new();
        while lines.step().expect("memory") == LineStep::Line {
            found.push((lines.number(), lines.row().to_vec()));
        }
        let found: Vec<_> = found.iter().map(|(number, line)| (*number, line.as_slice())).collect();
        assert_eq!(found, [(3, &b"{1}"[..]), (5, b"# HELP a metric"), (6, b"{2}")]);
        assert_eq!(lines.comments(), 4);
    }

    #[test]
    fn a_peeked_line_is_stepped_to_once() {
        let mut lines = LineReader::new(Box::new(Cursor::new(b"\na\nb\n")), 5);
        assert_eq!(lines.peek().expect("memory"), LineStep::Line);
        assert_eq!((lines.row(), lines.number()), (&b"a"[..], 2));
        assert_eq!(lines.step().expect("memory"), LineStep::Line);
        assert_eq!(lines.row(), b"a");
        assert_eq!(lines.step().expect("memory"), LineStep::Line);
        assert_eq!(lines.row(), b"b");
        assert_eq!(lines.step().expect("memory"), LineStep::End);
    }
}
