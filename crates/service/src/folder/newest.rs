//! The newest estimate of each window of each pool, in one file: what a topic of estimates has left when it is
//! compacted.

use super::outputs::replace;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// Most estimates that are kept: of the windows that closed last.
const MAX_LINES: usize = 1024;

/// The part of an estimate that says which one it replaces.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct NewestKey {
    pool: String,
    window: String,
}

/// The newest estimates, the one that came last at the end.
#[derive(Debug)]
pub(super) struct NewestFile {
    path: PathBuf,
    lines: Vec<(NewestKey, String)>,
    /// Whether the file says something else.
    changed: bool,
}

impl NewestFile {
    /// Of no estimates yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, lines: Vec::new(), changed: true }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes in what it said before, and what these files of estimates say.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&mut self, estimates: &[PathBuf]) -> io::Result<()> {
        let own = self.path.clone();
        for path in std::iter::once(&own).chain(estimates) {
            match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => {
                    for line in BufReader::new(opened?).split(b'\n') {
                        self.add(&String::from_utf8_lossy(&line?));
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes in lines of estimates that are committed, also if they were before.
    pub fn add(&mut self, lines: &str) {
        for line in lines.lines() {
            let Ok(key) = serde_json::from_str::<NewestKey>(line) else { continue };
            if let Some(at) = self.lines.iter().position(|(known, _)| *known == key) {
                self.lines.remove(at);
            } else if self.lines.len() == MAX_LINES {
                self.lines.remove(0);
            }
            self.lines.push((key, line.to_owned()));
            self.changed = true;
        }
    }

    /// Brings the file to what is committed.
    ///
    /// # Errors
    /// What the system says.
    pub fn settle(&mut self) -> io::Result<()> {
        if self.changed {
            let text: String = self.lines.iter().map(|(_, line)| format!("{line}\n")).collect();
            // What a machine that stopped loses of it, the next start reads in the estimates.
            replace(&self.path, &text, false)?;
            self.changed = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pool: usize, window: &str, end: u64) -> String {
        format!("{{\"pool\":\"{pool}\",\"window\":\"{window}\",\"end_ms\":{end}}}")
    }

    #[test]
    fn each_window_of_each_pool_has_its_newest_estimate_and_there_are_not_too_many() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.newest");
        let old = folder.path().join("out");
        std::fs::write(&old, format!("{}\n{}\n", line(1, "all", 1), line(1, "last:3", 2))).expect("written");
        let text = || std::fs::read_to_string(&path).expect("there");
        let mut newest = NewestFile::new(path.clone());
        newest.read(&[folder.path().join("none"), old]).expect("readable");
        newest.add(&format!("{}\nno estimate\n{}\n", line(1, "all", 3), line(2, "all", 4)));
        newest.settle().expect("written");
        let three = [line(1, "last:3", 2), line(1, "all", 3), line(2, "all", 4)].join("\n") + "\n";
        assert_eq!(text(), three);
        // Again, as after a kill; estimates that were rotated away stay.
        let mut again = NewestFile::new(path.clone());
        again.read(&[folder.path().join("none")]).expect("readable");
        again.add(&line(2, "all", 4));
        again.settle().expect("written");
        assert_eq!(text(), three);
        (0..MAX_LINES).for_each(|pool| again.add(&line(10 + pool, "all", 5)));
        again.settle().expect("written");
        assert_eq!(text().lines().count(), MAX_LINES);
        assert!(text().starts_with(&line(10, "all", 5)), "the oldest went");
    }
}
