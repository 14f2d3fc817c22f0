//! A disk in memory that forgets, fails and dies when told to: for tests and seeded simulation.
//!
//! It promises no more than POSIX does: contents last once the file was synced, names once their
//! directory was; of the rest any part may be lost or torn in a power failure, in any order.

use super::files::Files;
use super::stream::ByteSource;
use kvset_core::units::pages::mix;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A disk shared by all its clones; the next process opens a clone after [`MemoryFiles::restart`].
#[derive(Debug, Clone, Default)]
pub struct MemoryFiles(Arc<Mutex<Disk>>);

/// What is to go wrong, and at which operation that changes something, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails; a write leaves half of its bytes.
    Fail {
        /// The operation.
        at: u64,
        /// The error it gives.
        kind: io::ErrorKind,
    },
    /// The process dies: this operation and all later ones fail.
    Die {
        /// The operation.
        at: u64,
        /// Whether it takes effect first.
        done: bool,
    },
}

/// What the next process finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextProcess {
    /// The process died and the system lived on: nothing is lost.
    Kill,
    /// The power failed: the seed chooses what of the not yet durable is lost.
    PowerFailure(u64),
}

#[derive(Debug, Default)]
struct Disk {
    /// Their bytes, and whether they are durable.
    files: Vec<(Vec<u8>, bool)>,
    names: NameTree,
    durable: NameTree,
    /// Changes of names since their directory was last synced.
    pending: Vec<StoreChange>,
    faults: Vec<Fault>,
    operations: u64,
    dead: bool,
}

#[derive(Debug, Clone, Default)]
struct NameTree {
    directories: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, usize>,
}

#[derive(Debug, Clone)]
enum StoreChange {
    Directory(PathBuf),
    Name(PathBuf, usize),
    Rename { from: PathBuf, to: PathBuf, file: usize },
    Remove(PathBuf),
}

impl StoreChange {
    fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::Name(path, _) | Self::Remove(path) => path,
            Self::Rename { from, .. } => from,
        }
    }
}

impl NameTree {
    fn apply(&mut self, change: &StoreChange) {
        match change {
            StoreChange::Directory(path) => drop(self.directories.insert(path.clone())),
            StoreChange::Name(path, file) => drop(self.files.insert(path.clone(), *file)),
            StoreChange::Rename { from, to, file } => {
                self.files.remove(from);
                self.files.insert(to.clone(), *file);
            }
            StoreChange::Remove(path) => drop(self.files.remove(path)),
        }
    }
}

impl Disk {
    /// Counts one operation; says whether the process lives on after it.
    fn step(&mut self) -> io::Result<bool> {
        if self.dead {
            return Err(dead());
        }
        let now = self.operations;
        self.operations += 1;
        for fault in self.faults.clone() {
            match fault {
                Fault::Fail { at, kind } if at == now => return Err(kind.into()),
                Fault::Die { at, done } if at == now => {
                    self.dead = true;
                    return if done { Ok(false) } else { Err(dead()) };
                }
                _ => {}
            }
        }
        Ok(true)
    }

    fn change(&mut self, change: StoreChange) {
        self.names.apply(&change);
        self.pending.push(change);
    }

    /// One operation on names.
    fn change_names(&mut self, change: StoreChange) -> io::Result<()> {
        let lives_on = self.step()?;
        self.change(change);
        written(lives_on)
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        self.names.files.get(path).copied().ok_or(io::ErrorKind::NotFound.into())
    }

    fn lose_power(&mut self, seed: u64) {
        let mut draws = 0;
        let mut chance = |of: u64| {
            draws += 1;
            mix(seed ^ mix(draws)) % of
        };
        for change in std::mem::take(&mut self.pending) {
            if chance(2) == 0 {
                self.durable.apply(&change);
            }
        }
        for (bytes, _) in self.files.iter_mut().filter(|(_, synced)| !synced) {
            let kept = chance(bytes.len() as u64 + 1) as usize;
            match chance(3) {
                0 => bytes.truncate(kept),
                1 => bytes[kept..].fill(0),
                _ => {}
            }
        }
        let NameTree { directories, files } = &mut self.durable;
        files.retain(|path, _| path.parent().is_some_and(|above| directories.contains(above)));
        self.names = self.durable.clone();
    }
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

fn written(lives_on: bool) -> io::Result<()> {
    if lives_on { Ok(()) } else { Err(dead()) }
}

impl MemoryFiles {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans what goes wrong, counted from now; replaces earlier plans.
    pub fn plan(&self, faults: &[Fault]) {
        let mut disk = self.disk();
        disk.operations = 0;
        disk.faults = faults.to_vec();
    }

    /// Operations that change something, since the last plan.
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    /// Ends the process and plans nothing for the next one.
    pub fn restart(&self, how: NextProcess) {
        let mut disk = self.disk();
        if let NextProcess::PowerFailure(seed) = how {
            disk.lose_power(seed);
        }
        (disk.dead, disk.operations) = (false, 0);
        disk.faults.clear();
    }

    /// The paths of all files, in order.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.disk().names.files.keys().cloned().collect()
    }

    /// Changes a file's bytes where they lie, as rot and hostile hands do; `false` where there is none.
    pub fn corrupt(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut disk = self.disk();
        let Ok(file) = disk.file(path) else { return false };
        change(&mut disk.files[file].0);
        true
    }
}

impl Files for MemoryFiles {
    type Written = usize;

    fn create_dir(&self, directory: &Path) -> io::Result<bool> {
        let mut disk = self.disk();
        if disk.names.directories.contains(directory) {
            return Ok(false);
        }
        disk.change_names(StoreChange::Directory(directory.to_owned())).map(|()| true)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let disk = self.disk();
        if disk.dead {
            return Err(dead());
        }
        let paths = disk.names.directories.iter().chain(disk.names.files.keys());
        let inside = paths.filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn ByteSource>> {
        let disk = self.disk();
        if disk.dead {
            return Err(dead());
        }
        let file = disk.file(path)?;
        Ok(Box::new(Cursor::new(disk.files[file].0.clone())))
    }

    fn write_new(&self, path: &Path, parts: &[&[u8]]) -> io::Result<usize> {
        let mut disk = self.disk();
        let lives_on = disk.step();
        if disk.dead && lives_on.is_err() {
            return Err(dead());
        }
        let is_there = path.parent().is_some_and(|above| disk.names.directories.contains(above));
        if !is_there {
            return Err(io::ErrorKind::NotFound.into());
        }
        if disk.names.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut bytes = parts.concat();
        if lives_on.is_err() {
            bytes.truncate(bytes.len() / 2);
        }
        let file = disk.files.len();
        disk.files.push((bytes, false));
        disk.change(StoreChange::Name(path.to_owned(), file));
        written(lives_on?)?;
        Ok(file)
    }

    fn sync(&self, file: usize) -> io::Result<()> {
        let mut disk = self.disk();
        let lives_on = disk.step()?;
        disk.files[file].1 = true;
        written(lives_on)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        let file = disk.file(from)?;
        disk.change_names(StoreChange::Rename { from: from.to_owned(), to: to.to_owned(), file })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.file(path)?;
        disk.change_names(StoreChange::Remove(path.to_owned()))
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        let lives_on = disk.step()?;
        let is_inside = |change: &StoreChange| change.path().parent() == Some(directory);
        let (synced, pending): (Vec<_>, Vec<_>) =
            std::mem::take(&mut disk.pending).into_iter().partition(is_inside);
        disk.pending = pending;
        for change in &synced {
            disk.durable.apply(change);
        }
        written(lives_on)
    }
}
