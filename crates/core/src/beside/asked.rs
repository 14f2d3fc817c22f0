//! What a pool is asked beside its estimates.

use crate::capacity::{CapacitySize, CapacitySpec};
use crate::pool_config::PoolConfig;
use crate::profile::Profile;
use crate::routing::{RouterSpec, SpecError};
use serde::{Deserialize, Serialize};

/// Most routers a pool is asked about: each costs as much as the pool's own cache.
pub const MAX_ROUTERS: usize = 8;

/// The questions. What is not asked leaves no trace in a fingerprint, so that a new question changes none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asked {
    /// How the cache in use compares with the modelled one: events carry `cached_tokens`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub measured: bool,
    /// What all replicas hold together today, to draw the ledger up at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<CapacitySpec>,
    /// What these routers would give, at most 8.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<RouterSpec>,
}

/// Why a question cannot be answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AskedError {
    /// Each router costs an engine.
    #[error("`routers` has {0} entries: at most 8")]
    TooManyRouters(usize),
    /// Two results of one name.
    #[error("`routers` names {0} twice: leave one out")]
    DuplicateRouter(String),
    /// It needs one stack for all capacities.
    #[error(
        "`{asked}` needs an engine with one curve, which `profile` {profile} has not: choose another engine, or \
         leave it out"
    )]
    NoStack {
        /// The setting.
        asked: &'static str,
        /// The engine.
        profile: Profile,
    },
    /// A router cannot be asked about.
    #[error("`routers`: {0}")]
    Router(#[from] SpecError),
    /// Bytes cannot be turned into pages.
    #[error("`provisioned` is {0}, a size in bytes: set `kv_bytes_per_token`, or give pages (5000p)")]
    BytesWithoutCost(CapacitySpec),
}

impl Asked {
    /// Whether nothing is asked.
    pub fn is_nothing(&self) -> bool {
        !self.measured && self.routers.is_empty()
    }

    /// Whether it can be answered for a pool that is configured like this.
    ///
    /// # Errors
    /// The first question that cannot.
    pub fn check(&self, config: &PoolConfig) -> Result<(), AskedError> {
        if self.routers.len() > MAX_ROUTERS {
            return Err(AskedError::TooManyRouters(self.routers.len()));
        }
        for (index, router) in self.routers.iter().enumerate() {
            if self.routers[..index].contains(router) {
                return Err(AskedError::DuplicateRouter(router.written()));
            }
        }
        self.routers.iter().try_for_each(|router| router.check(config.kv_bytes_per_token.is_some()))?;
        if config.is_pointwise() && !self.is_nothing() {
            let asked = if self.measured { "measured" } else { "routers" };
            return Err(AskedError::NoStack { asked, profile: config.profile });
        }
        match &self.provisioned {
            Some(spec)
                if matches!(spec.size, CapacitySize::Bytes(_)) && config.kv_bytes_per_token.is_none() =>
            {
                Err(AskedError::BytesWithoutCost(spec.clone()))
            }
            _ => Ok(()),
        }
    }
}
