//! What a factor of traffic comes to.

use super::FamilyLog;
use super::check::{Check, to_act_on};
use crate::present::document::Section;
use crate::present::pool::{ShownTraffic, planned, times};
use crate::replay::Replay;
use crate::replay::history::question_sections;
use kvset_core::families::certainty::CertaintyStatus;
use kvset_core::families::overlay::TrafficGrowth;
use serde::Serialize;

/// Up to which factor the straight line is an answer by itself.
pub(super) const LINE_REACHES: f64 = 2.0;

/// Whether a factor is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficStatus {
    /// It is.
    Ready,
    /// It is, from few families.
    FewConversations,
    /// Nothing says which conversations came together.
    NoClock,
    /// There are too few families.
    TooFewConversations,
    /// One family has most of the requests.
    OneConversation,
}

impl TrafficStatus {
    pub(super) fn of(log: &FamilyLog) -> Self {
        match log.unreplayed().status {
            _ if !log.has_clock() => Self::NoClock,
            CertaintyStatus::Ready => Self::Ready,
            CertaintyStatus::FewConversations => Self::FewConversations,
            CertaintyStatus::TooFewConversations => Self::TooFewConversations,
            CertaintyStatus::OneConversation => Self::OneConversation,
        }
    }

    /// Whether the log can be grown.
    pub const fn is_answered(self) -> bool {
        matches!(self, Self::Ready | Self::FewConversations)
    }
}

/// What a factor comes to.
#[derive(Debug, Clone)]
pub struct GrownTraffic {
    /// The factor, and the first seed.
    pub growth: TrafficGrowth,
    /// Seeds whose mean the requirement is, on logarithms.
    pub seeds: u64,
    /// How far apart the copies of a family are on average; none where there are none.
    pub copies_apart_ms: Option<u64>,
    /// Whether it is answered.
    pub status: TrafficStatus,
    /// The replay of the grown log, of the first seed but for what is required; of a factor below 1 what its parts
    /// come to together. None where it is refused.
    pub replay: Option<Replay>,
    /// Second opinions; none where nothing is required of any capacity.
    pub check: Option<Check>,
    /// What a reader must know, in the order of what it costs; why it is refused.
    pub notes: Vec<String>,
}

impl GrownTraffic {
    /// The facts that tables and words are made from.
    pub(in crate::replay) fn shown(&self) -> ShownTraffic {
        let whole = self.replay.as_ref().and_then(|replay| replay.whole.as_ref());
        let recommended = whole.map(|whole| whole.recommendations().to_vec()).unwrap_or_default();
        let factor = self.growth.factor;
        let is_line = self.status == TrafficStatus::NoClock && factor <= LINE_REACHES;
        ShownTraffic {
            factor,
            recommended,
            unlimited: whole.map(|whole| whole.theoretical.prefix_hit_rate),
            capacities: whole.map(|whole| whole.capacities.clone()).unwrap_or_default(),
            at_provisioned: self.replay.as_ref().and_then(|replay| replay.at_provisioned.clone()),
            worth: self.replay.as_ref().and_then(|replay| Some(replay.worth.as_ref()?.estimate.clone())),
            sections: self.sections(),
            straight_line: self.check.filter(|_| is_line).map(|check| check.straight_line(factor)),
            notes: self.notes.clone(),
        }
    }

    /// What was asked besides the curve: tiers, routers and the like. Of a factor below 1 the replay is of one part
    /// alone.
    fn sections(&self) -> Vec<Section> {
        let more = self.replay.as_ref().filter(|_| self.growth.factor > 1.0);
        let plan = more.and_then(|replay| planned(replay.whole.as_ref()?));
        let named = |section: Section| Section {
            title: format!("{}, at {}", section.title, times(self.growth.factor)),
            ..section
        };
        let asked = more.into_iter().flat_map(|replay| question_sections(replay).sections);
        plan.into_iter().chain(asked).map(named).collect()
    }

    /// What the requirement to act on is.
    pub(super) fn required_pages(&self) -> Option<u64> {
        to_act_on(self.replay.as_ref()?)
    }
}
