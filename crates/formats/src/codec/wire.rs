//! Avro's binary primitives over a borrowed record, every step bounds-checked.

use kvset_core::request::refusal::{DecodeError, ErrorCode};

/// A reading position in one record's bytes.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// Starts reading `bytes` at `position`, which positions in errors count from the start.
    pub(super) fn new(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position: position.min(bytes.len()) }
    }

    /// Bytes not yet read.
    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Where the next byte is read.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// A refusal that names this position.
    #[cold]
    pub(super) fn undecodable(&self, what: &str) -> DecodeError {
        DecodeError::new(ErrorCode::Undecodable, format!("avro: {what} at byte {}", self.position))
    }

    /// A zigzag varint: Avro's `long`.
    #[inline]
    pub(super) fn long(&mut self) -> Result<i64, DecodeError> {
        self.varint().map(from_zigzag)
    }

    /// Avro's `int`: a long that fits 32 bits.
    pub(super) fn int(&mut self) -> Result<i32, DecodeError> {
        let long = self.long()?;
        i32::try_from(long).map_err(|_| self.undecodable("an int wider than 32 bits before"))
    }

    /// Avro's `boolean`.
    #[inline]
    pub(super) fn boolean(&mut self) -> Result<bool, DecodeError> {
        let flag = match self.bytes.get(self.position) {
            Some(0) => false,
            Some(1) => true,
            _ => return Err(self.undecodable("no boolean")),
        };
        self.position += 1;
        Ok(flag)
    }

    /// Avro's `bytes`, where they lie.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.long()?;
        let length = usize::try_from(length).ok().filter(|length| *length <= self.remaining());
        let length = length.ok_or_else(|| self.undecodable("a length that exceeds the record before"))?;
        let taken = &self.bytes[self.position..self.position + length];
        self.position += length;
        Ok(taken)
    }

    /// Avro's `string`, where it lies.
    pub(super) fn string(&mut self) -> Result<&'a str, DecodeError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.undecodable("a string that is not UTF-8 before"))
    }

    /// The branch of a union with two branches: whether it is the second one.
    #[inline]
    pub(super) fn second_branch(&mut self) -> Result<bool, DecodeError> {
        // Written in one byte by whoever writes no more than it takes.
        let short = match self.bytes.get(self.position) {
            Some(0) => Some(false),
            Some(2) => Some(true),
            _ => None,
        };
        if let Some(is_second) = short {
            self.position += 1;
            return Ok(is_second);
        }
        self.long_second_branch()
    }

    #[cold]
    fn long_second_branch(&mut self) -> Result<bool, DecodeError> {
        match self.long()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.undecodable("a union branch that does not exist before")),
        }
    }

    /// A union of null and something.
    #[inline]
    pub(super) fn nullable<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.second_branch()? { read(self).map(Some) } else { Ok(None) }
    }

    /// An array or a map, block by block: a count and that many items, ended by the count 0. A negative count
    /// is followed by the block's size in bytes. `block` reads as many items as it is told.
    pub(super) fn blocks(
        &mut self,
        mut block: impl FnMut(&mut Self, usize) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            let size = if count < 0 { Some(self.long()?) } else { None };
            let start = self.position();
            // An item takes at least a byte, so a larger count is a lie.
            let items = usize::try_from(count.unsigned_abs()).ok().filter(|items| *items <= self.remaining());
            let items = items.ok_or_else(|| self.undecodable("an array longer than the record before"))?;
            block(self, items)?;
            let read = self.position() - start;
            if size.is_some_and(|size| usize::try_from(size) != Ok(read)) {
                return Err(self.undecodable("an array block whose size is wrong before"));
            }
        }
    }

    /// An array or a map, item by item.
    pub(super) fn items(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.blocks(|cursor, items| (0..items).try_for_each(|_| item(cursor)))
    }

    /// As many longs as there is room for, as the 64 bits they are.
    pub(super) fn longs(&mut self, into: &mut [u64]) -> Result<(), DecodeError> {
        // Position and result stay in registers as long as numbers are of the common lengths.
        let mut rest = &self.bytes[self.position..];
        for slot in into {
            let zigzag = match *rest {
                [only @ ..0x80, ref tail @ ..] => {
                    rest = tail;
                    u64::from(only)
                }
                [low, high @ ..0x80, ref tail @ ..] => {
                    rest = tail;
                    two_bytes(low, high)
                }
                _ => {
                    let Some((zigzag, length)) = wide_varint(rest) else {
                        self.position = self.bytes.len() - rest.len();
                        return Err(self.no_varint());
                    };
                    rest = &rest[length..];
                    zigzag
                }
            };
            *slot = from_zigzag(zigzag) as u64;
        }
        self.position = self.bytes.len() - rest.len();
        Ok(())
    }

    /// Small numbers, lengths and branches among them, are one byte.
    #[inline]
    fn varint(&mut self) -> Result<u64, DecodeError> {
        match self.bytes.get(self.position) {
            Some(only @ ..0x80) => {
                self.position += 1;
                Ok(u64::from(*only))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let rest = &self.bytes[self.position..];
        let read = match rest {
            [low, high @ ..0x80, ..] => Some((two_bytes(*low, *high), 2)),
            _ => wide_varint(rest),
        };
        let (value, length) = read.ok_or_else(|| self.no_varint())?;
        self.position += length;
        Ok(value)
    }

    #[cold]
    fn no_varint(&self) -> DecodeError {
        self.undecodable("no whole varint of 64 bits")
    }
}

/// What zigzag coding made of a number, undone.
#[inline]
fn from_zigzag(zigzag: u64) -> i64 {
    (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
}

#[inline]
fn two_bytes(low: u8, high: u8) -> u64 {
    u64::from(low & 0x7f) | u64::from(high) << 7
}

/// Reads a varint of any width; returns how many bytes it takes, too.
#[inline]
fn wide_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes.first_chunk() {
        Some(window) => whole_varint(window),
        None => short_varint(bytes),
    }
}

/// Reads a varint where ten bytes are there to look at: eight at once, then the rare last two.
/// `None` when the number is wider than 64 bits.
#[inline]
fn whole_varint(window: &[u8; 10]) -> Option<(u64, usize)> {
    let [b0, b1, b2, b3, b4, b5, b6, b7, ninth, tenth] = *window;
    let first = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
    let ends = !first & 0x8080_8080_8080_8080;
    if ends != 0 {
        let bits = ends.trailing_zeros() + 1;
        return Some((pack_sevens(first & (u64::MAX >> (64 - bits))), (bits / 8) as usize));
    }
    // Of random numbers every other one takes ten bytes, so there is no branch on that.
    let goes_on = ninth >> 7;
    let top = tenth & goes_on.wrapping_neg();
    let value = pack_sevens(first) | u64::from(ninth & 0x7f) << 56 | u64::from(top) << 63;
    (top <= 1).then_some((value, 9 + usize::from(goes_on)))
}

/// Joins the low seven bits of eight bytes, by pairs, then fours, then all.
fn pack_sevens(bytes: u64) -> u64 {
    let x = bytes & 0x7f7f_7f7f_7f7f_7f7f;
    let x = (x & 0x007f_007f_007f_007f) | ((x & 0x7f00_7f00_7f00_7f00) >> 1);
    let x = (x & 0x0000_3fff_0000_3fff) | ((x & 0x3fff_0000_3fff_0000) >> 2);
    (x & 0x0fff_ffff) | ((x & 0x0fff_ffff_0000_0000) >> 4)
}

/// Reads a varint near the end of the record, where fewer than ten bytes are left.
fn short_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Appends Avro's `long`.
pub(super) fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag >= 0x80 {
        out.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

/// Appends Avro's `bytes`, which is also its `string`.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // A slice is never longer than isize::MAX.
    put_long(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn longs_read_back_with_and_without_bytes_behind(value in any::<i64>(), shift in 0u32..64, pad in 0usize..12) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_long(&mut bytes, value);
            let length = bytes.len();
            bytes.resize(length + pad, 0xff);
            let mut cursor = Cursor::new(&bytes, 0);
            prop_assert_eq!(cursor.long().unwrap(), value);
            prop_assert_eq!(cursor.position(), length);
        }

        #[test]
        fn longs_read_together_equal_one_by_one(
            values in prop::collection::vec((any::<i64>(), 0u32..64), 0..50), cut in 0usize..60, more in 0usize..3,
        ) {
            let mut bytes = Vec::new();
            values.iter().for_each(|(value, shift)| put_long(&mut bytes, value >> shift));
            bytes.truncate(bytes.len().saturating_sub(cut.saturating_sub(20)));
            let mut together = vec![0; values.len() + more];
            let (mut all, mut single) = (Cursor::new(&bytes, 0), Cursor::new(&bytes, 0));
            let read = all.longs(&mut together);
            let one_by_one: Result<Vec<u64>, _> = together.iter().map(|_| single.long().map(|long| long as u64)).collect();
            prop_assert_eq!(read.map(|()| together), one_by_one);
            prop_assert_eq!(all.position(), single.position());
        }

        #[test]
        fn the_wide_reading_equals_the_byte_by_byte_one(window in any::<[u8; 10]>()) {
            let mut slow = 0u128;
            let mut expected = None;
            for (index, byte) in window.iter().enumerate() {
                slow |= u128::from(byte & 0x7f) << (7 * index);
                if byte & 0x80 == 0 {
                    expected = u64::try_from(slow).ok().map(|value| (value, index + 1));
                    break;
                }
            }
            prop_assert_eq!(whole_varint(&window), expected);
        }
    }

    #[test]
    fn a_branch_is_read_however_many_bytes_it_is_written_in() {
        for (bytes, is_second) in
            [(&[0][..], false), (&[2], true), (&[0x80, 0], false), (&[0x82, 0x80, 0], true)]
        {
            let mut cursor = Cursor::new(bytes, 0);
            assert_eq!(cursor.second_branch().unwrap(), is_second);
            assert_eq!(cursor.remaining(), 0);
        }
        for bytes in [&[][..], &[1], &[4], &[0x80]] {
            let refused = Cursor::new(bytes, 0).second_branch().unwrap_err();
            assert_eq!(refused.code(), ErrorCode::Undecodable);
        }
    }

    #[test]
    fn ten_continuation_bytes_and_a_65th_bit_are_refused() {
        for bytes in
            [[0xff; 12].as_slice(), &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &[0x80], &[]]
        {
            assert_eq!(Cursor::new(bytes, 0).long().unwrap_err().code(), ErrorCode::Undecodable);
        }
        let widest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Cursor::new(&widest, 0).long().unwrap(), i64::MIN);
    }
}
