//! A router that remembers which prefixes it sent where, as common prefix-aware routers do.
//!
//! It does not ask the caches, so it is blind to what they evicted. The tree is kept as a table of prefix
//! hashes with one bit a replica; of two hashes that collide one prefix is taken for the other, which such
//! routers accept too.

use super::loads::Loads;
use super::spec::{MAX_PREFIX_REPLICAS, PrefixRules};
use crate::request::event::RequestEvent;
use crate::units::heap::heap_bytes;
use crate::units::pages::mix;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The router.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PrefixRouter {
    rules: PrefixRules,
    tree: PrefixTree,
    /// Pages sent beyond what the tree knew there, of late.
    loads: Loads,
    /// The request's prefix hashes; kept for their memory.
    #[serde(skip)]
    keys: Vec<u64>,
}

heap_bytes!(PrefixRouter { tree, loads, keys; rules });

/// Prefixes and the replicas they were sent to, in two generations: the older one is forgotten at once.
#[derive(Debug, Serialize, Deserialize)]
struct PrefixTree {
    #[serde(with = "in_order")]
    young: HashMap<u64, u64>,
    #[serde(with = "in_order")]
    old: HashMap<u64, u64>,
    half: usize,
}

heap_bytes!(PrefixTree { young, old; half });

impl PrefixTree {
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
        let tree = PrefixTree { young: HashMap::new(), old: HashMap::new(), half };
        let replicas = replicas.clamp(1, MAX_PREFIX_REPLICAS);
        Self { rules, tree, loads: Loads::new(replicas), keys: Vec::new() }
    }

    /// Whether this, read back from a snapshot, is a router like the `fresh` one and can go on.
    pub(super) fn is_sound(&self, fresh: &Self) -> bool {
        let PrefixTree { young, old, half } = &self.tree;
        (self.rules, *half) == (fresh.rules, fresh.tree.half)
            && young.len().max(old.len()) <= *half
            && self.loads.is_sound(fresh.loads.len())
    }

    pub(super) fn route(&mut self, event: &RequestEvent<'_>) -> usize {
        self.read_keys(event);
        let (longest, holders) = self.longest();
        let matched = longest as u64 * 1000;
        let is_match =
            longest > 0 && matched >= u64::from(self.rules.match_per_mille) * self.keys.len() as u64;
        let best = self.loads.least(|replica| holders >> replica & 1 == 1);
        let is_best =
            is_match && !self.loads.is_overloaded(best, self.rules.balance_per_mille, self.keys.len());
        let replica = if is_best { best } else { self.loads.least(|_| true) };
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

    fn send(&mut self, replica: usize) {
        let bit = 1_u64 << replica;
        let known = self.keys.iter().take_while(|key| self.tree.replicas(**key) & bit != 0).count();
        for key in &self.keys {
            self.tree.insert(*key, replica);
        }
        self.loads.send(replica, (self.keys.len() - known) as u64);
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
