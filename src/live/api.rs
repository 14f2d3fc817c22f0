//! The answers of `/api/v1`.

use super::board::Board;
use kvset_core::estimate::Estimate;
use kvset_core::units::window::WindowKind;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The description of the answers, as it is served.
pub(super) const OPENAPI: &str = include_str!("../../schemas/openapi.json");

/// What a reader asks for.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Filter {
    pub(super) pool: Option<String>,
    pub(super) window: Option<WindowKind>,
}

/// `/api/v1/estimates`: under `estimates`, each as it was published to the topic of estimates.
pub(super) fn estimates(board: &Board, filter: &Filter) -> BTreeMap<&'static str, Vec<Estimate>> {
    BTreeMap::from([("estimates", board.estimates(filter.pool.as_deref(), filter.window))])
}
