//! What stands on several lines, put on one: JSON that was pretty-printed, files that are one array, and the parts of
//! long lines as Kubernetes' runtimes write them.
//!
//! A file is taken for JSON over several lines where its first one opens a value and leaves it open, as every printer
//! of JSON writes. A value that goes on over line ends has spaces in their place, and as many empty lines follow it, so
//! that rows keep the numbers of the lines where they begin. Lines in parts are empty but for the last of each.

use super::text::is_comment;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// The longest line that is looked at: such a file's first one is short.
const MAX_FIRST_BYTES: u64 = 4 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The bytes with a value a line, where they are JSON over several lines or lines in parts; else as they are. Of lines
/// in parts no more is kept than shows that one is longer than `limit`.
pub(super) fn joined(
    mut bytes: Box<dyn BufRead + Send>,
    limit: usize,
) -> io::Result<Box<dyn BufRead + Send>> {
    let (mut head, mut line) = (Vec::new(), 0);
    loop {
        let read = bytes.by_ref().take(MAX_FIRST_BYTES).read_until(b'\n', &mut head)?;
        let start = head[line..].trim_ascii();
        if read == 0 || !(start.is_empty() || is_comment(start)) {
            break;
        }
        line = head.len();
    }
    let (is_spread, is_in_parts) = (is_spread(&head[line..]), LinePart::of(&head[line..]).is_some());
    let bytes = Cursor::new(head).chain(bytes);
    Ok(match (is_spread, is_in_parts) {
        (true, _) => {
            Box::new(BufReader::new(ConcatenatedValues { input: bytes, value: ValuePlace::default() }))
        }
        (_, true) => Box::new(BufReader::new(JoinedParts::new(bytes, limit))),
        _ => Box::new(bytes),
    })
}

/// A line, or a part of one, as Kubernetes' runtimes write it: `TIME stdout F TEXT`, with `P` where the next one of its
/// stream goes on with it.
struct LinePart<'l> {
    is_error: bool,
    goes_on: bool,
    /// What stands before the text, the mark of its kind at its end.
    before: &'l [u8],
    text: &'l [u8],
}

impl<'l> LinePart<'l> {
    fn of(line: &'l [u8]) -> Option<Self> {
        let mut ends = memchr::memchr_iter(b' ', line);
        let (time, stream, kind) = (ends.next()?, ends.next()?, ends.next().unwrap_or(line.len()));
        let is_error = match &line[time + 1..stream] {
            b"stdout" => false,
            b"stderr" => true,
            _ => return None,
        };
        let goes_on = match line[stream + 1..kind].trim_ascii_end() {
            [b'P', ..] => true,
            [b'F', ..] => false,
            _ => return None,
        };
        let is_dated = time >= 20 && line[0].is_ascii_digit() && line[10] == b'T';
        let (before, text) = (&line[..stream + 1], line.get(kind + 1..).unwrap_or_default());
        is_dated.then_some(Self { is_error, goes_on, before, text })
    }
}

/// Reads a stream with the parts of each line joined.
struct JoinedParts<R> {
    input: R,
    limit: usize,
    line: Vec<u8>,
    /// What came of a line of either stream.
    begun: [Vec<u8>; 2],
    out: Cursor<Vec<u8>>,
}

impl<R: BufRead> JoinedParts<R> {
    fn new(input: R, limit: usize) -> Self {
        Self { input, limit, line: Vec::new(), begun: Default::default(), out: Cursor::default() }
    }

    /// Takes the next line; false at the end.
    fn take_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let most = self.limit.saturating_add(2) as u64;
        self.input.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        self.out.set_position(0);
        let out = self.out.get_mut();
        out.clear();
        let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let Some(part) = LinePart::of(text) else {
            out.extend_from_slice(&self.line);
            return Ok(!self.line.is_empty());
        };
        let begun = &mut self.begun[usize::from(part.is_error)];
        if begun.is_empty() {
            begun.extend_from_slice(part.before);
            begun.extend_from_slice(b"F ");
        }
        if begun.len() <= self.limit {
            begun.extend_from_slice(part.text);
        }
        if !part.goes_on {
            out.append(begun);
        }
        out.extend_from_slice(&self.line[text.len()..]);
        Ok(true)
    }
}

impl<R: BufRead> Read for JoinedParts<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.out.read(buffer)?;
            if count > 0 || buffer.is_empty() || !self.take_line()? {
                return Ok(count);
            }
        }
    }
}

/// Whether a file's first line begins a value and ends in the middle of it.
fn is_spread(line: &[u8]) -> bool {
    let value = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii();
    let goes_on = line.ends_with(b"\n") && matches!(value.last(), Some(b'{' | b'[' | b','));
    goes_on && matches!(value.first(), Some(b'{' | b'['))
}

/// Reads a stream with a value a line.
struct ConcatenatedValues<R> {
    input: R,
    value: ValuePlace,
}

/// Where in a value reading is.
#[derive(Default)]
struct ValuePlace {
    /// Brackets that are open.
    depth: u64,
    is_quoted: bool,
    is_escaped: bool,
    /// Line ends that the value went over.
    line_ends: u64,
}

impl ValuePlace {
    /// What takes the place of a byte.
    fn next(&mut self, byte: u8) -> u8 {
        match byte {
            b'\n' => return self.line_end(),
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_quoted => self.is_escaped = true,
            b'"' => self.is_quoted = !self.is_quoted,
            b'{' | b'[' if !self.is_quoted => self.depth += 1,
            b'}' | b']' if !self.is_quoted => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        byte
    }

    fn line_end(&mut self) -> u8 {
        if self.is_quoted {
            // No string of JSON goes over a line end: the value is broken, and the next line begins another.
            (self.is_quoted, self.is_escaped, self.depth) = (false, false, 0);
        }
        if self.depth == 0 {
            return b'\n';
        }
        self.line_ends += 1;
        b' '
    }

    /// Whether the value is at its end, and line ends are owed.
    fn owes(&self) -> bool {
        self.depth == 0 && self.line_ends > 0
    }
}

impl<R: BufRead> Read for ConcatenatedValues<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.value.owes() {
            let count = usize::try_from(self.value.line_ends).unwrap_or(usize::MAX).min(buffer.len());
            buffer[..count].fill(b'\n');
            self.value.line_ends -= count as u64;
            return Ok(count);
        }
        let mut count = 0;
        for (place, byte) in buffer.iter_mut().zip(self.input.fill_buf()?) {
            *place = self.value.next(*byte);
            count += 1;
            if self.value.owes() {
                break;
            }
        }
        self.input.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that are not blank, with their numbers.
    fn lines(text: &'static str) -> Vec<(usize, String)> {
        let joined = joined(Box::new(BufReader::with_capacity(3, text.as_bytes())), 1 << 20).expect("memory");
        let lines = joined.lines().map(|line| line.expect("text")).enumerate();
        let squeezed = |line: String| line.split_whitespace().collect::<String>();
        lines.filter(|(_, line)| !line.trim().is_empty()).map(|(at, line)| (at + 1, squeezed(line))).collect()
    }

    #[test]
    fn a_value_is_one_line_at_the_line_where_it_begins() {
        let pretty = "{\n  \"a\": \"}\\\"[\",\n  \"b\": [\n    1\n  ]\n}\n\n{\n  \"a\": 2\n}\n{\"a\": 3}\n";
        let expected = [(1, "{\"a\":\"}\\\"[\",\"b\":[1]}"), (8, "{\"a\":2}"), (11, "{\"a\":3}")];
        assert_eq!(lines(pretty), expected.map(|(at, line)| (at, line.to_owned())));
        let array = "\n[\n{\"a\": 1},\n{\"a\": 2}\n]\n";
        assert_eq!(lines(array), [(2, "[{\"a\":1},{\"a\":2}]".to_owned())]);
    }

    #[test]
    fn parts_of_a_line_are_one_line_where_the_last_stands() {
        let time = "2025-10-09T08:53:21.000Z";
        let text = format!(
            "# a comment\n{time} stdout P {{\"a\":\n{time} stderr P oh\n{time} stdout F 1}}\n{time} stderr F  no\n\
             {time} stdout F {{}}\nno such line\n{time} stdout P {{\n"
        );
        let expected = [
            (1, "#acomment".to_owned()),
            (4, format!("{time}stdoutF{{\"a\":1}}")),
            (5, format!("{time}stderrFohno")),
            (6, format!("{time}stdoutF{{}}")),
            (7, "nosuchline".to_owned()),
        ];
        assert_eq!(lines(text.leak()), expected);
    }

    #[test]
    fn a_broken_value_takes_no_others_along() {
        let broken = "{\n\"a\": \"b\n{\"c\": 1}\n{\"d\": 2}\n";
        assert_eq!(lines(broken)[1..], [(3, "{\"c\":1}".to_owned()), (4, "{\"d\":2}".to_owned())]);
    }

    #[test]
    fn lines_that_are_values_are_left_as_they_are() {
        for text in ["{\"a\": 1}\n{\n", "[1,\n2]\n", "plain, text,\n{\n", "", "\n\n"] {
            let bytes = Box::new(text.as_bytes());
            let (mut out, spread) = (String::new(), text.starts_with("[1,\n"));
            joined(bytes, 1 << 20).expect("memory").read_to_string(&mut out).expect("text");
            assert_eq!(out == text, !spread, "{text:?}");
        }
    }
}
