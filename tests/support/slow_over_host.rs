//! SGLang's tree over two pools of a device and two of a host, transcribed step by step: a node owns its ids and a
//! map of its children, what to evict is found by looking at every node, locks are counted, orders are lists. The
//! steps of a request with states and of one with windows are here, too.

use super::slow_sglang::{spare_tokens, step_by_ids, stored_ids};
use std::collections::BTreeMap;

/// What a tree is told; sizes in pages, and states.
#[derive(Debug, Clone, Copy)]
pub struct SlowHostRules {
    pub full: u64,
    pub other: u64,
    pub host_full: u64,
    pub host_other: u64,
    pub page: u64,
    /// Tokens of a window before the one that looks; none with states.
    pub window: Option<u64>,
    pub chunk: u64,
    pub outputs_cached: bool,
    /// Insertions after which a node is written; none with write-back.
    pub threshold: Option<u64>,
}

#[derive(Debug, Default, Clone)]
pub struct Node {
    pub ids: Vec<u64>,
    pub children: BTreeMap<u64, usize>,
    pub parent: usize,
    /// (event, how many nodes above the one the event is about, backwards)
    stamp: (u64, i64),
    pub on_device: bool,
    on_host: bool,
    /// What the other pool has of it.
    pub other: bool,
    pub other_on_host: bool,
    locks: u64,
    other_locks: u64,
    is_host_locked: bool,
    passed: u64,
    /// A copy to the host, or from it, is on its way.
    is_written: bool,
    is_loaded: bool,
    gone: bool,
}

#[derive(Debug, Clone)]
pub struct SlowOverHost {
    pub rules: SlowHostRules,
    pub nodes: Vec<Node>,
    /// Nodes that the other pool holds, the newest first: on the device, and alone on the host.
    order: Vec<usize>,
    host_order: Vec<usize>,
    duplicates: Vec<usize>,
    /// Nodes whose copy to the host locks them until the next step, and what is loaded back until then.
    written: Vec<usize>,
    loaded: Option<usize>,
    clock: u64,
    next_private: u64,
    /// The request being served: its ids, and what it has of each pool besides what is in nodes.
    pub ids: Vec<u64>,
    pub own_full: u64,
    pub own_other: u64,
    pub anchor: usize,
    pub inserted: u64,
}

/// Where a prompt can be gone on from on the device and on either side, each with the pages up to there, and the
/// pages that full attention has.
pub struct SlowMatch {
    pub device: (usize, u64),
    pub best: (usize, u64),
    pub full: u64,
}

step_by_ids!(SlowOverHost);

impl SlowOverHost {
    pub fn new(rules: SlowHostRules) -> Self {
        let root = Node { on_device: true, ..Node::default() };
        Self {
            rules,
            nodes: vec![root],
            order: Vec::new(),
            host_order: Vec::new(),
            duplicates: Vec::new(),
            written: Vec::new(),
            loaded: None,
            clock: 0,
            next_private: 1 << 60,
            ids: Vec::new(),
            own_full: 0,
            own_other: 0,
            anchor: 0,
            inserted: 0,
        }
    }

    fn sum(&self, is_one: fn(&Node) -> bool, of: impl Fn(&Node) -> u64) -> u64 {
        self.nodes.iter().filter(|node| !node.gone && is_one(node)).map(of).sum()
    }

    /// What nodes have of the two pools of the device, and of the two of the host.
    pub fn resident(&self) -> [u64; 4] {
        let pages = |node: &Node| node.ids.len() as u64;
        let is_window = self.rules.window.is_some();
        let other = |node: &Node| if is_window { pages(node) } else { 1 };
        [
            self.sum(|node| node.on_device, pages),
            self.sum(|node| node.other, other),
            self.sum(|node| node.on_host, pages),
            self.sum(|node| node.other_on_host, other),
        ]
    }

    fn pages(&self, node: usize) -> u64 {
        self.nodes[node].ids.len() as u64
    }

    fn other_pages(&self, node: usize) -> u64 {
        if self.rules.window.is_some() { self.pages(node) } else { 1 }
    }

    /// The nodes from one up to the root, which is none of them.
    pub fn path(&self, node: usize) -> Vec<usize> {
        let above = |index: &usize| Some(self.nodes[*index].parent);
        std::iter::successors(Some(node), above).take_while(|index| *index != 0).collect()
    }

    /// Those of them that the other pool's part of a prompt is read from.
    pub fn segment(&self, node: usize) -> Vec<usize> {
        let Some(window) = self.rules.window else {
            return self.path(node).into_iter().take(1).collect();
        };
        let mut covered = 0;
        let is_in = |index: &usize| {
            let before = covered;
            covered += self.pages(*index) * self.rules.page;
            before < window
        };
        self.path(node).into_iter().take_while(is_in).collect()
    }

    fn now(&mut self) -> (u64, i64) {
        self.clock += 1;
        (self.clock, 0)
    }

    pub fn lock(&mut self, node: usize) {
        self.path(node).into_iter().for_each(|index| self.nodes[index].locks += 1);
        self.segment(node).into_iter().for_each(|index| self.nodes[index].other_locks += 1);
    }

    pub fn unlock(&mut self, node: usize) {
        self.path(node).into_iter().for_each(|index| self.nodes[index].locks -= 1);
        self.segment(node).into_iter().for_each(|index| self.nodes[index].other_locks -= 1);
    }

    /// Pages of the other pool that nobody reads or that are free.
    pub fn unlocked_other(&self) -> i64 {
        let locked = self.sum(|node| node.other && node.other_locks > 0, |node| node.ids.len() as u64);
        self.rules.other as i64 - locked as i64 - self.own_other as i64
    }

    fn is_device_leaf(&self, node: usize) -> bool {
        let own = &self.nodes[node];
        node != 0
            && !own.gone
            && own.on_device
            && own.locks == 0
            && own.other_locks == 0
            && own.children.values().all(|child| !self.nodes[*child].on_device)
    }

    fn is_host_leaf(&self, node: usize) -> bool {
        let own = &self.nodes[node];
        let is_free = own.locks == 0 && own.other_locks == 0 && !own.is_host_locked;
        !own.gone && !own.on_device && own.on_host && is_free && own.children.is_empty()
    }

    /// The next step: copies are done.
    pub fn next_step(&mut self) {
        for node in std::mem::take(&mut self.written) {
            self.unlock(node);
        }
        self.nodes.iter_mut().for_each(|node| node.is_written = false);
        if let Some(node) = self.loaded.take() {
            for index in self.path(node) {
                self.nodes[index].is_host_locked = false;
                if std::mem::take(&mut self.nodes[index].is_loaded) {
                    self.note_duplicate(index);
                }
            }
        }
    }

    /// Follows ids as far as full attention is there on either side, and stamps what can be gone on from.
    pub fn matched(&mut self, limit: usize) -> SlowMatch {
        let ids = self.ids[..limit].to_vec();
        let (mut node, mut at) = (0, 0);
        let (mut device, mut best) = ((0, 0), (0, 0));
        // Tokens of windows up to here without a gap, on the device and on either side; none where there is none
        // since the root.
        let mut unbroken: [Option<u64>; 2] = [None, None];
        while let Some((next, common)) = self.step(node, &ids[at..], false) {
            (node, at) = (next, at + common);
            let own = &self.nodes[node];
            let there = [own.other, own.other || own.other_on_host];
            let tokens = self.pages(node) * self.rules.page;
            let mut is_valid = there;
            if let Some(window) = self.rules.window {
                for side in 0..2 {
                    unbroken[side] =
                        if there[side] { unbroken[side].map(|run| run + tokens) } else { Some(0) };
                    is_valid[side] = there[side] && unbroken[side].is_none_or(|run| run >= window);
                }
            }
            if is_valid[0] {
                device = (node, at as u64);
            }
            if is_valid[1] {
                best = (node, at as u64);
            }
        }
        self.refresh(best.0);
        let event = self.now().0;
        for (above, index) in self.path(best.0).into_iter().enumerate() {
            self.nodes[index].stamp = (event, -(above as i64));
        }
        SlowMatch { device, best, full: at as u64 }
    }

    /// What the device's other pool has of a prompt that ends here becomes its newest.
    fn refresh(&mut self, node: usize) {
        let mut nodes = self.segment(node);
        if let Some(window) = self.rules.window {
            let mut covered = 0;
            nodes = self.path(node);
            nodes.retain(|index| {
                let is_in = covered < window + self.rules.page;
                covered += self.pages(*index) * self.rules.page;
                is_in
            });
        }
        nodes.retain(|index| self.nodes[*index].other);
        self.order.retain(|index| !nodes.contains(index));
        self.order.splice(..0, nodes);
    }

    pub fn split(&mut self, lower: usize, at: usize) -> usize {
        let stamp = self.now();
        let tail = self.nodes[lower].ids.split_off(at);
        let ids = std::mem::replace(&mut self.nodes[lower].ids, tail.clone());
        let mut upper = Node {
            ids: ids.clone(),
            children: [(tail[0], lower)].into(),
            stamp,
            ..self.nodes[lower].clone()
        };
        if self.rules.window.is_none() {
            (upper.other, upper.other_on_host, upper.other_locks) = (false, false, 0);
        }
        let parent = upper.parent;
        self.nodes.push(upper);
        let upper = self.nodes.len() - 1;
        self.nodes[parent].children.insert(ids[0], upper);
        self.nodes[lower].parent = upper;
        self.nodes[lower].stamp = self.now();
        if self.rules.window.is_some() {
            for order in [&mut self.order, &mut self.host_order] {
                if let Some(place) = order.iter().position(|index| *index == lower) {
                    order.insert(place + 1, upper);
                }
            }
        }
        self.note_duplicate(upper);
        upper
    }

    /// The device's other pool has a node from now on.
    pub fn publish(&mut self, node: usize) {
        self.nodes[node].other = true;
        self.order.insert(0, node);
        self.host_order.retain(|index| *index != node);
    }

    fn give_up(&mut self, node: usize) {
        if std::mem::take(&mut self.nodes[node].other) {
            self.order.retain(|index| *index != node);
        }
        if self.nodes[node].other_on_host && !self.host_order.contains(&node) {
            self.host_order.insert(0, node);
        }
    }

    /// Makes room for so many pages in the pool of full attention.
    pub fn make_room(&mut self, wanted: u64) {
        while self.resident()[0] + self.own_full + wanted > self.rules.full {
            let leaves = (1..self.nodes.len()).filter(|index| self.is_device_leaf(*index));
            let Some(oldest) = leaves.min_by_key(|index| self.nodes[*index].stamp) else { break };
            self.evict_leaf(oldest);
        }
    }

    /// The same in the other one.
    pub fn make_other_room(&mut self, wanted: u64) {
        let unlocked = |slow: &Self, before: usize| {
            let older = slow.order[..before].iter().rev();
            older.copied().find(|index| slow.nodes[*index].other_locks == 0)
        };
        let mut cursor = unlocked(self, self.order.len());
        while self.resident()[1] + self.own_other + wanted > self.rules.other {
            if cursor.is_some_and(|index| !self.order.contains(&index)) {
                cursor = unlocked(self, self.order.len());
            }
            let Some(oldest) = cursor else { break };
            let place = self.order.iter().position(|index| *index == oldest).expect("in the order");
            cursor = unlocked(self, place);
            if self.is_device_leaf(oldest) {
                self.evict_leaf(oldest);
                continue;
            }
            let own = &self.nodes[oldest];
            if self.rules.threshold.is_none() && !own.on_host && !own.other_on_host {
                let needed = self.unwritten(oldest).iter().map(|part| self.other_pages(*part)).sum();
                if self.rules.host_other - self.resident()[3] < needed {
                    self.evict_other_on_host(needed);
                }
                self.write(oldest);
            }
            self.give_up(oldest);
        }
    }

    fn evict_leaf(&mut self, leaf: usize) {
        if !self.nodes[leaf].on_host && self.rules.threshold.is_none() {
            self.write(leaf);
        }
        if self.nodes[leaf].on_host {
            self.nodes[leaf].on_device = false;
            self.give_up(leaf);
        } else {
            self.drop_subtree(leaf);
        }
    }

    fn drop_subtree(&mut self, node: usize) {
        let children: Vec<_> = self.nodes[node].children.values().copied().collect();
        children.into_iter().for_each(|child| self.drop_subtree(child));
        let (parent, first) = (self.nodes[node].parent, self.nodes[node].ids[0]);
        self.nodes[parent].children.remove(&first);
        self.nodes[node].gone = true;
        for list in [&mut self.order, &mut self.host_order, &mut self.duplicates] {
            list.retain(|index| *index != node);
        }
    }

    /// Inserts so many pages, as far as nodes go that are there, and makes a leaf of the rest: its end, and whether
    /// it is one. `entered` is told each node that was there, and the pages up to its end.
    pub fn insert(&mut self, count: usize, entered: impl Fn(&mut Self, usize, u64)) -> (usize, bool) {
        let ids = self.ids[..count].to_vec();
        let (mut node, mut at) = (0, 0);
        while let Some((next, common)) = self.step(node, &ids[at..], true) {
            (node, at) = (next, at + common);
            if !self.nodes[node].on_device {
                self.nodes[node].on_device = true;
                self.note_duplicate(node);
            }
            entered(self, node, at as u64);
            self.pass(node, at as u64);
        }
        if at == ids.len() {
            return (node, false);
        }
        let stamp = self.now();
        let leaf = Node { ids: ids[at..].to_vec(), parent: node, stamp, on_device: true, ..Node::default() };
        self.nodes.push(leaf);
        let leaf = self.nodes.len() - 1;
        self.nodes[node].children.insert(ids[at], leaf);
        (leaf, true)
    }

    /// Counts an insertion, and writes the node with those above it where it is due.
    pub fn pass(&mut self, node: usize, end: u64) {
        let Some(threshold) = self.rules.threshold.filter(|_| end > self.inserted) else { return };
        self.nodes[node].passed += 1;
        if self.nodes[node].on_host || self.nodes[node].passed < threshold {
            return;
        }
        let chain: Vec<_> =
            self.path(node).into_iter().take_while(|index| !self.nodes[*index].on_host).collect();
        for index in chain.into_iter().rev() {
            if !self.write(index) {
                break;
            }
        }
    }

    /// The end of an insertion: a leaf is passed, and of another node what the other pool has got since is written.
    pub fn end_insert(&mut self, node: usize, is_leaf: bool, end: u64) {
        if is_leaf {
            return self.pass(node, end);
        }
        let own = &self.nodes[node];
        let is_due = self.rules.threshold.is_some() && own.on_host && !own.is_written;
        if is_due && !self.unwritten(node).is_empty() {
            self.write(node);
        }
    }

    fn unwritten(&self, node: usize) -> Vec<usize> {
        let mut found = Vec::new();
        for index in self.segment(node) {
            let own = &self.nodes[index];
            if self.rules.window.is_some() && own.is_written || !own.other && !own.other_on_host {
                break;
            }
            if own.other && !own.other_on_host {
                found.push(index);
            }
        }
        found
    }

    /// Writes what the host lacks of a node, or nothing where there is no room.
    fn write(&mut self, node: usize) -> bool {
        let pages = if self.nodes[node].on_host { 0 } else { self.pages(node) };
        let free = self.rules.host_full - self.resident()[2];
        if free < pages && self.evict_host(pages - free) < pages - free {
            return false;
        }
        let parts = self.unwritten(node);
        let needed = parts.iter().map(|part| self.other_pages(*part)).sum();
        if self.rules.host_other - self.resident()[3] < needed {
            self.evict_other_on_host(needed);
            if self.rules.host_other - self.resident()[3] < needed {
                return false;
            }
        }
        self.nodes[node].on_host = true;
        parts.iter().for_each(|part| self.nodes[*part].other_on_host = true);
        let mut published: Vec<_> = parts.into_iter().rev().filter(|part| *part != node).collect();
        published.push(node);
        if self.rules.threshold.is_some() {
            self.lock(node);
            self.written.push(node);
            published.iter().for_each(|index| self.nodes[*index].is_written = true);
        } else {
            for index in published {
                let own = &self.nodes[index];
                if !own.on_device || !own.on_host || own.is_loaded {
                    self.duplicates.retain(|other| *other != index);
                }
                self.note_duplicate(index);
            }
        }
        true
    }

    fn note_duplicate(&mut self, node: usize) {
        let own = &self.nodes[node];
        let is_one = own.on_device && own.on_host && !own.is_loaded;
        if self.rules.threshold.is_none() && is_one && !self.duplicates.contains(&node) {
            self.duplicates.push(node);
        }
    }

    fn evict_host(&mut self, needed: u64) -> u64 {
        let before = self.resident()[2];
        let freed = |slow: &Self| before - slow.resident()[2];
        if self.rules.threshold.is_none() {
            let mut seen = Vec::new();
            for spares in [true, false] {
                for node in self.duplicates.clone() {
                    if freed(self) >= needed {
                        break;
                    }
                    let own = &self.nodes[node];
                    let is_kept = own.is_loaded || own.is_host_locked || spares && self.is_device_leaf(node);
                    if !own.on_device || !own.on_host {
                        seen.push(node);
                    } else if !is_kept {
                        self.nodes[node].on_host = false;
                        seen.push(node);
                    }
                }
            }
            self.duplicates.retain(|node| !seen.contains(node));
        }
        while freed(self) < needed {
            let leaves = (1..self.nodes.len()).filter(|index| self.is_host_leaf(*index));
            let Some(oldest) = leaves.min_by_key(|index| self.nodes[*index].stamp) else { break };
            self.drop_subtree(oldest);
        }
        freed(self)
    }

    fn evict_other_on_host(&mut self, needed: u64) {
        let mut freed = 0;
        while freed < needed {
            let Some(&oldest) = self.host_order.last() else { break };
            freed += self.other_pages(oldest);
            if self.is_host_leaf(oldest) {
                self.drop_subtree(oldest);
            } else {
                self.nodes[oldest].other_on_host = false;
                self.host_order.pop();
            }
        }
    }

    /// Keeps what is matched on the host, while room is made to load it; gives the pages of either pool that only the
    /// host has.
    pub fn begin_load(&mut self, best: usize) -> (u64, u64) {
        self.nodes[best].is_host_locked = true;
        let missing = self.path(best).into_iter().filter(|index| !self.nodes[*index].on_device);
        let full = missing.map(|index| self.pages(index)).sum();
        let segment = self.segment(best);
        self.host_order.retain(|index| !segment.contains(index));
        let other = segment.into_iter().filter(|index| !self.nodes[*index].other);
        (full, other.map(|index| self.other_pages(index)).sum())
    }

    pub fn end_load(&mut self, best: usize) {
        for index in self.path(best) {
            if !self.nodes[index].on_device {
                (self.nodes[index].on_device, self.nodes[index].is_loaded) = (true, true);
            }
        }
        for index in self.segment(best).into_iter().rev() {
            if !self.nodes[index].other {
                self.publish(index);
            }
        }
        self.loaded = Some(best);
    }

    /// There is no room for what was to be loaded: it may leave the host again.
    fn abandon_load(&mut self, best: usize) {
        self.nodes[best].is_host_locked = false;
        for index in self.segment(best) {
            if !self.nodes[index].other {
                self.host_order.insert(0, index);
            }
        }
    }

    /// The pool of windows has a node's pages that the window has not passed, of which the last `tail` get a node of
    /// their own.
    fn keep_from(&mut self, node: usize, end: u64, passed: u64, tail: u64) {
        let start = end - self.pages(node);
        let live = start.max(passed);
        if live >= end {
            return;
        }
        if live > start {
            self.split(node, (live - start) as usize);
        }
        if end - live > tail {
            let before = self.split(node, (end - live - tail) as usize);
            self.publish(before);
        }
        self.publish(node);
    }

    /// Takes the ids of a request: its tokens stored, or none where it does not fit full attention.
    pub fn take(&mut self, ids: &[u64], n: u64, sampled: u64, known_outputs: &[u64]) -> Option<u64> {
        let SlowHostRules { page, full, .. } = self.rules;
        let kv = n + sampled - 1;
        if n + sampled.min(4096) + page >= full * page || kv.div_ceil(page) > full {
            return None;
        }
        self.ids = stored_ids(ids, known_outputs, (n / page, kv / page), &mut self.next_private);
        Some(kv)
    }
}

/// Pages found on the device and loaded back of a request of `n` prompt tokens, `sampled` output tokens and the known
/// output ids over a pool of states; `None` where it is turned away.
pub fn request_with_states(
    slow: &mut SlowOverHost,
    (ids, n): (&[u64], u64),
    (sampled, known_outputs): (u64, &[u64]),
) -> Option<(u64, u64)> {
    let SlowHostRules { other, page, chunk, outputs_cached, .. } = slow.rules;
    if n == 0 {
        return Some((0, 0));
    }
    let sampled = if outputs_cached { sampled.max(1) } else { 1 };
    if other < 5 {
        return None;
    }
    slow.take(ids, n, sampled, known_outputs)?;
    let grid = page.max(64);
    let found = slow.matched(((n - 1) / page) as usize);
    (slow.inserted, slow.own_full, slow.own_other) = (0, 0, 0);
    let (anchor, hits) = found.best;
    slow.anchor = anchor;
    slow.lock(anchor);
    if found.device.1 < hits {
        slow.lock(found.device.0);
        let (full, _) = slow.begin_load(anchor);
        slow.make_other_room(1);
        slow.own_other = 1;
        slow.make_room(full);
        slow.make_other_room(1);
        slow.end_load(anchor);
        slow.unlock(found.device.0);
    } else if anchor != 0 {
        slow.make_other_room(1);
        slow.own_other = 1;
    }
    slow.make_other_room(3 - slow.own_other);
    slow.own_other = 3;
    let branch = found.full * page / grid * grid;
    let mut done = hits * page;
    let mut protected = hits;
    let mut kept: Option<u64> = None;
    let mut is_first = true;
    while done < n {
        if !is_first {
            slow.next_step();
            protected = keep(slow, kept.take()).unwrap_or(protected);
        }
        let rest = n - done;
        let counted = if is_first { rest.div_ceil(page) * page } else { rest };
        let step = if counted <= chunk { rest } else { chunk / page * page };
        slow.own_full = done.div_ceil(page) - protected;
        slow.make_room((step + spare_tokens(page)).div_ceil(page));
        kept = (1..=step / grid).map(|times| done + times * grid).next_back();
        if kept.is_some_and(|kept| branch <= kept) && branch > done && (branch - done).is_multiple_of(grid) {
            kept = Some(branch);
        }
        done += step;
        slow.own_full = done.div_ceil(page) - protected;
        is_first = false;
    }
    if sampled > 1 {
        protected = keep(slow, kept.take()).unwrap_or(protected);
        for _ in 1..sampled {
            slow.next_step();
            slow.own_full = done.div_ceil(page) - protected;
            slow.make_room(1);
            done += 1;
            kept = Some(done).filter(|done| done.is_multiple_of(256)).or(kept);
        }
    }
    if let Some(kept) = kept {
        slow.own_other -= 1;
        insert_state(slow, kept / page);
    }
    slow.unlock(slow.anchor);
    (slow.own_full, slow.own_other) = (0, 0);
    slow.next_step();
    Some((found.device.1, hits - found.device.1))
}

/// The request hands a state to the tree, and takes another one first; the pages that the tree has then.
fn keep(slow: &mut SlowOverHost, kept: Option<u64>) -> Option<u64> {
    let pages = kept? / slow.rules.page;
    slow.make_other_room(1);
    let end = insert_state(slow, pages);
    slow.unlock(slow.anchor);
    slow.lock(end);
    slow.anchor = end;
    slow.inserted = pages;
    Some(pages)
}

fn insert_state(slow: &mut SlowOverHost, pages: u64) -> usize {
    let (end, is_leaf) = slow.insert(pages as usize, |_, _, _| {});
    match slow.nodes[end].other {
        true => slow.refresh(end),
        false => slow.publish(end),
    }
    if !is_leaf {
        slow.nodes[end].stamp = slow.now();
    }
    slow.end_insert(end, is_leaf, pages);
    end
}

/// The same over a pool of windows.
pub fn request_with_windows(
    slow: &mut SlowOverHost,
    (ids, n): (&[u64], u64),
    (sampled, known_outputs): (u64, &[u64]),
) -> Option<(u64, u64)> {
    if n == 0 {
        return Some((0, 0));
    }
    let sampled = if slow.rules.outputs_cached { sampled.max(1) } else { 1 };
    let kv = slow.take(ids, n, sampled, known_outputs)?;
    let page = slow.rules.page;
    (slow.inserted, slow.own_full, slow.own_other) = (0, 0, 0);
    let found = slow.matched(((n - 1) / page) as usize);
    slow.anchor = found.device.0;
    slow.lock(slow.anchor);
    let admitted = admit_with_windows(slow, &found, n, sampled.min(4096));
    let loaded = if slow.anchor == found.best.0 { found.best.1 - found.device.1 } else { 0 };
    let hits = found.device.1 + loaded;
    let junction = Some(found.full).filter(|full| *full > hits);
    let mut own = SlowWindowsRequest { allocated: hits, protected: hits, passed: 0, junction };
    let is_served = admitted.is_some_and(|first| own.prefill(slow, n, first));
    if is_served {
        if sampled > 1 {
            own.checkpoint(slow, n, false);
        }
        if (1..sampled).all(|token| own.decode(slow, n, token)) {
            own.checkpoint(slow, kv, true);
        }
    }
    slow.unlock(slow.anchor);
    (slow.own_full, slow.own_other) = (0, 0);
    slow.next_step();
    is_served.then_some((found.device.1, loaded))
}

/// Tokens of the first step at most, after what the host has was loaded back, where there is room for it.
fn admit_with_windows(slow: &mut SlowOverHost, found: &SlowMatch, n: u64, sampled: u64) -> Option<u64> {
    let page = slow.rules.page;
    let ((own, hits), (best, _)) = (found.device, found.best);
    let above = slow.path(own);
    let behind =
        slow.path(best).into_iter().filter(|index| !above.contains(index) && slow.nodes[*index].on_host);
    let promised: u64 = behind.map(|index| slow.pages(index)).sum();
    let windows = slow.segment(best).into_iter().filter(|index| !slow.nodes[*index].other);
    let windows: u64 = windows.map(|index| slow.pages(index)).sum();
    let first = first_step(slow, n - (hits + promised) * page, sampled, windows * page)?;
    if best == own {
        return Some(first);
    }
    slow.lock(best);
    let (full, other) = slow.begin_load(best);
    slow.make_room(full);
    slow.make_other_room(other);
    if slow.resident()[1] + other <= slow.rules.other {
        slow.end_load(best);
        slow.unlock(own);
        slow.anchor = best;
        return Some(first);
    }
    slow.abandon_load(best);
    slow.unlock(best);
    if promised > 0 { first_step(slow, n - hits * page, sampled, 0) } else { Some(first) }
}

fn first_step(slow: &SlowOverHost, rest: u64, sampled: u64, loaded: u64) -> Option<u64> {
    let SlowHostRules { page, chunk, other, window, .. } = slow.rules;
    let window = window.expect("windows");
    let needed =
        |rest: u64| rest.min(chunk).saturating_sub(window) + (rest + sampled).min(window) + page + loaded;
    let free = slow.unlocked_other() * page as i64;
    let counted = rest.next_multiple_of(page);
    if (needed(counted) as i64) < free {
        return Some(chunk);
    }
    let step = (free - needed(0) as i64) / page as i64 * page as i64;
    (needed(counted) >= other * page && step > 0).then(|| chunk.min(step as u64))
}

/// A request over a pool of windows on its way, in pages from its beginning.
struct SlowWindowsRequest {
    allocated: u64,
    protected: u64,
    passed: u64,
    junction: Option<u64>,
}

impl SlowWindowsRequest {
    fn hold(&self, slow: &mut SlowOverHost) {
        slow.own_full = self.allocated.saturating_sub(self.protected);
        slow.own_other = self.allocated.saturating_sub(self.protected.max(self.passed));
    }

    fn take(&mut self, slow: &mut SlowOverHost, wanted: u64, tokens: u64) {
        self.hold(slow);
        slow.make_room(wanted);
        slow.make_other_room(wanted);
        self.allocated = tokens.div_ceil(slow.rules.page);
        self.hold(slow);
    }

    fn prefill(&mut self, slow: &mut SlowOverHost, n: u64, first: u64) -> bool {
        let SlowHostRules { page, chunk, .. } = slow.rules;
        let mut done = self.allocated * page;
        let mut limit = first;
        let mut counted = (n - done).next_multiple_of(page);
        loop {
            let step = if counted <= limit { n - done } else { limit / page * page };
            if step == 0 {
                return false;
            }
            done += step;
            self.take(slow, (step + spare_tokens(page)).div_ceil(page), done);
            if done == n {
                return true;
            }
            slow.next_step();
            self.checkpoint(slow, done, false);
            let free = (slow.unlocked_other() - 1).max(0) as u64 * page;
            (limit, counted) = (chunk.min(free), n - done);
        }
    }

    /// One token more; `false` where there is no room for its page, so that the engine ends the request.
    fn decode(&mut self, slow: &mut SlowOverHost, n: u64, token: u64) -> bool {
        slow.next_step();
        let SlowHostRules { page, window, other, .. } = slow.rules;
        let computed = n + token - 1;
        if computed.is_multiple_of(page) {
            slow.make_room(1);
            slow.make_other_room(1);
            if slow.resident()[1] + slow.own_other >= other {
                return false;
            }
        }
        if token >= 2 && computed >= window.expect("windows") + self.passed * page + 128 {
            self.slide(slow, computed);
        }
        self.take(slow, 1, n + token);
        true
    }

    fn slide(&mut self, slow: &mut SlowOverHost, computed: u64) {
        let SlowHostRules { page, window, .. } = slow.rules;
        let window = window.expect("windows");
        if computed > window + self.passed * page {
            let kept = window.max(page).div_ceil(page) * page;
            self.passed = self.passed.max(self.protected).max(computed.saturating_sub(kept) / page);
            self.hold(slow);
        }
    }

    fn checkpoint(&mut self, slow: &mut SlowOverHost, computed: u64, is_finished: bool) {
        let page = slow.rules.page;
        let junction = self.junction.filter(|pages| *pages > self.protected && pages * page <= computed);
        let tokens = junction.map_or(computed, |pages| pages * page);
        if !is_finished {
            self.slide(slow, tokens - 1);
        }
        let pages = tokens / page;
        let (protected, passed) = (self.protected, self.passed);
        let (end, is_leaf) = slow.insert(pages as usize, |slow, node, end| {
            // What the request inserted or found before keeps what it has.
            if end > protected && !slow.nodes[node].other {
                slow.keep_from(node, end, passed, u64::MAX);
            }
        });
        if is_leaf {
            let tail = slow.rules.window.expect("windows").div_ceil(page);
            slow.keep_from(end, pages, passed, tail);
        }
        slow.refresh(end);
        if end != 0 {
            slow.end_insert(end, is_leaf, pages);
        }
        slow.unlock(slow.anchor);
        slow.lock(end);
        slow.anchor = end;
        (self.protected, slow.inserted) = (pages, pages);
        if junction.is_some() {
            self.junction = None;
            if !is_finished {
                self.slide(slow, computed - 1);
            }
        }
        self.hold(slow);
    }
}
