//! What one request finds in a cache of one capacity.

/// What one request found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheHits {
    /// Leading prompt pages found.
    pub hits: u64,
    /// The cache is too small to run the request even alone; it was turned away, changing nothing.
    pub refused: bool,
}
