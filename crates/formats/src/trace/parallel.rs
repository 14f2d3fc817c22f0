//! Lines parsed on several threads, handed out in their order.
//!
//! A thread that is free reads the next piece of the file, some hundred kilobytes of lines, while the others wait for
//! the file, and then parses it while they read on: so nothing but what was parsed passes from thread to thread. What
//! follows from the lines before ([`super::timeline`]) is done by the reader, piece by piece in their order.
//!
//! Where pools are named that the requests go to, the thread that has parsed a piece takes them as a range of each of
//! these too, while their ids are in its processor's caches.

use super::carried::Carried;
use super::error::TraceError;
use super::lines::{LineReader, RowReader as _};
use super::records::{Filled, Records, TraceSource};
use super::text::{LineWalk, Text, TextLine, Texts};
use super::unpack::has_cores;
use crate::almost_json;
use crate::record::fault::RowFault;
use crate::record::row::{RefusedRow, RowBatch};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use kvset_core::engines::one_pass::EngineRange;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::pool::RangePool;
use std::io;
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

/// Lines that were parsed, numbered from the first of them.
struct ParsedLines {
    batch: RowBatch,
    walk: LineWalk,
    /// What its requests come to in each of the pools.
    ranges: Vec<Option<EngineRange>>,
}

/// A file of lines that need nothing of one another to be parsed.
pub(super) struct ParallelLines {
    file: Arc<str>,
    /// What was passed before the next piece.
    passed: LineWalk,
    parsers: Vec<JoinHandle<()>>,
    /// The pieces in their order.
    order: Receiver<io::Result<Receiver<ParsedLines>>>,
    /// The piece to be handed out, once its ranges were.
    batch: Option<RowBatch>,
    /// Emptied batches go back to the parsers, who fill no others.
    spare: Sender<RowBatch>,
}

impl ParallelLines {
    /// Parses lines on so many threads.
    ///
    /// # Errors
    /// [`TraceError::Thread`]: the system has no thread to give.
    pub fn start(
        lines: LineReader,
        file: Arc<str>,
        decoder: &Records,
        parallel: &Parallel,
    ) -> Result<Self, TraceError> {
        let (limit, threads) = (lines.limit(), parallel.threads.max(1));
        let (told, order) = unbounded();
        let (spare, spares) = unbounded();
        let piece_bytes = if parallel.pools.is_empty() { PIECE_BYTES } else { RANGE_BYTES };
        for _ in 0..PIECES_A_THREAD * threads {
            // Its other end is held here.
            drop(spare.send(RowBatch::default()));
        }
        let (texts, passed) = lines.into_texts();
        let feed = Arc::new(Mutex::new(Feed { texts, piece_bytes, spares, order: Some(told) }));
        let parser = || Parser {
            feed: Arc::clone(&feed),
            decoder: decoder.clone(),
            limit,
            pools: Arc::clone(&parallel.pools),
            text: Text::default(),
        };
        let parsers = (0..threads).map(|_| parser().start()).collect::<Result<_, _>>()?;
        Ok(Self { file, passed, parsers, order, batch: None, spare })
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

impl TraceSource for ParallelLines {
    fn fill(&mut self, batch: &mut RowBatch, carried: &mut Carried) -> Result<Filled, TraceError> {
        loop {
            if let Some(mut parsed) = self.batch.take() {
                std::mem::swap(batch, &mut parsed);
                // Nobody to fill it once the lines are at their end.
                drop(self.spare.send(parsed));
                return Ok(Filled::Requests);
            }
            let piece = match self.order.recv() {
                Ok(Ok(parsed)) => parsed.recv(),
                Ok(Err(source)) => {
                    let (file, line) = (Arc::clone(&self.file), self.passed.number);
                    return Err(TraceError::Read { file, line, source });
                }
                Err(ended) => Err(ended),
            };
            let Ok(ParsedLines { mut batch, walk, ranges }) = piece else {
                self.join();
                carried.comments += self.passed.comments;
                return Ok(Filled::End);
            };
            batch.move_lines(self.passed.number);
            self.passed.add(walk);
            let is_whole = carried.place(&mut batch);
            self.batch = Some(batch);
            if !ranges.is_empty() {
                // Those of a request that was refused since are of no use.
                let ranges = ranges.into_iter().map(|range| range.filter(|_| is_whole)).collect();
                return Ok(Filled::Ranges(ranges));
            }
        }
    }
}

/// What the parsers take their lines from, one of them at a time.
struct Feed {
    texts: Texts,
    piece_bytes: usize,
    /// Batches between two pieces.
    spares: Receiver<RowBatch>,
    /// Where the pieces are announced; nothing once the lines are at their end.
    order: Option<Sender<io::Result<Receiver<ParsedLines>>>>,
}

impl Feed {
    /// Reads the next piece, once there is a batch to parse it into; returns that, and where it goes then. Nothing at
    /// the end, or where nobody takes what is parsed.
    fn next(&mut self, text: &mut Text) -> Option<(RowBatch, Sender<ParsedLines>)> {
        let order = self.order.take()?;
        let batch = self.spares.recv().ok()?;
        let (parsed, back) = bounded(1);
        let told = match self.texts.read(text, self.piece_bytes) {
            Ok(true) => Ok(back),
            Ok(false) => return None,
            Err(error) => Err(error),
        };
        let has_lines = told.is_ok();
        order.send(told).ok()?;
        self.order = Some(order).filter(|_| has_lines);
        has_lines.then_some((batch, parsed))
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

    fn next(&mut self) -> Option<(RowBatch, Sender<ParsedLines>)> {
        // Whoever panicked while reading is joined by the reader.
        self.feed.lock().ok()?.next(&mut self.text)
    }

    fn parse(&mut self, mut batch: RowBatch) -> ParsedLines {
        batch.clear();
        let (text, mut walk) = (self.text.as_bytes(), LineWalk::default());
        while let Some(line) = walk.step(text, self.limit) {
            let read = match line {
                TextLine::Whole(line) => {
                    let (line, number) = (&text[line], walk.number);
                    // What fails may hold words that only Python's JSON has.
                    self.decoder.read(line, number, &mut batch).or_else(|fault| {
                        match almost_json::as_json(line) {
                            Some(json) => {
                                self.decoder.read(&json, number, &mut batch).map_err(RowFault::without_words)
                            }
                            None => Err(fault),
                        }
                    })
                }
                TextLine::TooLong => Err(RowFault::LineTooLong { limit: self.limit }),
            };
            if let Err(fault) = read {
                batch.refused.push(RefusedRow { after: batch.drafts.len(), line: walk.number, fault });
            }
        }
        batch.refused.reverse();
        let ranges = self.pools.iter().map(|pool| range_of(&batch, pool)).collect();
        ParsedLines { batch, walk, ranges }
    }
}

/// What the requests come to in a pool, those left out that a reader refuses; `None` where its stack has to take them
/// one after another.
fn range_of(batch: &RowBatch, pool: &Arc<PoolConfig>) -> Option<EngineRange> {
    let mut range = RangePool::new(pool).ok()?;
    for index in 0..batch.drafts.len() {
        let request = batch.row(index, "");
        if request.check().is_ok() {
            range.observe(&request.event).ok()?;
        }
    }
    range.finish()
}
