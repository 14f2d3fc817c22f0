//! Decompressed bytes, on the reader's thread or on one of their own.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
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
    Ok(Box::new(BackgroundBytes::start(bytes)?))
}

/// Bytes read on a thread of its own.
struct BackgroundBytes {
    blocks: Receiver<io::Result<Vec<u8>>>,
    spare: Sender<Vec<u8>>,
    block: Vec<u8>,
    read: usize,
    /// Whether the thread ended, so that nothing follows.
    ended: bool,
}

impl BackgroundBytes {
    /// Goes on with a stream on a thread of its own.
    fn start(bytes: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, blocks) = sync_channel(BLOCKS);
        let (spare, spares) = channel();
        let work = move || read_blocks(bytes, &sender, &spares);
        thread::Builder::new().name("kvset-unpack".to_owned()).spawn(work)?;
        Ok(Self { blocks, spare, block: Vec::new(), read: 0, ended: false })
    }
}

/// The thread: an empty block is the end, as in reading.
fn read_blocks(mut bytes: impl Read, blocks: &SyncSender<io::Result<Vec<u8>>>, spares: &Receiver<Vec<u8>>) {
    loop {
        let mut block = spares.try_recv().unwrap_or_default();
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
        if blocks.send(read).is_err() || is_last {
            return;
        }
    }
}

impl BufRead for BackgroundBytes {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.read == self.block.len() && !self.ended {
            let next = self.blocks.recv();
            self.ended = !matches!(next, Ok(Ok(_)));
            // A thread that said nothing before it ended has panicked: the stream is not at its end.
            let broken = || io::Error::other("the thread that reads it has ended");
            let block = next.map_err(|_| broken())??;
            self.ended = block.is_empty();
            self.read = 0;
            // Nobody to reuse it once the end was read.
            drop(self.spare.send(std::mem::replace(&mut self.block, block)));
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
        let mut ahead = BackgroundBytes::start(Cursor::new(bytes.clone())).expect("a thread");
        let mut read = Vec::new();
        ahead.read_to_end(&mut read).expect("memory");
        assert!(read == bytes && ahead.fill_buf().expect("still the end").is_empty());
    }
}
