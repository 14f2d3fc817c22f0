//! What a kind of caches has alongside them: one cache that never evicts, and the head that drafts in all of them.

use super::points::{NeverEvicting, Point};
use crate::engines::config::CacheConfig;
use crate::engines::hybrid::{DraftHead, RulesError};
use crate::units::PageSize;
use serde::{Deserialize, Serialize};

/// The one that never evicts, in kinds that have it.
pub(super) trait OwnCeiling: Sized {
    fn build(config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError>;

    /// Whether it is there as a configuration has it.
    fn is_of(&self, _: &CacheConfig) -> bool {
        true
    }

    fn point(&self) -> Option<&Point>;

    fn point_mut(&mut self) -> Option<&mut Point>;
}

/// None.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NoCeiling;

impl OwnCeiling for NoCeiling {
    fn build(_: &CacheConfig, _: PageSize) -> Result<Self, RulesError> {
        Ok(Self)
    }

    fn point(&self) -> Option<&Point> {
        None
    }

    fn point_mut(&mut self) -> Option<&mut Point> {
        None
    }
}

impl<N: NeverEvicting> OwnCeiling for Box<N> {
    fn build(config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        N::never_evicting(config, page_size).map(Self::new)
    }

    fn point(&self) -> Option<&Point> {
        Some(&**self)
    }

    fn point_mut(&mut self) -> Option<&mut Point> {
        Some(&mut **self)
    }
}

/// There is one where a head drafts.
impl<N: NeverEvicting> OwnCeiling for Option<Box<N>> {
    fn build(config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        let drafts = config.rules.draft_head().drafts();
        drafts.then(|| Box::build(config, page_size)).transpose()
    }

    fn is_of(&self, config: &CacheConfig) -> bool {
        self.is_some() == config.rules.draft_head().drafts()
    }

    fn point(&self) -> Option<&Point> {
        self.as_ref().and_then(Box::point)
    }

    fn point_mut(&mut self) -> Option<&mut Point> {
        self.as_mut().and_then(Box::point_mut)
    }
}

impl<N> From<NoCeiling> for Option<Box<N>> {
    fn from(_: NoCeiling) -> Self {
        None
    }
}

/// The head of a configuration, where a snapshot has it.
pub(super) trait SavedHead: PartialEq {
    fn of(config: &CacheConfig) -> Self;
}

impl SavedHead for () {
    fn of(_: &CacheConfig) -> Self {}
}

impl SavedHead for DraftHead {
    fn of(config: &CacheConfig) -> Self {
        config.rules.draft_head()
    }
}
