//! A router that remembers which prefixes it sent where (WHATIF 5), as common prefix-aware routers do.
//!
//! It does not ask the caches, so it is blind to what they evicted. The tree is kept as a table of prefix
//! hashes with one bit a replica; of two hashes that collide one prefix is taken for the other, which such
//! routers accept too.

use super::spec::{MAX_PREFIX_REPLICAS, PrefixRules};
use crate::event::RequestEvent;
use crate::pages::mix;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Requests between two halvings of the loads.
const HALVING: u64 = 256;

/// The router.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PrefixRouter {
    rules: PrefixRules,
    tree: Tree,
    /// Pages sent beyond what the tree knew there, of late.
    loads: Vec<u64>,
    requests: u64,
    /// The request's prefix hashes; kept for their memory.
    #[serde(skip)]
    keys: Vec<u64>,
}

/// Prefixes and the replicas they were sent to, in two generations: the older one is forgotten at once.
#[derive(Debug, Serialize, Deserialize)]
struct Tree {
    #[serde(with = "in_order")]
    young: HashMap<u64, u64>,
    #[serde(with = "in_order")]
    old: HashMap<u64, u64>,
    half: usize,
}

impl Tree {
    fn replicas(&self, key: u64) -> u64 {
        self.young.get(&key).copied().unwrap_or(0) | self.old.get(&key).copied().unwrap_or(0)
    }

    fn insert(&mut self, key: u64, replica: usize) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        let known = self.old.get(&key).copied().unwrap_or(0);
        *self.young.entry(key).or_insert(known) |= 1 << replica;
    }
}

impl PrefixRouter {
    pub(super) fn new(replicas: usize, rules: PrefixRules) -> Self {
        let half = (rules.tree_pages as usize / 2).max(1);
        let tree = Tree { young: HashMap::new(), old: HashMap::new(), half };
        let replicas = replicas.clamp(1, MAX_PREFIX_REPLICAS);
        Self { rules, tree, loads: vec![0; replicas], requests: 0, keys: Vec::new() }
    }

    /// Whether this, read back from a snapshot, is a router like the `fresh` one and can go on.
    pub(super) fn is_sound(&self, fresh: &Self) -> bool {
        let Tree { young, old, half } = &self.tree;
        (self.rules, *half, self.loads.len()) == (fresh.rules, fresh.tree.half, fresh.loads.len())
            && young.len().max(old.len()) <= *half
            && is_countable(self.requests)
            && self.loads.iter().all(|load| is_countable(*load))
    }

    /// Bytes of memory held, nearly: a hash map keeps a byte beside each entry and an eighth of them free.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.tree.young.capacity() + self.tree.old.capacity()) * (2 * size_of::<u64>() + 1) * 8 / 7
    }

    pub(super) fn route(&mut self, event: &RequestEvent<'_>) -> usize {
        self.read_keys(event);
        let (longest, holders) = self.longest();
        let idle = self.least_loaded(u64::MAX);
        let matched = longest as u64 * 1000;
        let is_match =
            longest > 0 && matched >= u64::from(self.rules.match_per_mille) * self.keys.len() as u64;
        let best = self.least_loaded(holders);
        let replica = if is_match && !self.is_overloaded(best) { best } else { idle };
        self.send(replica);
        replica
    }

    /// One hash a prefix of the prompt.
    fn read_keys(&mut self, event: &RequestEvent<'_>) {
        self.keys.clear();
        let mut key = event.scope.value();
        for id in event.page_ids.iter() {
            key = mix(key.rotate_left(1) ^ mix(id));
            self.keys.push(key);
        }
    }

    /// The longest prefix that any replica was sent, and the replicas that were sent it.
    fn longest(&self) -> (usize, u64) {
        let mut holders = u64::MAX;
        for (length, key) in self.keys.iter().enumerate() {
            let still = holders & self.tree.replicas(*key);
            if still == 0 {
                return (length, holders);
            }
            holders = still;
        }
        (self.keys.len(), holders)
    }

    /// The least loaded of some replicas, of equal ones the first.
    fn least_loaded(&self, replicas: u64) -> usize {
        let some = self.loads.iter().enumerate().filter(|(index, _)| replicas >> index & 1 == 1);
        some.min_by_key(|(index, load)| (**load, *index)).map_or(0, |(index, _)| index)
    }

    fn is_overloaded(&self, replica: usize) -> bool {
        let total: u128 = self.loads.iter().map(|load| u128::from(*load)).sum();
        let share = u128::from(self.loads[replica]) * self.loads.len() as u128;
        // A lone request is no imbalance.
        let slack = self.keys.len() as u128 * self.loads.len() as u128;
        share * 1000 > total * u128::from(self.rules.balance_per_mille) + slack * 1000
    }

    fn send(&mut self, replica: usize) {
        let bit = 1_u64 << replica;
        let known = self.keys.iter().take_while(|key| self.tree.replicas(**key) & bit != 0).count();
        self.loads[replica] += (self.keys.len() - known) as u64;
        for key in &self.keys {
            self.tree.insert(*key, replica);
        }
        self.requests += 1;
        if self.requests.is_multiple_of(HALVING) {
            self.loads.iter_mut().for_each(|load| *load /= 2);
        }
    }
}

/// A map as the sequence of its entries by key, so that equal maps have equal bytes.
mod in_order {
    use super::HashMap;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(map: &HashMap<u64, u64>, to: S) -> Result<S::Ok, S::Error> {
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_unstable();
        to.collect_seq(entries)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<HashMap<u64, u64>, D::Error> {
        Ok(Vec::<(u64, u64)>::deserialize(from)?.into_iter().collect())
    }
}
