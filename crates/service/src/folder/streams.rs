//! The files of a folder as one log: what follows in each, in the order in which it was written.

use super::catalog::{FolderCatalog, SeenFile, UNREADABLE};
use super::lines::{FileLines, LineRules, WholeLine, written_at};
use super::positions::{FileStretch, FolderPositions};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;

/// What is read of one file.
struct FileCursor {
    file: SeenFile,
    is_there: bool,
    /// Where the next line begins.
    at: u64,
    lines: Option<FileLines>,
    /// The next line, where it was read already, and when it was written.
    head: Option<WholeLine>,
    written_at: i64,
}

/// What follows in the files of a folder.
pub(super) struct FolderStreams {
    catalog: FolderCatalog,
    files: BTreeMap<u32, FileCursor>,
    /// Files that may have a line, by when it was written.
    ready: BTreeSet<(i64, u32)>,
    /// Records and bytes that were read, for what a record takes.
    read: (u64, u64),
}

impl FolderStreams {
    /// Of a folder that was not looked at yet.
    pub fn new(folder: PathBuf, rules: LineRules) -> Self {
        let (files, ready) = Default::default();
        Self { catalog: FolderCatalog::new(folder, rules), files, ready, read: (0, 0) }
    }

    /// Looks at the folder again.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn look(&mut self, positions: &mut FolderPositions) -> io::Result<()> {
        let present = self.catalog.look(positions)?;
        let gone: Vec<u32> = self.files.keys().copied().filter(|id| !present.contains_key(id)).collect();
        for id in gone {
            // An open file is read to its end, whatever became of its name.
            let Some(cursor) = self.files.get_mut(&id) else { continue };
            cursor.is_there = false;
            if cursor.lines.is_none() {
                self.let_go(id);
            }
        }
        for (id, file) in present {
            self.see(id, file, positions);
        }
        positions.forget_files(|id| self.files.contains_key(&id));
        Ok(())
    }

    fn see(&mut self, id: u32, file: SeenFile, positions: &mut FolderPositions) {
        let is_new = !self.files.contains_key(&id);
        let cursor = self.files.entry(id).or_insert_with(|| FileCursor {
            written_at: file.written_at(),
            file: file.clone(),
            is_there: true,
            at: positions.read_to(id),
            lines: None,
            head: None,
        });
        cursor.is_there = true;
        let has_changed = is_new || file.differs(&cursor.file);
        if !file.packed && file.bytes < cursor.at {
            let (name, lost) = (&file.name, cursor.at - file.bytes);
            tracing::warn!(
                "{name} was cut off {lost} bytes before where it was read to: reading on at its end"
            );
            self.ready.remove(&(cursor.written_at, id));
            (cursor.at, cursor.lines, cursor.head) = (file.bytes, None, None);
            positions.pass(id, file.bytes);
        }
        if file.packed != cursor.file.packed || (file.packed && has_changed) {
            cursor.lines = None;
        }
        cursor.file = file;
        if has_changed && cursor.head.is_none() && (cursor.file.packed || cursor.file.bytes > cursor.at) {
            if cursor.at > 0 {
                self.fill(id);
            } else {
                self.ready.insert((cursor.written_at, id));
            }
        }
    }

    /// Reads the next line of a file, and puts the file where it belongs.
    fn fill(&mut self, id: u32) {
        let Some(cursor) = self.files.get_mut(&id) else { return };
        self.ready.remove(&(cursor.written_at, id));
        match cursor.next(&self.catalog) {
            Ok(Some(line)) => {
                cursor.written_at = written_at(&line.bytes);
                cursor.head = Some(line);
                self.ready.insert((cursor.written_at, id));
                return;
            }
            Ok(None) => {
                if cursor.lines.as_ref().is_some_and(FileLines::is_within_line) {
                    self.catalog.say_cut_off(&cursor.file.name);
                }
            }
            // A compressed file that is being copied ends somewhere in between; it is looked at again when it has
            // changed.
            Err(error) if cursor.file.packed && error.kind() == io::ErrorKind::UnexpectedEof => {
                self.catalog.say_cut_off(&cursor.file.name);
            }
            Err(error) => {
                let (name, at) = (&cursor.file.name, cursor.at);
                tracing::warn!(
                    "{name} cannot be read at byte {at}: {error}; it is read on when it has changed: {UNREADABLE}"
                );
            }
        }
        let unfinished = cursor.lines.take().map_or(0, |lines| lines.unfinished());
        if !cursor.is_there {
            cursor.file.bytes = cursor.at + unfinished;
            self.let_go(id);
        }
    }

    /// A file that is gone, and not open.
    fn let_go(&mut self, id: u32) {
        let Some(cursor) = self.files.remove(&id) else { return };
        self.ready.remove(&(cursor.written_at, id));
        let (name, bytes) = (&cursor.file.name, cursor.file.bytes.saturating_sub(cursor.at));
        if cursor.file.packed && cursor.head.is_some() {
            tracing::warn!(
                "{name} is gone before all of it was read: requests are missing from the estimates"
            );
        } else if !cursor.file.packed && bytes > 0 {
            tracing::warn!(
                "{name} is gone with {bytes} bytes that were not read: requests are missing from the estimates"
            );
        }
    }

    /// Hands out the line that was written first of those that follow.
    pub fn next(&mut self) -> Option<(u32, WholeLine)> {
        while let Some((_, id)) = self.ready.first().copied() {
            let cursor = self.files.get_mut(&id)?;
            let Some(line) = cursor.head.take() else {
                self.fill(id);
                continue;
            };
            cursor.at = line.end;
            self.read = (self.read.0 + 1, self.read.1 + (line.end - line.start));
            self.fill(id);
            return Some((id, line));
        }
        None
    }

    /// About how many records follow, as far as files say before they are read.
    pub fn waiting(&self) -> u64 {
        let of = |cursor: &FileCursor| cursor.file.bytes.saturating_sub(cursor.at).max(1);
        let bytes: u64 = self.ready.iter().filter_map(|(_, id)| Some(of(self.files.get(id)?))).sum();
        let a_record = self.read.1.checked_div(self.read.0).unwrap_or(2048).max(1);
        bytes.div_ceil(a_record)
    }

    /// Whether any file that is there was read before.
    pub fn knows_any(&self, positions: &FolderPositions) -> bool {
        self.files.keys().any(|id| positions.file(*id).is_some_and(|file| file.read > 0))
    }

    /// Passes everything that is there, with a sign of life now and then.
    pub fn pass_all(&mut self, positions: &mut FolderPositions, sign: &dyn Fn()) {
        while let Some((id, line)) = self.next() {
            positions.pass(id, line.end);
            if self.read.0.is_multiple_of(4096) {
                sign();
            }
        }
    }

    /// Whether a committed stretch can be read again.
    pub fn can_read(&self, stretch: &FileStretch) -> bool {
        let there = self.files.get(&stretch.file).filter(|cursor| cursor.is_there);
        there.is_some_and(|cursor| cursor.file.packed || cursor.file.bytes >= stretch.end)
    }

    /// The lines of a stretch.
    fn again(&self, stretch: &FileStretch) -> io::Result<FileLines> {
        let there = self.files.get(&stretch.file).filter(|cursor| cursor.is_there);
        let name = &there.ok_or(io::ErrorKind::NotFound)?.file.name;
        // What was read as a line is one, whatever has become of its end.
        let rules = LineRules { complete: true, ..self.catalog.rules };
        FileLines::open(&self.catalog.path(name), stretch.start, rules)
    }
}

impl FileCursor {
    fn next(&mut self, catalog: &FolderCatalog) -> io::Result<Option<WholeLine>> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => self.lines.insert(catalog.lines(&self.file.name, self.at)?),
        };
        lines.next()
    }
}

/// The records of committed stretches, read again.
pub(super) struct ReplayedLines {
    stretches: VecDeque<FileStretch>,
    next: i64,
    lines: Option<FileLines>,
}

impl ReplayedLines {
    /// From an offset on.
    pub fn new(positions: &FolderPositions, from: i64) -> Self {
        Self { stretches: positions.from(from).collect(), next: from, lines: None }
    }

    /// The next record and its offset; none at the committed offset.
    ///
    /// # Errors
    /// The file is not as it was read.
    pub fn next(&mut self, streams: &FolderStreams) -> io::Result<Option<(i64, Vec<u8>)>> {
        let Some(stretch) = self.stretches.front() else { return Ok(None) };
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => {
                let lines = self.lines.insert(streams.again(stretch)?);
                for _ in stretch.first..self.next {
                    lines.next()?;
                }
                lines
            }
        };
        let changed = || io::Error::other("the file is not as it was when it was read");
        let line = lines.next()?.filter(|line| line.end <= stretch.end).ok_or_else(changed)?;
        let offset = self.next;
        self.next += 1;
        if self.next == stretch.after() {
            if line.end != stretch.end {
                return Err(changed());
            }
            self.stretches.pop_front();
            self.lines = None;
        }
        Ok(Some((offset, line.bytes)))
    }
}
