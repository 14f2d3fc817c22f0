//! Directories whose names survive a power cut.

use std::fs::{self, File};
use std::io;
use std::path::Path;

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

/// Makes the names in a directory durable.
#[cfg(unix)]
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Elsewhere a directory cannot be opened as a file, and renames are journalled.
#[cfg(not(unix))]
pub(super) fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}
