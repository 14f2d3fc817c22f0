//! One process a snapshot directory.

use super::durable::create_durable_dir;
use super::store::StoreError;
use fs4::{FileExt, TryLockError};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// The file that is locked; it stays when the lock goes, since removing it would race with the next
/// process.
pub const LOCK_FILE: &str = "kvset.lock";

/// Most bytes of a holder's own description that are repeated in an error.
const MAX_HOLDER_BYTES: u64 = 200;

/// Locks a directory, which is made if need be, while the file lives; the system releases it too when the process dies.
///
/// # Errors
/// [`StoreError::Locked`] with the holder's process id and host; [`StoreError::Io`].
pub fn acquire(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join(LOCK_FILE);
    let failed = |operation| {
        let place = path.display().to_string();
        move |cause| StoreError::Io { operation, place, cause }
    };
    create_durable_dir(directory).map_err(failed("creating the directory of"))?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed("opening"))?;
    match FileExt::try_lock(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let directory = directory.display().to_string();
            return Err(StoreError::Locked { directory, holder: holder(&mut file) });
        }
        Err(TryLockError::Error(cause)) => return Err(failed("locking")(cause)),
    }
    describe_holder(&mut file).map_err(failed("writing"))?;
    Ok(file)
}

fn describe_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    // In containers every service is process 1, so the host tells them apart.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let on = if host.trim().is_empty() { "" } else { " on host " };
    write!(file, "process {}{on}{}", std::process::id(), host.trim())
}

/// What the holder wrote; a lock is no less held for being anonymous.
fn holder(file: &mut File) -> String {
    let mut text = Vec::new();
    let read = file.take(MAX_HOLDER_BYTES).read_to_end(&mut text);
    let printable: String =
        text.iter().filter(|byte| (32..127).contains(*byte)).map(|b| *b as char).collect();
    if read.is_err() || printable.is_empty() { "another process".to_owned() } else { printable }
}
