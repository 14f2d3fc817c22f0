//! Lines parsed on several threads, handed out in their order.
//!
//! A thread that is free reads the next piece of the file, some hundred kilobytes of lines, while the others wait for
//! the file, and then parses it while they read on: so nothing but what was parsed passes from thread to thread. What
//! follows from the line before ([`Records::place`]) is done by the reader, piece by piece in their order.
//!
//! Where pools are named that the requests go to, the thread that has parsed a piece takes them as a range of each of
//! these too, while their ids are in its processor's caches.

use super::error::{RowFault, TraceError};
use super::lines::{Lines, Step};
use super::records::{Carried, Filled, Records, Source};
use super::row::{Batch, RefusedRow};
use super::unpack::has_cores;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use kvset_core::pool::{PoolRange, RangePool};
use kvset_core::pool_config::PoolConfig;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Bytes of lines parsed at once, where one line has not more.
const PIECE_BYTES: usize = if cfg!(test) { 1 << 12 } else { 1 << 17 };

/// The same where the lines are taken as ranges of pools: the longer these are, the more of what is touched was touched
/// before within them.
const RANGE_BYTES: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

/// Pieces a thread that are parsed or wait to be taken, at most: enough for the others to go on while one is at a line
/// several times as long as a piece.
const PIECES_A_THREAD: usize = 3;

/// How lines are read side by side.
#[derive(Clone)]
pub(super) struct Parallel {
    /// Threads that parse lines; on one it is done by the reader itself.
    pub threads: usize,
    /// Whether a file that is parsed by the reader itself is decompressed on a thread of its own.
    pub unpacks: bool,
    /// The pools that take the requests in ranges.
    pub pools: Arc<[Arc<PoolConfig>]>,
}

impl Parallel {
    /// Everything on the reader's own thread, but for decompressing where there is a core for it.
    pub fn none() -> Self {
        Self { threads: 1, unpacks: has_cores(), pools: Arc::from([]) }
    }
}

/// Lines that were parsed.
struct Piece {
    batch: Batch,
    /// What its requests come to in each of the pools.
    ranges: Vec<Option<PoolRange>>,
}

/// What is to be handed out next.
enum Next {
    /// Comes when it is parsed.
    Piece(Receiver<Piece>),
    /// The file cannot be read on.
    Failed(TraceError),
}

/// A file of lines that need nothing of one another to be parsed.
pub(super) struct ParallelLines {
    parsers: Vec<JoinHandle<()>>,
    /// The pieces in their order.
    order: Receiver<Next>,
    /// The piece to be handed out, once its ranges were.
    batch: Option<Batch>,
    /// Emptied batches go back to the parsers, who fill no others.
    spare: Sender<Batch>,
}

impl ParallelLines {
    /// Parses lines on so many threads.
    ///
    /// # Errors
    /// [`TraceError::Thread`]: the system has no thread to give.
    pub fn start(
        lines: Lines,
        file: Arc<str>,
        decoder: &Records,
        parallel: &Parallel,
    ) -> Result<Self, TraceError> {
        let (limit, threads) = (lines.limit(), parallel.threads.max(1));
        let (told, order) = unbounded();
        let (spare, spares) = unbounded();
        let piece_bytes = if parallel.pools.is_empty() { PIECE_BYTES } else { RANGE_BYTES };
        let empty = (0..PIECES_A_THREAD * threads).map(|_| Batch::default()).collect();
        let spares = Spares { at_hand: empty, returned: spares };
        let feed = Arc::new(Mutex::new(Feed { lines, file, piece_bytes, spares, order: Some(told) }));
        let parser = || Parser {
            feed: Arc::clone(&feed),
            decoder: decoder.clone(),
            limit,
            pools: Arc::clone(&parallel.pools),
            text: Text::default(),
        };
        let parsers = (0..threads).map(|_| parser().start()).collect::<Result<_, _>>()?;
        Ok(Self { parsers, order, batch: None, spare })
    }

    /// A thread ends before the lines do only where it panicked, which goes on here.
    fn join(&mut self) {
        // Without batches to fill, the others end.
        self.spare = unbounded().0;
        for parser in self.parsers.drain(..) {
            if let Err(panic) = parser.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Source for ParallelLines {
    fn fill(&mut self, batch: &mut Batch, carried: &mut Carried) -> Result<Filled, TraceError> {
        loop {
            if let Some(mut parsed) = self.batch.take() {
                Records::place(&mut parsed, carried);
                std::mem::swap(batch, &mut parsed);
                // Nobody to fill it once the lines are at their end.
                drop(self.spare.send(parsed));
                return Ok(Filled::Requests);
            }
            let piece = match self.order.recv() {
                Ok(Next::Piece(parsed)) => parsed.recv(),
                Ok(Next::Failed(error)) => return Err(error),
                Err(ended) => Err(ended),
            };
            let Ok(Piece { batch, ranges }) = piece else {
                self.join();
                return Ok(Filled::End);
            };
            self.batch = Some(batch);
            if !ranges.is_empty() {
                return Ok(Filled::Ranges(ranges));
            }
        }
    }
}

/// What the parsers take their lines from, one of them at a time.
struct Feed {
    lines: Lines,
    file: Arc<str>,
    piece_bytes: usize,
    spares: Spares,
    /// Where the pieces are announced; nothing once the lines are at their end.
    order: Option<Sender<Next>>,
}

impl Feed {
    /// Reads the next piece, once there is a batch to parse it into; returns that, and where it goes then. Nothing at
    /// the end, or where nobody takes what is parsed.
    fn next(&mut self, text: &mut Text) -> Option<(Batch, Sender<Piece>)> {
        self.order.as_ref().filter(|_| self.spares.wait())?;
        let end = text.read(&mut self.lines, &self.file, self.piece_bytes);
        let batch = self.spares.take(text.bytes.len());
        let order = match end {
            Some(_) => self.order.take()?,
            None => self.order.clone()?,
        };
        let (parsed, back) = bounded(1);
        let has_lines = !text.lines.is_empty();
        if has_lines {
            order.send(Next::Piece(back)).ok()?;
        }
        if let Some(Err(error)) = end {
            order.send(Next::Failed(error)).ok()?;
        }
        has_lines.then_some((batch, parsed))
    }
}

/// Batches between two pieces, kept for their memory. Any of them would grow to the longest piece that there is, if each
/// came to every piece: so a piece gets the smallest that it fits into.
struct Spares {
    at_hand: Vec<Batch>,
    returned: Receiver<Batch>,
}

impl Spares {
    /// Waits until there is one; false if none will come.
    fn wait(&mut self) -> bool {
        self.at_hand.extend(self.returned.try_iter());
        if self.at_hand.is_empty() {
            self.at_hand.extend(self.returned.recv());
        }
        !self.at_hand.is_empty()
    }

    /// A batch for so many bytes of lines: one with room for their ids, or else the largest, so that none but large ones
    /// grow.
    fn take(&mut self, bytes: usize) -> Batch {
        /// Bytes of lines for each of their ids, nearly.
        const BYTES_AN_ID: usize = 5;
        let room = |at: &usize| self.at_hand[*at].ids.capacity();
        let fitting = (0..self.at_hand.len()).filter(|at| room(at) >= bytes / BYTES_AN_ID).min_by_key(room);
        let best = fitting.or_else(|| (0..self.at_hand.len()).max_by_key(room));
        best.map_or_else(Batch::default, |at| self.at_hand.swap_remove(at))
    }
}

/// Lines as they were read, kept for their memory.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    /// Number of each line and where it lies; nowhere if it was too long.
    lines: Vec<(u64, Option<Range<usize>>)>,
}

impl Text {
    /// Reads lines; how they ended, if they did.
    fn read(&mut self, lines: &mut Lines, file: &Arc<str>, bytes: usize) -> Option<Result<(), TraceError>> {
        self.bytes.clear();
        self.lines.clear();
        while self.bytes.len() < bytes {
            let line = match lines.append_next(&mut self.bytes) {
                Ok((Step::Line, line)) => Some(line),
                Ok((Step::TooLong | Step::Cut, _)) => None,
                Ok((Step::End, _)) => return Some(Ok(())),
                Err(source) => {
                    let (file, line) = (Arc::clone(file), lines.number());
                    return Some(Err(TraceError::Read { file, line, source }));
                }
            };
            self.lines.push((lines.number(), line));
        }
        None
    }
}

/// One of the threads.
struct Parser {
    feed: Arc<Mutex<Feed>>,
    decoder: Records,
    limit: usize,
    pools: Arc<[Arc<PoolConfig>]>,
    text: Text,
}

impl Parser {
    /// Parses until there is nothing more to come or nobody to take it.
    fn start(mut self) -> Result<JoinHandle<()>, TraceError> {
        let work = move || {
            while let Some((batch, parsed)) = self.next() {
                if parsed.send(self.parse(batch)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("kvset-parse".to_owned()).spawn(work);
        thread.map_err(|source| TraceError::Thread { source })
    }

    fn next(&mut self) -> Option<(Batch, Sender<Piece>)> {
        // Whoever panicked while reading is joined by the reader.
        self.feed.lock().ok()?.next(&mut self.text)
    }

    fn parse(&mut self, mut batch: Batch) -> Piece {
        batch.clear();
        for (number, line) in self.text.lines.drain(..) {
            let read = match line {
                Some(line) => self.decoder.read(&self.text.bytes[line], number, &mut batch),
                None => Err(RowFault::LineTooLong { limit: self.limit }),
            };
            if let Err(fault) = read {
                batch.refused.push(RefusedRow { after: batch.drafts.len(), line: number, fault });
            }
        }
        batch.refused.reverse();
        let ranges = self.pools.iter().map(|pool| range_of(&batch, pool)).collect();
        Piece { batch, ranges }
    }
}

/// What the requests come to in a pool, those left out that a reader refuses; `None` where its stack has to take them
/// one after another.
fn range_of(batch: &Batch, pool: &Arc<PoolConfig>) -> Option<PoolRange> {
    let mut range = RangePool::new(pool).ok()?;
    for index in 0..batch.drafts.len() {
        let request = batch.row(index, "");
        if request.check().is_ok() {
            range.observe(&request.event).ok()?;
        }
    }
    range.finish()
}
