//! vLLM's CPUOffloadingManager with both of its policies, transcribed: a key at a time, in plain lists.

use std::collections::{HashMap, HashSet};

/// A chunk, by its last page, and a group.
pub type Key = (u64, usize);

/// An order of eviction: the request's, the chunk's from the last one on, and the group's.
type Rank = (u64, i64, usize);

#[derive(Debug, Clone)]
pub struct SlowManager {
    pub pages_a_chunk: u64,
    capacity: usize,
    is_arc: bool,
    threshold: usize,
    /// Keys held, with whether they are ready.
    held: HashMap<Key, bool>,
    ranks: HashMap<Key, Rank>,
    next_rank: u64,
    lists: [Vec<Key>; 4],
    wanted_once: f64,
    counts: HashMap<Key, usize>,
    /// The request's.
    rank: Option<u64>,
    positions: HashMap<Key, i64>,
    seen: Vec<Key>,
    inserted: HashSet<Key>,
    reused: HashSet<Key>,
    missed: HashSet<Key>,
    writing: [Vec<Key>; 2],
    /// Keys written since the start.
    pub written: u64,
}

impl SlowManager {
    pub fn new(blocks: u64, pages_a_chunk: u64, threshold: usize, is_arc: bool) -> Self {
        Self {
            pages_a_chunk,
            capacity: (blocks / pages_a_chunk) as usize,
            is_arc,
            threshold,
            held: HashMap::new(),
            ranks: HashMap::new(),
            next_rank: 0,
            lists: [const { Vec::new() }; 4],
            wanted_once: 0.0,
            counts: HashMap::new(),
            rank: None,
            positions: HashMap::new(),
            seen: Vec::new(),
            inserted: HashSet::new(),
            reused: HashSet::new(),
            missed: HashSet::new(),
            writing: [const { Vec::new() }; 2],
            written: 0,
        }
    }

    pub fn resident(&self) -> u64 {
        self.held.len() as u64 * self.pages_a_chunk
    }

    pub fn has(&self, key: &Key) -> bool {
        self.held.contains_key(key)
    }

    pub fn begin(&mut self, positions: impl Iterator<Item = (i64, Key)>) {
        self.positions = positions.map(|(at, key)| (key, at)).collect();
        self.rank = None;
        self.seen.clear();
        [&mut self.inserted, &mut self.reused, &mut self.missed].into_iter().for_each(HashSet::clear);
        for key in std::mem::take(&mut self.writing).into_iter().flatten() {
            self.held.entry(key).and_modify(|ready| *ready = true);
        }
    }

    pub fn step(&mut self) {
        self.writing.rotate_left(1);
        for key in std::mem::take(&mut self.writing[1]) {
            self.held.entry(key).and_modify(|ready| *ready = true);
        }
    }

    fn own_rank(&mut self, key: &Key) -> Rank {
        let rank = *self.rank.get_or_insert_with(|| {
            self.next_rank += 1;
            self.next_rank
        });
        (rank, -self.positions[key], key.1)
    }

    fn access(&mut self, keys: &[Key]) {
        for key in keys {
            if self.seen.contains(key) {
                continue;
            }
            self.seen.push(*key);
            let rank = self.own_rank(key);
            if let Some(present) = self.ranks.get_mut(key)
                && *present < rank
            {
                *present = rank;
            }
        }
    }

    pub fn load(&mut self, keys: &[Key]) {
        assert!(keys.iter().all(|key| self.held[key]), "what is loaded is there");
        self.access(keys);
        self.reused.extend(keys.iter().filter(|key| !self.inserted.contains(*key)));
    }

    /// Whether there was room.
    pub fn offer(&mut self, keys: &[Key]) -> bool {
        if self.threshold >= 2 {
            keys.iter().for_each(|key| *self.counts.entry(*key).or_default() += 1);
        }
        let (ready, mut missing): (Vec<Key>, Vec<Key>) = keys.iter().partition(|key| self.has(key));
        let ready: Vec<Key> = ready.into_iter().filter(|key| self.held[key]).collect();
        missing.retain(|key| self.threshold < 2 || self.counts[key] >= self.threshold);
        let new: Vec<Key> = missing.iter().filter(|key| !self.missed.contains(*key)).copied().collect();
        new.iter()
            .rev()
            .filter(|_| self.is_arc)
            .for_each(|key| Self::learn(&mut self.lists, &mut self.wanted_once, self.capacity, key));
        self.missed.extend(new);
        let recorded: Vec<Key> =
            keys.iter().filter(|key| missing.contains(key) || ready.contains(key)).copied().collect();
        self.access(&recorded);
        self.reused.extend(ready.into_iter().filter(|key| !self.inserted.contains(key)));
        let needed = (missing.len() + self.held.len()).saturating_sub(self.capacity);
        let Some(gone) = self.leaving(needed, keys) else { return false };
        for (key, list) in gone {
            self.held.remove(&key);
            self.ranks.remove(&key);
            if self.is_arc {
                self.lists[list].retain(|other| *other != key);
                self.lists[list + 2].push(key);
            }
        }
        for ghosts in &mut self.lists[2..] {
            let surplus = ghosts.len().saturating_sub(self.capacity);
            ghosts.drain(..surplus);
        }
        for key in missing {
            self.held.insert(key, false);
            let rank = self.own_rank(&key);
            self.ranks.insert(key, rank);
            if self.is_arc {
                self.lists[2..].iter_mut().for_each(|ghosts| ghosts.retain(|other| *other != key));
                self.lists[0].push(key);
            }
            self.inserted.insert(key);
            self.writing[1].push(key);
            self.written += self.pages_a_chunk;
        }
        true
    }

    fn learn(lists: &mut [Vec<Key>; 4], wanted: &mut f64, capacity: usize, key: &Key) {
        let [once, again] = [lists[2].len() as f64, lists[3].len() as f64];
        let list = if lists[2].contains(key) {
            *wanted = (*wanted + (again / once).max(1.0)).min(capacity as f64);
            2
        } else if lists[3].contains(key) {
            *wanted = (*wanted - (once / again).max(1.0)).max(0.0);
            3
        } else {
            return;
        };
        lists[list].retain(|other| other != key);
        lists[list].push(*key);
    }

    /// The keys that leave, with the list that each is in; `None` where fewer can.
    fn leaving(&self, needed: usize, protected: &[Key]) -> Option<Vec<(Key, usize)>> {
        let can_leave = |key: &&Key| self.held[*key] && !protected.contains(key);
        if !self.is_arc {
            let mut all: Vec<&Key> = self.held.keys().filter(can_leave).collect();
            all.sort_unstable_by_key(|key| self.ranks[*key]);
            return (all.len() >= needed).then(|| all[..needed].iter().map(|key| (**key, 0)).collect());
        }
        let mut once = self.lists[0].iter().filter(can_leave);
        let mut again = self.lists[1].iter().filter(can_leave);
        let mut count = self.lists[0].len();
        let mut gone = Vec::new();
        while gone.len() < needed {
            let first = (count >= self.wanted_once as usize).then(|| once.next()).flatten();
            let (key, list) = match first {
                Some(key) => (key, 0),
                None => match again.next() {
                    Some(key) => (key, 1),
                    None => (once.next()?, 0),
                },
            };
            count -= usize::from(list == 0);
            gone.push((*key, list));
        }
        Some(gone)
    }

    pub fn finish(&mut self) {
        let mut keys = std::mem::take(&mut self.seen);
        keys.sort_by_key(|key| (self.positions[key], key.1));
        for key in keys.into_iter().rev().filter(|key| self.held.contains_key(key)) {
            if !self.is_arc {
                self.next_rank += 1;
                self.ranks.insert(key, (self.next_rank, 0, 0));
                continue;
            }
            let at = usize::from(!self.lists[0].contains(&key));
            let is_reused = self.reused.contains(&key);
            let to = match (self.inserted.contains(&key) && !is_reused, is_reused) {
                (true, _) => at,
                (false, true) => 1,
                (false, false) => continue,
            };
            self.lists[at].retain(|other| *other != key);
            self.lists[to].push(key);
        }
    }
}
