//! A cache one page at a time, as an engine might keep it.

use std::collections::{BTreeMap, HashMap};

/// Pages with the time of their last use, and the uses in order.
pub struct PageLru {
    capacity: usize,
    /// What is kept once the capacity is passed; the capacity itself for an LRU that evicts on demand.
    low: usize,
    used: HashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
    clock: u64,
}

impl PageLru {
    pub fn new(capacity: usize, low: usize) -> Self {
        Self { capacity, low, used: HashMap::new(), by_use: BTreeMap::new(), clock: 0 }
    }

    /// Uses a request's pages, the leaf as the oldest of them, and evicts once all are in. Gives its hits.
    pub fn access(&mut self, ids: &[u64]) -> u64 {
        let hits = self.hits(ids);
        ids.iter().rev().for_each(|id| self.touch(*id));
        self.evict();
        hits
    }

    /// The same with the root as the oldest page, evicting as each page comes in.
    pub fn access_page_by_page(&mut self, ids: &[u64]) -> u64 {
        let hits = self.hits(ids);
        for id in ids {
            self.touch(*id);
            self.evict();
        }
        hits
    }

    fn hits(&self, ids: &[u64]) -> u64 {
        ids.iter().take_while(|id| self.used.contains_key(id)).count() as u64
    }

    fn touch(&mut self, id: u64) {
        self.clock += 1;
        if let Some(before) = self.used.insert(id, self.clock) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.clock, id);
    }

    fn evict(&mut self) {
        if self.used.len() <= self.capacity {
            return;
        }
        while self.used.len() > self.low
            && let Some((_, id)) = self.by_use.pop_first()
        {
            self.used.remove(&id);
        }
    }
}
