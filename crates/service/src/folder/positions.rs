//! How far a folder was read: which stretch of which file stands at which offsets.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most stretches that are kept. The log begins after those that were dropped, as after records that a topic has let
/// go.
const MAX_STRETCHES: usize = 1 << 18;
/// Most files that a folder has; of those that are gone as many more are remembered, and those that a stretch is of.
pub(super) const MAX_FILES: usize = 10_000;

/// A file, whatever its name is by now: it is known by its first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownFile {
    pub id: u32,
    /// Its name as it was seen last.
    pub name: String,
    /// Hash of its first line.
    pub print: u64,
    /// Everything before this byte was read, and is committed.
    pub read: u64,
}

/// Lines of a file that stand one after the other in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStretch {
    /// Offset of the first.
    pub first: i64,
    /// How many.
    pub records: i64,
    pub file: u32,
    pub start: u64,
    pub end: u64,
}

impl FileStretch {
    /// The offset after the last.
    pub fn after(&self) -> i64 {
        self.first + self.records
    }

    /// Takes in what follows at once in the same file.
    fn join(&mut self, next: &Self) -> bool {
        let follows = self.file == next.file && self.end == next.start && self.after() == next.first;
        if follows {
            (self.end, self.records) = (next.end, self.records + next.records);
        }
        follows
    }
}

/// What a commit adds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Advance {
    /// The offset after it; none before the first commit.
    pub next: Option<i64>,
    /// Files that are new, or were read further.
    pub files: Vec<KnownFile>,
    pub stretches: Vec<FileStretch>,
}

/// What is committed, and what was handed out since.
#[derive(Debug, Default)]
pub(super) struct FolderPositions {
    next: Option<i64>,
    known: BTreeMap<u32, KnownFile>,
    /// The same by the hash of their first lines.
    by_print: BTreeMap<u64, u32>,
    stretches: VecDeque<FileStretch>,
    /// A line each.
    handed: VecDeque<FileStretch>,
    /// Files whose names are not committed as they are.
    changed: BTreeSet<u32>,
    /// Files that were cut off, or passed: at which offset of the log, and to which byte. What was handed out before
    /// lies behind that byte.
    cuts: BTreeMap<u32, (i64, u64)>,
    /// Whether one of them is not committed.
    has_new_cut: bool,
}

impl FolderPositions {
    /// The committed offset.
    pub fn committed(&self) -> Option<i64> {
        self.next
    }

    /// The offset that the next line gets.
    pub fn next(&self) -> i64 {
        self.handed.back().map_or(self.next.unwrap_or(0), FileStretch::after)
    }

    /// Counts a line that is handed out.
    pub fn hand_out(&mut self, file: u32, start: u64, end: u64) -> i64 {
        let first = self.next();
        self.handed.push_back(FileStretch { first, records: 1, file, start, end });
        first
    }

    /// The file and the byte of a line that is not committed yet.
    pub fn place(&self, offset: i64) -> Option<(&str, u64)> {
        let first = self.handed.front()?.first;
        let line = self.handed.get(usize::try_from(offset.checked_sub(first)?).ok()?)?;
        Some((&self.known.get(&line.file)?.name, line.start))
    }

    /// What a commit of everything before `next` adds.
    pub fn until(&self, next: i64) -> Advance {
        let mut stretches: Vec<FileStretch> = Vec::new();
        let mut files: BTreeMap<u32, KnownFile> = BTreeMap::new();
        let known = |id: &u32| Some((*id, self.known.get(id)?.clone()));
        files.extend(self.changed.iter().filter_map(known));
        for line in self.handed.iter().take_while(|line| line.first < next) {
            if !stretches.last_mut().is_some_and(|last| last.join(line)) {
                stretches.push(*line);
            }
            if !files.contains_key(&line.file) {
                files.extend(known(&line.file));
            }
            if let Some(file) = files.get_mut(&line.file) {
                file.read = self.end_of(line);
            }
        }
        Advance { next: Some(next), files: files.into_values().collect(), stretches }
    }

    /// Up to where a line was read of its file as it is now.
    fn end_of(&self, line: &FileStretch) -> u64 {
        let cut = self.cuts.get(&line.file).filter(|(offset, _)| line.first < *offset);
        cut.map_or(line.end, |(_, bytes)| line.end.min(*bytes))
    }

    /// Whether a file was cut off, and no commit says so.
    pub fn has_new_cut(&self) -> bool {
        self.has_new_cut
    }

    /// Everything, as one commit adds it to nothing.
    pub fn whole(&self) -> Advance {
        let (files, stretches) = (self.known.values().cloned().collect(), self.stretches.iter().copied());
        Advance { next: self.next, files, stretches: stretches.collect() }
    }

    /// A commit is durable.
    pub fn apply(&mut self, advance: Advance) {
        let Advance { next, files, stretches } = advance;
        self.next = next;
        self.has_new_cut = false;
        self.cuts.retain(|_, (offset, _)| Some(*offset) > next);
        while self.handed.front().is_some_and(|line| Some(line.first) < next) {
            self.handed.pop_front();
        }
        for file in files {
            self.changed.remove(&file.id);
            self.by_print.insert(file.print, file.id);
            self.known.insert(file.id, file);
        }
        for stretch in stretches {
            if !self.stretches.back_mut().is_some_and(|last| last.join(&stretch)) {
                self.stretches.push_back(stretch);
            }
        }
        while self.stretches.len() > MAX_STRETCHES {
            self.stretches.pop_front();
        }
    }

    /// The file with this first line, which has this name now; a new one where there is none.
    pub fn name(&mut self, print: u64, name: &str) -> u32 {
        let new = self.known.last_key_value().map_or(0, |(last, _)| last + 1);
        let id = *self.by_print.entry(print).or_insert(new);
        let empty = || KnownFile { id, name: String::new(), print, read: 0 };
        let file = self.known.entry(id).or_insert_with(empty);
        if file.name != name {
            name.clone_into(&mut file.name);
            self.changed.insert(id);
        }
        id
    }

    /// The file of this number.
    pub fn file(&self, id: u32) -> Option<&KnownFile> {
        self.known.get(&id)
    }

    /// The name that the file with this first line had.
    pub fn file_of(&self, print: u64) -> Option<&str> {
        Some(&self.known.get(self.by_print.get(&print)?)?.name)
    }

    /// Whether any file is known.
    pub fn knows_files(&self) -> bool {
        !self.known.is_empty()
    }

    /// What is there of this file before this byte is not read.
    pub fn pass(&mut self, id: u32, bytes: u64) {
        if let Some(file) = self.known.get_mut(&id) {
            file.read = bytes;
            self.changed.insert(id);
            self.has_new_cut = true;
        }
        self.cuts.insert(id, (self.next(), bytes));
    }

    /// Up to where a file was handed out.
    pub fn read_to(&self, id: u32) -> u64 {
        let handed = self.handed.iter().rev().find(|line| line.file == id).map(|line| self.end_of(line));
        handed.or_else(|| Some(self.known.get(&id)?.read)).unwrap_or(0)
    }

    /// Forgets the files that were seen first and that no stretch needs, where there are too many.
    pub fn forget_files(&mut self, is_there: impl Fn(u32) -> bool) {
        let mut spare = self.known.len().saturating_sub(2 * MAX_FILES);
        if spare > 0 {
            let all = self.stretches.iter().chain(&self.handed);
            let needed: BTreeSet<u32> = all.map(|stretch| stretch.file).collect();
            self.known.retain(|id, _| {
                let goes = spare > 0 && !needed.contains(id) && !is_there(*id);
                spare -= usize::from(goes);
                !goes
            });
            self.by_print.retain(|_, id| self.known.contains_key(id));
        }
    }

    /// The first offset from which on everything committed can be read.
    pub fn log_start(&self, is_there: impl Fn(&FileStretch) -> bool) -> i64 {
        let last = self.stretches.iter().rev().take_while(|stretch| is_there(stretch)).last();
        last.map_or(self.next.unwrap_or(0), |stretch| stretch.first)
    }

    /// The committed stretches with the records from this offset on.
    pub fn from(&self, offset: i64) -> impl Iterator<Item = FileStretch> {
        let at = self.stretches.partition_point(|stretch| stretch.after() <= offset);
        self.stretches.range(at..).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_handed_out_before_a_file_was_cut_off_moves_it_no_further() {
        let mut positions = FolderPositions::default();
        let file = positions.name(7, "one");
        positions.hand_out(file, 0, 10);
        positions.hand_out(file, 10, 30);
        positions.pass(file, 12);
        assert!(positions.has_new_cut() && positions.read_to(file) == 12);
        positions.hand_out(file, 12, 20);
        let read = |advance: &Advance| advance.files[0].read;
        let first = positions.until(2);
        assert_eq!((read(&positions.until(1)), read(&first), read(&positions.until(3))), (10, 12, 20));
        positions.apply(first);
        assert_eq!((positions.has_new_cut(), positions.read_to(file)), (false, 20));
        positions.apply(positions.until(3));
        assert_eq!(positions.file(file).map(|file| file.read), Some(20));
    }

    #[test]
    fn positions_are_what_was_handed_out_up_to_the_committed_offset() {
        let mut positions = FolderPositions::default();
        let (one, two) = (positions.name(7, "one"), positions.name(8, "two"));
        let lines = [(one, 0, 10), (one, 10, 30), (two, 0, 5), (one, 30, 31), (one, 31, 40)];
        let offsets: Vec<i64> =
            lines.iter().map(|(file, start, end)| positions.hand_out(*file, *start, *end)).collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4]);
        assert_eq!((positions.place(2), positions.place(5)), (Some(("two", 0)), None));
        assert_eq!((positions.read_to(one), positions.read_to(two), positions.read_to(9)), (40, 5, 0));
        let advance = positions.until(4);
        let stretches: Vec<_> = advance.stretches.iter().map(|it| (it.first, it.records, it.end)).collect();
        assert_eq!(stretches, [(0, 2, 30), (2, 1, 5), (3, 1, 31)]);
        assert_eq!(advance.files.iter().map(|file| file.read).collect::<Vec<_>>(), [31, 5]);
        positions.apply(advance);
        assert_eq!((positions.committed(), positions.next()), (Some(4), 5));
        positions.apply(positions.until(5));
        let from: Vec<_> = positions.from(3).map(|it| (it.first, it.records, it.start, it.end)).collect();
        assert_eq!(from, [(3, 2, 30, 40)], "what follows in the same file is one stretch");
        assert_eq!(positions.read_to(two), 5, "committed");
        let mut again = FolderPositions::default();
        again.apply(positions.whole());
        assert_eq!(again.whole(), positions.whole());
        assert_eq!(positions.until(5), Advance { next: Some(5), ..Advance::default() });
    }

    #[test]
    fn files_that_are_gone_are_forgotten_where_there_are_too_many() {
        let mut positions = FolderPositions::default();
        let ids = 0..2 * MAX_FILES as u32;
        let file = |id| KnownFile { id, name: "name".to_owned(), print: u64::from(id), read: 0 };
        positions.apply(Advance { files: ids.map(file).collect(), ..Advance::default() });
        positions.hand_out(0, 0, 1);
        positions.name(1 << 20, "one more");
        positions.forget_files(|id| id == 1);
        let left = [0, 1, 2, 3].map(|id| positions.file(id).is_some());
        assert_eq!(left, [true, true, false, true], "one is enough");
    }

    #[test]
    fn the_log_begins_after_the_last_stretch_that_is_gone() {
        let mut positions = FolderPositions::default();
        for (print, records) in [(1, 2), (2, 3), (3, 4)] {
            let file = positions.name(print, "name");
            for at in 0..records {
                positions.hand_out(file, at, at + 1);
            }
        }
        positions.apply(positions.until(9));
        assert_eq!(positions.log_start(|_| true), 0);
        assert_eq!(positions.log_start(|stretch| stretch.file != 1), 5);
        assert_eq!(positions.log_start(|_| false), 9);
    }
}
