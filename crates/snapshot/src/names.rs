//! Offsets in the names of files and objects.

use kvset_formats::position::NextOffset;

/// Digits of an offset in a name, so that names sort as offsets do.
pub(super) const OFFSET_DIGITS: usize = 20;

/// An offset as names hold it.
pub(super) fn format_offset(next_offset: NextOffset) -> String {
    format!("{:0OFFSET_DIGITS$}", next_offset.0)
}

/// Reads what [`format_offset`] wrote; `None` for any other text.
pub(super) fn parse_offset(digits: &str) -> Option<NextOffset> {
    let is_ours = digits.len() == OFFSET_DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_ours).map(NextOffset)
}
