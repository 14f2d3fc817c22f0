//! SGLang's cache with a pool of its own for states, transcribed step by step: a node owns its ids and a map of its
//! children, both orders of eviction are found by looking at every node, a token of an answer is a step.

use super::slow_sglang::{spare_tokens, stored_ids};
use std::collections::BTreeMap;

/// What the cache is told; sizes of the pools in pages and states.
#[derive(Debug, Clone, Copy)]
pub struct SlowStateRules {
    pub full: u64,
    pub states: u64,
    pub page: u64,
    pub chunk: u64,
    pub outputs_cached: bool,
}

/// A run of pages that are evicted together.
#[derive(Debug, Default, Clone)]
struct Node {
    ids: Vec<u64>,
    parent: usize,
    children: BTreeMap<u64, usize>,
    stamp: u64,
    /// When the state at its end was used last, where there is one.
    state: Option<u64>,
    gone: bool,
}

#[derive(Debug)]
pub struct SlowStates {
    rules: SlowStateRules,
    nodes: Vec<Node>,
    clock: u64,
    next_private: u64,
    /// The request being served: its ids, tokens computed, tokens that the tree has of them, the node locked, states
    /// it has besides those in the tree.
    ids: Vec<u64>,
    done: u64,
    protected: u64,
    anchor: usize,
    own_states: u64,
}

impl SlowStates {
    pub fn new(rules: SlowStateRules) -> Self {
        let nodes = vec![Node::default()];
        Self {
            rules,
            nodes,
            clock: 0,
            next_private: 1 << 60,
            ids: Vec::new(),
            done: 0,
            protected: 0,
            anchor: 0,
            own_states: 0,
        }
    }

    /// Pages and states in nodes.
    pub fn resident(&self) -> (u64, u64) {
        let present = self.nodes.iter().filter(|node| !node.gone);
        (
            present.clone().map(|node| node.ids.len() as u64).sum(),
            present.filter(|node| node.state.is_some()).count() as u64,
        )
    }

    /// Hits of a request of `n` prompt tokens, `sampled` output tokens and the known output ids; `None` where it is
    /// turned away.
    pub fn request(&mut self, ids: &[u64], n: u64, sampled: u64, known_outputs: &[u64]) -> Option<u64> {
        let SlowStateRules { full, states, page, chunk, outputs_cached } = self.rules;
        if n == 0 {
            return Some(0);
        }
        let sampled = if outputs_cached { sampled.max(1) } else { 1 };
        let kv = n + sampled - 1;
        if states < 5 || n + sampled.min(4096) + page >= full * page || kv.div_ceil(page) > full {
            return None;
        }
        self.ids = stored_ids(ids, known_outputs, (n / page, kv / page), &mut self.next_private);
        let grid = page.max(64);
        let (anchor, hits, found) = self.matched(((n - 1) / page) as usize);
        self.anchor = anchor;
        // A copy of the state that was found, then what is missing of the three.
        self.own_states = 0;
        if hits > 0 {
            self.take_state();
        }
        while self.own_states < 3 {
            let missing = 3 - self.own_states;
            self.free_states(missing);
            self.own_states += 1;
        }
        (self.done, self.protected) = (hits * page, hits * page);
        let branch = Some(found * page / grid * grid).filter(|branch| *branch > hits * page);
        let mut kept = None;
        let mut is_first = true;
        while self.done < n {
            let rest = n - self.done;
            let counted = if is_first { rest.div_ceil(page) * page } else { rest };
            is_first = false;
            let step = if counted <= chunk { rest } else { chunk / page * page };
            self.free_pages((step + spare_tokens(page)).div_ceil(page));
            let start = self.done;
            self.done += step;
            kept = (1..=step / grid).map(|times| start + times * grid).next_back();
            let is_kept = |branch: &u64| {
                kept.is_some_and(|kept| *branch <= kept)
                    && *branch > start
                    && (branch - start).is_multiple_of(grid)
            };
            kept = branch.filter(is_kept).or(kept);
            if self.done < n {
                self.checkpoint(kept.take());
            }
        }
        if sampled > 1 {
            self.checkpoint(kept.take());
            for token in 1..sampled {
                self.free_pages(1);
                self.done += 1;
                assert_eq!(self.done, n + token);
                if self.done.is_multiple_of(256) {
                    kept = Some(self.done);
                }
            }
        }
        if let Some(kept) = kept {
            self.own_states -= 1;
            self.insert((kept / page) as usize);
        }
        (self.anchor, self.own_states) = (0, 0);
        Some(hits)
    }

    /// The request hands a state to the tree, and takes another one first.
    fn checkpoint(&mut self, kept: Option<u64>) {
        let Some(kept) = kept else { return };
        self.take_state();
        self.own_states -= 1;
        self.anchor = self.insert((kept / self.rules.page) as usize);
        self.protected = kept;
    }

    fn take_state(&mut self) {
        self.free_states(1);
        self.own_states += 1;
    }

    fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
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
        while let Some(&child) = ids.get(at).and_then(|id| self.nodes[node].children.get(id)) {
            let common = self.nodes[child].ids.iter().zip(&ids[at..]).take_while(|(a, b)| a == b).count();
            let is_whole = common == self.nodes[child].ids.len();
            node = if is_whole { child } else { self.split(child, common) };
            at += common;
            if self.nodes[node].state.is_some() {
                (anchor, hits) = (node, at as u64);
            }
        }
        if anchor != 0 {
            self.nodes[anchor].state = Some(self.now());
        }
        let mut path = self.path(anchor);
        path.reverse();
        for index in path {
            self.nodes[index].stamp = self.now();
        }
        (anchor, hits, at as u64)
    }

    /// Inserts so many pages of the request, with a state at their end.
    fn insert(&mut self, pages: usize) -> usize {
        let ids = self.ids[..pages].to_vec();
        let (mut node, mut at) = (0, 0);
        while let Some(&child) = ids.get(at).and_then(|id| self.nodes[node].children.get(id)) {
            self.nodes[child].stamp = self.now();
            let common = self.nodes[child].ids.iter().zip(&ids[at..]).take_while(|(a, b)| a == b).count();
            let is_whole = common == self.nodes[child].ids.len();
            node = if is_whole { child } else { self.split(child, common) };
            at += common;
        }
        if at < ids.len() {
            let stamp = self.now();
            let leaf = Node { ids: ids[at..].to_vec(), parent: node, stamp, ..Node::default() };
            self.nodes.push(leaf);
            let leaf = self.nodes.len() - 1;
            self.nodes[node].children.insert(ids[at], leaf);
            node = leaf;
        } else {
            self.nodes[node].stamp = self.now();
        }
        self.nodes[node].state = Some(self.now());
        node
    }

    fn split(&mut self, lower: usize, at: usize) -> usize {
        let stamp = self.now();
        let tail = self.nodes[lower].ids.split_off(at);
        let ids = std::mem::replace(&mut self.nodes[lower].ids, tail.clone());
        let parent = self.nodes[lower].parent;
        let children = [(tail[0], lower)].into();
        self.nodes.push(Node { ids: ids.clone(), parent, children, stamp, state: None, gone: false });
        let upper = self.nodes.len() - 1;
        self.nodes[parent].children.insert(ids[0], upper);
        self.nodes[lower].parent = upper;
        self.nodes[lower].stamp = self.now();
        upper
    }

    fn is_evictable(&self, node: usize) -> bool {
        node != 0
            && !self.nodes[node].gone
            && self.nodes[node].children.is_empty()
            && !self.path(self.anchor).contains(&node)
    }

    fn free_pages(&mut self, wanted: u64) {
        let SlowStateRules { full, page, .. } = self.rules;
        let own = self.done.div_ceil(page) - self.protected / page;
        while self.resident().0 + own + wanted > full {
            let leaves = (1..self.nodes.len()).filter(|node| self.is_evictable(*node));
            let Some(oldest) = leaves.min_by_key(|node| self.nodes[*node].stamp) else { break };
            self.remove(oldest);
        }
    }

    fn free_states(&mut self, wanted: u64) {
        while self.resident().1 + self.own_states + wanted > self.rules.states {
            let with_state = (1..self.nodes.len())
                .filter(|node| *node != self.anchor && self.nodes[*node].state.is_some());
            let Some(oldest) = with_state.min_by_key(|node| self.nodes[*node].state) else { break };
            if self.is_evictable(oldest) {
                self.remove(oldest);
            } else {
                self.nodes[oldest].state = None;
            }
        }
    }

    fn remove(&mut self, node: usize) {
        let (parent, first) = (self.nodes[node].parent, self.nodes[node].ids[0]);
        self.nodes[parent].children.remove(&first);
        self.nodes[node].gone = true;
        self.nodes[node].state = None;
    }
}
