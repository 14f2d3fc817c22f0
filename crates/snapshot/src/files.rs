//! The few file operations a snapshot directory needs, so that a simulation can stand in for the disk.

use super::durable::{create_durable_dir, sync_directory};
use super::stream::ByteSource;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

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
    fn open(&self, path: &Path) -> io::Result<Box<dyn ByteSource>>;

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
#[derive(Debug, Clone)]
pub struct DiskFiles {
    /// Held as long as files may be written; none where they are only read.
    _lock: Option<Arc<File>>,
}

impl DiskFiles {
    /// The disk, held by `lock` where files will be written.
    pub fn new(lock: Option<File>) -> Self {
        Self { _lock: lock.map(Arc::new) }
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

    fn open(&self, path: &Path) -> io::Result<Box<dyn ByteSource>> {
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
