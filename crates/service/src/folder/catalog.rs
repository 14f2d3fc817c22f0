//! Which event files lie in a folder, and which of those that are known they are.
//!
//! A file is known by its first line, whatever its name: one that was renamed or compressed is the same, and one that
//! was begun anew under its old name is another.

use super::lines::{FileLines, LineRules, written_at};
use super::positions::{FolderPositions, MAX_FILES};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use xxhash_rust::xxh3::xxh3_64;

/// What to do about a file that cannot be read.
pub(super) const UNREADABLE: &str = "let this user read it, or test it with `zstd -t` or `gzip -t`";

/// A file as it lay there at the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeenFile {
    pub name: String,
    /// Which file it is to the system.
    inode: u64,
    /// As it lies there, compressed or not.
    pub bytes: u64,
    pub changed: Option<SystemTime>,
    pub packed: bool,
    /// Hash of its first line, and when that was written; none while it has none.
    first: Option<(u64, i64)>,
}

impl SeenFile {
    /// When its first line was written.
    pub fn written_at(&self) -> i64 {
        self.first.map_or(i64::MIN, |(_, written_at)| written_at)
    }

    /// Whether it is another file than before, or has other bytes.
    pub fn differs(&self, before: &Self) -> bool {
        (self.inode, self.bytes, self.changed) != (before.inode, before.bytes, before.changed)
    }
}

/// What was seen in a folder.
pub(super) struct FolderCatalog {
    folder: PathBuf,
    pub rules: LineRules,
    seen: BTreeMap<String, SeenFile>,
    /// Names that something was said about.
    said: BTreeSet<String>,
}

/// Whether files of this name hold events, by the name without what rotation and compression add to it.
fn is_event_file(name: &str) -> bool {
    let name = name.strip_suffix(".zst").or_else(|| name.strip_suffix(".gz")).unwrap_or(name);
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '-'));
    !name.starts_with('.')
        && [".jsonl", ".ndjson", ".json", ".avro"].iter().any(|ending| name.ends_with(ending))
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

/// Elsewhere a file that was begun anew is told by its size.
#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

impl FolderCatalog {
    /// Of a folder that was not looked at yet.
    pub fn new(folder: PathBuf, rules: LineRules) -> Self {
        Self { folder, rules, seen: BTreeMap::new(), said: BTreeSet::new() }
    }

    /// Where a file of this name is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The lines of a file, from this byte on.
    ///
    /// # Errors
    /// What the system says.
    pub fn lines(&self, name: &str, at: u64) -> io::Result<FileLines> {
        FileLines::open(&self.path(name), at, self.rules)
    }

    /// Looks at the folder: the files that can be read, by their numbers.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn look(&mut self, positions: &mut FolderPositions) -> io::Result<BTreeMap<u32, SeenFile>> {
        let mut before = std::mem::take(&mut self.seen);
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str().map(str::to_owned) else { continue };
            if !is_event_file(&name) {
                self.say_once(
                    &name,
                    "is not read: events lie in .jsonl, .ndjson, .json and .avro, also rotated, .zst or .gz",
                );
                continue;
            }
            // What was removed since, or is a dead link, is not there.
            let Ok(metadata) = fs::metadata(self.path(&name)) else { continue };
            // To open a pipe waits for somebody who writes to it.
            if !metadata.is_file() {
                self.say_once(&name, "is not read: it is no regular file");
                continue;
            }
            if self.seen.len() == MAX_FILES {
                self.say_once(
                    &name,
                    &format!("and others are not read: a folder has {MAX_FILES} files at most"),
                );
                break;
            }
            let seen = self.see(&name, &metadata, before.remove(&name));
            self.seen.insert(name, seen);
        }
        Ok(self.number(positions))
    }

    /// What a file is now. Its first line is read again where it may be another one.
    fn see(&mut self, name: &str, metadata: &Metadata, before: Option<SeenFile>) -> SeenFile {
        let (inode, bytes, changed) = (inode(metadata), metadata.len(), metadata.modified().ok());
        let mut now = SeenFile { name: name.to_owned(), inode, bytes, changed, packed: false, first: None };
        match before {
            Some(before) if !now.differs(&before) => return before,
            Some(before) if !before.packed && before.inode == inode && before.bytes <= bytes => {
                now.first = before.first;
            }
            _ => {}
        }
        if now.first.is_none() {
            match self.lines(name, 0).and_then(|mut lines| Ok((lines.next()?, lines))) {
                Ok((first, lines)) => {
                    if lines.is_within_line() {
                        self.say_cut_off(name);
                    }
                    now.first = first.map(|line| (xxh3_64(&line.bytes), written_at(&line.bytes)));
                    now.packed = lines.is_packed();
                }
                // It is gone, or is being copied.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.say_cut_off(name),
                Err(error) => self.say_once(name, &format!("cannot be read: {error}; {UNREADABLE}")),
            }
        }
        now
    }

    /// Gives every first line its number. Of several files with the same one, the one that has its name is read, and
    /// the others are copies of it: logs that are rotated or compressed are there twice for a while.
    fn number(&mut self, positions: &mut FolderPositions) -> BTreeMap<u32, SeenFile> {
        let mut by_print: BTreeMap<u64, Vec<&SeenFile>> = BTreeMap::new();
        for seen in self.seen.values() {
            if let Some((print, _)) = seen.first {
                by_print.entry(print).or_default().push(seen);
            }
        }
        let (mut found, mut copies) = (BTreeMap::new(), Vec::new());
        for seen in self.seen.values() {
            // Each group at the first of its names.
            let Some((print, mut same)) = seen.first.and_then(|(print, _)| by_print.remove_entry(&print))
            else {
                continue;
            };
            let known = positions.file_of(print);
            let at = same.iter().position(|file| Some(file.name.as_str()) == known).unwrap_or(0);
            let file = same.swap_remove(at);
            found.insert(positions.name(print, &file.name), file.clone());
            copies.extend(same.into_iter().map(|copy| copy.name.clone()));
        }
        for name in copies {
            self.say_once(&name, "begins with the same line as another file: it is a copy and not read");
        }
        found
    }

    /// Says that a file ends within a line or a block, where nobody waits for the rest.
    pub fn say_cut_off(&mut self, name: &str) {
        if self.rules.complete {
            self.say_once(
                name,
                "ends within a line, or within a compressed or Avro block: that part is not read, and requests may be \
                 missing; copy the file again if it was cut off",
            );
        }
    }

    fn say_once(&mut self, name: &str, what: &str) {
        if self.said.len() < MAX_FILES && self.said.insert(name.to_owned()) {
            tracing::warn!("{} {what}", self.path(name).display());
        }
    }
}

/// Whether a folder can be read, before anything is begun.
///
/// # Errors
/// What keeps it from being read, and what to do.
pub fn check_folder(folder: &Path) -> Result<usize, String> {
    let failed = |error: io::Error| {
        let cure = match error.kind() {
            io::ErrorKind::NotFound => {
                "make it, or name the one that the engine's connector writes (`path` of its settings)"
            }
            io::ErrorKind::PermissionDenied => "let this user read it, and go through the folders above it",
            io::ErrorKind::NotADirectory => "name the folder that it lies in",
            _ => "see to that disk",
        };
        format!("the folder of events {} cannot be read: {error}; {cure}", folder.display())
    };
    let names = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
    Ok(names.iter().filter(|entry| entry.file_name().to_str().is_some_and(is_event_file)).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        folder: tempfile::TempDir,
        catalog: FolderCatalog,
        positions: FolderPositions,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let catalog =
                FolderCatalog::new(folder.path().to_owned(), LineRules { most: 1000, complete: false });
            Self { folder, catalog, positions: FolderPositions::default() }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.folder.path().join(name), text).expect("written");
        }

        fn look(&mut self) -> Vec<(u32, String)> {
            let found = self.catalog.look(&mut self.positions).expect("a folder");
            found.into_iter().map(|(id, file)| (id, file.name)).collect()
        }
    }

    fn named(files: &[(u32, &str)]) -> Vec<(u32, String)> {
        files.iter().map(|(id, name)| (*id, (*name).to_owned())).collect()
    }

    #[test]
    fn names_of_event_files_are_told_from_others() {
        for name in [
            "a.jsonl",
            "requests-gpu-1-0017-000001.jsonl",
            "a.jsonl.1",
            "a.jsonl-20260101.gz",
            "a.ndjson.zst",
            "a.json",
            "a.avro",
        ] {
            assert!(is_event_file(name), "{name}");
        }
        for name in [".a.jsonl.Xy12", "a.jsonl.tmp", "avro", "jsonl", "a.parquet", "a.jsonl.1.part"] {
            assert!(!is_event_file(name), "{name}");
        }
    }

    #[test]
    fn a_file_is_the_same_when_it_is_renamed_or_compressed_and_another_one_when_it_is_begun_anew() {
        let mut bench = Bench::new();
        bench.write("a.jsonl", "{\"half");
        assert_eq!(bench.look(), [], "it has no line yet");
        bench.write("a.jsonl", "first\n");
        bench.write("b.jsonl", "other\n");
        assert_eq!(bench.look(), named(&[(0, "a.jsonl"), (1, "b.jsonl")]));
        // Rotation by name, then a new file under the old one.
        let path = |name: &str| bench.folder.path().join(name);
        fs::rename(path("a.jsonl"), path("a.jsonl.1")).expect("renamed");
        fs::write(path("a.jsonl"), "second\n").expect("written");
        assert_eq!(bench.look(), named(&[(0, "a.jsonl.1"), (1, "b.jsonl"), (2, "a.jsonl")]));
        // Compressed beside itself, and then alone.
        bench.write("b.jsonl.gz", "other\nmore\n");
        assert_eq!(bench.look(), named(&[(0, "a.jsonl.1"), (1, "b.jsonl"), (2, "a.jsonl")]));
        fs::remove_file(bench.folder.path().join("b.jsonl")).expect("removed");
        assert_eq!(bench.look(), named(&[(0, "a.jsonl.1"), (1, "b.jsonl.gz"), (2, "a.jsonl")]));
        // Copied away and emptied.
        bench.write("a.jsonl.2", "second\n");
        bench.write("a.jsonl", "");
        assert_eq!(bench.look(), named(&[(0, "a.jsonl.1"), (1, "b.jsonl.gz"), (2, "a.jsonl.2")]));
        bench.write("a.jsonl", "third\n");
        assert_eq!(bench.look()[3..], named(&[(3, "a.jsonl")]));
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_told_with_what_to_do() {
        let bench = Bench::new();
        bench.write("a.jsonl", "first\n");
        bench.write("notes.txt", "none");
        assert_eq!(check_folder(bench.folder.path()), Ok(1));
        let missing = check_folder(&bench.folder.path().join("none")).expect_err("missing");
        assert!(missing.contains("/none cannot be read") && missing.contains("make it"), "{missing}");
        let file = check_folder(&bench.folder.path().join("a.jsonl")).expect_err("no folder");
        assert!(file.contains("name the folder that it lies in"), "{file}");
    }
}
