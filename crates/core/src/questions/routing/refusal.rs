//! Why a request that its pool has accepted could not be followed for a question.

use super::MAX_REPLICAS;
use crate::engines::hybrid::RulesError;
use crate::engines::one_pass::EngineRefusal;

/// Why a request that its pool has accepted could not be followed for a question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// The log names more replicas than are followed.
    #[error("the log names more than {MAX_REPLICAS} replicas: is the field replica a request's own name?")]
    TooManyReplicas,
    /// A replica's cache refuses it.
    #[error(transparent)]
    Refused(#[from] EngineRefusal),
    /// The engine of a replica has no such pages.
    #[error(transparent)]
    Page(#[from] RulesError),
}
