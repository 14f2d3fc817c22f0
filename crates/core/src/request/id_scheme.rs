//! How page ids were made. Ids of two schemes never match, so one pool has but one.

use crate::units::PageSize;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The name of a scheme: who hashes, by which algorithm, over pages of how many tokens, as in `vllm:sha256:16`.
/// Compared as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IdScheme {
    /// The name, and zeros behind it.
    bytes: [u8; Self::MAX_BYTES],
    length: u8,
}

impl IdScheme {
    /// Bytes of the longest name.
    pub const MAX_BYTES: usize = 48;

    /// The scheme of a name of 1 to 48 visible ASCII characters; nothing for any other.
    pub fn new(name: &str) -> Option<Self> {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        let mut bytes = [0; Self::MAX_BYTES];
        bytes.get_mut(..name.len()).filter(|_| is_name)?.copy_from_slice(name.as_bytes());
        Some(Self { bytes, length: name.len() as u8 })
    }

    /// The name of the scheme that a hasher of [`crate::units::hashing`] makes ids by; with a key of its own nobody
    /// else can.
    pub fn of_hasher(page_size: PageSize, is_keyed: bool) -> String {
        format!("kvset:{}:{page_size}", if is_keyed { "xxh3-keyed" } else { "xxh3" })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        // Only ASCII was taken in.
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl Serialize for IdScheme {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for IdScheme {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).ok_or_else(|| D::Error::custom("a scheme of page ids has no such name"))
    }
}

impl fmt::Display for IdScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for IdScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdScheme({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kvset_hashes_has_a_name_of_its_own() {
        let page = PageSize::new(64).expect("not zero");
        assert_eq!(IdScheme::of_hasher(page, false), "kvset:xxh3:64");
        assert!(
            IdScheme::new(&IdScheme::of_hasher(PageSize::new(u32::MAX).expect("not zero"), true)).is_some()
        );
    }

    #[test]
    fn names_read_back_and_others_are_none() {
        let longest = "x".repeat(IdScheme::MAX_BYTES);
        for name in ["vllm:sha256_cbor:16", "a", &longest] {
            assert_eq!(IdScheme::new(name).expect(name).name(), name);
        }
        for name in ["", " ", "a b", "é", "a\n", &format!("{longest}x")] {
            assert_eq!(IdScheme::new(name), None, "{name:?}");
        }
    }
}
