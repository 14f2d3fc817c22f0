//! Records with their length in front of them: 32 bits, the highest byte first, as the OpenTelemetry collector's file
//! exporter writes protobuf, and whatever it compresses record by record
//! (open-telemetry/opentelemetry-collector-contrib, `exporter/fileexporter/file_writer.go`).

use super::input::peek;
use super::lines::{LineStep, RowReader};
use std::io::{self, BufRead, Read};

/// Bytes that tell a file of such records: the length and how the first record begins.
const HEAD_BYTES: usize = LENGTH_BYTES + ZSTD.len();
const LENGTH_BYTES: usize = 4;
/// First bytes of a record that is compressed by itself.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The first field of an export request in protobuf, and that of one in JSON.
const BEGINNINGS: [u8; 2] = [0x0a, b'{'];

/// Reads record by record into one buffer.
pub(super) struct Frames {
    input: Box<dyn BufRead + Send>,
    record: Vec<u8>,
    packed: Vec<u8>,
    number: u64,
    limit: usize,
}

/// The first bytes of a file, as many as tell what its rows are, and the file from its beginning.
pub(super) fn head(bytes: Box<dyn BufRead + Send>) -> io::Result<(Vec<u8>, Box<dyn BufRead + Send>)> {
    let (head, bytes) = peek(bytes, LENGTH_BYTES)?;
    if head.first().is_none_or(|first| *first >= b'\t') {
        return Ok((head, Box::new(bytes)));
    }
    let (head, bytes) = peek(bytes, HEAD_BYTES)?;
    Ok((head, Box::new(bytes)))
}

/// Whether a file that begins so has records with lengths. No text does: its first byte would make the first record
/// longer than 150 MB.
pub(super) fn is_framed(head: &[u8]) -> bool {
    let Some((length, record)) = head.split_at_checked(LENGTH_BYTES) else { return false };
    let begins = record.first().is_some_and(|first| BEGINNINGS.contains(first)) || record.starts_with(&ZSTD);
    length[0] < b'\t' && begins
}

impl Frames {
    /// Records of at most `limit` bytes, unpacked.
    pub fn new(input: Box<dyn BufRead + Send>, limit: usize) -> Self {
        Self { input, record: Vec::new(), packed: Vec::new(), number: 0, limit }
    }

    /// Decompresses a record that is compressed by itself.
    fn unpack(&mut self) -> io::Result<LineStep> {
        if !self.record.starts_with(&ZSTD) {
            return Ok(LineStep::Line);
        }
        std::mem::swap(&mut self.record, &mut self.packed);
        self.record.clear();
        let mut decoder = zstd::Decoder::with_buffer(&self.packed[..])?;
        let most = self.limit.saturating_add(1) as u64;
        // What is damaged is damaged alone: the next record has a length of its own.
        Ok(match decoder.by_ref().take(most).read_to_end(&mut self.record) {
            Err(_) => LineStep::Cut,
            Ok(read) if read as u64 == most => LineStep::TooLong,
            Ok(_) => LineStep::Line,
        })
    }
}

impl RowReader for Frames {
    fn row(&self) -> &[u8] {
        &self.record
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn limit(&self) -> usize {
        self.limit
    }

    fn step(&mut self) -> io::Result<LineStep> {
        loop {
            let mut length = [0; LENGTH_BYTES];
            let read = read_full(&mut self.input, &mut length)?;
            if read == 0 {
                return Ok(LineStep::End);
            }
            self.number += 1;
            if read < LENGTH_BYTES {
                return Ok(LineStep::Cut);
            }
            let length = u64::from(u32::from_be_bytes(length));
            if length > self.limit as u64 {
                let skipped = io::copy(&mut self.input.by_ref().take(length), &mut io::sink())?;
                return Ok(if skipped < length { LineStep::Cut } else { LineStep::TooLong });
            }
            self.record.clear();
            let read = self.input.by_ref().take(length).read_to_end(&mut self.record)?;
            if (read as u64) < length {
                return Ok(LineStep::Cut);
            }
            if length > 0 {
                return self.unpack();
            }
        }
    }
}

/// Reads until the buffer is full or the input ends.
fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match input.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn framed(record: &[u8]) -> Vec<u8> {
        [&(record.len() as u32).to_be_bytes()[..], record].concat()
    }

    fn steps(bytes: Vec<u8>, limit: usize) -> Vec<(u64, LineStep, Vec<u8>)> {
        let mut frames = Frames::new(Box::new(Cursor::new(bytes)), limit);
        let mut found = Vec::new();
        loop {
            match frames.step().expect("memory does not fail") {
                LineStep::End => return found,
                LineStep::Line => found.push((frames.number(), LineStep::Line, frames.row().to_vec())),
                step => found.push((frames.number(), step, Vec::new())),
            }
        }
    }

    #[test]
    fn records_are_read_whatever_packs_them_and_the_next_is_found_after_a_bad_one() {
        let packed = zstd::encode_all(&b"{\"packed\":1}"[..], 3).expect("memory");
        let bomb = zstd::encode_all(&[b' '; 4096][..], 3).expect("memory");
        let damaged = packed[..packed.len() - 2].to_vec();
        let bytes = [b"\x0aabc", &b""[..], &packed, &[7; 65], &bomb, &damaged, b"{}"].map(framed).concat();
        let found = steps(bytes, 64);
        let expected: [(u64, LineStep, &[u8]); 6] = [
            (1, LineStep::Line, b"\x0aabc"),
            (3, LineStep::Line, b"{\"packed\":1}"),
            (4, LineStep::TooLong, b""),
            (5, LineStep::TooLong, b""),
            (6, LineStep::Cut, b""),
            (7, LineStep::Line, b"{}"),
        ];
        assert_eq!(found, expected.map(|(number, step, record)| (number, step, record.to_vec())));
    }

    #[test]
    fn a_record_that_breaks_off_is_not_taken_for_a_whole_one() {
        let whole = framed(b"\x0aabcd");
        for cut in 1..whole.len() {
            let found = steps(whole[..cut].to_vec(), 64);
            assert_eq!(found, [(1, LineStep::Cut, Vec::new())], "{cut}");
        }
        assert_eq!(steps([&4_000_000_000_u32.to_be_bytes()[..], b"x"].concat(), 64)[0].1, LineStep::Cut);
    }

    #[test]
    fn no_text_is_taken_for_records_with_lengths() {
        for text in ["{\"a\":1}", "\n\n\n\n\n{}", "    {}", "[1,2]", "\u{feff}{}", "", "{}", "\t\t\t\t{"] {
            assert!(!is_framed(text.as_bytes()), "{text:?}");
        }
        assert!(is_framed(&framed(b"\x0a\x01a")) && is_framed(&framed(b"{}")));
        assert!(!is_framed(&framed(b"\x12")) && !is_framed(&[0, 0, 0]));
    }
}
