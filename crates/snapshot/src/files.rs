//! The few file operations a snapshot directory needs, so that a simulation can stand in for the disk.

use super::lock::DirectoryLock;
use super::stream::Source;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// A file system as the write protocol sees it.
pub trait Files: Send + Sync {
    /// A file written but not durable yet.
    type Written;

    /// Makes a directory, with its parents; returns whether it was not there before.
    ///
    /// # Errors
    /// What the system says; so for all methods.
    fn create_dir(&self, directory: &Path) -> io::Result<bool>;

    /// The names in a directory, in any order; empty where there is none.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>>;

    /// Writes a file that must not exist yet.
    fn write_new(&self, path: &Path, parts: &[&[u8]]) -> io::Result<Self::Written>;

    /// Makes a file's contents durable. Consumes the file: after a failure the system may drop what
    /// it could not write and report success next time, so there is no next time.
    fn sync(&self, file: Self::Written) -> io::Result<()>;

    /// Gives a file another name, in place of any file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;
}

/// The file system of this machine.
#[derive(Debug)]
pub struct DiskFiles {
    /// Held as long as files may be written; none where they are only read.
    _lock: Option<DirectoryLock>,
}

impl DiskFiles {
    /// The disk, held by `lock` where files will be written.
    pub fn new(lock: Option<DirectoryLock>) -> Self {
        Self { _lock: lock }
    }
}

impl Files for DiskFiles {
    type Written = File;

    fn create_dir(&self, directory: &Path) -> io::Result<bool> {
        create_durable_dir(directory)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            // A name that is no text is none of ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        Ok(Box::new(File::open(path)?))
    }

    fn write_new(&self, path: &Path, parts: &[&[u8]]) -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        for part in parts {
            file.write_all(part)?;
        }
        Ok(file)
    }

    fn sync(&self, file: File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        sync_directory(directory)
    }
}

/// Makes a directory and its missing parents, each one's name durable in the one above; returns whether
/// any was missing.
pub(super) fn create_durable_dir(directory: &Path) -> io::Result<bool> {
    let missing: Vec<_> = directory.ancestors().take_while(|path| !is_there(path)).collect();
    for path in missing.iter().rev() {
        match fs::create_dir(path) {
            // Another process may make the same one; a file of that name is in the way.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            created => created?,
        }
        match path.parent() {
            Some(above) if !above.as_os_str().is_empty() => sync_directory(above)?,
            _ => sync_directory(Path::new("."))?,
        }
    }
    Ok(!missing.is_empty())
}

/// The empty path is what remains above a relative one: the working directory.
fn is_there(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.is_dir()
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Elsewhere a directory cannot be opened as a file, and renames are journalled.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}
