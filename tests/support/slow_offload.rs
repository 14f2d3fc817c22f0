//! vLLM's tier in host memory, a chunk at a time: ordered lists of whole prefixes (docs/engines/vllm.md).

use std::collections::{HashMap, HashSet};

/// A chunk is its whole prefix.
type Chunk = Vec<u64>;

/// Chunks by two orders, or by one where it is not adaptive.
#[derive(Debug, Clone)]
pub struct SlowOffload {
    capacity: usize,
    group: usize,
    /// Pages that one step computes.
    step: usize,
    threshold: usize,
    is_arc: bool,
    /// Oldest first: chunks used once (all of them, where it is not adaptive), used again, and ghosts of both.
    once: Vec<Chunk>,
    again: Vec<Chunk>,
    ghosts: [Vec<Chunk>; 2],
    wanted_once: f64,
    offered: Vec<Chunk>,
    counts: HashMap<Chunk, usize>,
    /// Pages written since the start.
    pub written: u64,
}

/// What a request has done so far.
#[derive(Default)]
struct Own {
    found: HashSet<Chunk>,
    stored: HashSet<Chunk>,
    missed: HashSet<Chunk>,
    /// Stored in the step before, and thus still being written.
    pending: HashSet<Chunk>,
}

impl SlowOffload {
    pub fn new(capacity: u64, group: usize, step: usize, threshold: usize, is_arc: bool) -> Self {
        Self {
            capacity: capacity as usize / group,
            group,
            step,
            threshold,
            is_arc,
            once: Vec::new(),
            again: Vec::new(),
            ghosts: [Vec::new(), Vec::new()],
            wanted_once: 0.0,
            offered: Vec::new(),
            counts: HashMap::new(),
            written: 0,
        }
    }

    pub fn resident(&self) -> u64 {
        ((self.once.len() + self.again.len()) * self.group) as u64
    }

    fn holds(&self, chunk: &Chunk) -> bool {
        self.once.contains(chunk) || self.again.contains(chunk)
    }

    /// Pages found after those that the device had, of a prompt of full pages, which is followed by `outputs` tokens.
    pub fn request_after(&mut self, ids: &[u64], above: u64, outputs: u64) -> u64 {
        let pages = ids.len();
        let all: Vec<Chunk> = (1..=pages / self.group).map(|end| ids[..end * self.group].to_vec()).collect();
        let first = (above as usize / self.group).min(all.len());
        let hits = all[first..].iter().take_while(|chunk| self.holds(chunk)).count();
        let found = ((first + hits) * self.group).saturating_sub(above as usize);
        let mut own = Own::default();
        let (mut start, mut done) = (0, above as usize);
        let found = if found < self.group { 0 } else { found };
        if found > 0 {
            own.found.extend(all[first..first + hits].iter().cloned());
            start = first + hits;
            done = start * self.group;
            self.use_now(&all[first..first + hits]);
        }
        let mut end = start;
        while done < pages {
            done = pages.min(done + self.step);
            end = done / self.group;
            if start >= end || self.offer(&all[start..end], &mut own) {
                start = start.max(end);
            }
        }
        for _ in 0..outputs.max(1) {
            if start < end && self.offer(&all[start..end], &mut own) {
                start = end;
            }
        }
        self.finish(&all, &own);
        found as u64
    }

    /// Without adaptation a use counts at once, the last chunk as the oldest.
    fn use_now(&mut self, chunks: &[Chunk]) {
        if self.is_arc {
            return;
        }
        for chunk in chunks.iter().rev() {
            self.once.retain(|other| other != chunk);
            self.once.push(chunk.clone());
        }
    }

    fn count(&mut self, offer: &[Chunk]) {
        for chunk in offer {
            if let Some(count) = self.counts.get_mut(chunk) {
                *count += 1;
                self.offered.retain(|other| other != chunk);
                self.offered.push(chunk.clone());
            }
        }
        for chunk in offer {
            if !self.counts.contains_key(chunk) {
                self.counts.insert(chunk.clone(), 1);
                self.offered.push(chunk.clone());
            }
        }
    }

    fn offer(&mut self, offer: &[Chunk], own: &mut Own) -> bool {
        let mut missing: Vec<Chunk> = offer.iter().filter(|chunk| !self.holds(chunk)).cloned().collect();
        if self.threshold >= 2 {
            self.count(offer);
            missing.retain(|chunk| self.counts[chunk] >= self.threshold);
        }
        for chunk in missing.iter().rev().filter(|chunk| self.is_arc && !own.missed.contains(*chunk)) {
            let [once, again] = [&self.ghosts[0], &self.ghosts[1]].map(|ghosts| ghosts.len() as f64);
            let at = if self.ghosts[0].contains(chunk) {
                self.wanted_once = (self.wanted_once + (again / once).max(1.0)).min(self.capacity as f64);
                0
            } else if self.ghosts[1].contains(chunk) {
                self.wanted_once = (self.wanted_once - (once / again).max(1.0)).max(0.0);
                1
            } else {
                continue;
            };
            self.ghosts[at].retain(|other| other != chunk);
            self.ghosts[at].push(chunk.clone());
        }
        own.missed.extend(missing.iter().cloned());
        let present: Vec<Chunk> = offer.iter().filter(|chunk| self.holds(chunk)).cloned().collect();
        own.found.extend(present.iter().filter(|chunk| !own.stored.contains(*chunk)).cloned());
        let pending = std::mem::take(&mut own.pending);
        self.rank(&present, own, &pending);
        let fixed: HashSet<&Chunk> = offer.iter().chain(&pending).collect();
        let needed = (self.once.len() + self.again.len() + missing.len()).saturating_sub(self.capacity);
        let gone = self.leaving(needed, &fixed);
        if gone.len() < needed {
            return false;
        }
        for chunk in gone {
            let ghosts = usize::from(!self.once.contains(&chunk));
            self.once.retain(|other| *other != chunk);
            self.again.retain(|other| *other != chunk);
            if self.is_arc {
                self.ghosts[ghosts].push(chunk);
            }
        }
        for ghosts in &mut self.ghosts {
            let surplus = ghosts.len().saturating_sub(self.capacity);
            ghosts.drain(..surplus);
        }
        for chunk in &missing {
            self.ghosts.iter_mut().for_each(|ghosts| ghosts.retain(|other| other != chunk));
            self.once.push(chunk.clone());
        }
        self.written += (missing.len() * self.group) as u64;
        own.stored.extend(missing.iter().cloned());
        own.pending = missing.iter().cloned().collect();
        self.rank(&missing, own, &pending);
        true
    }

    /// Without adaptation all that a request used stands at the young end, the last chunk as the oldest.
    fn rank(&mut self, used: &[Chunk], own: &Own, _: &HashSet<Chunk>) {
        if self.is_arc {
            return;
        }
        let is_own =
            |chunk: &Chunk| own.found.contains(chunk) || own.stored.contains(chunk) || used.contains(chunk);
        let mut mine: Vec<Chunk> = self.once.iter().filter(|chunk| is_own(chunk)).cloned().collect();
        mine.sort_by_key(|chunk| std::cmp::Reverse(chunk.len()));
        self.once.retain(|chunk| !is_own(chunk));
        self.once.extend(mine);
    }

    /// The chunks that leave, at most so many.
    fn leaving(&self, needed: usize, fixed: &HashSet<&Chunk>) -> Vec<Chunk> {
        let free = |chunks: &[Chunk]| -> Vec<Chunk> {
            chunks.iter().filter(|chunk| !fixed.contains(chunk)).rev().cloned().collect()
        };
        let (mut once, mut again) = (free(&self.once), free(&self.again));
        let mut count = self.once.len();
        let mut gone = Vec::new();
        while gone.len() < needed {
            let from_once = (count as f64 >= self.wanted_once.trunc()).then(|| once.pop()).flatten();
            let (chunk, was_once) = match from_once {
                Some(chunk) => (Some(chunk), true),
                None => match again.pop() {
                    Some(chunk) => (Some(chunk), false),
                    None => (once.pop(), true),
                },
            };
            let Some(chunk) = chunk else { break };
            count -= usize::from(was_once);
            gone.push(chunk);
        }
        gone
    }

    fn finish(&mut self, all: &[Chunk], own: &Own) {
        for chunk in all.iter().rev().filter(|_| self.is_arc).collect::<Vec<_>>() {
            if own.found.contains(chunk) && self.holds(chunk) {
                self.once.retain(|other| other != chunk);
                self.again.retain(|other| other != chunk);
                self.again.push(chunk.clone());
            } else if own.stored.contains(chunk) {
                for list in [&mut self.once, &mut self.again] {
                    if list.contains(chunk) {
                        list.retain(|other| other != chunk);
                        list.push(chunk.clone());
                    }
                }
            }
        }
    }
}
