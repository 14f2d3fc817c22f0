//! Page ids under a secret key: whoever lacks it cannot tell which prompt an id stands for, not even by guessing the
//! prompt and hashing it.
//!
//! The chain is that of [`crate::units::hashing`], with SipHash-2-4 of the same bytes in place of XXH3:
//!
//! ```text
//! id[i] = SipHash-2-4( key, id[i-1] as 8 bytes ++ the page's tokens, 4 bytes each )
//! namespace value = max(1, SipHash-2-4( key, "scope" ++ 0x00 ++ name bytes ))
//! id of an id that somebody else made = SipHash-2-4( key, that id as 8 bytes )
//! ```

use crate::units::pages::Scope;
use crate::units::text::TextError;
use siphasher::sip::SipHasher24;
use std::fmt;
use std::str::FromStr;

/// A secret key of 128 bits.
#[derive(Clone, Copy)]
pub struct HashKey([u8; 16]);

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(********)")
    }
}

impl FromStr for HashKey {
    type Err = TextError;

    /// What is no key is not quoted.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let is_key = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_key);
        let no_key = || {
            TextError(
                "expected a key of 32 hexadecimal digits, such as `openssl rand -hex 16` prints".to_owned(),
            )
        };
        number.map(|number| Self(number.to_be_bytes())).ok_or_else(no_key)
    }
}

impl HashKey {
    /// The id of what `message` says, the page before and the page's tokens.
    pub(crate) fn hash(&self, message: &[u8]) -> u64 {
        SipHasher24::new_with_key(&self.0).hash(message)
    }

    /// The id that goes out for one that was made without the key.
    pub fn id(&self, id: u64) -> u64 {
        self.hash(&id.to_le_bytes())
    }

    /// The scope of this name.
    pub fn scope(&self, name: &[u8]) -> Scope {
        Scope::of_value(self.hash(&[b"scope\0", name].concat()).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::PageSize;
    use crate::units::hashing::PageHasher;

    fn key(text: &str) -> HashKey {
        text.parse().expect("a key")
    }

    const KEY: &str = "000102030405060708090a0b0c0d0e0f";

    /// The numbers are those of an implementation in Python of SipHash's paper, whose own vector is the first.
    #[test]
    fn the_vectors_hold() {
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(key(KEY).hash(&message), 0xa129_ca61_49be_45e5);
        let mut ids = Vec::new();
        let size = PageSize::new(4).expect("not zero");
        PageHasher::keyed(size, key(KEY)).hash(Scope::GLOBAL, &[1, 2, 3, 4, 5, 6, 7, 8, 9], false, &mut ids);
        assert_eq!(ids, [0x05db_561c_1eef_e25e, 0x2277_ec77_5f5e_e33d]);
        assert_eq!(key(KEY).scope(b"tenant-a").value(), 0xa647_7436_f717_3b19);
        assert_eq!(key(KEY).id(7), 0x6402_f5e4_f782_9905);
    }

    #[test]
    fn another_key_gives_other_ids_and_none_is_shown() {
        let (one, other) = (key(KEY), key(&KEY.replace("00", "01")));
        assert_ne!(one.id(7), other.id(7));
        assert_ne!(one.scope(b"a"), Scope::named(b"a"));
        assert!(!format!("{one:?}").contains("0a"), "{one:?}");
        for wrong in
            ["", "hunter2", &KEY[1..], "+0010203040506070809 a0b0c0d0e0f", "0x010203040506070809a0b0c0d0e0ff"]
        {
            let error = wrong.parse::<HashKey>().expect_err(wrong);
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
