//! Slow and obvious: the stack profiles, page at a time.
