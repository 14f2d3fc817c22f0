//! Decompressed bytes, on the reader's thread or on one of their own.

use super::ahead::MadeAhead;
use std::io::{self, BufRead, BufReader, Read};
use std::thread;

/// Bytes passed on at once.
const BLOCK_BYTES: usize = 256 * 1024;
/// Blocks that wait.
const BLOCKS: usize = 4;

/// Whether this process may use several cores: else what is read ahead waits for the one there is.
pub(super) fn has_cores() -> bool {
    thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// What a decompressor gives, on the reader's thread.
pub(super) fn unpacked(decoder: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BLOCK_BYTES, decoder))
}

/// The same bytes, read ahead on a thread of their own.
///
/// # Errors
/// The system has no thread to give.
pub(super) fn read_ahead(bytes: Box<dyn BufRead + Send>) -> io::Result<Box<dyn BufRead + Send>> {
    let ahead = MadeAhead::start("kvset-unpack", BLOCKS, bytes, read_block)?;
    Ok(Box::new(BackgroundBytes { ahead, block: Vec::new(), read: 0, ended: false }))
}

/// Bytes read on a thread of its own.
struct BackgroundBytes {
    ahead: MadeAhead<io::Result<Vec<u8>>, Vec<u8>, Box<dyn BufRead + Send>>,
    block: Vec<u8>,
    read: usize,
    /// Whether the thread ended, so that nothing follows.
    ended: bool,
}

/// The next block: an empty one is the end, as in reading.
fn read_block(bytes: &mut Box<dyn BufRead + Send>, mut block: Vec<u8>) -> (io::Result<Vec<u8>>, bool) {
    block.resize(BLOCK_BYTES, 0);
    let read = loop {
        match bytes.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    let is_last = !matches!(read, Ok(1..));
    let read = read.map(|count| {
        block.truncate(count);
        block
    });
    (read, is_last)
}

impl BufRead for BackgroundBytes {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.read == self.block.len() && !self.ended {
            let next = self.ahead.next(std::mem::take(&mut self.block));
            (self.read, self.ended) = (0, !matches!(next, Some(Ok(_))));
            // A thread that said nothing before it ended has panicked: the stream is not at its end.
            self.block = next.ok_or_else(|| io::Error::other("the thread that reads it has ended"))??;
            self.ended = self.block.is_empty();
        }
        Ok(&self.block[self.read..])
    }

    fn consume(&mut self, amount: usize) {
        self.read += amount;
    }
}

impl Read for BackgroundBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let count = available.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn bytes_read_ahead_are_the_bytes() {
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES + 17).map(|byte| byte as u8).collect();
        let mut ahead = read_ahead(Box::new(Cursor::new(bytes.clone()))).expect("a thread");
        let mut read = Vec::new();
        ahead.read_to_end(&mut read).expect("memory");
        assert!(read == bytes && ahead.fill_buf().expect("still the end").is_empty());
    }
}
