//! Lines parsed on several threads, handed out in their order.
//!
//! Lines wait some hundred kilobytes at a time for the next thread that is free, so that a long line holds up none but
//! its own, and are taken back in their order; what follows from the line before ([`Records::place`]) is done then, one
//! line after another.

use super::error::{RowError, RowFault, TraceError};
use super::lines::{Lines, Step};
use super::records::{Carried, Filled, Records, Source};
use super::row::Batch;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Bytes of lines parsed at once, where one line has not more.
const PIECE_BYTES: usize = if cfg!(test) { 1 << 12 } else { 1 << 17 };

/// Pieces a thread that are read ahead, parsed ones included.
const PIECES_A_THREAD: usize = 3;

/// Lines as they were read, and then as they were parsed.
#[derive(Default)]
struct Piece {
    text: Vec<u8>,
    rows: Vec<Row>,
    /// Rows that are used; those behind are kept for their memory.
    used: usize,
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
    current: Piece,
    /// Row of the current piece.
    row: usize,
    spare: VecDeque<Piece>,
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
        threads: usize,
    ) -> Result<Self, TraceError> {
        let (limit, threads) = (lines.limit(), threads.max(1));
        let (jobs, next) = bounded(PIECES_A_THREAD * threads);
        let parsers = (0..threads).map(|_| start_parser(decoder.clone(), limit, next.clone()));
        Ok(Self {
            lines,
            file,
            parsers: parsers.collect::<Result<_, _>>()?,
            jobs,
            waiting: VecDeque::new(),
            current: Piece::default(),
            row: 0,
            spare: VecDeque::new(),
            end: None,
        })
    }

    /// Reads pieces until there are enough for every thread, or the lines end.
    fn read_ahead(&mut self) {
        while self.end.is_none() && self.waiting.len() < PIECES_A_THREAD * self.parsers.len() {
            let mut piece = self.spare.pop_front().unwrap_or_default();
            self.end = piece.read(&mut self.lines, &self.file);
            if piece.used == 0 {
                return;
            }
            let (parsed, back) = bounded(1);
            // Nobody to take it: they have panicked, which shows where the piece does not come back.
            drop(self.jobs.send(Job { piece, parsed }));
            self.waiting.push_back(back);
        }
    }

    /// Takes the oldest piece back; false where there is none.
    fn take_piece(&mut self) -> bool {
        let Some(back) = self.waiting.pop_front() else { return false };
        let Ok(piece) = back.recv() else {
            self.join();
            return false;
        };
        self.spare.push_back(std::mem::replace(&mut self.current, piece));
        self.row = 0;
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
            while self.row < self.current.used {
                let row = &mut self.current.rows[self.row];
                self.row += 1;
                Records::place(&mut row.batch, carried);
                if let Some(fault) = row.fault.take() {
                    row.batch.clear();
                    let (file, line) = (Arc::clone(&self.file), row.number);
                    return Ok(Filled::Refused(RowError { file, line, fault }));
                }
                if !row.batch.is_drained() {
                    std::mem::swap(batch, &mut row.batch);
                    return Ok(Filled::Requests);
                }
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
    fn read(&mut self, lines: &mut Lines, file: &Arc<str>) -> Option<Result<(), TraceError>> {
        self.text.clear();
        self.used = 0;
        while self.text.len() < PIECE_BYTES {
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

    fn parse(&mut self, decoder: &Records, limit: usize) {
        for row in &mut self.rows[..self.used] {
            row.batch.clear();
            let parsed = match row.line.clone() {
                Some(line) => decoder.read(&self.text[line], row.number, &mut row.batch),
                None => Err(RowFault::LineTooLong { limit }),
            };
            row.fault = parsed.err();
        }
    }
}

/// A thread that parses, until there is nothing more to come or nobody to take it.
fn start_parser(decoder: Records, limit: usize, jobs: Receiver<Job>) -> Result<JoinHandle<()>, TraceError> {
    let work = move || {
        for Job { mut piece, parsed } in jobs {
            piece.parse(&decoder, limit);
            if parsed.send(piece).is_err() {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("kvset-parse".to_owned()).spawn(work);
    thread.map_err(|source| TraceError::Thread { source })
}
