//! How certain a pool's figures are, in words.

use super::PoolReport;
use crate::present::words;
use kvset_core::families::certainty::{CertaintyStatus, FEWEST, FigureStanding, LEVEL};
use kvset_core::sizing::recommendation::Recommendation;
use kvset_core::sizing::tiers::Settled;

/// The column of a table that holds intervals.
pub(super) const COLUMN: &str = "90 % interval";

/// The ends of a recommendation that is stated.
pub(crate) fn ends(entry: &Recommendation) -> Option<(u64, u64)> {
    entry.stated_ends().filter(|(_, high)| *high > 0)
}

/// What stands before a size that is the least that the log says.
pub(super) fn at_least(entry: &Recommendation) -> &'static str {
    if entry.interval_status == Some(FigureStanding::Rough) { "at least " } else { "" }
}

/// The interval of a recommendation in a table.
pub(super) fn cell(entry: &Recommendation, page_bytes: Option<u64>) -> String {
    match (entry.interval_status, entry.low.zip(entry.high), entry.conversations_above) {
        (None, ..) => "-".to_owned(),
        (Some(FigureStanding::Stated), Some((low, high)), _) => words::between(low, high, page_bytes),
        (Some(FigureStanding::Rough), _, Some(above)) => format!("at least ({above} above)"),
        _ => "not stated".to_owned(),
    }
}

/// What is said of certainty, where it was found: of the recommendation, and of larger coverages that it falls short
/// of.
pub(super) fn sentences(pool: &PoolReport<'_>) -> Vec<String> {
    let (Some(certainty), Some(entry)) = (&pool.estimate.certainty, pool.estimate.recommendation()) else {
        return Vec::new();
    };
    let count = words::counted(certainty.conversations, "conversation", "conversations");
    match certainty.status {
        CertaintyStatus::TooFewConversations if certainty.conversations == 1 => {
            return vec![
                "All requests seem to be of one conversation, so neither the certainty nor the need of more traffic can be \
                 told: name the session of each row (session_id)."
                    .to_owned(),
            ];
        }
        CertaintyStatus::TooFewConversations => {
            return vec![format!(
                "{count} are too few to say how certain this is, or what more traffic needs: {FEWEST} at least."
            )];
        }
        CertaintyStatus::OneConversation => {
            return vec![format!(
                "One group of conversations makes {} of the requests, so nothing says how certain this is.",
                words::rate(certainty.largest_share)
            )];
        }
        CertaintyStatus::Ready | CertaintyStatus::FewConversations => {}
    }
    let own = ends(entry).map(|(low, high)| {
        let but = match entry.convergence {
            Settled::NotConverged => {
                format!(" The interval does not cover that the requirement {}.", entry.movement())
            }
            _ => String::new(),
        };
        format!(
            "With other conversations at the same hours, {} would be needed ({:.0} % interval).{but}",
            words::between(low, high, pool.estimate.page_bytes),
            LEVEL * 100.0
        )
    });
    let larger = pool.estimate.recommendations().iter().filter(|other| other.coverage >= entry.coverage);
    let short = larger.filter_map(|other| {
        let (standing, above) = (other.interval_status?, other.conversations_above?);
        let share = words::share(other.coverage);
        let size = pool.size(other.so_far()?);
        match (standing, above) {
            (FigureStanding::Stated, _) => None,
            (FigureStanding::Rough, 1) => {
                Some(format!("{share}: at least {size}; 1 conversation lies above it"))
            }
            (FigureStanding::Rough, above) => {
                Some(format!("{share}: at least {size}; {above} conversations lie above it"))
            }
            (FigureStanding::NotStated, _) => {
                Some(format!("{share}: this log is too short to say (no conversation lies above {size})"))
            }
        }
    });
    let short: Vec<String> = short.collect();
    let short = (!short.is_empty()).then(|| format!("({}.)", short.join(". ")));
    own.into_iter().chain(short).collect()
}
