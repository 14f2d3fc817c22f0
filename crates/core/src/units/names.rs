//! Lists of names, written as one text.

/// The names that a text lists, parted by single spaces. One too few or too many does not compile where the list is a
/// constant.
///
/// ```
/// const PLACES: [&str; 3] = kvset_core::units::names::listed("host rank slot");
/// assert_eq!(PLACES, ["host", "rank", "slot"]);
/// ```
///
/// # Panics
/// There are not as many names, or two spaces in a row.
pub const fn listed<const N: usize>(text: &'static str) -> [&'static str; N] {
    let (mut names, mut rest, mut count) = ([""; N], text, 0);
    while count < N {
        let mut end = 0;
        while end < rest.len() && rest.as_bytes()[end] != b' ' {
            end += 1;
        }
        let (name, behind) = rest.split_at(end);
        assert!(!name.is_empty(), "fewer names than the list has room for");
        (names[count], rest) = (name, if behind.is_empty() { behind } else { behind.split_at(1).1 });
        count += 1;
    }
    assert!(rest.is_empty(), "more names than the list has room for");
    names
}
