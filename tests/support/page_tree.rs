//! SGLang's radix tree a page at a time, alongside a pool of windows or of states: every page by its parent and its
//! id, nodes as marks at their last pages, both orders of eviction by stamp. Answers are not cached.

use std::collections::{BTreeMap, HashMap, HashSet};

/// What the other pool holds, in its own units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Other {
    /// Pages of windows of so many tokens before the one that looks.
    Windows(u64),
    /// States at the ends of nodes.
    States,
}

/// Sizes of the pools, tokens a page and tokens a step.
#[derive(Debug, Clone, Copy)]
pub struct PageRules {
    pub other: Other,
    pub full: u64,
    pub held: u64,
    pub page: u64,
    pub chunk: u64,
}

#[derive(Debug, Clone, Default)]
struct Page {
    parent: usize,
    id: u64,
    depth: u64,
    /// Pages behind it, and the first of them.
    children: u32,
    next: usize,
    /// The stamp of the node that ends with it.
    stamp: Option<u64>,
    /// Its rank in the other pool, where that holds it.
    rank: Option<u64>,
}

#[derive(Debug)]
pub struct PageTree {
    rules: PageRules,
    pages: Vec<Page>,
    vacant: Vec<usize>,
    by_id: HashMap<(usize, u64), usize>,
    leaves: BTreeMap<u64, usize>,
    order: BTreeMap<(u64, u64), usize>,
    present: u64,
    held: u64,
    clock: u64,
    /// Ends of nodes on the path of the request being served, and those that are locked in the other pool.
    locked: [HashSet<usize>; 2],
    /// Pages that the request has, that the tree has of them, and that the window has passed.
    allocated: u64,
    protected: u64,
    passed: u64,
}

impl PageTree {
    pub fn new(rules: PageRules) -> Self {
        Self {
            rules,
            pages: vec![Page::default()],
            vacant: Vec::new(),
            by_id: HashMap::new(),
            leaves: BTreeMap::new(),
            order: BTreeMap::new(),
            present: 0,
            held: 0,
            clock: 0,
            locked: Default::default(),
            allocated: 0,
            protected: 0,
            passed: 0,
        }
    }

    /// Hits of a request of `n` prompt tokens, which the pools have room for.
    pub fn request(&mut self, ids: &[u64], n: u64) -> u64 {
        let PageRules { other, page, chunk, .. } = self.rules;
        let ids = &ids[..(n / page) as usize];
        let (path, found) = self.walk(&ids[..((n - 1) / page) as usize]);
        let hits = self.look_up(path);
        (self.allocated, self.protected, self.passed) = (hits, hits, 0);
        let grid = page.max(64);
        let mut junction = match other {
            Other::Windows(_) => Some(found * page),
            Other::States => Some(found * page / grid * grid),
        };
        junction = junction.filter(|tokens| *tokens > hits * page);
        if other == Other::States {
            self.free_held(3);
        }
        let mut done = hits * page;
        while done < n {
            let rest = if done == hits * page { (n - done).next_multiple_of(page) } else { n - done };
            let step = if rest <= chunk { n - done } else { chunk / page * page };
            self.make_room(step.div_ceil(page) + 1);
            let begin = done;
            done += step;
            self.allocated = done.div_ceil(page);
            match other {
                Other::Windows(window) => self.insert_windows(ids, window, done, done == n, &mut junction),
                Other::States if step >= grid => {
                    let last = begin + step / grid * grid;
                    let is_kept = |at: &u64| *at > begin && *at <= last && (at - begin).is_multiple_of(grid);
                    let kept = junction.filter(is_kept).unwrap_or(last);
                    if done < n {
                        self.free_held(4);
                    }
                    let tip = self.insert(&ids[..(kept / page) as usize], u64::MAX);
                    self.lock(tip);
                    self.protected = kept / page;
                }
                Other::States => {}
            }
        }
        self.locked.iter_mut().for_each(HashSet::clear);
        hits
    }

    fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Follows ids a page at a time; the ends of nodes on the way, the last of them made where there is none, and
    /// pages.
    fn walk(&mut self, ids: &[u64]) -> (Vec<usize>, u64) {
        let (mut at, mut path, mut found) = (0, Vec::new(), 0);
        for id in ids {
            let Some(&next) = self.by_id.get(&(at, *id)) else { break };
            (at, found) = (next, found + 1);
            if self.pages[at].stamp.is_some() {
                path.push(at);
            }
        }
        if at != 0 && self.pages[at].stamp.is_none() {
            self.split(at);
            path.push(at);
        }
        (path, found)
    }

    /// Makes a page the end of a node.
    fn split(&mut self, at: usize) {
        let mut lower = at;
        while self.pages[lower].stamp.is_none() {
            lower = self.pages[lower].next;
        }
        self.pages[at].stamp = Some(self.now());
        self.touch(lower);
        if let (Some(rank), Other::Windows(_)) = (self.pages[lower].rank, self.rules.other) {
            self.pages[at].rank = Some(rank);
            self.order.insert((rank, self.pages[at].depth), at);
        }
    }

    fn touch(&mut self, end: usize) {
        let now = self.now();
        let before = self.pages[end].stamp.replace(now);
        if before.is_some_and(|before| self.leaves.remove(&before).is_some()) {
            self.leaves.insert(now, end);
        }
    }

    /// Pages of the node that ends here.
    fn node(&self, end: usize) -> u64 {
        let (mut at, mut pages) = (self.pages[end].parent, 1);
        while at != 0 && self.pages[at].stamp.is_none() {
            (at, pages) = (self.pages[at].parent, pages + 1);
        }
        pages
    }

    /// What the other pool has of a node.
    fn units(&self, end: usize) -> u64 {
        if self.rules.other == Other::States { 1 } else { self.node(end) }
    }

    /// Ends of nodes from here up.
    fn above(&self, end: usize) -> Vec<usize> {
        let up = |at: &usize| Some(self.pages[*at].parent).filter(|parent| *parent != 0);
        let pages = std::iter::successors(Some(end).filter(|end| *end != 0), up);
        pages.filter(|at| self.pages[*at].stamp.is_some()).collect()
    }

    /// Keeps of a path what can be gone on from, stamps and locks it; its pages.
    fn look_up(&mut self, mut path: Vec<usize>) -> u64 {
        let (mut anchor, mut unbroken) = (0, u64::MAX);
        for (place, end) in path.iter().enumerate() {
            let is_held = self.pages[*end].rank.is_some();
            unbroken = if is_held { unbroken.saturating_add(self.node(*end) * self.rules.page) } else { 0 };
            let is_enough = match self.rules.other {
                Other::Windows(window) => is_held && unbroken >= window,
                Other::States => is_held,
            };
            anchor = if is_enough { place + 1 } else { anchor };
        }
        path.truncate(anchor);
        let tip = path.last().copied().unwrap_or(0);
        self.refresh(tip);
        path.iter().for_each(|end| self.touch(*end));
        self.lock(tip);
        self.pages[tip].depth
    }

    fn lock(&mut self, tip: usize) {
        let above = self.above(tip);
        let mut covered = 0;
        let mut of_other = HashSet::new();
        for end in &above {
            let is_locked = match self.rules.other {
                Other::Windows(window) => covered < window,
                Other::States => *end == tip,
            };
            if is_locked {
                of_other.insert(*end);
            }
            covered += self.node(*end) * self.rules.page;
        }
        self.locked = [above.into_iter().collect(), of_other];
    }

    /// The newest of the other pool: a state alone, or a window and a page more, the deepest last.
    fn refresh(&mut self, tip: usize) {
        let mut covered = 0;
        let mut renewed = Vec::new();
        for end in self.above(tip) {
            let is_near = match self.rules.other {
                Other::Windows(window) => covered < window + self.rules.page,
                Other::States => end == tip,
            };
            if !is_near {
                break;
            }
            if self.pages[end].rank.is_some() {
                renewed.push(end);
            }
            covered += self.node(end) * self.rules.page;
        }
        for end in renewed.into_iter().rev() {
            self.drop(end);
            self.hold(end);
        }
    }

    fn hold(&mut self, end: usize) {
        let rank = self.now();
        self.pages[end].rank = Some(rank);
        self.order.insert((rank, self.pages[end].depth), end);
        self.held += self.units(end);
    }

    fn drop(&mut self, end: usize) {
        if let Some(rank) = self.pages[end].rank.take() {
            self.order.remove(&(rank, self.pages[end].depth));
            self.held -= self.units(end);
        }
    }

    /// Inserts ids; the other pool takes what it lacks behind the protected pages, of a new node the last `tail`
    /// pages apart.
    fn insert(&mut self, ids: &[u64], tail: u64) -> usize {
        let (mut at, mut depth) = (0, 0);
        // As the engine does, every node is stamped before it is left.
        while let Some(&first) = ids.get(depth as usize).and_then(|id| self.by_id.get(&(at, *id))) {
            let mut end = first;
            while self.pages[end].stamp.is_none() {
                end = self.pages[end].next;
            }
            self.touch(end);
            at = first;
            depth += 1;
            while self.pages[at].stamp.is_none()
                && let Some(&next) = ids.get(depth as usize).and_then(|id| self.by_id.get(&(at, *id)))
            {
                (at, depth) = (next, depth + 1);
            }
            if self.pages[at].stamp.is_none() {
                self.split(at);
            }
            let is_lacking = depth > self.protected && self.pages[at].rank.is_none();
            if is_lacking && self.rules.other != Other::States {
                self.hold_from(at, u64::MAX);
            }
        }
        if (depth as usize) < ids.len() {
            if self.pages[at].children == 0 && at != 0 {
                let stamp = self.pages[at].stamp.expect("the end of a node");
                self.leaves.remove(&stamp);
            }
            for id in &ids[depth as usize..] {
                at = self.add(at, *id);
            }
            let now = self.now();
            self.pages[at].stamp = Some(now);
            self.leaves.insert(now, at);
            match self.rules.other {
                Other::Windows(_) => self.hold_from(at, tail),
                Other::States => self.hold(at),
            }
        } else if self.rules.other == Other::States {
            self.touch(at);
            if self.pages[at].rank.is_none() {
                self.hold(at);
            }
        }
        self.refresh(at);
        at
    }

    fn add(&mut self, parent: usize, id: u64) -> usize {
        let depth = self.pages[parent].depth + 1;
        let page = Page { parent, id, depth, ..Page::default() };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.pages[at] = page;
                at
            }
            None => {
                self.pages.push(page);
                self.pages.len() - 1
            }
        };
        self.by_id.insert((parent, id), at);
        self.pages[parent].children += 1;
        self.pages[parent].next = at;
        self.present += 1;
        at
    }

    /// The pool of windows takes a node from where the window has not passed it, its last `tail` pages as a node of
    /// their own.
    fn hold_from(&mut self, end: usize, tail: u64) {
        let last = self.pages[end].depth;
        let first = last - self.node(end);
        let live = first.max(self.passed);
        if live >= last {
            return;
        }
        if live > first {
            let at = self.page_at(end, live);
            self.split(at);
        }
        if last - live > tail {
            let at = self.page_at(end, last - tail);
            self.split(at);
            self.hold(at);
        }
        self.hold(end);
    }

    fn page_at(&self, mut at: usize, depth: u64) -> usize {
        while self.pages[at].depth > depth {
            at = self.pages[at].parent;
        }
        at
    }

    /// What is computed so far, or what lies before the junction the first time, is inserted.
    fn insert_windows(
        &mut self,
        ids: &[u64],
        window: u64,
        done: u64,
        is_last: bool,
        junction: &mut Option<u64>,
    ) {
        let page = self.rules.page;
        let at = junction.filter(|tokens| *tokens > self.protected * page && *tokens <= done);
        let tokens = at.unwrap_or(done);
        if !is_last {
            self.slide(tokens - 1, window);
        }
        let tip = self.insert(&ids[..(tokens / page) as usize], window.div_ceil(page));
        self.lock(tip);
        self.protected = tokens / page;
        if at.is_some() {
            *junction = None;
            if !is_last {
                self.slide(done - 1, window);
            }
        }
    }

    fn slide(&mut self, computed: u64, window: u64) {
        let page = self.rules.page;
        if computed > window + self.passed * page {
            let kept = window.max(page).next_multiple_of(page);
            self.passed = self.passed.max(self.protected).max(computed.saturating_sub(kept) / page);
        }
    }

    fn make_room(&mut self, wanted: u64) {
        let own = self.allocated - self.protected;
        while self.present + own + wanted > self.rules.full {
            let locked = &self.locked[0];
            let Some(end) = self.leaves.values().copied().find(|end| !locked.contains(end)) else { break };
            self.remove(end);
        }
        if self.rules.other != Other::States {
            let own = self.allocated.saturating_sub(self.protected.max(self.passed));
            self.free_held(own + wanted);
        }
    }

    /// Frees so many units of the other pool.
    fn free_held(&mut self, wanted: u64) {
        while self.held + wanted > self.rules.held {
            let locked = &self.locked[1];
            let Some(end) = self.order.values().copied().find(|end| !locked.contains(end)) else { return };
            match self.pages[end].children == 0 && !self.locked[0].contains(&end) {
                true => self.remove(end),
                false => self.drop(end),
            }
        }
    }

    fn remove(&mut self, end: usize) {
        self.drop(end);
        let stamp = self.pages[end].stamp.take().expect("the end of a node");
        self.leaves.remove(&stamp);
        let mut at = end;
        loop {
            let Page { parent, id, .. } = self.pages[at];
            self.by_id.remove(&(parent, id));
            self.vacant.push(at);
            self.present -= 1;
            self.pages[parent].children -= 1;
            at = parent;
            if at == 0 || self.pages[at].stamp.is_some() {
                break;
            }
        }
        if at != 0 && self.pages[at].children == 0 {
            self.leaves.insert(self.pages[at].stamp.expect("the end of a node"), at);
        }
    }
}
