//! What questions need of their pools.

/// What a question needs of its pool.
#[derive(Debug, Clone, Copy)]
pub struct QuestionNeeds {
    /// The setting that enables it.
    pub setting: &'static str,
    /// How often its answers were mended.
    pub revision: u32,
    /// One stack for all capacities.
    pub one_stack: bool,
    /// Few capacities, where the log goes on.
    pub few_capacities: bool,
    /// Room for each request of a window that requests leave again.
    pub each_request: bool,
}
