//! The answers of `/api/v1`.

use super::board::Board;
use kvset_core::estimate::Estimate;
use kvset_core::units::window::WindowKind;
use serde::{Deserialize, Serialize};

/// The description of the answers, as it is served.
pub(super) const OPENAPI: &str = include_str!("../../schemas/openapi.json");

/// What a reader asks for.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Filter {
    pub(super) pool: Option<String>,
    pub(super) window: Option<WindowKind>,
}

/// `/api/v1/estimates`.
#[derive(Debug, Serialize)]
pub(super) struct Estimates {
    /// Each as it was published to the topic of estimates.
    pub(super) estimates: Vec<Estimate>,
}

/// A refusal.
#[derive(Debug, Serialize)]
pub(super) struct Refused {
    pub(super) error: String,
}

pub(super) fn estimates(board: &Board, filter: &Filter) -> Estimates {
    Estimates { estimates: board.estimates(filter.pool.as_deref(), filter.window) }
}
