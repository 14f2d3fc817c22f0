//! Reading ahead on threads of its own: while a caller works on one request, the next ones are decompressed and parsed.
//!
//! What comes out is what the reader alone gives, in its order. A caller that stops early ends the threads: they
//! find nobody to send to. One that waits for a stream which never goes on is left waiting, and holds nothing up.

use super::error::{RowError, TraceError};
use super::options::ReadOptions;
use super::parallel::Parallel;
use super::reader::{Found, Progress, TraceItem, TraceReader, open_with};
use super::row::Batch;
use kvset_core::pool::PoolRange;
use kvset_core::pool_config::PoolConfig;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Page ids after which what was parsed is passed on, once the line is at its end.
const IDS_AT_ONCE: usize = 1 << 15;
/// The same for requests and refused rows.
const ITEMS_AT_ONCE: usize = 512;
/// Groups of requests that wait, beside the one that is worked on and the one that is filled.
const WAITING: usize = 1;

/// Trace files as [`open`](super::open) gives them, read ahead of where there is a core for it.
pub enum AheadReader {
    /// On the caller's thread.
    Here(Box<TraceReader>),
    /// On another.
    Background(Box<BackgroundReader>),
}

/// Opens trace files as [`open`](super::open) does, to be read ahead on so many threads, where these are several.
/// Their requests are taken as ranges of each of these pools on the way ([`Together::ranges`]), where the format lets
/// lines be parsed side by side.
///
/// # Errors
/// Those of [`open`](super::open), and [`TraceError::Thread`].
pub fn open_ahead(
    paths: &[PathBuf],
    options: &ReadOptions,
    threads: usize,
    pools: &[Arc<PoolConfig>],
) -> Result<AheadReader, TraceError> {
    let reader =
        open_with(paths, options, Parallel { threads, unpacks: threads > 1, pools: Arc::from(pools) })?;
    Ok(match threads > 1 {
        true => AheadReader::Background(Box::new(BackgroundReader::start(reader)?)),
        false => AheadReader::Here(Box::new(reader)),
    })
}

impl AheadReader {
    /// As [`TraceReader::next_item`].
    ///
    /// # Errors
    /// As there.
    pub fn next_item(&mut self) -> Result<Option<TraceItem<'_>>, TraceError> {
        match self {
            Self::Here(reader) => reader.next_item(),
            Self::Background(reader) => reader.next_item(),
        }
    }

    /// The next items, as many as were read together: one where nothing is read ahead. None at the end.
    ///
    /// # Errors
    /// As for [`AheadReader::next_item`].
    pub fn next_items(&mut self) -> Result<Together<'_>, TraceError> {
        match self {
            Self::Here(reader) => {
                let items = reader.next_item()?.into_iter().collect();
                Ok(Together { items, ranges: Vec::new() })
            }
            Self::Background(reader) => reader.next_items(),
        }
    }

    /// As [`TraceReader::progress`].
    pub fn progress(&self) -> Progress {
        match self {
            Self::Here(reader) => reader.progress(),
            Self::Background(reader) => reader.progress(),
        }
    }

    /// As [`TraceReader::notes`], once the trace is at its end.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Here(reader) => reader.notes(),
            Self::Background(reader) => reader.notes(),
        }
    }
}

/// Items that were read together.
pub struct Together<'a> {
    /// Requests and refused rows in their order.
    pub items: Vec<TraceItem<'a>>,
    /// What the requests come to in each of the pools that take ranges; `None` where a pool has to observe them one
    /// after another, and empty where all have to.
    pub ranges: Vec<Option<PoolRange>>,
}

/// A [`TraceReader`] whose next requests are read while the last one is worked on.
pub struct BackgroundReader {
    groups: Receiver<Message>,
    spare: Sender<Group>,
    thread: Option<JoinHandle<()>>,
    group: Group,
    /// The next item of the group.
    next: usize,
    progress: Progress,
    notes: Vec<String>,
}

/// Some requests and refused rows, one after another.
#[derive(Default)]
struct Group {
    /// Parsed lines, each with the name of its file. Those behind `used` are empty, kept for their memory.
    batches: Vec<(Batch, Arc<str>)>,
    used: usize,
    items: Vec<Item>,
    /// What all of the requests come to in each of the pools that take ranges.
    ranges: Vec<Option<PoolRange>>,
    progress: Progress,
}

/// What [`Group`] holds of a row.
enum Item {
    /// The number of its batch, and its own in that.
    Request(usize, usize),
    /// Handed out once, and gone then.
    Refused(Option<RowError>),
}

impl Item {
    /// The row as a caller gets it; a refused one only once.
    fn take<'a>(&mut self, batches: &'a [(Batch, Arc<str>)]) -> Option<TraceItem<'a>> {
        match self {
            Self::Request(batch, index) => {
                let (batch, file) = &batches[*batch];
                Some(TraceItem::Request(batch.row(*index, file)))
            }
            Self::Refused(error) => error.take().map(TraceItem::Refused),
        }
    }
}

/// What the thread has to say.
enum Message {
    Group(Group),
    /// The trace is at its end; with the reader's notes.
    End(Vec<String>),
    Failed(TraceError),
}

impl BackgroundReader {
    /// Goes on with a reader on a thread of its own.
    ///
    /// # Errors
    /// [`TraceError::Thread`]: the system has no thread to give.
    pub fn start(reader: TraceReader) -> Result<Self, TraceError> {
        let (sender, groups) = sync_channel(WAITING);
        let (spare, spares) = channel();
        let progress = reader.progress();
        let work = move || read(reader, &sender, &spares);
        let thread = thread::Builder::new().name("kvset-read".to_owned()).spawn(work);
        let thread = thread.map_err(|source| TraceError::Thread { source })?;
        let group = Group::default();
        Ok(Self { groups, spare, thread: Some(thread), group, next: 0, progress, notes: Vec::new() })
    }

    /// As [`TraceReader::next_item`].
    ///
    /// # Errors
    /// [`TraceError`] when a file cannot be read on. The reader is then at its end.
    pub fn next_item(&mut self) -> Result<Option<TraceItem<'_>>, TraceError> {
        if !self.has_items()? {
            return Ok(None);
        }
        let item = &mut self.group.items[self.next];
        self.next += 1;
        Ok(item.take(&self.group.batches))
    }

    /// The rest of the group of requests that were read together; none at the end.
    fn next_items(&mut self) -> Result<Together<'_>, TraceError> {
        if !self.has_items()? {
            return Ok(Together { items: Vec::new(), ranges: Vec::new() });
        }
        let is_whole = self.next == 0;
        let Group { items, batches, ranges, .. } = &mut self.group;
        let rest = &mut items[self.next..];
        self.next += rest.len();
        let items = rest.iter_mut().filter_map(|item| item.take(batches)).collect();
        Ok(Together { items, ranges: if is_whole { std::mem::take(ranges) } else { Vec::new() } })
    }

    /// Whether the group, or the next one that is not empty, holds a further item; false at the end.
    fn has_items(&mut self) -> Result<bool, TraceError> {
        while self.next == self.group.items.len() {
            if !self.next_group()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes to the next group; false at the end.
    fn next_group(&mut self) -> Result<bool, TraceError> {
        match self.groups.recv() {
            Ok(Message::Group(group)) => {
                let read = std::mem::replace(&mut self.group, group);
                (self.next, self.progress) = (0, self.group.progress);
                // Nobody to reuse it once the end was read.
                drop(self.spare.send(read));
                Ok(true)
            }
            Ok(Message::End(notes)) => {
                self.notes = notes;
                self.forget()
            }
            Ok(Message::Failed(error)) => self.forget().and(Err(error)),
            Err(_) => self.forget(),
        }
    }

    /// Ends; a thread that did not come to its end by itself has panicked, which goes on here.
    fn forget(&mut self) -> Result<bool, TraceError> {
        (self.group, self.next) = (Group::default(), 0);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
        Ok(false)
    }

    /// How far the files were read, by the requests handed out and those read with them.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// As [`TraceReader::notes`], once the trace is at its end.
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// The thread: reads until the end, an error, or until nobody listens.
fn read(mut reader: TraceReader, groups: &SyncSender<Message>, spares: &Receiver<Group>) {
    let mut ranges = Vec::new();
    loop {
        let mut group = spares.try_recv().unwrap_or_default();
        group.clear();
        let filled = group.fill(&mut reader, &mut ranges);
        group.progress = reader.progress();
        if groups.send(Message::Group(group)).is_err() {
            return;
        }
        let last = match filled {
            Ok(true) => continue,
            Ok(false) => Message::End(reader.notes()),
            Err(error) => Message::Failed(error),
        };
        // Nobody listening needs no last word.
        drop(groups.send(last));
        return;
    }
}

impl Group {
    fn clear(&mut self) {
        self.items.clear();
        self.ranges.clear();
        self.used = 0;
    }

    /// Fills the group; false where the trace is at its end. One that has ranges holds all their requests and no
    /// others: `ranges` are those of the requests to come.
    fn fill(
        &mut self,
        reader: &mut TraceReader,
        ranges: &mut Vec<Option<PoolRange>>,
    ) -> Result<bool, TraceError> {
        self.ranges = std::mem::take(ranges);
        let mut ids = 0;
        while !reader.batch_mut().is_drained() || !self.is_full(ids) {
            match reader.step()? {
                Some(Found::Request(index)) => self.items.push(Item::Request(self.used, index)),
                Some(Found::Refused(error)) => self.items.push(Item::Refused(Some(error))),
                Some(Found::Ranges(found)) => {
                    if self.ends_before(&found) {
                        *ranges = found;
                        return Ok(true);
                    }
                    self.ranges = found;
                }
                None => return Ok(false),
            }
            // The others of its line follow it.
            ids += self.take_drained(reader);
        }
        Ok(true)
    }

    /// Whether it is time to pass on what was parsed, where no range says when.
    fn is_full(&self, ids: usize) -> bool {
        self.ranges.is_empty() && (ids >= IDS_AT_ONCE || self.items.len() >= ITEMS_AT_ONCE)
    }

    /// Whether requests of these ranges, or of none, begin another group.
    fn ends_before(&self, ranges: &[Option<PoolRange>]) -> bool {
        let has_ranges = !self.ranges.is_empty() || !ranges.is_empty();
        has_ranges && !self.items.is_empty()
    }

    /// Takes the reader's line over once all its requests are told; returns how many ids it has.
    fn take_drained(&mut self, reader: &mut TraceReader) -> usize {
        if !reader.batch_mut().is_drained() || reader.batch_mut().drafts.is_empty() {
            return 0;
        }
        if self.used == self.batches.len() {
            self.batches.push((Batch::default(), Arc::from("")));
        }
        let name = reader.file_name();
        let (batch, file) = &mut self.batches[self.used];
        *file = name;
        batch.clear();
        std::mem::swap(batch, reader.batch_mut());
        self.used += 1;
        batch.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Format, ReadOptions};
    use std::io::Cursor;

    /// Rows good and bad, in sessions and single ones, more than a group holds.
    fn trace() -> Vec<u8> {
        let mut text = String::new();
        for row in 0..2_000_u64 {
            let ids: Vec<String> = (0..row % 90).map(|id| id.to_string()).collect();
            let ids = ids.join(",");
            text += &match row % 7 {
                3 => "{\"t\":".to_owned(),
                5 => format!(
                    "{{\"id\":\"s{row}\",\"requests\":[{{\"t\":2,\"in\":64,\"hash_ids\":[{row}]}},{{\"t\":1,\"hash_ids\":[{ids}]}}]}}"
                ),
                _ => format!("{{\"timestamp\":{row},\"hash_ids\":[{ids}]}}"),
            };
            text.push('\n');
        }
        text.into_bytes()
    }

    fn reader(bytes: Vec<u8>) -> TraceReader {
        reader_on(bytes, 1)
    }

    fn reader_on(bytes: Vec<u8>, threads: usize) -> TraceReader {
        let options = ReadOptions { format: Format::Weka, max_line_bytes: 250, ..ReadOptions::default() };
        let parallel = Parallel { threads, ..Parallel::none() };
        TraceReader::from_reader_with("t", Box::new(Cursor::new(bytes)), &options, parallel).expect("opens")
    }

    fn told(item: &TraceItem<'_>) -> String {
        format!("{item:?}")
    }

    #[test]
    fn what_is_read_ahead_is_what_is_read() {
        for threads in [1, 2, 5] {
            let ahead = BackgroundReader::start(reader_on(trace(), threads));
            let (mut alone, mut ahead) = (reader(trace()), ahead.expect("a thread"));
            let mut items = 0;
            while let Some(item) = alone.next_item().expect("memory") {
                let expected = told(&item);
                assert_eq!(ahead.next_item().expect("memory").as_ref().map(told), Some(expected));
                items += 1;
            }
            assert!(ahead.next_item().expect("memory").is_none());
            assert!(items > 2 * ITEMS_AT_ONCE, "{items} items are several groups");
            assert_eq!((ahead.notes(), ahead.progress()), (alone.notes(), alone.progress()));
        }
    }

    #[test]
    fn a_stream_that_breaks_off_gives_what_came_before_it_and_then_the_error() {
        let packed = zstd::encode_all(&trace()[..], 3).expect("memory");
        let cut = packed[..packed.len() / 2].to_vec();
        for threads in [1, 3] {
            let ahead = BackgroundReader::start(reader_on(cut.clone(), threads));
            let (mut alone, mut ahead) = (reader(cut.clone()), ahead.expect("a thread"));
            loop {
                match (alone.next_item(), ahead.next_item()) {
                    (Ok(Some(one)), Ok(Some(other))) => assert_eq!(told(&one), told(&other)),
                    (Err(one), Err(other)) => break assert_eq!(one.to_string(), other.to_string()),
                    (one, other) => panic!("{one:?} beside {other:?}"),
                }
            }
            assert!(ahead.next_item().expect("the end").is_none());
        }
    }

    #[test]
    fn a_caller_that_stops_ends_the_thread() {
        let mut ahead = BackgroundReader::start(reader(trace())).expect("a thread");
        ahead.next_item().expect("memory");
        let BackgroundReader { groups, thread, .. } = ahead;
        drop(groups);
        thread.expect("running").join().expect("no panic");
    }
}
