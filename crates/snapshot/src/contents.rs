//! Of what parts a large state is made, and in which files they lie.
//!
//! A parts file holds what was new of a state when it was captured, and never changes. A snapshot of a large state is
//! its list of contents: all its bytes, in order, as extents of such files.

use super::names::{OFFSET_DIGITS, format_offset, parse_offset};
use kvset_formats::position::NextOffset;
use serde::{Deserialize, Serialize};
use std::fmt;
use xxhash_rust::xxh3::xxh3_128;

/// How every parts file begins. The last bytes are mangled by transfers that take it for text.
pub const PARTS_MAGIC: [u8; 8] = *b"kvsetp\r\n";

/// Longest part, so that a reader holds no more of a state than this before it is known to be right.
pub const MAX_PART_BYTES: usize = 1 << 20;

/// Digits of a digest in a name.
const DIGEST_DIGITS: usize = 16;

/// A file of parts, by its name: where the log stood when it was captured, and a digest of all its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartsFile {
    /// The next offset of the state it was captured of.
    pub next_offset: NextOffset,
    /// The file's xxh3-64: a file of one name has one content.
    pub digest: u64,
}

impl PartsFile {
    /// Reads a name; `None` for one that is no parts file's.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (offset, digest) = name.split_at_checked(OFFSET_DIGITS)?;
        let digest = digest.strip_prefix('-')?;
        let is_ours =
            digest.len() == DIGEST_DIGITS && !digest.bytes().any(|digit| digit.is_ascii_uppercase());
        let digest = u64::from_str_radix(digest, 16).ok().filter(|_| is_ours)?;
        Some(Self { next_offset: parse_offset(offset)?, digest })
    }
}

impl fmt::Display for PartsFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{:016x}", format_offset(self.next_offset), self.digest)
    }
}

/// A part's bytes, told by 128 bits of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PartHash([u8; 16]);

impl PartHash {
    /// Of a part's bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_128(bytes).to_le_bytes())
    }
}

/// One part of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartExtent {
    /// Which of the files it lies in.
    pub file: u32,
    /// Bytes of the file before it.
    pub at: u64,
    /// Its bytes, at most [`MAX_PART_BYTES`].
    pub bytes: u32,
    /// What it must read as.
    pub hash: PartHash,
}

/// All parts of a state, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// The files they lie in.
    pub files: Vec<PartsFile>,
    /// The parts.
    pub extents: Vec<PartExtent>,
}

impl Contents {
    /// Bytes of the state.
    pub fn state_bytes(&self) -> u64 {
        self.extents.iter().map(|extent| u64::from(extent.bytes)).sum()
    }

    /// The list in bytes. Frozen: a change is a new format version.
    ///
    /// # Errors
    /// [`postcard::Error`] where memory has no form in bytes.
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        let files: Vec<(i64, u64)> =
            self.files.iter().map(|file| (file.next_offset.0, file.digest)).collect();
        postcard::to_allocvec(&(files, &self.extents))
    }

    /// Reads a list whose checksum is right, of a state of so many bytes.
    ///
    /// # Errors
    /// What of it makes no sense.
    pub fn decode(bytes: &[u8], state_bytes: u64) -> Result<Self, &'static str> {
        let ((files, extents), rest) =
            postcard::take_from_bytes::<(Vec<(i64, u64)>, Vec<_>)>(bytes).map_err(|_| "list of parts")?;
        let file = |(next_offset, digest)| PartsFile { next_offset: NextOffset(next_offset), digest };
        let contents = Self { files: files.into_iter().map(file).collect(), extents };
        let is_sound = |extent: &PartExtent| {
            (extent.file as usize) < contents.files.len()
                && (1..=MAX_PART_BYTES).contains(&(extent.bytes as usize))
        };
        if !rest.is_empty() || !contents.extents.iter().all(is_sound) {
            return Err("list of parts");
        }
        if contents.state_bytes() != state_bytes {
            return Err("length of all parts");
        }
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parts_file_has_one_name_and_no_other() {
        let file = PartsFile { next_offset: NextOffset(42), digest: 0xab };
        let name = file.to_string();
        assert_eq!(name, "00000000000000000042-00000000000000ab");
        assert_eq!(PartsFile::parse(&name), Some(file));
        for other in
            ["", "42-ab", &name[1..], &name.to_uppercase(), &format!("{name}0"), &name.replace('-', "+")]
        {
            assert_eq!(PartsFile::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_list_that_makes_no_sense_is_refused() {
        let extent = PartExtent { file: 0, at: 8, bytes: 5, hash: PartHash::of(b"parts") };
        let files = vec![PartsFile { next_offset: NextOffset(1), digest: 2 }];
        let contents = Contents { files, extents: vec![extent; 3] };
        let bytes = contents.encode().expect("memory");
        assert_eq!(Contents::decode(&bytes, 15), Ok(contents.clone()));
        assert!(Contents::decode(&bytes, 16).is_err(), "another length");
        assert!(Contents::decode(&bytes[..bytes.len() - 1], 15).is_err(), "cut short");
        assert!(Contents::decode(&[&bytes[..], b"x"].concat(), 15).is_err(), "more behind it");
        for wrong in [
            PartExtent { file: 1, ..extent },
            PartExtent { bytes: 0, ..extent },
            PartExtent { bytes: 1 << 21, ..extent },
        ] {
            let contents = Contents { extents: vec![wrong], ..contents.clone() };
            let bytes = contents.encode().expect("memory");
            assert!(Contents::decode(&bytes, contents.state_bytes()).is_err(), "{wrong:?}");
        }
    }
}
