//! SGLang's cache, transcribed step by step: a node owns its ids and a map of its children, the
//! leaf to evict is found by looking at every node, locks are counted.

use super::slow_load::SlowCache;
use std::collections::BTreeMap;

/// Tokens that a prompt wants free besides its own: those of a page, though none where a page is a token.
pub fn spare_tokens(page: u64) -> u64 {
    if page == 1 { 0 } else { page }
}

#[derive(Debug, Default, Clone)]
struct Node {
    ids: Vec<u64>,
    children: BTreeMap<u64, usize>,
    parent: Option<usize>,
    /// (event, how many nodes above the one the event is about, backwards)
    stamp: (u64, i64),
    locks: u64,
    gone: bool,
}

#[derive(Debug, Clone)]
pub struct SlowSglang {
    nodes: Vec<Node>,
    free: u64,
    page: u64,
    outputs_cached: bool,
    clock: u64,
    next_private: u64,
}

impl SlowSglang {
    pub fn new(capacity: u64, page: u64, outputs_cached: bool) -> Self {
        let root = Node { locks: 1, ..Node::default() };
        Self { nodes: vec![root], free: capacity, page, outputs_cached, clock: 0, next_private: 1 << 60 }
    }

    /// Pages in nodes.
    pub fn resident(&self) -> u64 {
        self.nodes.iter().filter(|node| !node.gone).map(|node| node.ids.len() as u64).sum()
    }

    /// Hits of a request of `n` prompt tokens, `sampled` output tokens and the known output ids.
    /// The request must fit the cache.
    pub fn request(&mut self, ids: &[u64], n: u64, sampled: u64, known_outputs: &[u64]) -> u64 {
        let page = self.page;
        let prompt = ids[..(n / page) as usize].to_vec();
        let kv = if self.outputs_cached && sampled >= 1 { n + sampled - 1 } else { n };
        let mut outputs: Vec<u64> = known_outputs.to_vec();
        outputs.truncate((kv / page - n / page) as usize);
        while (outputs.len() as u64) < kv / page - n / page {
            outputs.push(self.next_private);
            self.next_private += 1;
        }
        // 1
        let limit = if n == 0 { 0 } else { (n - 1) / page };
        let (mut node, hits) = self.matched(&prompt[..limit as usize]);
        self.lock(node, 1);
        // 2
        self.evict((n - hits * page + spare_tokens(page)).div_ceil(page));
        let mut held = n.div_ceil(page) - hits;
        self.free -= held;
        // 3
        let (end, known) = self.insert(&prompt);
        self.free += known - hits;
        held -= known - hits;
        held -= prompt.len() as u64 - known;
        self.lock(end, 1);
        self.unlock(node);
        node = end;
        if self.outputs_cached {
            for token in n..kv {
                // A page is wanted before every token, and taken where one begins.
                let begins = token.is_multiple_of(page);
                if begins || self.has_evictable() {
                    self.evict(1);
                }
                self.free -= u64::from(begins);
                held += u64::from(begins);
            }
            let whole = [prompt.clone(), outputs.clone()].concat();
            let (_, known) = self.insert(&whole);
            held -= whole.len() as u64 - prompt.len() as u64;
            self.free += known - prompt.len() as u64;
            if !prompt.is_empty() && !outputs.is_empty() {
                self.insert(&prompt);
            }
        }
        // 4
        self.free += held;
        self.unlock(node);
        hits
    }

    fn now(&mut self) -> (u64, i64) {
        self.clock += 1;
        (self.clock, 0)
    }

    fn matched(&mut self, ids: &[u64]) -> (usize, u64) {
        let (node, matched) = self.walk(ids, false);
        let (event, _) = self.now();
        let mut next = Some(node);
        let mut above = 0;
        while let Some(index) = next {
            self.nodes[index].stamp = (event, -above);
            above += 1;
            next = self.nodes[index].parent;
        }
        (node, matched)
    }

    fn insert(&mut self, ids: &[u64]) -> (usize, u64) {
        self.nodes[0].stamp = self.now();
        let (mut node, matched) = self.walk(ids, true);
        if matched < ids.len() as u64 {
            let rest = ids[matched as usize..].to_vec();
            let stamp = self.now();
            self.nodes.push(Node { ids: rest.clone(), parent: Some(node), stamp, ..Node::default() });
            let leaf = self.nodes.len() - 1;
            self.nodes[node].children.insert(rest[0], leaf);
            node = leaf;
        }
        (node, matched)
    }

    fn walk(&mut self, ids: &[u64], touch: bool) -> (usize, u64) {
        let (mut node, mut at) = (0, 0);
        while at < ids.len() {
            let Some(&child) = self.nodes[node].children.get(&ids[at]) else { break };
            if touch {
                self.nodes[child].stamp = self.now();
            }
            let common = self.nodes[child].ids.iter().zip(&ids[at..]).take_while(|(a, b)| a == b).count();
            at += common;
            if common < self.nodes[child].ids.len() {
                return (self.split(child, common), at as u64);
            }
            node = child;
        }
        (node, at as u64)
    }

    fn split(&mut self, lower: usize, at: usize) -> usize {
        let (stamp, parent, locks) = (self.now(), self.nodes[lower].parent, self.nodes[lower].locks);
        let tail = self.nodes[lower].ids.split_off(at);
        let ids = std::mem::replace(&mut self.nodes[lower].ids, tail.clone());
        self.nodes.push(Node {
            ids: ids.clone(),
            children: [(tail[0], lower)].into(),
            parent,
            stamp,
            locks,
            gone: false,
        });
        let upper = self.nodes.len() - 1;
        self.nodes[parent.expect("the root has no ids")].children.insert(ids[0], upper);
        self.nodes[lower].parent = Some(upper);
        self.nodes[lower].stamp = self.now();
        upper
    }

    fn lock(&mut self, node: usize, by: i64) {
        let mut next = Some(node);
        while let Some(index) = next {
            self.nodes[index].locks = self.nodes[index].locks.checked_add_signed(by).expect("locks balance");
            next = self.nodes[index].parent;
        }
    }

    fn unlock(&mut self, node: usize) {
        self.lock(node, -1);
    }

    fn has_evictable(&self) -> bool {
        self.free > 0 || self.nodes.iter().any(|n| !n.gone && n.children.is_empty() && n.locks == 0)
    }

    fn evict(&mut self, wanted: u64) {
        while self.free < wanted {
            let leaves = self.nodes.iter().enumerate();
            let leaves = leaves.filter(|(_, n)| !n.gone && n.children.is_empty() && n.locks == 0);
            let (oldest, node) = leaves.min_by_key(|(_, n)| n.stamp).expect("the request fits the cache");
            self.free += node.ids.len() as u64;
            let (parent, first) = (node.parent.expect("the root is locked"), node.ids[0]);
            self.nodes[parent].children.remove(&first);
            self.nodes[oldest].gone = true;
        }
    }
}

/// A request: the ids of its pages, the tokens of its prompt, those it generates, and the ids of its output's pages.
#[derive(Debug, Clone)]
pub struct SlowAsked {
    pub ids: Vec<u64>,
    pub input: u64,
    pub output: u64,
    pub known_outputs: Vec<u64>,
}

/// A request in flight.
#[derive(Debug, Clone)]
pub struct SlowRequest {
    prompt: Vec<u64>,
    outputs: Vec<u64>,
    tokens: u64,
    hits: u64,
    node: usize,
    held: u64,
    done: u64,
    all: u64,
}

impl SlowSglang {
    /// Pages in nodes that nobody has locked.
    fn unlocked(&self) -> u64 {
        let unlocked = self.nodes.iter().filter(|node| !node.gone && node.locks == 0);
        unlocked.map(|node| node.ids.len() as u64).sum()
    }

    fn evict_some(&mut self, wanted: u64) {
        while self.free < wanted && self.unlocked() > 0 {
            self.evict(self.free + 1);
        }
    }

    /// Matches, evicts, takes pages for so many tokens and inserts the prompt; its hits, its node, and the pages held
    /// besides.
    fn insert_prompt(&mut self, prompt: &[u64], limit: u64, tokens: u64) -> Option<(u64, usize, u64)> {
        let limit = (limit as usize).min(prompt.len());
        let (node, hits) = self.matched(&prompt[..limit]);
        self.lock(node, 1);
        let slots = tokens.div_ceil(self.page);
        let wanted = slots - hits + spare_tokens(self.page) / self.page;
        if self.free + self.unlocked() < wanted {
            self.unlock(node);
            return None;
        }
        self.evict_some(wanted);
        self.free -= slots - hits;
        let (end, known) = self.insert(prompt);
        self.free += known - hits;
        self.lock(end, 1);
        self.unlock(node);
        Some((hits, end, slots - prompt.len() as u64))
    }

    fn takes_page(&self, request: &SlowRequest, token: u64) -> bool {
        (request.tokens + token - 1).is_multiple_of(self.page)
    }
}

impl SlowCache for SlowSglang {
    type Asked = SlowAsked;
    type Request = SlowRequest;

    fn begin(&mut self, asked: &SlowAsked) -> Option<SlowRequest> {
        let (page, n) = (self.page, asked.input);
        let prompt = asked.ids[..(n / page) as usize].to_vec();
        let all = if self.outputs_cached { asked.output.saturating_sub(1) } else { 0 };
        let mut outputs = asked.known_outputs.clone();
        outputs.truncate(((n + all) / page - n / page) as usize);
        while (outputs.len() as u64) < (n + all) / page - n / page {
            outputs.push(self.next_private);
            self.next_private += 1;
        }
        let (hits, node, held) = self.insert_prompt(&prompt, n.saturating_sub(1) / page, n)?;
        Some(SlowRequest { prompt, outputs, tokens: n, hits, node, held, done: 0, all })
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
        request.hits
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
        let is_whole = done == all;
        let whole = if is_whole { [prompt.clone(), outputs.clone()].concat() } else { prompt.clone() };
        let (_, known) = self.insert(&whole);
        held -= whole.len() as u64 - prompt.len() as u64;
        self.free += known - prompt.len() as u64 + held;
        if is_whole && !prompt.is_empty() && !outputs.is_empty() {
            self.insert(&prompt);
        }
        self.unlock(node);
    }

    fn preempt(&mut self, request: &SlowRequest) {
        self.free += request.held;
        self.unlock(request.node);
    }

    fn resume(&mut self, preempted: &SlowRequest) -> Option<SlowRequest> {
        let tokens = preempted.tokens + (preempted.done + 1).min(preempted.all);
        let prompt = preempted.prompt.clone();
        let (_, node, held) = self.insert_prompt(&prompt, tokens.saturating_sub(1) / self.page, tokens)?;
        Some(SlowRequest { node, held, done: tokens - preempted.tokens, ..preempted.clone() })
    }

    fn try_resume(&mut self, preempted: &SlowRequest) -> Option<SlowRequest> {
        self.resume(preempted)
    }
}

/// A tree whose nodes own their ids and a map of their children goes down by ids.
macro_rules! step_by_ids {
    ($tree:ty) => {
        impl $tree {
            /// The node that the next ids lead to, split where they leave it, and how many of them it is.
            fn step(&mut self, node: usize, ids: &[u64], touch: bool) -> Option<(usize, usize)> {
                let child = *self.nodes[node].children.get(ids.first()?)?;
                if touch {
                    self.nodes[child].stamp = self.now();
                }
                let common = self.nodes[child].ids.iter().zip(ids).take_while(|(a, b)| a == b).count();
                let whole = common == self.nodes[child].ids.len();
                Some((if whole { child } else { self.split(child, common) }, common))
            }
        }
    };
}
pub(crate) use step_by_ids;

/// The ids of so many pages of a prompt and, with its outputs, so many in all: outputs whose ids are not known are
/// pages nobody shares.
pub fn stored_ids(
    ids: &[u64],
    known_outputs: &[u64],
    (prompt, stored): (u64, u64),
    next_private: &mut u64,
) -> Vec<u64> {
    let mut all = ids[..prompt as usize].to_vec();
    all.extend(known_outputs.iter().take((stored - prompt) as usize));
    while (all.len() as u64) < stored {
        all.push(*next_private);
        *next_private += 1;
    }
    all
}
