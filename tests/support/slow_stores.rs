//! LMCache's and Mooncake's caches, a page at a time: lists and maps of whole prefixes (docs/engines/lmcache.md and
//! mooncake.md).

use std::collections::{HashMap, VecDeque};

/// A page is its whole prefix.
type Page = Vec<u64>;

fn pages(ids: &[u64]) -> Vec<Page> {
    (1..=ids.len()).map(|end| ids[..end].to_vec()).collect()
}

/// LMCache in the engine's process: chunks of `group` pages, oldest first.
#[derive(Debug, Clone)]
pub struct SlowLmcache {
    capacity: usize,
    group: usize,
    chunks: VecDeque<Page>,
    /// Pages written since the start.
    pub written: u64,
}

impl SlowLmcache {
    pub fn new(capacity_pages: u64, group: usize) -> Self {
        Self { capacity: capacity_pages as usize / group, group, chunks: VecDeque::new(), written: 0 }
    }

    pub fn resident(&self) -> u64 {
        (self.chunks.len() * self.group) as u64
    }

    /// Hits, in pages, of a prompt of full pages.
    pub fn request(&mut self, ids: &[u64]) -> u64 {
        self.request_after(ids, 0)
    }

    /// The same where a tier above found so many pages.
    pub fn request_after(&mut self, ids: &[u64], above: u64) -> u64 {
        let (first, hits) = self.begin(ids, above);
        self.save(ids, first + hits);
        ((first + hits) * self.group).saturating_sub(above as usize) as u64
    }

    fn chunks_of(&self, ids: &[u64]) -> Vec<Page> {
        pages(ids).into_iter().skip(self.group - 1).step_by(self.group).collect()
    }

    /// Looks a request up, and moves what is found to the young end; the first chunk looked up and how many are found.
    pub fn begin(&mut self, ids: &[u64], above: u64) -> (usize, usize) {
        let all = self.chunks_of(ids);
        let first = (above as usize / self.group).min(all.len());
        let asked = &all[first..];
        let hits = asked.iter().take_while(|chunk| self.chunks.contains(chunk)).count();
        for chunk in asked[..hits].iter().rev() {
            self.chunks.retain(|other| other != chunk);
            self.chunks.push_back(chunk.clone());
        }
        (first, hits)
    }

    /// Stores the chunks from this one on.
    pub fn save(&mut self, ids: &[u64], from: usize) {
        let rest = &self.chunks_of(ids)[from..];
        let mut allocated = 0;
        for _ in rest {
            if self.chunks.len() + allocated == self.capacity && self.chunks.pop_front().is_none() {
                break;
            }
            allocated += 1;
        }
        for chunk in &rest[..allocated] {
            if !self.chunks.contains(chunk) {
                self.chunks.push_back(chunk.clone());
                self.written += self.group as u64;
            }
        }
    }
}

/// LMCache as a process of its own: chunks of `group` pages, oldest first, and a loop that looks every second.
#[derive(Debug, Clone)]
pub struct SlowLmcacheMp {
    capacity: usize,
    group: usize,
    /// In thousandths.
    watermark: usize,
    ratio: usize,
    chunks: Vec<Page>,
    looked: Option<u64>,
}

impl SlowLmcacheMp {
    pub fn new(capacity_pages: u64, group: usize, watermark: usize, ratio: usize) -> Self {
        let capacity = capacity_pages as usize;
        Self { capacity, group, watermark, ratio, chunks: Vec::new(), looked: None }
    }

    pub fn resident(&self) -> u64 {
        (self.chunks.len() * self.group) as u64
    }

    /// Hits, in pages, of a prompt of full pages at a time in milliseconds, where a tier above found so many pages.
    pub fn request_after(&mut self, now_ms: u64, ids: &[u64], above: u64) -> u64 {
        let found = self.begin(now_ms, ids, above);
        self.end(now_ms, ids, above);
        found
    }

    /// The same, without what happens as the request ends.
    pub fn begin(&mut self, now_ms: u64, ids: &[u64], above: u64) -> u64 {
        self.look_up_to(now_ms);
        let (first, asked) = self.asked(ids, above);
        let hits = asked.iter().take_while(|chunk| self.chunks.contains(chunk)).count();
        let (found, rest) = asked.split_at(hits);
        let missing: Vec<Page> = rest.iter().filter(|chunk| !self.chunks.contains(chunk)).cloned().collect();
        self.touch(found);
        if (self.chunks.len() + missing.len()) * self.group <= self.capacity {
            self.chunks.extend(missing.into_iter().rev());
        }
        ((first + hits) * self.group).saturating_sub(above as usize) as u64
    }

    /// What happens as it ends.
    pub fn end(&mut self, now_ms: u64, ids: &[u64], above: u64) {
        self.look_up_to(now_ms);
        let (_, asked) = self.asked(ids, above);
        self.touch(&asked);
    }

    /// The first chunk that is looked up, and it with all after it.
    fn asked(&self, ids: &[u64], above: u64) -> (usize, Vec<Page>) {
        let all: Vec<Page> = pages(ids).into_iter().skip(self.group - 1).step_by(self.group).collect();
        let first = (above as usize / self.group).min(all.len());
        (first, all[first..].to_vec())
    }

    fn look_up_to(&mut self, now_ms: u64) {
        let second = now_ms / 1000;
        for _ in self.looked.unwrap_or(second)..second {
            let most = self.capacity / self.group;
            if self.chunks.len() * 1000 >= self.watermark * most && self.ratio > 0 {
                let gone = (self.chunks.len() * self.ratio / 1000).max(1).min(self.chunks.len());
                self.chunks.drain(..gone);
            }
        }
        self.looked = Some(self.looked.unwrap_or(second).max(second));
    }

    fn touch(&mut self, chunks: &[Page]) {
        for chunk in chunks.iter().rev() {
            if let Some(at) = self.chunks.iter().position(|held| held == chunk) {
                let chunk = self.chunks.remove(at);
                self.chunks.push(chunk);
            }
        }
    }
}

/// Mooncake's store: every object with its stamp, in microseconds.
#[derive(Debug, Clone)]
pub struct SlowMooncake {
    capacity: u64,
    lease: u64,
    /// In thousandths.
    watermark: u64,
    ratio: u64,
    /// Each with its place among the stamps given.
    objects: HashMap<Page, (u64, u64)>,
    stamps: u64,
    failed: bool,
    next_check: u64,
    /// The last request's time stamp, when it was served, and when it was done.
    last: (u64, u64, u64),
    /// Objects written since the start.
    pub written: u64,
}

impl SlowMooncake {
    pub fn new(capacity: u64, lease_ms: u64, watermark: u64, ratio: u64) -> Self {
        Self {
            capacity,
            lease: lease_ms * 1000,
            watermark,
            ratio,
            objects: HashMap::new(),
            stamps: 0,
            failed: false,
            next_check: 0,
            last: (0, 0, 0),
            written: 0,
        }
    }

    pub fn resident(&self) -> u64 {
        self.objects.len() as u64
    }

    /// Hits of a prompt of full pages that arrives at a time after 0.
    pub fn request(&mut self, time_ms: u64, ids: &[u64]) -> u64 {
        self.request_after(time_ms, ids, 0)
    }

    /// The same where a tier above found so many pages.
    pub fn request_after(&mut self, time_ms: u64, ids: &[u64], above: u64) -> u64 {
        let asked: Vec<Page> = pages(ids).into_iter().skip(above as usize).collect();
        let now = self.arrive(time_ms, ids.len());
        let (hits, missing) = self.ask(now, &asked);
        self.put(now, missing);
        hits
    }

    /// Looks a request up that puts its pages later.
    pub fn begin(&mut self, time_ms: u64, ids: &[u64]) -> u64 {
        let now = self.arrive(time_ms, ids.len());
        self.ask(now, &pages(ids)).0
    }

    /// Puts the pages of a request that was looked up.
    pub fn save(&mut self, time_ms: u64, ids: &[u64]) {
        if ids.is_empty() {
            return;
        }
        let now = self.arrive(time_ms, ids.len());
        let (_, missing) = self.ask(now, &pages(ids));
        self.put(now, missing);
    }

    /// When a client's calls come, and the checks before them.
    fn arrive(&mut self, time_ms: u64, pages: usize) -> u64 {
        let (stamp, (last, served, done)) = (time_ms * 1000, self.last);
        let now = if stamp <= last { done } else { stamp.max(served) };
        self.last = (stamp.max(last), now, now + 1000 + 30 * pages as u64);
        while self.next_check <= now {
            self.check(self.next_check);
            self.next_check += 10_000;
        }
        now
    }

    fn ask(&mut self, now: u64, asked: &[Page]) -> (u64, Vec<Page>) {
        let hits = asked.iter().take_while(|page| self.objects.contains_key(*page)).count();
        let missing = asked.iter().filter(|page| !self.objects.contains_key(*page)).cloned().collect();
        for page in asked {
            if let Some(until) = self.objects.get_mut(page) {
                self.stamps += 1;
                *until = (now + self.lease, self.stamps);
            }
        }
        (hits as u64, missing)
    }

    fn put(&mut self, now: u64, missing: Vec<Page>) {
        for page in missing {
            if (self.objects.len() as u64) < self.capacity {
                self.stamps += 1;
                self.objects.insert(page, (now, self.stamps));
                self.written += 1;
            } else {
                self.failed = true;
            }
        }
    }

    fn check(&mut self, now: u64) {
        let used = self.objects.len() as u64;
        if !self.failed && used * 1000 <= self.watermark * self.capacity {
            return;
        }
        // In thousandths of an object times the capacity.
        let above = (used * 1000).saturating_sub(self.watermark * self.capacity);
        let batch = (used * (above + self.ratio * self.capacity)).div_ceil(1000 * self.capacity);
        let mut stamps: Vec<(u64, u64)> =
            self.objects.values().copied().filter(|(stamp, _)| *stamp <= now).collect();
        stamps.sort_unstable();
        let Some(last) = stamps.get((batch as usize).min(stamps.len()).wrapping_sub(1)).copied() else {
            return;
        };
        self.objects.retain(|_, stamp| *stamp > last);
        self.failed = false;
    }
}
