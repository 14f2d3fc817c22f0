//! Reading ahead on other threads: while a caller works on some requests, the next ones are decompressed and parsed.
//!
//! What comes out is what the reader alone gives, in its order. A caller that stops early ends the threads: they
//! find nobody to send to. One that waits for a stream which never goes on is left waiting, and holds nothing up.

use super::ahead::MadeAhead;
use super::error::TraceError;
use super::findings::TraceFindings;
use super::groups::{GroupReader, ItemGroup, RowGroup};
use super::options::ReadOptions;
use super::parallel::Parallel;
use super::reader::{ReadProgress, TraceItem, TraceReader, open_with};
use kvset_core::estimate::config::PoolConfig;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

/// Groups of requests that wait, alongside the one that is worked on and the one that is filled.
const WAITING: usize = 1;

/// Opens trace files as [`open`](super::open) does, to be read ahead on so many threads, where these are several.
/// Their requests are taken as ranges of each of these pools on the way ([`ItemGroup::ranges`]), where the format lets
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
    AheadReader::new(reader, threads)
}

/// Reads the rows that lie in memory as a trace, as [`open_ahead`] reads files.
///
/// # Errors
/// Their format cannot be known; [`TraceError::Thread`].
pub fn recorded_ahead(
    recording: &Recording,
    options: &ReadOptions,
    threads: usize,
) -> Result<AheadReader, TraceError> {
    let rows = Box::new(Cursor::new(Arc::clone(&recording.rows)));
    let parallel = Parallel { threads, ..Parallel::none() };
    AheadReader::new(TraceReader::from_reader_with(&recording.name, rows, options, parallel)?, threads)
}

/// Rows in memory.
#[derive(Debug, Clone)]
pub struct Recording {
    /// What stands for them in messages, as a file's name does.
    pub name: String,
    /// The rows, one per line.
    pub rows: Arc<[u8]>,
}

/// Trace files as [`open`](super::open) gives them, read ahead of where there is a core for it.
pub struct AheadReader {
    groups: Groups,
    group: RowGroup,
}

/// Where the groups come from.
enum Groups {
    /// The caller's thread: it has the only core, or others parse for the reader.
    Here(Box<GroupReader>),
    Background(MadeAhead<Result<Option<RowGroup>, TraceError>, RowGroup, GroupReader>),
}

impl AheadReader {
    /// Goes on with a reader on so many threads.
    ///
    /// # Errors
    /// [`TraceError::Thread`]: the system has no thread to give.
    fn new(reader: TraceReader, threads: usize) -> Result<Self, TraceError> {
        let needs_a_thread = threads > 1 && !reader.is_parallel();
        let grouped = GroupReader::new(reader);
        let groups = match needs_a_thread {
            true => {
                let started = MadeAhead::start("kvset-read", WAITING, grouped, |grouped, spare| {
                    let next = grouped.next(spare);
                    let is_last = !matches!(next, Ok(Some(_)));
                    (next, is_last)
                });
                Groups::Background(started.map_err(|source| TraceError::Thread { source })?)
            }
            false => Groups::Here(Box::new(grouped)),
        };
        Ok(Self { groups, group: RowGroup::default() })
    }

    /// As [`TraceReader::next_item`].
    ///
    /// # Errors
    /// As there.
    pub fn next_item(&mut self) -> Result<Option<TraceItem<'_>>, TraceError> {
        self.find_items()?;
        Ok(self.group.next_item())
    }

    /// The next items, as many as were read together. None at the end.
    ///
    /// # Errors
    /// As for [`AheadReader::next_item`].
    pub fn next_items(&mut self) -> Result<ItemGroup<'_>, TraceError> {
        self.find_items()?;
        Ok(self.group.rest())
    }

    /// Goes to the next group that holds an item, unless this one holds a further one.
    fn find_items(&mut self) -> Result<(), TraceError> {
        while self.group.is_drained() {
            let read = std::mem::take(&mut self.group);
            let progress = read.progress;
            let next = match &mut self.groups {
                Groups::Here(grouped) => grouped.next(read)?,
                Groups::Background(ahead) => match ahead.next(read) {
                    Some(Ok(Some(group))) => Some(group),
                    ended => {
                        if let Some(grouped) = ahead.end() {
                            self.groups = Groups::Here(Box::new(grouped));
                        }
                        ended.transpose()?.flatten()
                    }
                },
            };
            let Some(group) = next else {
                self.group.progress = progress;
                return Ok(());
            };
            self.group = group;
        }
        Ok(())
    }

    /// How far the files were read, by the requests handed out and those read with them.
    pub fn progress(&self) -> ReadProgress {
        self.group.progress
    }

    /// What was found out, once the trace is at its end.
    pub fn findings(&self) -> TraceFindings {
        match &self.groups {
            Groups::Here(grouped) => grouped.findings(),
            Groups::Background(_) => TraceFindings::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::ITEMS_AT_ONCE;
    use super::*;
    use crate::trace::{Format, ReadOptions};

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

    /// Threads that parse, and those that there are: the caller's alone, one that reads ahead, and several that parse.
    const WAYS: [(usize, usize); 4] = [(1, 1), (1, 2), (2, 2), (5, 5)];

    fn told(item: &TraceItem<'_>) -> String {
        format!("{item:?}")
    }

    #[test]
    fn what_is_read_ahead_is_what_is_read() {
        for (parsing, threads) in WAYS {
            let ahead = AheadReader::new(reader_on(trace(), parsing), threads);
            let (mut alone, mut ahead) = (reader(trace()), ahead.expect("a thread"));
            let mut items = 0;
            while let Some(item) = alone.next_item().expect("memory") {
                let expected = told(&item);
                assert_eq!(ahead.next_item().expect("memory").as_ref().map(told), Some(expected));
                items += 1;
            }
            assert!(ahead.next_item().expect("memory").is_none());
            assert!(items > 2 * ITEMS_AT_ONCE, "{items} items are several groups");
            assert_eq!((ahead.findings().notes, ahead.progress()), (alone.notes(), alone.progress()));
        }
    }

    #[test]
    fn a_stream_that_breaks_off_gives_what_came_before_it_and_then_the_error() {
        let packed = zstd::encode_all(&trace()[..], 3).expect("memory");
        let cut = packed[..packed.len() / 2].to_vec();
        for (parsing, threads) in WAYS {
            let ahead = AheadReader::new(reader_on(cut.clone(), parsing), threads);
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
        let mut ahead = AheadReader::new(reader(trace()), 2).expect("a thread");
        ahead.next_item().expect("memory");
        let Groups::Background(mut groups) = ahead.groups else { panic!("no thread") };
        assert!(groups.end().is_some());
    }
}
