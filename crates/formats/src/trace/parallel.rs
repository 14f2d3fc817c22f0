//! Lines parsed on several threads, handed out in their order.
//!
//! Lines wait some hundred kilobytes at a time for the next thread that is free, so that a long line holds up none but
//! its own, and are taken back in their order; what follows from the line before ([`Records::place`]) is done then, one
//! line after another.
//!
//! Where pools are named that the requests go to, the thread that has parsed a piece takes them as a range of each of
//! these too, while their ids are in its processor's caches.

use super::error::{RowError, RowFault, TraceError};
use super::lines::{Lines, Step};
use super::records::{Carried, Filled, Records, Source};
use super::row::Batch;
use super::unpack::has_cores;
use crossbeam_channel::{Receiver, Sender, bounded};
use kvset_core::pool::{PoolRange, RangePool};
use kvset_core::pool_config::PoolConfig;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Bytes of lines parsed at once, where one line has not more.
const PIECE_BYTES: usize = if cfg!(test) { 1 << 12 } else { 1 << 17 };

/// The same where the lines are taken as ranges of pools: the longer these are, the more of what is touched was touched
/// before within them.
const RANGE_BYTES: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

/// Pieces a thread that are read ahead at most, parsed ones included.
const PIECES_A_THREAD: usize = 3;

/// Bytes a thread beyond which no more than one piece a thread is, and one that waits: all that is ahead is written to
/// memory of its own first.
const BYTES_A_THREAD: usize = 1 << 20;

/// Lines as they were read, and then as they were parsed.
#[derive(Default)]
struct Piece {
    text: Vec<u8>,
    rows: Vec<Row>,
    /// Rows that are used; those behind are kept for their memory.
    used: usize,
    /// What its requests come to in each of the pools.
    ranges: Vec<Option<PoolRange>>,
}

/// How lines are read side by side.
#[derive(Clone)]
pub(super) struct Parallel {
    /// Threads that parse lines; on one it is done by the reader itself.
    pub threads: usize,
    /// Whether files are decompressed on a thread of their own.
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

/// One line.
#[derive(Default)]
struct Row {
    number: u64,
    /// Where it lies in the text; none of a line that was too long.
    line: Option<Range<usize>>,
    batch: Batch,
    fault: Option<RowFault>,
}

/// Batches between two lines, kept for their memory. Any of them would grow to the longest line that there is, if each
/// came to every line: so a line gets the smallest that it fits into.
#[derive(Default)]
struct Spare(Mutex<Vec<Batch>>);

impl Spare {
    fn give(&self, batch: Batch) {
        if batch.ids.capacity() > 0 {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
        }
    }

    /// A batch for a line of so many bytes: one with room for its ids, or else the largest, so that none but large ones
    /// grow.
    fn take(&self, bytes: usize) -> Batch {
        /// Bytes of a line for each of its ids, nearly.
        const BYTES_AN_ID: usize = 5;
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = |at: &usize| spare[*at].ids.capacity();
        let fitting = (0..spare.len()).filter(|at| room(at) >= bytes / BYTES_AN_ID).min_by_key(room);
        let best = fitting.or_else(|| (0..spare.len()).max_by_key(room));
        best.map_or_else(Batch::default, |at| spare.swap_remove(at))
    }
}

/// A piece that waits to be parsed, and where it goes then.
struct Job {
    piece: Piece,
    parsed: Sender<Piece>,
}

/// A file of lines that need nothing of one another to be parsed.
pub(super) struct ParallelLines {
    lines: Lines,
    file: Arc<str>,
    parsers: Vec<JoinHandle<()>>,
    /// Taken from by whichever thread is free.
    jobs: Sender<Job>,
    /// Where the pieces come back that were read, in their order.
    waiting: VecDeque<Receiver<Piece>>,
    /// Bytes of each of them.
    sizes: VecDeque<usize>,
    current: Piece,
    /// Row of the current piece.
    row: usize,
    /// Whether the ranges of the current piece are still to be told.
    is_fresh: bool,
    piece_bytes: usize,
    /// Kept for their memory; the last one is the nearest to a processor.
    spare: Vec<Piece>,
    batches: Arc<Spare>,
    /// How the lines ended, once they did.
    end: Option<Result<(), TraceError>>,
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
        let (jobs, next) = bounded(PIECES_A_THREAD * threads);
        let batches = Arc::new(Spare::default());
        let parser = || Parser {
            decoder: decoder.clone(),
            limit,
            pools: Arc::clone(&parallel.pools),
            batches: Arc::clone(&batches),
        };
        let parsers = (0..threads).map(|_| start_parser(parser(), next.clone()));
        Ok(Self {
            lines,
            file,
            parsers: parsers.collect::<Result<_, _>>()?,
            jobs,
            waiting: VecDeque::new(),
            sizes: VecDeque::new(),
            current: Piece::default(),
            row: 0,
            is_fresh: false,
            piece_bytes: if parallel.pools.is_empty() { PIECE_BYTES } else { RANGE_BYTES },
            spare: Vec::new(),
            batches,
            end: None,
        })
    }

    /// Reads pieces until there are enough for every thread, or the lines end.
    fn read_ahead(&mut self) {
        while self.end.is_none() && self.has_room() {
            let mut piece = self.spare.pop().unwrap_or_default();
            self.end = piece.read(&mut self.lines, &self.file, self.piece_bytes);
            if piece.used == 0 {
                return;
            }
            self.sizes.push_back(piece.text.len());
            let (parsed, back) = bounded(1);
            // Nobody to take it: they have panicked, which shows where the piece does not come back.
            drop(self.jobs.send(Job { piece, parsed }));
            self.waiting.push_back(back);
        }
    }

    fn has_room(&self) -> bool {
        let (ahead, threads) = (self.waiting.len(), self.parsers.len());
        let bytes: usize = self.sizes.iter().sum();
        ahead <= threads || (ahead < PIECES_A_THREAD * threads && bytes < BYTES_A_THREAD * threads)
    }

    /// Takes the oldest piece back; false where there is none.
    fn take_piece(&mut self) -> bool {
        let Some(back) = self.waiting.pop_front() else { return false };
        self.sizes.pop_front();
        let Ok(piece) = back.recv() else {
            self.join();
            return false;
        };
        self.spare.push(std::mem::replace(&mut self.current, piece));
        (self.row, self.is_fresh) = (0, true);
        true
    }

    /// A thread loses a piece only where it panicked, which goes on here.
    fn join(&mut self) {
        // Without jobs to come, the others end.
        self.jobs = bounded(0).0;
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
            if std::mem::take(&mut self.is_fresh) && !self.current.ranges.is_empty() {
                return Ok(Filled::Ranges(std::mem::take(&mut self.current.ranges)));
            }
            while self.row < self.current.used {
                let row = &mut self.current.rows[self.row];
                self.row += 1;
                Records::place(&mut row.batch, carried);
                if let Some(fault) = row.fault.take() {
                    self.batches.give(std::mem::take(&mut row.batch));
                    let (file, line) = (Arc::clone(&self.file), row.number);
                    return Ok(Filled::Refused(RowError { file, line, fault }));
                }
                if !row.batch.is_drained() {
                    std::mem::swap(batch, &mut row.batch);
                    self.batches.give(std::mem::take(&mut row.batch));
                    return Ok(Filled::Requests);
                }
                self.batches.give(std::mem::take(&mut row.batch));
            }
            self.read_ahead();
            if !self.take_piece() {
                return match self.end.replace(Ok(())) {
                    Some(Err(error)) => Err(error),
                    _ => Ok(Filled::End),
                };
            }
        }
    }
}

impl Piece {
    /// Fills the piece with lines; how they ended, if they did.
    fn read(&mut self, lines: &mut Lines, file: &Arc<str>, bytes: usize) -> Option<Result<(), TraceError>> {
        self.text.clear();
        self.used = 0;
        while self.text.len() < bytes {
            let line = match lines.step() {
                Ok(Step::Line) => Some(lines.move_line(&mut self.text)),
                Ok(Step::TooLong | Step::Cut) => None,
                Ok(Step::End) => return Some(Ok(())),
                Err(source) => {
                    let (file, line) = (Arc::clone(file), lines.number());
                    return Some(Err(TraceError::Read { file, line, source }));
                }
            };
            if self.used == self.rows.len() {
                self.rows.push(Row::default());
            }
            let row = &mut self.rows[self.used];
            (row.number, row.line) = (lines.number(), line);
            self.used += 1;
        }
        None
    }

    fn parse(&mut self, parser: &mut Parser) {
        let Parser { decoder, limit, pools, batches } = parser;
        let limit = *limit;
        for row in &mut self.rows[..self.used] {
            row.batch = batches.take(row.line.as_ref().map_or(0, Range::len));
            row.batch.clear();
            let parsed = match row.line.clone() {
                Some(line) => decoder.read(&self.text[line], row.number, &mut row.batch),
                None => Err(RowFault::LineTooLong { limit }),
            };
            row.fault = parsed.err();
        }
        self.ranges = pools.iter().map(|pool| self.range_of(pool)).collect();
    }

    /// What the requests come to in a pool, those left out that a reader refuses; `None` where its stack has to take
    /// them one after another.
    fn range_of(&self, pool: &Arc<PoolConfig>) -> Option<PoolRange> {
        let mut range = RangePool::new(pool).ok()?;
        for row in self.rows[..self.used].iter().filter(|row| row.fault.is_none()) {
            for index in 0..row.batch.drafts.len() {
                let request = row.batch.row(index, "");
                if request.check().is_ok() {
                    range.observe(&request.event).ok()?;
                }
            }
        }
        range.finish()
    }
}

/// What a thread does with a piece.
struct Parser {
    decoder: Records,
    limit: usize,
    pools: Arc<[Arc<PoolConfig>]>,
    batches: Arc<Spare>,
}

/// A thread that parses, until there is nothing more to come or nobody to take it.
fn start_parser(mut parser: Parser, jobs: Receiver<Job>) -> Result<JoinHandle<()>, TraceError> {
    let work = move || {
        for Job { mut piece, parsed } in jobs {
            piece.parse(&mut parser);
            if parsed.send(piece).is_err() {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("kvset-parse".to_owned()).spawn(work);
    thread.map_err(|source| TraceError::Thread { source })
}
