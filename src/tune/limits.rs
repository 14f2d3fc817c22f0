//! What a model's config says of changes.

use kvset_core::units::PageSize;

/// What a model's config decides of a change of pages or of their elements; nothing where no config is given.
#[derive(Debug, Clone, Default)]
pub struct ModelLimits {
    /// Fewest tokens of a page, where the engine keeps a state in each.
    pub least_page: Option<u64>,
    /// What a cache of elements in eight bits is.
    pub eight_bits: EightBits,
}

/// A cache of elements in eight bits, beside the present one.
#[derive(Debug, Clone, Default)]
pub enum EightBits {
    /// Half as large, as of one in sixteen: no config says otherwise.
    #[default]
    Halves,
    /// So many pages where there were so many.
    Pages(u64, u64),
    /// No smaller than the present one.
    NoSmaller,
    /// It cannot be had, and why.
    Refused(String),
}

impl ModelLimits {
    /// Whether pages can be of this size.
    ///
    /// # Errors
    /// They cannot, and why.
    pub fn check_page(&self, size: PageSize) -> Result<(), String> {
        match self.least_page {
            Some(least) if u64::from(size.get()) < least => {
                Err(format!("the engine holds a state of this model in blocks of {least} tokens or more"))
            }
            _ => Ok(()),
        }
    }
}
