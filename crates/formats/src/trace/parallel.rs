//! Lines parsed on several threads, handed out in their order.
//!
//! Lines are dealt to the threads in turn, some hundred kilobytes at a time, and taken back in the same turn; what
//! follows from the line before ([`Records::place`]) is done then, one line after another.

use super::error::{RowError, RowFault, TraceError};
use super::lines::{Lines, Step};
use super::records::{Carried, Filled, Records, Source};
use super::row::Batch;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Bytes of lines dealt at once, where one line has not more.
const PIECE_BYTES: usize = if cfg!(test) { 1 << 12 } else { 1 << 17 };

/// Pieces a thread has, parsed ones included.
const PIECES_A_THREAD: usize = 2;

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

/// A thread that parses.
struct Parser {
    pieces: SyncSender<Piece>,
    parsed: Receiver<Piece>,
    thread: Option<JoinHandle<()>>,
}

/// A file of lines that need nothing of one another to be parsed.
pub(super) struct ParallelLines {
    lines: Lines,
    file: Arc<str>,
    parsers: Vec<Parser>,
    /// Which parser gets the next piece, and which one has the oldest.
    next: usize,
    oldest: usize,
    waiting: usize,
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
        let limit = lines.limit();
        let parsers = (0..threads.max(1)).map(|_| Parser::start(decoder.clone(), limit));
        Ok(Self {
            lines,
            file,
            parsers: parsers.collect::<Result<_, _>>()?,
            next: 0,
            oldest: 0,
            waiting: 0,
            current: Piece::default(),
            row: 0,
            spare: VecDeque::new(),
            end: None,
        })
    }

    /// Deals pieces until every thread has enough, or the lines end.
    fn deal(&mut self) {
        while self.end.is_none() && self.waiting < PIECES_A_THREAD * self.parsers.len() {
            let mut piece = self.spare.pop_front().unwrap_or_default();
            self.end = piece.read(&mut self.lines, &self.file);
            if piece.used == 0 {
                return;
            }
            let parser = &mut self.parsers[self.next];
            if parser.pieces.send(piece).is_err() {
                parser.join();
            }
            self.next = (self.next + 1) % self.parsers.len();
            self.waiting += 1;
        }
    }

    /// Takes the oldest piece back; false where there is none.
    fn take_piece(&mut self) -> bool {
        if self.waiting == 0 {
            return false;
        }
        let parser = &mut self.parsers[self.oldest];
        let Ok(piece) = parser.parsed.recv() else {
            parser.join();
            return false;
        };
        self.oldest = (self.oldest + 1) % self.parsers.len();
        self.waiting -= 1;
        self.spare.push_back(std::mem::replace(&mut self.current, piece));
        self.row = 0;
        true
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
            self.deal();
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
                Ok(Step::Line) => {
                    let begin = self.text.len();
                    self.text.extend_from_slice(lines.line());
                    Some(begin..self.text.len())
                }
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

impl Parser {
    fn start(decoder: Records, limit: usize) -> Result<Self, TraceError> {
        let (pieces, dealt) = sync_channel::<Piece>(PIECES_A_THREAD);
        let (sender, parsed) = sync_channel(PIECES_A_THREAD);
        let work = move || {
            for mut piece in dealt {
                piece.parse(&decoder, limit);
                if sender.send(piece).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("kvset-parse".to_owned()).spawn(work);
        let thread = thread.map_err(|source| TraceError::Thread { source })?;
        Ok(Self { pieces, parsed, thread: Some(thread) })
    }

    /// A thread ends before its pieces do only where it panicked, which goes on here.
    fn join(&mut self) {
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}
