//! Where a request goes.

use super::least_in_flight::LeastInFlight;
use super::precise::PreciseRouter;
use super::prefix::PrefixRouter;
use super::spec::{HashBy, PreciseRules, RouterKind, RouterSpec};
use crate::questions::question::{MAX_REPLICAS, QuestionError};
use crate::request::event::RequestEvent;
use crate::request::labels::Label;
use crate::units::PageCount;
use crate::units::heap::{HeapBytes, heap_bytes};
use crate::units::pages::Scope;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A router.
#[derive(Debug, Serialize, Deserialize)]
pub struct Router {
    spec: RouterSpec,
    state: RouterState,
}

heap_bytes!(Router { state; spec });

#[derive(Debug, Serialize, Deserialize)]
enum RouterState {
    Logged(ReplicaNames),
    RoundRobin { next: usize },
    Hash(HashBy),
    LeastInFlight(LeastInFlight),
    Prefix(PrefixRouter),
    Precise(PreciseRouter),
}

impl HeapBytes for RouterState {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Logged(names) => names.heap_bytes(),
            Self::RoundRobin { .. } | Self::Hash(_) => 0,
            Self::LeastInFlight(router) => router.heap_bytes(),
            Self::Prefix(router) => router.heap_bytes(),
            Self::Precise(router) => router.heap_bytes(),
        }
    }
}

/// The replicas that a log names, by first appearance. Requests without a name share one cache of their own.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Vec<Option<Box<str>>>")]
struct ReplicaNames {
    indices: HashMap<Box<str>, usize, foldhash::fast::RandomState>,
    /// Of requests without a name.
    unnamed: Option<usize>,
    names: Vec<Option<Box<str>>>,
}

heap_bytes!(ReplicaNames { indices, names; unnamed });

impl From<Vec<Option<Box<str>>>> for ReplicaNames {
    fn from(names: Vec<Option<Box<str>>>) -> Self {
        let indices = names.iter().enumerate().filter_map(|(index, name)| Some((name.clone()?, index)));
        let unnamed = names.iter().position(Option::is_none);
        Self { indices: indices.collect(), unnamed, names }
    }
}

impl Serialize for ReplicaNames {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.names.serialize(to)
    }
}

impl ReplicaNames {
    fn are_distinct(&self) -> bool {
        self.indices.len() + usize::from(self.unnamed.is_some()) == self.names.len()
    }

    fn index(&mut self, name: Option<&str>) -> Result<usize, QuestionError> {
        let known = name.map_or(self.unnamed, |name| self.indices.get(name).copied());
        if let Some(index) = known {
            return Ok(index);
        }
        let index = self.names.len();
        if index >= MAX_REPLICAS {
            return Err(QuestionError::TooManyReplicas);
        }
        self.names.push(name.map(Box::from));
        match name {
            Some(name) => drop(self.indices.insert(name.into(), index)),
            None => self.unnamed = Some(index),
        }
        Ok(index)
    }
}

impl Router {
    /// A router that has seen nothing.
    pub fn new(spec: RouterSpec) -> Self {
        let state = match spec.kind {
            RouterKind::Logged => RouterState::Logged(ReplicaNames::default()),
            RouterKind::RoundRobin => RouterState::RoundRobin { next: 0 },
            RouterKind::Hash(by) => RouterState::Hash(by),
            RouterKind::LeastInFlight => RouterState::LeastInFlight(LeastInFlight::new(spec.replicas)),
            RouterKind::Prefix(rules) => RouterState::Prefix(PrefixRouter::new(spec.replicas, rules)),
            RouterKind::Precise(_) => RouterState::Precise(PreciseRouter::new(spec.replicas)),
        };
        Self { spec, state }
    }

    /// The replica that gets this request. One that asks the caches is routed by [`Router::precise`]: this
    /// gives its first replica.
    ///
    /// # Errors
    /// [`QuestionError::TooManyReplicas`] where the log names them.
    pub fn route(&mut self, event: &RequestEvent<'_>, session: Option<&str>) -> Result<usize, QuestionError> {
        let replicas = self.spec.replicas.max(1);
        match &mut self.state {
            RouterState::Logged(names) => names.index(event.labels.get(Label::Replica).copied()),
            RouterState::RoundRobin { next } => {
                let replica = *next;
                *next = (replica + 1) % replicas;
                Ok(replica)
            }
            RouterState::Hash(by) => Ok((hash(*by, event, session) % replicas as u64) as usize),
            RouterState::LeastInFlight(router) => Ok(router.route(event)),
            RouterState::Prefix(router) => Ok(router.route(event)),
            RouterState::Precise(_) => Ok(0),
        }
    }

    /// The router that asks the caches, and its rules, where this is one.
    pub(super) fn precise(&mut self) -> Option<(PreciseRules, &mut PreciseRouter)> {
        match (self.spec.kind, &mut self.state) {
            (RouterKind::Precise(rules), RouterState::Precise(router)) => Some((rules, router)),
            _ => None,
        }
    }

    /// The only total capacity that is reported, known once a request has been routed; `None` where every capacity is
    /// reported.
    pub(super) fn only_total(&self) -> Option<Option<PageCount>> {
        match &self.state {
            RouterState::Precise(router) => Some(router.total()),
            _ => None,
        }
    }

    /// Whether this, read back from a snapshot, is a router like the `fresh` one and can go on.
    pub fn is_sound(&self, fresh: &Self) -> bool {
        let replicas = self.spec.replicas.max(1);
        let state = match (&self.state, &fresh.state) {
            (RouterState::Logged(names), RouterState::Logged(_)) => {
                names.names.len() <= MAX_REPLICAS && names.are_distinct()
            }
            (RouterState::RoundRobin { next }, RouterState::RoundRobin { .. }) => *next < replicas,
            (RouterState::Hash(by), RouterState::Hash(asked)) => by == asked,
            (RouterState::LeastInFlight(router), RouterState::LeastInFlight(_)) => router.is_sound(replicas),
            (RouterState::Prefix(router), RouterState::Prefix(fresh)) => router.is_sound(fresh),
            (RouterState::Precise(router), RouterState::Precise(fresh)) => router.is_sound(fresh),
            _ => false,
        };
        self.spec == fresh.spec && state
    }

    /// How it was requested.
    pub fn spec(&self) -> RouterSpec {
        self.spec
    }

    /// Replicas it spreads requests over; those that the log named so far.
    pub fn replicas(&self) -> usize {
        match &self.state {
            RouterState::Logged(names) => names.names.len(),
            _ => self.spec.replicas,
        }
    }

    /// The name of a replica, where the log names them.
    pub fn name(&self, replica: usize) -> Option<&str> {
        match &self.state {
            RouterState::Logged(names) => names.names.get(replica)?.as_deref(),
            _ => None,
        }
    }
}

/// What a hash router hashes of a request.
fn hash(by: HashBy, event: &RequestEvent<'_>, session: Option<&str>) -> u64 {
    let tenant = event.labels.get(Label::Tenant).copied();
    let name = match by {
        HashBy::Auto => session.or(tenant),
        HashBy::Session => session,
        HashBy::Tenant => tenant,
        HashBy::FirstPage => None,
    };
    name.map_or_else(|| hash_of_first_page(event), |name| xxh3_64(name.as_bytes()))
}

/// The first page's hash; that of its scope for a request without pages.
fn hash_of_first_page(event: &RequestEvent<'_>) -> u64 {
    let scope: Scope = event.scope;
    let first = event.page_ids.get(0).map_or(scope.value(), |id| scope.first_page(id));
    xxh3_64(&first.to_le_bytes())
}
