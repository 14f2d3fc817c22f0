//! SGLang's cache with a pool of its own for windows, transcribed step by step: a node owns its ids and a map of its
//! children, both orders of eviction are found by looking at every node, a token of an answer is a step.

use super::slow_sglang::{spare_tokens, stored_ids};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
struct Node {
    ids: Vec<u64>,
    children: BTreeMap<u64, usize>,
    parent: usize,
    stamp: u64,
    /// Whether the pool of windows holds it.
    window: bool,
    /// Locks in the two pools.
    locks: [bool; 2],
    gone: bool,
}

/// What the cache is told; sizes of the pools in pages, the window in tokens before the one that looks.
#[derive(Debug, Clone, Copy)]
pub struct SlowRules {
    pub full: u64,
    pub windows: u64,
    pub page: u64,
    pub window: u64,
    pub chunk: u64,
    pub outputs_cached: bool,
}

#[derive(Debug)]
pub struct SlowWindows {
    rules: SlowRules,
    nodes: Vec<Node>,
    /// Nodes that the pool of windows holds, the newest first.
    order: Vec<usize>,
    clock: u64,
    next_private: u64,
    /// The request being served: its ids, pages it has, pages the tree has of them, pages the window has passed.
    ids: Vec<u64>,
    allocated: u64,
    protected: u64,
    passed: u64,
    junction: Option<u64>,
    anchor: usize,
}

impl SlowWindows {
    pub fn new(rules: SlowRules) -> Self {
        Self {
            rules,
            nodes: vec![Node::default()],
            order: Vec::new(),
            clock: 0,
            next_private: 1 << 60,
            ids: Vec::new(),
            allocated: 0,
            protected: 0,
            passed: 0,
            junction: None,
            anchor: 0,
        }
    }

    /// Pages in nodes, of both pools.
    pub fn resident(&self) -> (u64, u64) {
        let present = self.nodes.iter().filter(|node| !node.gone);
        let pages = |node: &Node| node.ids.len() as u64;
        (present.clone().map(pages).sum(), present.filter(|node| node.window).map(pages).sum())
    }

    /// Hits of a request of `n` prompt tokens, `sampled` output tokens and the known output ids; `None` where it is
    /// turned away.
    pub fn request(&mut self, ids: &[u64], n: u64, sampled: u64, known_outputs: &[u64]) -> Option<u64> {
        let SlowRules { page, full, outputs_cached, .. } = self.rules;
        if n == 0 {
            return Some(0);
        }
        let sampled = if outputs_cached { sampled.max(1) } else { 1 };
        let kv = n + sampled - 1;
        if n + sampled.min(4096) + page >= full * page || kv.div_ceil(page) > full {
            return None;
        }
        self.ids = stored_ids(ids, known_outputs, (n / page, kv / page), &mut self.next_private);
        let (anchor, hits, found) = self.matched(((n - 1) / page) as usize);
        self.lock(anchor);
        self.junction = (found > hits).then_some(found);
        (self.allocated, self.protected, self.passed) = (hits, hits, 0);
        let is_admitted = self.prefill(n, sampled);
        if is_admitted {
            if sampled > 1 {
                self.checkpoint(n, false);
            }
            if (1..sampled).all(|token| self.decode(n, token)) {
                self.checkpoint(kv, true);
            }
        }
        self.unlock();
        is_admitted.then_some(hits)
    }

    fn prefill(&mut self, n: u64, sampled: u64) -> bool {
        let SlowRules { page, window, windows, chunk, .. } = self.rules;
        let sampled = sampled.min(4096);
        let needed = |rest: u64| rest.min(chunk).saturating_sub(window) + (rest + sampled).min(window) + page;
        let mut done = self.allocated * page;
        let mut limit = chunk;
        let mut is_first = true;
        while done < n {
            let rest = n - done;
            let free = (windows - self.locked_windows()) as i64 - self.held().1;
            let free = free * page as i64;
            let mut counted = rest;
            if is_first {
                counted = rest.next_multiple_of(page);
                if needed(counted) as i64 >= free {
                    let step = (free - needed(0) as i64) / page as i64 * page as i64;
                    if needed(counted) < windows * page || step <= 0 {
                        return false;
                    }
                    limit = chunk.min(step as u64);
                }
            } else {
                limit = chunk.min((free - page as i64).max(0) as u64);
            }
            is_first = false;
            let step = if counted <= limit { rest } else { limit / page * page };
            if step == 0 {
                return false;
            }
            self.make_room((step + spare_tokens(page)).div_ceil(page));
            done += step;
            self.allocated = done.div_ceil(page);
            if done < n {
                self.checkpoint(done, false);
            }
        }
        true
    }

    /// One token more; `false` where there is no room for its page, so that the engine ends the request.
    fn decode(&mut self, n: u64, token: u64) -> bool {
        let SlowRules { page, window, windows, .. } = self.rules;
        let computed = n + token - 1;
        if computed.is_multiple_of(page) {
            self.make_room(1);
            if self.resident().1 as i64 + self.held().1 >= windows as i64 {
                return false;
            }
        }
        if token >= 2 && computed >= window + self.passed * page + 128 {
            self.slide(computed);
        }
        self.make_room(1);
        self.allocated = (n + token).div_ceil(page);
        true
    }

    fn slide(&mut self, computed: u64) {
        let SlowRules { page, window, .. } = self.rules;
        if computed < window + self.passed * page + 1 {
            return;
        }
        self.passed = self.passed.max(self.protected);
        let kept = window.max(page).div_ceil(page) * page;
        self.passed = self.passed.max(computed.saturating_sub(kept) / page);
    }

    /// Pages of both pools that belong to the request alone.
    fn held(&self) -> (i64, i64) {
        let own = |from: u64| self.allocated as i64 - from as i64;
        (own(self.protected), own(self.protected.max(self.passed)).max(0))
    }

    fn checkpoint(&mut self, computed: u64, is_finished: bool) {
        let page = self.rules.page;
        let junction = self.junction.filter(|pages| *pages > self.protected && pages * page <= computed);
        let tokens = junction.map_or(computed, |pages| pages * page);
        if !is_finished {
            self.slide(tokens - 1);
        }
        let tip = self.insert((tokens / page) as usize);
        self.unlock();
        self.lock(tip);
        self.protected = tokens / page;
        if junction.is_some() {
            self.junction = None;
            if !is_finished {
                self.slide(computed - 1);
            }
        }
    }

    fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn tokens(&self, node: usize) -> u64 {
        self.nodes[node].ids.len() as u64 * self.rules.page
    }

    /// The nodes from one up to the root.
    fn path(&self, node: usize) -> Vec<usize> {
        let above = |index: &usize| Some(self.nodes[*index].parent).filter(|_| *index != 0);
        std::iter::successors(Some(node), above).filter(|index| *index != 0).collect()
    }

    fn matched(&mut self, limit: usize) -> (usize, u64, u64) {
        let ids = self.ids[..limit].to_vec();
        let (mut node, mut at) = (0, 0);
        let (mut anchor, mut hits) = (0, 0);
        let mut unbroken: Option<u64> = None;
        while at < ids.len() {
            let Some(&child) = self.nodes[node].children.get(&ids[at]) else { break };
            let common = self.nodes[child].ids.iter().zip(&ids[at..]).take_while(|(a, b)| a == b).count();
            node = if common < self.nodes[child].ids.len() { self.split(child, common) } else { child };
            at += common;
            // `None`: no gap since the root.
            unbroken = match (self.nodes[node].window, unbroken) {
                (false, _) => Some(0),
                (true, run) => run.map(|run| run + self.tokens(node)),
            };
            if self.nodes[node].window && unbroken.is_none_or(|run| run >= self.rules.window) {
                (anchor, hits) = (node, at as u64);
            }
        }
        self.refresh(anchor);
        let mut path = self.path(anchor);
        path.reverse();
        for index in path {
            self.nodes[index].stamp = self.now();
        }
        (anchor, hits, at as u64)
    }

    fn insert(&mut self, count: usize) -> usize {
        let ids = self.ids[..count].to_vec();
        let (mut node, mut at) = (0, 0);
        while at < ids.len() {
            let Some(&child) = self.nodes[node].children.get(&ids[at]) else { break };
            self.nodes[child].stamp = self.now();
            let common = self.nodes[child].ids.iter().zip(&ids[at..]).take_while(|(a, b)| a == b).count();
            node = if common < self.nodes[child].ids.len() { self.split(child, common) } else { child };
            let end = at + common;
            if end as u64 > self.protected && !self.nodes[node].window {
                let live = at.max(self.passed as usize);
                if live < end {
                    if live > at {
                        self.split(node, live - at);
                    }
                    self.publish(node);
                }
            }
            at = end;
        }
        if at < ids.len() {
            let stamp = self.now();
            let rest = ids[at..].to_vec();
            self.nodes.push(Node { ids: rest.clone(), parent: node, stamp, ..Node::default() });
            let leaf = self.nodes.len() - 1;
            self.nodes[node].children.insert(rest[0], leaf);
            node = leaf;
            let live = at.max(self.passed as usize);
            if live < ids.len() {
                if live > at {
                    self.split(leaf, live - at);
                }
                let tail = self.rules.window.div_ceil(self.rules.page) as usize;
                if self.nodes[leaf].ids.len() > tail {
                    let before = self.split(leaf, self.nodes[leaf].ids.len() - tail);
                    self.publish(before);
                }
                self.publish(leaf);
            }
        }
        self.refresh(node);
        node
    }

    fn publish(&mut self, node: usize) {
        self.nodes[node].window = true;
        self.order.insert(0, node);
    }

    fn refresh(&mut self, node: usize) {
        let (mut covered, mut at) = (0, 0);
        for index in self.path(node) {
            if covered >= self.rules.window + self.rules.page {
                break;
            }
            if self.nodes[index].window {
                self.order.retain(|other| *other != index);
                self.order.insert(at, index);
                at += 1;
            }
            covered += self.tokens(index);
        }
    }

    fn split(&mut self, lower: usize, at: usize) -> usize {
        let stamp = self.now();
        let tail = self.nodes[lower].ids.split_off(at);
        let ids = std::mem::replace(&mut self.nodes[lower].ids, tail.clone());
        let Node { parent, window, locks, .. } = self.nodes[lower];
        let children = [(tail[0], lower)].into();
        self.nodes.push(Node { ids: ids.clone(), children, parent, stamp, window, locks, gone: false });
        let upper = self.nodes.len() - 1;
        self.nodes[parent].children.insert(ids[0], upper);
        self.nodes[lower].parent = upper;
        self.nodes[lower].stamp = self.now();
        if let Some(place) = self.order.iter().position(|index| *index == lower) {
            self.order.insert(place + 1, upper);
        }
        upper
    }

    fn lock(&mut self, node: usize) {
        let mut covered = 0;
        for index in self.path(node) {
            self.nodes[index].locks = [true, covered < self.rules.window];
            covered += self.tokens(index);
        }
        self.anchor = node;
    }

    fn unlock(&mut self) {
        for index in self.path(self.anchor) {
            self.nodes[index].locks = [false; 2];
        }
    }

    fn locked_windows(&self) -> u64 {
        let locked = self.nodes.iter().filter(|node| !node.gone && node.window && node.locks[1]);
        locked.map(|node| node.ids.len() as u64).sum()
    }

    fn is_leaf(&self, node: usize) -> bool {
        node != 0
            && !self.nodes[node].gone
            && self.nodes[node].children.is_empty()
            && !self.nodes[node].locks[0]
    }

    fn make_room(&mut self, wanted: u64) {
        let SlowRules { full, windows, .. } = self.rules;
        let (held_full, held_windows) = self.held();
        while self.resident().0 as i64 + held_full + wanted as i64 > full as i64 {
            let leaves = (1..self.nodes.len()).filter(|index| self.is_leaf(*index));
            let Some(oldest) = leaves.min_by_key(|index| self.nodes[*index].stamp) else { break };
            self.remove(oldest);
        }
        let mut from = self.order.clone();
        from.retain(|index| !self.nodes[*index].locks[1]);
        while self.resident().1 as i64 + held_windows + wanted as i64 > windows as i64 {
            let Some(oldest) = from.pop() else { break };
            if self.is_leaf(oldest) {
                self.remove(oldest);
            } else {
                self.order.retain(|index| *index != oldest);
                self.nodes[oldest].window = false;
            }
        }
    }

    fn remove(&mut self, node: usize) {
        let (parent, first) = (self.nodes[node].parent, self.nodes[node].ids[0]);
        self.nodes[parent].children.remove(&first);
        self.nodes[node].gone = true;
        self.nodes[node].window = false;
        self.order.retain(|index| *index != node);
    }
}
