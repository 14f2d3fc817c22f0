//! SGLang's cache with HiCache, transcribed step by step: a node owns its ids and a map of its children, what to
//! evict is found by looking at every node, locks are counted, nodes on both sides are a list.

use super::slow_load::SlowCache;
use super::slow_sglang::{SlowAsked, spare_tokens, step_by_ids};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
struct Node {
    ids: Vec<u64>,
    children: BTreeMap<u64, usize>,
    parent: Option<usize>,
    /// (event, how many nodes above the one the event is about, backwards)
    stamp: (u64, i64),
    locks: u64,
    on_device: bool,
    on_host: bool,
    insertions: u64,
    loading: bool,
    gone: bool,
}

#[derive(Debug, Clone)]
pub struct SlowHicache {
    nodes: Vec<Node>,
    free: u64,
    host_free: u64,
    page: u64,
    outputs_cached: bool,
    /// Insertions after which a node is written; `None` with write-back.
    threshold: Option<u64>,
    duplicates: Vec<usize>,
    clock: u64,
    next_private: u64,
    /// Pages written to the host since the start.
    pub written: u64,
}

/// What a prompt found, where it ends, and the pages it holds that are in no node.
struct Entered {
    device: u64,
    loaded: u64,
    node: usize,
    held: u64,
}

/// A request in flight.
#[derive(Debug, Clone)]
pub struct SlowRequest {
    prompt: Vec<u64>,
    outputs: Vec<u64>,
    /// Tokens of the prompt, and of the output stored so far and in all.
    tokens: u64,
    done: u64,
    all: u64,
    device: u64,
    pub loaded: u64,
    node: usize,
    held: u64,
}

step_by_ids!(SlowHicache);

impl SlowHicache {
    pub fn new(device: u64, host: u64, threshold: Option<u64>, page: u64, outputs_cached: bool) -> Self {
        let root = Node { locks: 1, on_device: true, ..Node::default() };
        Self {
            nodes: vec![root],
            free: device,
            host_free: host,
            page,
            outputs_cached,
            threshold,
            duplicates: Vec::new(),
            clock: 0,
            next_private: 1 << 60,
            written: 0,
        }
    }

    /// Pages in nodes on the device, and in those on the host.
    pub fn resident(&self) -> (u64, u64) {
        let pages = |on: fn(&Node) -> bool| {
            self.nodes.iter().filter(|node| !node.gone && on(node)).map(|node| node.ids.len() as u64).sum()
        };
        (pages(|node| node.on_device), pages(|node| node.on_host))
    }

    /// Pages of a request that are found on the device and loaded back from the host. The request must fit the device.
    pub fn request(&mut self, ids: &[u64], n: u64, sampled: u64, known_outputs: &[u64]) -> (u64, u64) {
        let (ids, known_outputs) = (ids.to_vec(), known_outputs.to_vec());
        let asked = SlowAsked { ids, input: n, output: sampled, known_outputs };
        let mut request = self.begin(&asked).expect("the request fits the device");
        let found = (request.device, request.loaded);
        for _ in 0..request.all {
            self.evict_some(1);
            self.decode(&mut request).expect("the request fits the device");
        }
        self.finish(request);
        found
    }

    /// Matches a prompt, loads back what the host has of it, takes pages for so many tokens and inserts the prompt.
    fn enter(&mut self, prompt: &[u64], limit: u64, tokens: u64) -> Option<Entered> {
        let best = self.matched(&prompt[..prompt.len().min(limit as usize)]);
        let own = self.path(best).into_iter().find(|&node| self.nodes[node].on_device).expect("the root is");
        let device: u64 = self.path(own).iter().map(|&node| self.pages(node)).sum();
        let found: u64 = self.path(best).iter().map(|&node| self.pages(node)).sum();
        self.lock(own, 1);
        let slots = tokens.div_ceil(self.page);
        let unlocked = self.nodes.iter().filter(|node| !node.gone && node.on_device && node.locks == 0);
        if self.free + unlocked.map(|node| node.ids.len() as u64).sum::<u64>()
            < slots - device + spare_tokens(self.page) / self.page
        {
            self.lock(own, -1);
            return None;
        }
        let loaded = self.load_back(best, found - device);
        let node = if loaded > 0 { best } else { own };
        self.lock(node, 1);
        self.lock(own, -1);
        let hits = device + loaded;
        self.evict_some(slots - hits + spare_tokens(self.page) / self.page);
        let mut held = slots - hits;
        self.free -= held;
        let (end, taken) = self.insert(prompt, 0);
        let own_pages = prompt.len() as u64 - hits;
        self.free += own_pages - taken;
        held -= own_pages;
        self.lock(end, 1);
        self.lock(node, -1);
        self.end_loads(end);
        Some(Entered { device, loaded, node: end, held })
    }

    fn takes_page(&self, request: &SlowRequest, token: u64) -> bool {
        (request.tokens + token - 1).is_multiple_of(self.page)
    }

    fn pages(&self, node: usize) -> u64 {
        self.nodes[node].ids.len() as u64
    }

    /// A node and those above it.
    fn path(&self, node: usize) -> Vec<usize> {
        std::iter::successors(Some(node), |&node| self.nodes[node].parent).collect()
    }

    fn now(&mut self) -> (u64, i64) {
        self.clock += 1;
        (self.clock, 0)
    }

    fn lock(&mut self, node: usize, by: i64) {
        for node in self.path(node) {
            self.nodes[node].locks = self.nodes[node].locks.checked_add_signed(by).expect("locks balance");
        }
    }

    fn matched(&mut self, ids: &[u64]) -> usize {
        let (mut node, mut at) = (0, 0);
        while let Some((next, passed)) = self.step(node, &ids[at..], false) {
            node = next;
            at += passed;
        }
        let (event, _) = self.now();
        for (above, node) in self.path(node).into_iter().enumerate() {
            self.nodes[node].stamp = (event, -(above as i64));
        }
        node
    }

    fn split(&mut self, lower: usize, at: usize) -> usize {
        let stamp = self.now();
        let tail = self.nodes[lower].ids.split_off(at);
        let own = &mut self.nodes[lower];
        let ids = std::mem::replace(&mut own.ids, tail.clone());
        let upper = Node {
            ids: ids.clone(),
            children: [(tail[0], lower)].into(),
            parent: own.parent,
            stamp,
            locks: own.locks,
            on_device: own.on_device,
            on_host: own.on_host,
            insertions: own.insertions,
            loading: own.loading,
            gone: false,
        };
        self.nodes.push(upper);
        let upper = self.nodes.len() - 1;
        let parent = self.nodes[lower].parent.expect("the root has no ids");
        self.nodes[parent].children.insert(ids[0], upper);
        self.nodes[lower].parent = Some(upper);
        self.nodes[lower].stamp = self.now();
        self.note_duplicate(upper);
        upper
    }

    fn load_back(&mut self, best: usize, pages: u64) -> u64 {
        if pages * self.page < 10 {
            return 0;
        }
        self.lock(best, 1);
        self.evict_some(pages);
        self.free -= pages;
        for node in self.path(best) {
            if !self.nodes[node].on_device {
                (self.nodes[node].on_device, self.nodes[node].loading) = (true, true);
            }
        }
        self.lock(best, -1);
        pages
    }

    fn end_loads(&mut self, node: usize) {
        for node in self.path(node) {
            if std::mem::take(&mut self.nodes[node].loading) {
                self.note_duplicate(node);
            }
        }
    }

    /// The node where the ids end, and the pages that nodes took from the request.
    fn insert(&mut self, ids: &[u64], inserted: usize) -> (usize, u64) {
        self.nodes[0].stamp = self.now();
        let (mut node, mut at, mut taken) = (0, 0, 0);
        while let Some((next, passed)) = self.step(node, &ids[at..], true) {
            (node, at) = (next, at + passed);
            if !self.nodes[node].on_device {
                self.nodes[node].on_device = true;
                taken += passed as u64;
                self.note_duplicate(node);
            }
            if at > inserted {
                self.pass(node);
            }
        }
        if at < ids.len() {
            let (rest, stamp) = (ids[at..].to_vec(), self.now());
            taken += rest.len() as u64;
            let leaf =
                Node { ids: rest.clone(), parent: Some(node), stamp, on_device: true, ..Node::default() };
            self.nodes.push(leaf);
            let leaf = self.nodes.len() - 1;
            self.nodes[node].children.insert(rest[0], leaf);
            node = leaf;
            self.pass(node);
        }
        (node, taken)
    }

    /// Counts an insertion, and writes the node with those above it where it is due.
    fn pass(&mut self, node: usize) {
        let Some(threshold) = self.threshold else { return };
        self.nodes[node].insertions += 1;
        if self.nodes[node].on_host || self.nodes[node].insertions < threshold {
            return;
        }
        let above = self.path(node).into_iter().take_while(|&node| node != 0 && !self.nodes[node].on_host);
        for node in above.collect::<Vec<_>>().into_iter().rev() {
            if !self.write(node) {
                break;
            }
        }
    }

    fn write(&mut self, node: usize) -> bool {
        let pages = self.pages(node);
        if self.host_free < pages {
            let needed = pages - self.host_free;
            if self.evict_host(needed) < needed {
                return false;
            }
        }
        self.host_free -= pages;
        self.written += pages;
        self.nodes[node].on_host = true;
        true
    }

    fn evict_host(&mut self, needed: u64) -> u64 {
        let before = self.host_free;
        if self.threshold.is_none() {
            self.drop_duplicates(needed);
        }
        while self.host_free - before < needed {
            let leaves = self.nodes.iter().enumerate().filter(|(_, node)| {
                !node.gone && !node.on_device && node.on_host && node.children.is_empty() && node.locks == 0
            });
            let Some((oldest, _)) = leaves.min_by_key(|(_, node)| node.stamp) else { break };
            self.delete(oldest);
        }
        self.host_free - before
    }

    fn drop_duplicates(&mut self, needed: u64) {
        let before = self.host_free;
        let mut passed = Vec::new();
        for spares in [true, false] {
            for node in self.duplicates.clone() {
                if self.host_free - before >= needed {
                    break;
                }
                let own = &self.nodes[node];
                let is_spared = spares && self.is_device_leaf(node);
                if !own.on_device || !own.on_host {
                    passed.push(node);
                } else if !own.loading && !is_spared {
                    self.host_free += self.pages(node);
                    self.nodes[node].on_host = false;
                    passed.push(node);
                }
            }
        }
        self.duplicates.retain(|node| !passed.contains(node));
    }

    fn note_duplicate(&mut self, node: usize) {
        let own = &self.nodes[node];
        let is_one = own.on_device && own.on_host && !own.loading;
        if self.threshold.is_none() && is_one && !self.duplicates.contains(&node) {
            self.duplicates.push(node);
        }
    }

    fn is_device_leaf(&self, node: usize) -> bool {
        let own = &self.nodes[node];
        let is_alone = own.children.values().all(|&child| !self.nodes[child].on_device);
        node != 0 && !own.gone && own.on_device && own.locks == 0 && is_alone
    }

    fn oldest_leaf(&self) -> Option<usize> {
        let leaves = (0..self.nodes.len()).filter(|&node| self.is_device_leaf(node));
        leaves.min_by_key(|&node| self.nodes[node].stamp)
    }

    /// Evicts until so many pages are free, or nothing can go.
    fn evict_some(&mut self, wanted: u64) {
        while self.free < wanted
            && let Some(leaf) = self.oldest_leaf()
        {
            if !self.nodes[leaf].on_host && self.threshold.is_none() && self.write(leaf) {
                self.note_duplicate(leaf);
            }
            if self.nodes[leaf].on_host {
                self.nodes[leaf].on_device = false;
                self.free += self.pages(leaf);
            } else {
                self.drop_subtree(leaf);
            }
        }
    }

    fn drop_subtree(&mut self, node: usize) {
        let children: Vec<_> = self.nodes[node].children.values().copied().collect();
        children.into_iter().for_each(|child| self.drop_subtree(child));
        self.delete(node);
    }

    fn delete(&mut self, node: usize) {
        let (pages, own) = (self.pages(node), &self.nodes[node]);
        self.free += if own.on_device { pages } else { 0 };
        self.host_free += if own.on_host { pages } else { 0 };
        let (parent, first) = (own.parent.expect("the root stays"), own.ids[0]);
        self.nodes[parent].children.remove(&first);
        self.nodes[node].gone = true;
        self.duplicates.retain(|other| *other != node);
    }
}

impl SlowCache for SlowHicache {
    type Asked = SlowAsked;
    type Request = SlowRequest;

    fn begin(&mut self, asked: &SlowAsked) -> Option<SlowRequest> {
        let (page, tokens) = (self.page, asked.input);
        let prompt = asked.ids[..(tokens / page) as usize].to_vec();
        let all = if self.outputs_cached { asked.output.saturating_sub(1) } else { 0 };
        let mut outputs = asked.known_outputs.clone();
        outputs.truncate(((tokens + all) / page - tokens / page) as usize);
        while (outputs.len() as u64) < (tokens + all) / page - tokens / page {
            outputs.push(self.next_private);
            self.next_private += 1;
        }
        let Entered { device, loaded, node, held } =
            self.enter(&prompt, tokens.saturating_sub(1) / page, tokens)?;
        Some(SlowRequest { prompt, outputs, tokens, done: 0, all, device, loaded, node, held })
    }

    fn try_begin(&mut self, asked: &SlowAsked) -> Option<SlowRequest> {
        self.begin(asked)
    }

    fn wants(&self, request: &SlowRequest) -> bool {
        let SlowRequest { done, all, .. } = *request;
        let behind = done > 0 && self.takes_page(request, done);
        done < all && (done == 0 || behind || self.takes_page(request, done + 1))
    }

    fn before_tokens(&mut self, in_flight: usize) {
        self.evict_some(in_flight as u64);
    }

    fn hits(request: &SlowRequest) -> u64 {
        request.device
    }

    fn stored(request: &SlowRequest) -> (u64, u64) {
        (request.done, request.all)
    }

    fn decode(&mut self, request: &mut SlowRequest) -> Option<()> {
        if self.takes_page(request, request.done + 1) {
            self.evict_some(1);
            self.free = self.free.checked_sub(1)?;
            request.held += 1;
        }
        request.done += 1;
        Some(())
    }

    fn finish(&mut self, request: SlowRequest) {
        let SlowRequest { prompt, outputs, node, mut held, done, all, .. } = request;
        let outputs = if done == all { outputs } else { Vec::new() };
        let whole = [prompt.clone(), outputs.clone()].concat();
        let (_, taken) = self.insert(&whole, prompt.len());
        held -= outputs.len() as u64;
        self.free += outputs.len() as u64 - taken;
        if !prompt.is_empty() && !outputs.is_empty() {
            self.insert(&prompt, prompt.len());
        }
        self.free += held;
        self.lock(node, -1);
    }

    fn preempt(&mut self, request: &SlowRequest) {
        self.free += request.held;
        self.lock(request.node, -1);
    }

    fn resume(&mut self, preempted: &SlowRequest) -> Option<SlowRequest> {
        let tokens = preempted.tokens + (preempted.done + 1).min(preempted.all);
        let limit = tokens.saturating_sub(1) / self.page;
        let Entered { node, held, .. } = self.enter(&preempted.prompt, limit, tokens)?;
        Some(SlowRequest { node, held, done: tokens - preempted.tokens, ..preempted.clone() })
    }

    fn try_resume(&mut self, preempted: &SlowRequest) -> Option<SlowRequest> {
        self.resume(preempted)
    }
}
