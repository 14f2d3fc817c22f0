//! Routers as users name them: `NAME[:N][:PARAMETERS]`.

use crate::questions::question::MAX_REPLICAS;
use crate::units::capacity::{CapacitySize, CapacitySpec};
use crate::units::{Bytes, PageCount};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Most replicas of a router that remembers prefixes: one bit each.
pub(super) const MAX_PREFIX_REPLICAS: usize = 64;

/// A router and its number of replicas. In a configuration it is text, with every parameter that is not the
/// default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct RouterSpec {
    /// How it decides.
    pub kind: RouterKind,
    /// Replicas it spreads requests over; 0 for those that the log names.
    pub replicas: usize,
}

/// How a router decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterKind {
    /// As the log's field `replica` says.
    Logged,
    /// One after the other.
    RoundRobin,
    /// By a hash.
    Hash(HashBy),
    /// To the replica with the fewest requests in flight, where durations are known; among these to
    /// the one that got the fewest so far, then the first.
    LeastInFlight,
    /// To the replica that was sent the longest prefix, as far as load allows.
    Prefix(PrefixRules),
    /// To the replica that holds the longest prefix, as far as load allows: asks the caches, at one capacity.
    Precise(PreciseRules),
}

/// What is hashed: XXH3-64 of the bytes, modulo the number of replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum HashBy {
    /// The session where the request has one, else its tenant, else its first page.
    #[default]
    Auto,
    /// The session; the first page of requests without one.
    Session,
    /// The tenant; the first page of requests without one.
    Tenant,
    /// The id of the first page, in its scope, as eight little-endian bytes.
    FirstPage,
}

/// The rules of a prefix router: an approximate tree of what was sent where, and a balance rule, as the
/// routers of SGLang and others have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixRules {
    /// Thousandths of the prompt's pages that the best replica must have been sent; below that the least
    /// loaded replica is taken (SGLang's `cache_threshold`).
    pub match_per_mille: u32,
    /// Thousandths of the mean load above which a replica is passed over for the least loaded one (SGLang's
    /// `balance_rel_threshold`). The load is the pages sent there beyond what the tree knew there, halved
    /// every 256 requests.
    pub balance_per_mille: u32,
    /// Most pages that the tree remembers, the oldest half forgotten at once (SGLang's `max_tree_size`).
    pub tree_pages: u32,
}

impl Default for PrefixRules {
    /// `match=0.5,balance=1.5,tree=1048576`.
    fn default() -> Self {
        Self { match_per_mille: 500, balance_per_mille: 1500, tree_pages: 1 << 20 }
    }
}

/// The rules of a router that asks the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreciseRules {
    /// What all replicas hold together.
    pub at: CapacitySize,
    /// Thousandths of the mean load above which a replica is passed over for the least loaded one. The load is the
    /// pages that a replica had to compute, halved every 256 requests.
    pub balance_per_mille: u32,
}

/// A router's name and parameters cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The name is none of the routers'.
    #[error(
        "unknown router: expected logged, round-robin:N, hash:N, least-in-flight:N, prefix:N or precise-prefix:N:at=SIZE"
    )]
    UnknownRouter,
    /// The number of replicas is missing or out of range.
    #[error("{name} needs a number of replicas from 1 to {limit}, as in {name}:4")]
    Replicas { name: &'static str, limit: usize },
    /// `logged` has as many replicas as the log names.
    #[error("logged takes no number: it has the replicas that the log names")]
    LoggedTakesNone,
    /// What is hashed is none of the things that can be.
    #[error("hash:N is followed by session, tenant or first-page, or by nothing")]
    HashBy,
    /// Parameters of a prefix router.
    #[error(
        "prefix:N is followed by match=SHARE (0 to 1), balance=FACTOR (1 to 1000) and tree=PAGES (1024 to \
         268435456), separated by commas, or by nothing"
    )]
    Prefix,
    /// Parameters of a router that asks the caches.
    #[error(
        "precise-prefix:N is followed by at=SIZE, what all replicas hold together (40GiB or 5000p), and may have \
         balance=FACTOR (1 to 1000) behind a comma"
    )]
    Precise,
    /// Bytes cannot be turned into pages.
    #[error("{0} names a size in bytes, which needs kv_bytes_per_token; set it, or give pages (5000p)")]
    BytesWithoutCost(String),
    /// More than a router has.
    #[error("{name}:N takes no parameters")]
    NoParameters { name: &'static str },
}

impl RouterKind {
    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Logged => "logged",
            Self::RoundRobin => "round-robin",
            Self::Hash(_) => "hash",
            Self::LeastInFlight => "least-in-flight",
            Self::Prefix(_) => "prefix",
            Self::Precise(_) => "precise-prefix",
        }
    }

    fn most_replicas(self) -> usize {
        match self {
            // One bit each; one look-up a request each.
            Self::Prefix(_) | Self::Precise(_) => MAX_PREFIX_REPLICAS,
            _ => MAX_REPLICAS,
        }
    }

    fn with_parameters(self, text: &str) -> Result<Self, SpecError> {
        match self {
            Self::Hash(_) => Ok(Self::Hash(match text {
                "session" => HashBy::Session,
                "tenant" => HashBy::Tenant,
                "first-page" => HashBy::FirstPage,
                _ => return Err(SpecError::HashBy),
            })),
            Self::Prefix(_) => PrefixRules::parse(text).map(Self::Prefix).ok_or(SpecError::Prefix),
            Self::Precise(_) => PreciseRules::parse(text).map(Self::Precise).ok_or(SpecError::Precise),
            _ => Err(SpecError::NoParameters { name: self.name() }),
        }
    }
}

impl PrefixRules {
    fn parse(text: &str) -> Option<Self> {
        let mut rules = Self::default();
        for part in text.split(',') {
            let (name, value) = part.split_once('=')?;
            match name {
                "match" => rules.match_per_mille = per_mille(value).filter(|share| *share <= 1000)?,
                "balance" => rules.balance_per_mille = balance(value)?,
                "tree" => {
                    let pages = value.parse().ok();
                    rules.tree_pages = pages.filter(|pages| (1 << 10..=1 << 28).contains(pages))?;
                }
                _ => return None,
            }
        }
        Some(rules)
    }
}

impl PreciseRules {
    /// The balance of [`PrefixRules`], where none is given.
    const BALANCE: u32 = 1500;

    fn parse(text: &str) -> Option<Self> {
        let (mut at, mut balance_per_mille) = (None, Self::BALANCE);
        for part in text.split(',') {
            match part.split_once('=')? {
                ("at", size) => at = Some(size.parse::<CapacitySpec>().ok()?.size),
                ("balance", factor) => balance_per_mille = balance(factor)?,
                _ => return None,
            }
        }
        Some(Self { at: at?, balance_per_mille })
    }

    fn written(&self) -> String {
        let at = match self.at {
            CapacitySize::Bytes(Bytes(bytes)) => format!("at={bytes}b"),
            CapacitySize::Pages(PageCount(pages)) => format!("at={pages}p"),
        };
        match self.balance_per_mille {
            Self::BALANCE => at,
            factor => format!("{at},balance={}", f64::from(factor) / 1000.0),
        }
    }
}

/// A factor from 1 to 1000, in thousandths.
fn balance(text: &str) -> Option<u32> {
    per_mille(text).filter(|factor| (1000..=1_000_000).contains(factor))
}

/// A decimal with at most three places, in thousandths.
fn per_mille(text: &str) -> Option<u32> {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if places.len() > 3 || whole.is_empty() || !digits(whole) || !digits(places) {
        return None;
    }
    format!("{whole}{places:0<3}").parse().ok()
}

impl RouterSpec {
    /// As it is written, with what differs from the default: it reads back the same.
    pub fn written(&self) -> String {
        match self.kind {
            RouterKind::Hash(HashBy::Session) => format!("{self}:session"),
            RouterKind::Hash(HashBy::Tenant) => format!("{self}:tenant"),
            RouterKind::Hash(HashBy::FirstPage) => format!("{self}:first-page"),
            RouterKind::Prefix(rules) if rules != PrefixRules::default() => {
                let share = |per_mille| f64::from(per_mille) / 1000.0;
                let (found, balance) = (share(rules.match_per_mille), share(rules.balance_per_mille));
                format!("{self}:match={found},balance={balance},tree={}", rules.tree_pages)
            }
            RouterKind::Precise(rules) => format!("{self}:{}", rules.written()),
            _ => self.to_string(),
        }
    }

    /// Whether it goes by the session of a request that has one.
    pub fn asks_for_session(&self) -> bool {
        matches!(self.kind, RouterKind::Hash(HashBy::Auto | HashBy::Session))
    }

    /// Whether it can be asked about where a token's bytes are known, or are not.
    ///
    /// # Errors
    /// [`SpecError::BytesWithoutCost`].
    pub fn check(&self, has_cost: bool) -> Result<(), SpecError> {
        match self.kind {
            RouterKind::Precise(PreciseRules { at: CapacitySize::Bytes(_), .. }) if !has_cost => {
                Err(SpecError::BytesWithoutCost(self.written()))
            }
            _ => Ok(()),
        }
    }
}

impl Serialize for RouterSpec {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.written())
    }
}

impl TryFrom<String> for RouterSpec {
    type Error = SpecError;

    fn try_from(text: String) -> Result<Self, SpecError> {
        text.parse()
    }
}

impl FromStr for RouterSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut parts = text.splitn(3, ':');
        let (name, replicas, parameters) = (parts.next(), parts.next(), parts.next());
        let mut kind = match name {
            Some("logged") => {
                return match replicas {
                    None => Ok(Self { kind: RouterKind::Logged, replicas: 0 }),
                    Some(_) => Err(SpecError::LoggedTakesNone),
                };
            }
            Some("round-robin") => RouterKind::RoundRobin,
            Some("hash") => RouterKind::Hash(HashBy::Auto),
            Some("least-in-flight") => RouterKind::LeastInFlight,
            Some("prefix") => RouterKind::Prefix(PrefixRules::default()),
            Some("precise-prefix") => {
                let rules = parameters.and_then(PreciseRules::parse).ok_or(SpecError::Precise)?;
                RouterKind::Precise(rules)
            }
            _ => return Err(SpecError::UnknownRouter),
        };
        let limit = kind.most_replicas();
        let replicas =
            replicas.and_then(|text| text.parse().ok()).filter(|count| (1..=limit).contains(count));
        let replicas = replicas.ok_or(SpecError::Replicas { name: kind.name(), limit })?;
        if let Some(parameters) = parameters {
            kind = kind.with_parameters(parameters)?;
        }
        Ok(Self { kind, replicas })
    }
}

impl fmt::Display for RouterSpec {
    /// As it is written, without parameters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RouterKind::Logged => f.write_str("logged"),
            kind => write!(f, "{}:{}", kind.name(), self.replicas),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> RouterSpec {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn routers_are_named_as_they_are_shown() {
        for text in ["logged", "round-robin:4", "hash:8", "least-in-flight:1", "prefix:64"] {
            assert_eq!(spec(text).to_string(), text);
        }
        for text in [
            "hash:4:session",
            "prefix:4:match=0.25,balance=2,tree=4096",
            "logged",
            "prefix:2",
            "precise-prefix:4:at=5000p",
            "precise-prefix:4:at=1073741824b,balance=1.25",
        ] {
            assert_eq!(spec(text).written(), text, "reads back");
        }
        assert_eq!(spec("hash:4:tenant").kind, RouterKind::Hash(HashBy::Tenant));
        let rules = PrefixRules { match_per_mille: 250, balance_per_mille: 2000, tree_pages: 4096 };
        assert_eq!(spec("prefix:4:match=0.25,balance=2,tree=4096").kind, RouterKind::Prefix(rules));
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for text in [
            "",
            "random:4",
            "logged:4",
            "round-robin",
            "round-robin:0",
            "round-robin:1025",
            "hash:-1",
            "hash:4:user",
            "prefix:65",
            "prefix:4:match=1.5",
            "prefix:4:balance=0.5",
            "prefix:4:tree=1",
            "prefix:4:x=1",
            "round-robin:4:x",
            "prefix:4:match=0.1234",
            "prefix:4:match=.",
            "prefix:4:",
            "precise-prefix:4",
            "precise-prefix:4:balance=2",
            "precise-prefix:65:at=5p",
            "precise-prefix:4:at=lots",
        ] {
            assert!(text.parse::<RouterSpec>().is_err(), "{text} should be refused");
        }
    }
}
