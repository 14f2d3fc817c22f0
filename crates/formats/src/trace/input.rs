//! Where a trace's bytes come from: files and standard input, plain or compressed.

use super::error::TraceError;
use super::unpack::unpacked;
use crate::watched::Watched;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes asked of the file, and of the decompressor, at once.
const BUFFER_BYTES: usize = 256 * 1024;
/// First bytes of a gzip member.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// First bytes of a zstd frame.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Last three of the first bytes of a zstd skippable frame; the first is `0x50` to `0x5f`.
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// A stream whose first bytes were looked at and put back.
pub(super) type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// An open trace: its name, its decompressed bytes and how far the file was read.
pub(super) struct TraceInput {
    /// As the user named it; `<stdin>` for `-`.
    pub name: Arc<str>,
    /// The decompressed stream.
    pub bytes: Box<dyn BufRead + Send>,
    /// Whether it had to be decompressed.
    pub is_packed: bool,
    /// Bytes taken from the file so far.
    pub read_bytes: Arc<AtomicU64>,
}

impl TraceInput {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        if path.as_os_str() == "-" {
            return Self::from_reader("<stdin>", Box::new(io::stdin()));
        }
        let name = path.display().to_string();
        let failed = |source| TraceError::Open { file: Arc::from(name.as_str()), source };
        let file = File::open(path).map_err(failed)?;
        Self::from_reader(&name, Box::new(file))
    }

    /// Tells compression by the first bytes and undoes it.
    pub fn from_reader(name: &str, reader: Box<dyn Read + Send>) -> Result<Self, TraceError> {
        let name: Arc<str> = Arc::from(name);
        let read_bytes = Arc::new(AtomicU64::new(0));
        let bytes = Arc::clone(&read_bytes);
        let count = move |read: &[u8]| {
            bytes.fetch_add(read.len() as u64, Ordering::Relaxed);
        };
        let counted = Watched { input: reader, watch: count };
        let (bytes, is_packed) = decompress(counted).map_err(|source| TraceError::Read {
            file: Arc::clone(&name),
            line: 0,
            source,
        })?;
        Ok(Self { name, bytes, is_packed, read_bytes })
    }
}

/// Size of a file on disk; none for standard input and other streams.
pub(super) fn file_bytes(path: &Path) -> Result<Option<u64>, TraceError> {
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let failed = |source| TraceError::Open { file: Arc::from(path.display().to_string()), source };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        let advice = "it is a directory; name the files in it";
        return Err(failed(io::Error::new(io::ErrorKind::IsADirectory, advice)));
    }
    Ok(metadata.is_file().then_some(metadata.len()))
}

/// Undoes zstd (any number of frames) and gzip (any number of members); passes all else through. Says whether it did.
///
/// # Errors
/// The first bytes cannot be read; for the stream, damaged compressed data and failing disks.
pub fn decompress(reader: impl Read + Send + 'static) -> io::Result<(Box<dyn BufRead + Send>, bool)> {
    let (head, stream) = peek(reader, ZSTD.len())?;
    let stream = BufReader::with_capacity(BUFFER_BYTES, stream);
    let is_zstd = head == ZSTD || (head.len() == 4 && head[0] >> 4 == 5 && head[1..] == ZSTD_SKIPPABLE);
    if is_zstd {
        let decoder = zstd::Decoder::with_buffer(stream)?;
        Ok((unpacked(decoder), true))
    } else if head.starts_with(&GZIP) {
        Ok((unpacked(MultiGzDecoder::new(stream)), true))
    } else {
        Ok((Box::new(stream), false))
    }
}

/// Reads up to `count` leading bytes and gives them back in front of the rest.
pub(super) fn peek<R: Read>(mut reader: R, count: usize) -> io::Result<(Vec<u8>, Peeked<R>)> {
    let mut head = Vec::with_capacity(count);
    reader.by_ref().take(count as u64).read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(reader)))
}
