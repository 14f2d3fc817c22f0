//! TensorRT-LLM's block manager, block by block, as its sources have it: queues of free blocks by priority, a tree of
//! blocks with their children, and two levels whose blocks swap places.

use std::collections::{BTreeMap, VecDeque};

const DEFAULT: usize = 35;
const LEAST_OFFLOADED: usize = 30;
const DEVICE: usize = 0;
const HOST: usize = 1;

#[derive(Debug, Clone, Default)]
struct Block {
    level: usize,
    priority: usize,
    duration: Option<u64>,
    has_tokens: bool,
    /// The block above it in the tree, none below the root, and its id there.
    place: Option<(Option<usize>, u64)>,
    children: BTreeMap<u64, usize>,
}

/// A request in blocks.
#[derive(Debug, Clone, Copy)]
pub struct SlowRequest<'a> {
    pub now: u64,
    /// Ids of the full pages of the prompt, then of the output.
    pub ids: &'a [u64],
    /// Leading ids that may be found.
    pub hit_limit: usize,
    /// Blocks that the prompt takes, and those that all stored tokens take.
    pub slots: (usize, usize),
    /// Priority of the prompt's blocks, and how long they keep it.
    pub class: Option<(usize, Option<u64>)>,
}

pub struct SlowTrtllm {
    capacity: usize,
    blocks: Vec<Block>,
    roots: BTreeMap<u64, usize>,
    queues: [Vec<VecDeque<usize>>; 2],
    /// When the priority of a free block ends, in the order of releases.
    expiring: Vec<(u64, usize)>,
}

impl SlowTrtllm {
    pub fn new(capacity: usize, host: usize) -> Self {
        let block = |level| Block { level, priority: DEFAULT, ..Block::default() };
        let blocks: Vec<Block> =
            (0..capacity).map(|_| block(DEVICE)).chain((0..host).map(|_| block(HOST))).collect();
        let mut queues = [vec![VecDeque::new(); 101], vec![VecDeque::new(); 101]];
        for (index, block) in blocks.iter().enumerate() {
            queues[block.level][DEFAULT].push_back(index);
        }
        Self { capacity, blocks, roots: BTreeMap::new(), queues, expiring: Vec::new() }
    }

    /// Pages that it finds; `None` where it does not fit.
    pub fn request(&mut self, request: SlowRequest<'_>) -> Option<usize> {
        self.refresh(request.now);
        if request.slots.1 > self.capacity {
            return None;
        }
        let mut table = Vec::new();
        for id in &request.ids[..request.hit_limit] {
            let Some(found) = self.child(table.last().copied(), *id) else { break };
            self.claim(found);
            if let Some((priority, _)) = request.class {
                self.blocks[found].priority = priority;
            }
            self.blocks[found].duration = request.class.and_then(|(_, duration)| duration);
            table.push(found);
        }
        let hits = table.len();
        table.iter().for_each(|block| self.onboard(*block));
        for slot in hits..request.slots.1 {
            let class = if slot < request.slots.0 { request.class } else { None };
            let (priority, duration) = class.unwrap_or((DEFAULT, None));
            let block = self.free_block(priority, duration);
            self.blocks[block].has_tokens = true;
            table.push(block);
        }
        self.store(request.ids, &table);
        table.iter().rev().for_each(|block| self.release(*block, request.now));
        Some(hits)
    }

    fn child(&self, above: Option<usize>, id: u64) -> Option<usize> {
        above.map_or(&self.roots, |above| &self.blocks[above].children).get(&id).copied()
    }

    fn store(&mut self, ids: &[u64], table: &[usize]) {
        let mut above = None;
        for (id, block) in ids.iter().zip(table) {
            above = Some(self.child(above, *id).unwrap_or_else(|| {
                self.blocks[*block].place = Some((above, *id));
                match above {
                    Some(above) => self.blocks[above].children.insert(*id, *block),
                    None => self.roots.insert(*id, *block),
                };
                *block
            }));
        }
    }

    /// The block of a level that leaves next.
    fn front(&self, level: usize) -> Option<usize> {
        self.queues[level].iter().find_map(|queue| queue.front()).copied()
    }

    /// Takes a block out of the queue it stands in.
    fn claim(&mut self, block: usize) {
        let Block { level, priority, .. } = self.blocks[block];
        self.queues[level][priority].retain(|other| *other != block);
        self.expiring.retain(|(_, other)| *other != block);
    }

    fn release(&mut self, block: usize, now: u64) {
        let Block { level, priority, duration, .. } = self.blocks[block];
        self.queues[level][priority].push_back(block);
        if let Some(duration) = duration.filter(|_| priority != DEFAULT) {
            self.expiring.push((now + duration, block));
        }
    }

    fn refresh(&mut self, now: u64) {
        // Among those that end at once the one released first.
        while let Some(at) = (0..self.expiring.len()).min_by_key(|at| self.expiring[*at].0)
            && self.expiring[at].0 <= now
        {
            let (_, block) = self.expiring[at];
            self.claim(block);
            self.blocks[block].priority = DEFAULT;
            self.queues[self.blocks[block].level][DEFAULT].push_back(block);
        }
    }

    /// Takes a block and all below it out of the tree.
    fn detach(&mut self, block: usize) {
        for child in std::mem::take(&mut self.blocks[block].children).into_values() {
            self.detach(child);
        }
        if let Some((above, id)) = self.blocks[block].place.take() {
            match above {
                Some(above) => self.blocks[above].children.remove(&id),
                None => self.roots.remove(&id),
            };
        }
    }

    /// A free block of the device; what it held goes to the host where it may.
    fn free_block(&mut self, priority: usize, duration: Option<u64>) -> usize {
        let mut block = self.front(DEVICE).expect("a free block");
        if self.blocks[block].has_tokens
            && self.blocks[block].priority >= LEAST_OFFLOADED
            && let Some(host) = self.front(HOST)
        {
            self.claim(block);
            self.claim(host);
            self.blocks[block].level = HOST;
            self.blocks[block].duration = None;
            self.blocks[host].level = DEVICE;
            self.release(block, 0);
            block = host;
        } else {
            self.claim(block);
        }
        self.detach(block);
        (self.blocks[block].priority, self.blocks[block].duration) = (priority, duration);
        block
    }

    /// Brings a block of the host to the device, in place of a free one.
    fn onboard(&mut self, block: usize) {
        if self.blocks[block].level == DEVICE {
            return;
        }
        let other = self.free_block(DEFAULT, None);
        self.blocks[block].level = DEVICE;
        self.blocks[other].level = HOST;
        self.release(other, 0);
    }
}
