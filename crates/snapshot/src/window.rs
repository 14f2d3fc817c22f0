//! An object read as a file is: a few megabytes of it at a time, so that parts that lie side by side cost one request.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

/// Bytes requested at once.
const WINDOW_BYTES: u64 = 8 << 20;

/// Whoever can read ranges of some bytes.
pub(super) trait Ranges: Send {
    /// The bytes of a range that is not empty and lies within them.
    ///
    /// # Errors
    /// What the system says.
    fn range(&mut self, range: Range<u64>) -> io::Result<Vec<u8>>;
}

/// Ranges as a source.
pub(super) struct RangeWindow<R> {
    ranges: R,
    size: u64,
    at: u64,
    /// Where the window begins, and what it holds.
    start: u64,
    held: Vec<u8>,
}

impl<R: Ranges> RangeWindow<R> {
    /// Over so many bytes.
    pub(super) fn over(ranges: R, size: u64) -> Self {
        Self { ranges, size, at: 0, start: 0, held: Vec::new() }
    }
}

impl<R: Ranges> Read for RangeWindow<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size || out.is_empty() {
            return Ok(0);
        }
        let end = self.start + self.held.len() as u64;
        if !(self.start..end).contains(&self.at) {
            let wanted = self.at..self.size.min(self.at + WINDOW_BYTES);
            self.held = self.ranges.range(wanted.clone())?;
            if self.held.len() as u64 != wanted.end - wanted.start {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.start = self.at;
        }
        let held = &self.held[(self.at - self.start) as usize..];
        let count = out.len().min(held.len());
        out[..count].copy_from_slice(&held[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl<R: Ranges> Seek for RangeWindow<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that say how often they were requested.
    struct Counted<'a>(&'a [u8], u64);

    impl Ranges for Counted<'_> {
        fn range(&mut self, range: Range<u64>) -> io::Result<Vec<u8>> {
            self.1 += 1;
            Ok(self.0[range.start as usize..range.end as usize].to_vec())
        }
    }

    #[test]
    fn a_window_reads_what_a_file_would_and_asks_seldom() {
        let bytes: Vec<u8> = (0..3 * WINDOW_BYTES).map(|at| (at % 251) as u8).collect();
        let mut window = RangeWindow::over(Counted(&bytes, 0), bytes.len() as u64);
        let mut all = Vec::new();
        window.read_to_end(&mut all).expect("memory");
        assert!(all == bytes);
        assert_eq!(window.ranges.1, 3);
        for at in [5, 77, 1000, bytes.len() as u64 - 10] {
            window.seek(SeekFrom::Start(at)).expect("a place");
            let mut ten = [0; 10];
            window.read_exact(&mut ten).expect("so many are there");
            assert_eq!(ten, bytes[at as usize..][..10]);
        }
        assert_eq!(window.ranges.1, 5, "places near each other are asked for once");
        assert_eq!(window.seek(SeekFrom::End(0)).expect("a place"), bytes.len() as u64);
        assert_eq!(window.read(&mut [0]).expect("the end"), 0);
        assert!(window.seek(SeekFrom::Current(-(1 << 40))).is_err());
    }
}
