//! How preferably a request asks for its pages to be kept, as its retention class says it.

use super::queues::{DEFAULT_PRIORITY, DEVICE, MAX_PRIORITY, QueueKey};
use std::str::FromStr;

/// The queue for the blocks of a prompt of a class such as `priority-80`, or `priority-80-30000ms`, after which time
/// they are as others.
impl FromStr for QueueKey {
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
        let duration_ms = if priority == DEFAULT_PRIORITY { 0 } else { duration_ms };
        Ok(Self { level: DEVICE, priority, duration_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_priorities_are_read_and_others_are_not() {
        let class = |priority, duration_ms| Ok(QueueKey { level: DEVICE, priority, duration_ms });
        assert_eq!("priority-80".parse(), class(80, 0));
        assert_eq!("priority-0-30000ms".parse(), class(0, 30_000));
        assert_eq!("priority-35-30000ms".parse(), class(35, 0));
        for other in
            ["5m", "pinned", "priority-", "priority-101", "priority--3", "priority-80-30s", "priority-80-x"]
        {
            assert_eq!(other.parse::<QueueKey>(), Err(()), "{other}");
        }
    }
}
