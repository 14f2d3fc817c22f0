//! An object read as a file is: a few megabytes of it at a time, so that parts that lie side by side cost one request.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

/// Bytes requested at once.
const WINDOW_BYTES: u64 = 8 << 20;

/// Ranges as a source: `R` reads the bytes of one that is not empty and lies within them.
pub(super) struct RangeWindow<R> {
    ranges: R,
    size: u64,
    at: u64,
    /// Where the window begins, and what it holds.
    start: u64,
    held: Vec<u8>,
}

impl<R: FnMut(Range<u64>) -> io::Result<Vec<u8>>> RangeWindow<R> {
    /// Over so many bytes.
    pub(super) fn over(ranges: R, size: u64) -> Self {
        Self { ranges, size, at: 0, start: 0, held: Vec::new() }
    }
}

impl<R: FnMut(Range<u64>) -> io::Result<Vec<u8>>> Read for RangeWindow<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size || out.is_empty() {
            return Ok(0);
        }
        let end = self.start + self.held.len() as u64;
        if !(self.start..end).contains(&self.at) {
            let wanted = self.at..self.size.min(self.at + WINDOW_BYTES);
            self.held = (self.ranges)(wanted.clone())?;
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

impl<R> Seek for RangeWindow<R> {
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
    use std::cell::Cell;

    #[test]
    fn a_window_reads_what_a_file_would_and_asks_seldom() {
        let bytes: Vec<u8> = (0..3 * WINDOW_BYTES).map(|at| (at % 251) as u8).collect();
        let requested = Cell::new(0);
        let read = |range: Range<u64>| {
            requested.set(requested.get() + 1);
            Ok(bytes[range.start as usize..range.end as usize].to_vec())
        };
        let mut window = RangeWindow::over(read, bytes.len() as u64);
        let mut all = Vec::new();
        window.read_to_end(&mut all).expect("memory");
        assert!(all == bytes);
        assert_eq!(requested.get(), 3);
        for at in [5, 77, 1000, bytes.len() as u64 - 10] {
            window.seek(SeekFrom::Start(at)).expect("a place");
            let mut ten = [0; 10];
            window.read_exact(&mut ten).expect("so many are there");
            assert_eq!(ten, bytes[at as usize..][..10]);
        }
        assert_eq!(requested.get(), 5, "places near each other are asked for once");
        assert_eq!(window.seek(SeekFrom::End(0)).expect("a place"), bytes.len() as u64);
        assert_eq!(window.read(&mut [0]).expect("the end"), 0);
        assert!(window.seek(SeekFrom::Current(-(1 << 40))).is_err());
    }
}
