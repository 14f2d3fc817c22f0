//! What requests found behind a router, counted over a trace or window.

use crate::questions::counters::{Counter, Share};
use crate::questions::question::MAX_REPLICAS;
use crate::request::outcome::{Need, Outcome};
use crate::sizing::exact_curve::{FoundPages, FoundRun};
use crate::stack::needs::Needs;
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// One request as every window counts it, in followed pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingShare {
    replica: u32,
    page_accesses: u64,
    rest_tokens: u32,
    reusable: u64,
    /// Required capacity of its replica, one per target ratio; empty where nothing is reusable.
    needs: Vec<Need>,
    runs: Vec<FoundRun>,
}

heap_bytes!(RoutingShare { needs, runs; replica, page_accesses, rest_tokens, reusable });

impl RoutingShare {
    /// What a request found in its replica.
    pub fn of(replica: usize, outcome: &Outcome, targets: &[Ratio]) -> Self {
        let reusable = outcome.reusable_prefix();
        let need = |target: &Ratio| outcome.need_of_prefix(target.ceil_of(reusable));
        Self {
            // Below the number of replicas that any router has.
            replica: replica as u32,
            page_accesses: outcome.page_accesses,
            rest_tokens: outcome.rest_tokens,
            reusable,
            needs: if reusable == 0 { Vec::new() } else { targets.iter().map(need).collect() },
            runs: outcome.runs.iter().filter_map(FoundRun::of).collect(),
        }
    }

    /// Leading pages that it finds where its replica holds so many followed pages.
    pub fn hits_at(&self, capacity: u64) -> u64 {
        self.runs.iter().map(|run| run.hits_at(capacity)).sum()
    }

    /// The same of a replica without limit.
    pub fn reusable(&self) -> u64 {
        self.reusable
    }
}

/// The counted requests of one replica, in followed pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReplicaTally {
    pub(super) requests: u64,
    pub(super) page_accesses: u64,
    /// Tokens of prompts behind their full pages, as far as known.
    pub(super) rest_tokens: u64,
    pub(super) reusable: u64,
    pub(super) found: FoundPages,
}

heap_bytes!(ReplicaTally { found; requests, page_accesses, rest_tokens, reusable });

/// The counted requests behind one router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingTally {
    /// By replica, as far as any got a request.
    pub(super) replicas: Vec<ReplicaTally>,
    /// Required capacities of all requests with something to reuse, one multiset a target ratio.
    pub(super) needs: Vec<Needs>,
}

heap_bytes!(RoutingTally { replicas, needs });

impl ReplicaTally {
    fn is_sound(&self) -> bool {
        [self.requests, self.page_accesses, self.rest_tokens, self.reusable].into_iter().all(is_countable)
            && self.found.is_sound()
    }
}

impl Share for RoutingShare {
    type Shape = usize;

    fn is_sound(&self, targets: usize) -> bool {
        (self.replica as usize) < MAX_REPLICAS
            && is_countable(self.page_accesses)
            && is_countable(self.reusable)
            && self.needs.len() == if self.reusable == 0 { 0 } else { targets }
            && self.runs.iter().all(FoundRun::is_of_an_engine)
    }
}

impl Counter for RoutingTally {
    type Share = RoutingShare;

    fn new(targets: usize) -> Self {
        Self { replicas: Vec::new(), needs: vec![Needs::default(); targets] }
    }

    fn add(&mut self, request: &RoutingShare) {
        let index = request.replica as usize;
        if self.replicas.len() <= index {
            self.replicas.resize_with(index + 1, ReplicaTally::default);
        }
        let replica = &mut self.replicas[index];
        replica.requests += 1;
        replica.page_accesses += request.page_accesses;
        replica.rest_tokens += u64::from(request.rest_tokens);
        replica.reusable += request.reusable;
        request.runs.iter().for_each(|run| replica.found.add(run));
        for (needs, need) in self.needs.iter_mut().zip(&request.needs) {
            needs.insert(*need);
        }
    }

    fn takes_out(_: usize) -> bool {
        true
    }

    fn remove(&mut self, request: &RoutingShare) {
        let Some(replica) = self.replicas.get_mut(request.replica as usize) else { return };
        replica.requests -= 1;
        replica.page_accesses -= request.page_accesses;
        replica.rest_tokens -= u64::from(request.rest_tokens);
        replica.reusable -= request.reusable;
        request.runs.iter().for_each(|run| replica.found.remove(run));
        for (needs, need) in self.needs.iter_mut().zip(&request.needs) {
            needs.remove(*need);
        }
        // A sum of the requests that are left has no more replicas than they reached.
        while self.replicas.pop_if(|last| last.requests == 0).is_some() {}
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let most = parts.clone().map(|part| part.replicas.len()).max()?;
        let targets = parts.clone().map(|part| part.needs.len()).max().unwrap_or(0);
        let replica = |index: usize| {
            let same = parts.clone().filter_map(move |part| part.replicas.get(index));
            ReplicaTally {
                requests: same.clone().map(|part| part.requests).sum(),
                page_accesses: same.clone().map(|part| part.page_accesses).sum(),
                rest_tokens: same.clone().map(|part| part.rest_tokens).sum(),
                reusable: same.clone().map(|part| part.reusable).sum(),
                found: FoundPages::merged(same.map(|part| &part.found)),
            }
        };
        let needs = |index: usize| Needs::merged(parts.clone().filter_map(|part| part.needs.get(index)));
        Some(Self { replicas: (0..most).map(replica).collect(), needs: (0..targets).map(needs).collect() })
    }

    fn consolidate(&mut self) {
        self.replicas.iter_mut().for_each(|replica| replica.found.consolidate());
        self.needs.iter_mut().for_each(Needs::consolidate);
    }

    fn is_consolidated(&self) -> bool {
        self.needs.iter().all(Needs::is_consolidated)
            && self.replicas.iter().all(|replica| replica.found.is_consolidated())
    }

    fn is_sound(&self, targets: usize) -> bool {
        self.needs.len() == targets
            && self.needs.iter().all(Needs::is_sound)
            && self.replicas.len() <= MAX_REPLICAS
            && self.replicas.iter().all(ReplicaTally::is_sound)
    }
}
