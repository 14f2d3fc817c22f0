//! What it would cost to split a cache by quota: every named tenant in a cache of its own, all others in what is left.
//!
//! Pages that tenants share lie in each of their caches then. One pass with one stack a part is exact for every total
//! capacity.

use crate::engines::config::CacheConfig;
use crate::engines::one_pass::EngineRefusal;
use crate::questions::routing::ReplicaCaches;
use crate::request::event::RequestEvent;
use crate::request::labels::Label;
use crate::sizing::exact_curve::{FoundPages, FoundRun};
use crate::units::ratio::Ratio;
use crate::units::text::TextError;
use crate::units::{PageCount, PageSize};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// Most tenants with a quota.
const MAX_PARTS: usize = 64;

/// A split: shares of the whole by tenant, written `acme=0.5,beta=0.25`; who is not named shares what is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    parts: Vec<(String, Ratio)>,
}

fn no_split(reason: impl fmt::Display) -> TextError {
    TextError(format!(
        "{reason} (expected TENANT=SHARE,... such as acme=0.5,beta=0.25, with shares of 1 together at most)"
    ))
}

impl FromStr for Quota {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let part = |part: &str| {
            let (name, share) = part
                .rsplit_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| no_split(format!("`{part}` has no tenant or no share")))?;
            let share: Ratio = share.parse().map_err(no_split)?;
            Ok((name.to_owned(), share))
        };
        let parts: Vec<(String, Ratio)> = text.split(',').map(part).collect::<Result<_, _>>()?;
        if parts.len() > MAX_PARTS {
            return Err(no_split(format!("{} tenants are more than {MAX_PARTS}", parts.len())));
        }
        let mut names = HashSet::new();
        if let Some((name, _)) = parts.iter().find(|(name, _)| !names.insert(name)) {
            return Err(no_split(format!("`{name}` has two shares")));
        }
        let left = parts.iter().try_fold(Ratio::ONE, |left, (_, share)| left.minus(*share));
        left.ok_or_else(|| no_split("the shares are more than 1 together"))?;
        Ok(Self { parts })
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts.iter().map(|(name, share)| format!("{name}={share}"));
        f.pad(&parts.collect::<Vec<_>>().join(","))
    }
}

impl Quota {
    /// The part a tenant has; all who are not named have the last one.
    fn part_of(&self, tenant: Option<&str>) -> usize {
        let named = |name: &str| self.parts.iter().position(|(part, _)| part == name);
        tenant.and_then(named).unwrap_or(self.parts.len())
    }

    /// What each part has of so many pages, in whole pages; the last one has all that the others leave.
    fn sizes(&self, total: PageCount) -> Vec<PageCount> {
        let mut sizes: Vec<_> =
            self.parts.iter().map(|(_, share)| PageCount(share.share_of(total.0))).collect();
        let left = sizes.iter().fold(total.0, |left, size| left.saturating_sub(size.0));
        sizes.push(PageCount(left));
        sizes
    }
}

/// A split under way.
#[derive(Debug)]
pub struct QuotaRun {
    quota: Quota,
    caches: ReplicaCaches,
    found: Vec<FoundPages>,
    /// Whether a request was of the part.
    used: Vec<bool>,
}

/// What a split gives by total capacity, in the order requested.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaResult {
    /// The split.
    pub quota: Quota,
    /// Tenants with a share that no request names: the split keeps room for nobody.
    pub unused: Vec<String>,
    /// Total capacities in pages, and accesses that hit there; `None` beyond the tracked bound.
    pub capacities: Vec<(u64, Option<u64>)>,
}

impl QuotaRun {
    /// A split that has seen nothing, of the engine that `config` models.
    pub fn new(quota: Quota, config: &CacheConfig) -> Self {
        let parts = quota.parts.len() + 1;
        let (found, used) = (vec![FoundPages::default(); parts], vec![false; parts]);
        Self { quota, caches: ReplicaCaches::new(config.engine()), found, used }
    }

    /// Follows a request. One that is not counted only fills a cache.
    ///
    /// # Errors
    /// [`EngineRefusal`]; nothing has changed then.
    pub fn observe(
        &mut self,
        event: &RequestEvent<'_>,
        page_size: PageSize,
        counted: bool,
    ) -> Result<(), EngineRefusal> {
        let part = self.quota.part_of(event.labels.get(Label::Tenant).copied());
        let outcome = self.caches.observe(part, event, page_size)?;
        self.used[part] = true;
        if counted {
            outcome.runs.iter().filter_map(FoundRun::of).for_each(|run| self.found[part].add(&run));
        }
        Ok(())
    }

    /// What was found, at these total capacities.
    pub fn result(&self, totals: &[PageCount], config: &CacheConfig) -> QuotaResult {
        let at = |total: &PageCount| {
            let hits = self.found.iter().zip(self.quota.sizes(*total)).map(|(found, size)| {
                let followed = config.followed_pages(size);
                (followed <= config.max_tracked_pages.0).then(|| found.hits_at(followed))
            });
            let hits: Option<u64> = hits.sum();
            (total.0, hits.map(|hits| config.sample_rate.whole_of(hits)))
        };
        let names = self.quota.parts.iter().map(|(name, _)| name);
        let unused =
            names.zip(&self.used).filter(|(_, used)| !**used).map(|(name, _)| name.clone()).collect();
        QuotaResult { quota: self.quota.clone(), unused, capacities: totals.iter().map(at).collect() }
    }
}
