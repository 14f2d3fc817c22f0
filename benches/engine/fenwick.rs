//! The baseline: the paper's method, page at a time, built well. A hash map from page to last position
//! and a Fenwick tree over page accesses, renumbered when it is full of dead positions.

use hashbrown::HashMap;
use kvset::core::units::pages::{PageIds, Scope, mix};

/// A page-at-a-time LRU stack.
pub struct Fenwick {
    last: HashMap<u64, u32, foldhash::fast::RandomState>,
    sums: Vec<u32>,
    alive: Vec<bool>,
    end: usize,
}

impl Fenwick {
    pub fn new() -> Self {
        Self { last: HashMap::default(), sums: vec![0; 1 << 16], alive: vec![false; 1 << 16], end: 0 }
    }

    /// Touches the pages in prefix order; returns the reusable prefix and the capacity it needs.
    ///
    /// Pages are told apart by their id alone, as the paper does; `scope` keeps sessions apart.
    pub fn access(&mut self, scope: Scope, pages: PageIds<'_>) -> (u64, u64) {
        let (mut reusable, mut need, mut unbroken) = (0, 0, true);
        for id in pages.iter() {
            if self.end == self.sums.len() {
                self.renumber();
            }
            let key = if scope == Scope::GLOBAL { id } else { mix(scope.key(id)) };
            let position = self.end as u32;
            match self.last.insert(key, position) {
                Some(previous) => {
                    let newer = self.last.len() as u64 - self.prefix(previous as usize + 1);
                    if unbroken {
                        reusable += 1;
                        need = need.max(newer + 1);
                    }
                    self.alive[previous as usize] = false;
                    self.add(previous as usize, -1);
                }
                None => unbroken = false,
            }
            self.alive[self.end] = true;
            self.add(self.end, 1);
            self.end += 1;
        }
        (reusable, need)
    }

    pub fn distinct(&self) -> u64 {
        self.last.len() as u64
    }

    pub fn memory_bytes(&self) -> u64 {
        (self.last.allocation_size() + self.sums.capacity() * 4 + self.alive.capacity()) as u64
    }

    fn add(&mut self, index: usize, by: i32) {
        let mut at = index;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add_signed(by);
            at |= at + 1;
        }
    }

    fn prefix(&self, count: usize) -> u64 {
        let (mut sum, mut end) = (0, count);
        while end > 0 {
            sum += u64::from(self.sums[end - 1]);
            end &= end - 1;
        }
        sum
    }

    /// Closes the gaps of dead positions; doubles the room when more than half are alive.
    fn renumber(&mut self) {
        let mut renumbered = vec![0u32; self.end];
        let mut live = 0;
        for (position, alive) in self.alive[..self.end].iter().enumerate() {
            renumbered[position] = live;
            live += u32::from(*alive);
        }
        for position in self.last.values_mut() {
            *position = renumbered[*position as usize];
        }
        let size = if live as usize * 2 > self.sums.len() { self.sums.len() * 2 } else { self.sums.len() };
        self.alive.clear();
        self.alive.resize(live as usize, true);
        self.alive.resize(size, false);
        self.sums = vec![0; size];
        for index in 0..size {
            self.sums[index] += u32::from(self.alive[index]);
            let parent = index | (index + 1);
            if parent < size {
                self.sums[parent] += self.sums[index];
            }
        }
        self.end = live as usize;
    }
}
