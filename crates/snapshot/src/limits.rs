//! What a snapshot may take: memory while it is captured, files while it is kept.

/// How states are cut into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartsLimits {
    /// States up to so many bytes are written whole, each time.
    pub whole_up_to: u64,
    /// Bytes of new parts that a capture holds in memory, alongside an eighth of what is stored. A state with more of
    /// them is captured in several captures.
    pub fresh_bytes: u64,
    /// Files that the parts of one state lie in.
    pub files: usize,
}

impl Default for PartsLimits {
    fn default() -> Self {
        Self { whole_up_to: 16 << 20, fresh_bytes: 256 << 20, files: 64 }
    }
}
