//! How certain a figure is: what it would be with other conversations at the same hours.
//!
//! A delete-a-group jackknife: the log is replayed [`GROUPS`] times, each time without the families of one group, and
//! the figures are compared on logarithms. Replays are needed since most of the error is not who has the largest
//! requirements, but how much everybody else loads the cache meanwhile. A replay of nine tenths asks for less than
//! the log; that is common to all of them, so the interval stands around the log's own figure.

use super::Families;
use super::hash::hash;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Groups of families, and replays.
pub const GROUPS: u64 = 10;

/// The level of the intervals, and how many standard errors that is: Student's t with nine degrees of freedom.
pub const LEVEL: f64 = 0.9;
const STUDENT: f64 = 1.833;

/// Families below which nothing is said, and below which they are few.
pub const FEWEST: usize = 30;
pub const FEW: usize = 100;

/// Families above a figure from which on it is stated.
const STATED: u64 = 5;

/// The share of the requests of the largest family above which nothing is independent, and above which it is told.
pub const LARGEST_USABLE: f64 = 0.5;
pub const LARGEST_UNTOLD: f64 = 0.1;

/// What keeps the hash of a group from that of anything else.
const GROUP: u64 = 7;

/// The group of a family.
pub fn group(key: u64) -> u64 {
    hash(&[GROUP, key]) % GROUPS
}

/// Whether a log has what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertaintyStatus {
    /// It has.
    Ready,
    /// It has, with fewer than [`FEW`] families.
    FewConversations,
    /// It has fewer than [`FEWEST`].
    TooFewConversations,
    /// One family has most of the requests.
    OneConversation,
}

impl CertaintyStatus {
    /// What so many families come to, of which the largest has this share of the requests.
    pub fn of(families: u64, largest_share: f64) -> Self {
        match families {
            count if count < FEWEST as u64 => Self::TooFewConversations,
            _ if largest_share > LARGEST_USABLE => Self::OneConversation,
            count if count < FEW as u64 => Self::FewConversations,
            _ => Self::Ready,
        }
    }

    /// Whether something can be said.
    pub const fn is_usable(self) -> bool {
        matches!(self, Self::Ready | Self::FewConversations)
    }
}

/// How much stands behind a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureStanding {
    /// Enough.
    Stated,
    /// A few families lie above it: it is at least so large.
    Rough,
    /// No family does, or there are too few in all.
    NotStated,
}

impl FigureStanding {
    /// The standing of a figure with so many families above it.
    pub const fn of(above: u64, status: CertaintyStatus) -> Self {
        match above {
            _ if !status.is_usable() => Self::NotStated,
            0 => Self::NotStated,
            above if above < STATED => Self::Rough,
            _ => Self::Stated,
        }
    }
}

/// Where a figure lies with other conversations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end, in pages.
    pub low: Option<u64>,
    /// The upper end.
    pub high: Option<u64>,
    /// The standard error, as a share of the figure.
    pub standard_error: Option<f64>,
    /// Families with a request that needs more.
    pub conversations_above: u64,
    /// How much stands behind it.
    #[serde(rename = "status")]
    pub standing: FigureStanding,
}

impl Interval {
    /// The interval of another figure that is as uncertain.
    pub fn around(self, pages: Option<u64>) -> Self {
        let end = |errors: f64| {
            let error = self.standard_error?;
            Some((pages? as f64 * (errors * error).exp()).round() as u64)
        };
        Self { low: end(-STUDENT), high: end(STUDENT), ..self }
    }
}

/// Half of the width of an interval with such a standard error, as a share of the figure.
pub fn half_width(standard_error: f64) -> f64 {
    (STUDENT * standard_error).sinh()
}

/// How certain the figures of a log are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certainty {
    /// The level of the intervals.
    pub level: f64,
    /// How they are found.
    pub method: Cow<'static, str>,
    /// Families in the log.
    pub conversations: u64,
    /// The share of the requests that the largest one has.
    pub largest_share: f64,
    /// Pages that are common to all; unknown of a log that goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_pages: Option<u64>,
    /// What conversations were told by: `session`, `page tree`, or what takes the place of a session.
    pub by: Cow<'static, str>,
    /// Whether something can be said.
    pub status: CertaintyStatus,
    /// By target ratio and coverage: of the requirement, until the estimate has them.
    #[serde(skip)]
    pub required: Vec<Vec<Interval>>,
    /// The same of the recommendation; none where that is as uncertain as the requirement.
    #[serde(skip)]
    pub recommended: Vec<Vec<Interval>>,
}

/// What conversations are told by where nobody names them.
const PAGE_TREE: &str = "page tree";

impl Certainty {
    /// What is known of a log before it is replayed.
    pub fn of(families: &Families, by: &str) -> Self {
        let (conversations, largest_share) = (families.count() as u64, families.largest_share());
        let by = match by {
            "session" if !families.has_sessions() => Cow::Borrowed(PAGE_TREE),
            named => Cow::Owned(named.to_owned()),
        };
        let common_pages = Some(families.common_pages());
        let status = CertaintyStatus::of(conversations, largest_share);
        Self { conversations, largest_share, common_pages, by, status, ..Self::by_page_tree() }
    }

    /// Of no conversations, told by their pages.
    pub fn by_page_tree() -> Self {
        Self {
            level: LEVEL,
            method: Cow::Borrowed("jackknife of 10 groups of conversations"),
            conversations: 0,
            largest_share: 0.0,
            common_pages: None,
            by: Cow::Borrowed(PAGE_TREE),
            status: CertaintyStatus::TooFewConversations,
            required: Vec::new(),
            recommended: Vec::new(),
        }
    }
}

/// The standard error of a figure, as a share of it, from what it is without each of the groups; `None` where one of
/// those is not known.
pub fn standard_error(without: &[Option<u64>]) -> Option<f64> {
    let logs: Vec<f64> =
        without.iter().map(|pages| pages.map(|pages| (pages.max(1) as f64).ln())).collect::<Option<_>>()?;
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    (count > 1.0).then(|| ((count - 1.0) / count * squares).sqrt())
}
