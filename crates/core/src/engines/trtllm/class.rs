//! How preferably a request asks for its pages to be kept, as its retention class says it.

use super::queues::{DEFAULT_PRIORITY, MAX_PRIORITY};
use std::str::FromStr;

/// A class such as `priority-80`, or `priority-80-30000ms`, after which time the blocks are as others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionClass {
    /// The priority of the prompt's blocks.
    pub priority: u8,
    /// How long they keep it once they are released; 0 for as long as they are there.
    pub duration_ms: u64,
}

impl FromStr for RetentionClass {
    type Err = ();

    /// Other classes are none of TensorRT-LLM's.
    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.strip_prefix("priority-").ok_or(())?;
        let (priority, duration_ms) = match text.split_once('-') {
            Some((priority, time)) => (priority, time.strip_suffix("ms").ok_or(())?.parse().map_err(|_| ())?),
            None => (text, 0),
        };
        let priority = priority.parse().ok().filter(|priority| *priority <= MAX_PRIORITY).ok_or(())?;
        // Blocks at the default priority have nothing to fall back to.
        Ok(Self { priority, duration_ms: if priority == DEFAULT_PRIORITY { 0 } else { duration_ms } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_priorities_are_read_and_others_are_not() {
        let class = |priority, duration_ms| Ok(RetentionClass { priority, duration_ms });
        assert_eq!("priority-80".parse(), class(80, 0));
        assert_eq!("priority-0-30000ms".parse(), class(0, 30_000));
        assert_eq!("priority-35-30000ms".parse(), class(35, 0));
        for other in
            ["5m", "pinned", "priority-", "priority-101", "priority--3", "priority-80-30s", "priority-80-x"]
        {
            assert_eq!(other.parse::<RetentionClass>(), Err(()), "{other}");
        }
    }
}
