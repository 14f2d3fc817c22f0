//! vLLM's pool of blocks shared by several groups, transcribed step by step: a block at a time, each with
//! its place in one linked list of free blocks, names in a map (docs/engines/vllm.md, hybrid attention).

use super::slow_load::SlowCache;
use std::collections::HashMap;

/// What one group keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Full,
    Window(u64),
    Mamba,
}

/// Which pages of the groups alongside the full ones are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retain {
    All,
    Ends,
    Every(u64),
}

type Block = usize;
type Page = u64;

#[derive(Debug, Clone)]
pub struct SlowHybrid {
    pub(super) groups: Vec<Kind>,
    pub(super) page: u64,
    pub(super) retain: Retain,
    pub(super) chunk: u64,
    pub(super) outputs_cached: bool,
    /// Tokens that a head of the model's own drafts at a time; 0 where none does.
    pub(super) drafted: u64,
    /// Whether full groups and windows hold layers of it.
    pub(super) head_in: [bool; 2],
    /// Every page by the one before it and its id.
    pub(super) pages: HashMap<(Page, u64), Page>,
    pub(super) next_page: Page,
    pub(super) names: HashMap<(usize, Page), Vec<Block>>,
    pub(super) name_of: Vec<Option<(usize, Page)>>,
    pub(super) unnamed: Vec<Block>,
    /// Requests in flight that hold a block.
    pub(super) holders: Vec<u32>,
    /// The named free blocks, freed longest ago first; the place after the last block is the sentinel.
    pub(super) before: Vec<Block>,
    pub(super) after: Vec<Block>,
    /// How many they are.
    pub(super) queued: usize,
}

/// A request in flight.
#[derive(Debug, Default, Clone)]
pub struct SlowRequest {
    pub(super) tables: Vec<Table>,
    pub(super) path: Vec<Page>,
    /// Tokens looked up and those of the prompt, tokens stored in the end, and tokens stored so far.
    pub(super) n: u64,
    pub(super) prompt: u64,
    pub(super) stored: u64,
    pub(super) done: u64,
    pub(super) hits: u64,
    pub(super) named: u64,
    pub(super) is_first: bool,
    pub(super) ends: Vec<(u64, u64)>,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Table {
    pub(super) blocks: Vec<Option<Block>>,
    pub(super) last_state: Option<usize>,
}

impl SlowHybrid {
    pub fn new(groups: &[Kind], capacity: u64, page: u64, retain: Retain, chunk: u64, outputs: bool) -> Self {
        let capacity = capacity as usize;
        let mut ends = vec![usize::MAX; capacity + 1];
        ends[capacity] = capacity;
        Self {
            groups: groups.to_vec(),
            page,
            retain,
            chunk,
            outputs_cached: outputs,
            queued: 0,
            drafted: 0,
            head_in: [false; 2],
            pages: HashMap::new(),
            next_page: 1,
            names: HashMap::new(),
            name_of: vec![None; capacity],
            unnamed: (0..capacity).collect(),
            holders: vec![0; capacity],
            before: ends.clone(),
            after: ends,
        }
    }

    /// The same of a model whose head drafts so many tokens at a time, with layers in full groups, in windows, or in
    /// both.
    pub fn drafting(self, drafted: u64, head_in: [bool; 2]) -> Self {
        Self { drafted, head_in, ..self }
    }

    /// Whether groups of a kind lose the last page that they find (`is_eagle_group`).
    pub(super) fn is_of_head(&self, kind: Kind) -> bool {
        let [in_full, in_windows] = self.head_in;
        self.drafted > 0
            && match kind {
                Kind::Full => in_full,
                Kind::Window(_) => in_windows,
                Kind::Mamba => false,
            }
    }

    /// Whether the groups alongside the full ones do.
    pub(super) fn is_of_others_head(&self) -> bool {
        self.others().first().is_some_and(|group| self.is_of_head(self.groups[*group]))
    }

    /// Hits of a request in pages; `None` where blocks run out, which leaves the model useless.
    pub fn request(&mut self, ids: &[u64], n: u64, sampled: u64, known_outputs: &[u64]) -> Option<u64> {
        let mut request = self.begin_request(ids, n, sampled, known_outputs)?;
        while request.done < request.stored {
            self.decode_one(&mut request)?;
        }
        let hits = request.hits;
        self.finish_request(request);
        Some(hits)
    }

    /// Looks a request up and computes its prompt; `None` as above.
    fn begin_request(
        &mut self,
        ids: &[u64],
        n: u64,
        sampled: u64,
        known_outputs: &[u64],
    ) -> Option<SlowRequest> {
        let stored = if self.outputs_cached && sampled >= 1 { n + sampled - 1 } else { n };
        let path = self.path(&ids[..(n / self.page) as usize], known_outputs, (stored / self.page) as usize);
        self.begin_at(SlowRequest { path, n, prompt: n, stored, ..SlowRequest::default() })
    }

    /// The same of a request with this path, of whose tokens `n` are there.
    fn begin_at(&mut self, mut request: SlowRequest) -> Option<SlowRequest> {
        let (size, n, prompt) = (self.page, request.n, request.prompt);
        let (hits, junction) = self.lookup(&request.path, n);
        let limit = prompt.saturating_sub(1) / size;
        request.ends = self.ends(limit, prompt / size, junction);
        let limit = if self.drafted > 0 { (prompt / size).saturating_sub(1) } else { limit };
        request.tables = vec![Table::default(); self.groups.len()];
        (request.hits, request.named, request.done, request.is_first) = (hits, hits, hits * size, true);
        self.pin(&mut request.tables, &request.path, hits);
        while request.done < n {
            let next = self.chunk_end(request.done, n, limit, junction);
            self.step(&mut request, next)?;
        }
        Some(request)
    }

    /// Computes one token of the output; `None` where blocks run out, which leaves the pool as it was.
    pub(super) fn decode_one(&mut self, request: &mut SlowRequest) -> Option<()> {
        let next = request.done + 1;
        self.step(request, next)
    }

    pub(super) fn step(&mut self, request: &mut SlowRequest, next: u64) -> Option<()> {
        if !request.is_first {
            self.free_passed(&mut request.tables, request.done);
        }
        self.take(&mut request.tables, next)?;
        for page in request.named..next / self.page {
            self.name(&request.tables, &request.path, page, &request.ends);
        }
        request.named = next / self.page;
        (request.done, request.is_first) = (next, false);
        Some(())
    }

    /// Gives back all that a request holds.
    pub(super) fn finish_request(&mut self, request: SlowRequest) {
        for block in request.tables.iter().flat_map(|table| table.blocks.iter().rev()).flatten() {
            self.free(*block);
        }
    }

    /// Lets a request that was preempted go on, with all tokens that it has; `None` as for [`SlowHybrid::request`].
    fn resume_request(&mut self, preempted: &SlowRequest) -> Option<SlowRequest> {
        self.begin_at(SlowRequest { n: (preempted.done + 1).min(preempted.stored), ..preempted.clone() })
    }

    fn free_blocks(&self) -> usize {
        self.unnamed.len() + self.queued
    }

    /// Named blocks in the pool.
    pub fn resident(&self) -> u64 {
        self.name_of.iter().flatten().count() as u64
    }

    pub(super) fn path(&mut self, ids: &[u64], known: &[u64], stored: usize) -> Vec<Page> {
        let mut path = Vec::new();
        for id in ids.iter().chain(known).take(stored) {
            let key = (path.last().copied().unwrap_or(0), *id);
            let page = *self.pages.entry(key).or_insert(self.next_page);
            self.next_page = self.next_page.max(page + 1);
            path.push(page);
        }
        while path.len() < stored {
            path.push(self.next_page);
            self.next_page += 1;
        }
        path
    }

    fn is_named(&self, group: usize, page: Page) -> bool {
        self.names.contains_key(&(group, page))
    }

    fn need(&self) -> u64 {
        let windows = self.groups.iter().map(|kind| match kind {
            Kind::Full => 0,
            Kind::Window(tokens) => (tokens - 1).div_ceil(self.page),
            Kind::Mamba => 1,
        });
        windows.max().unwrap_or(0)
    }

    fn others(&self) -> Vec<usize> {
        (0..self.groups.len()).filter(|group| self.groups[*group] != Kind::Full).collect()
    }

    /// Hits and junction of a request of `n` tokens. What a group with layers of the head finds ends at most one page
    /// behind what may be found, and loses its last page; a pool of one group looks no further than others.
    pub(super) fn lookup(&self, path: &[Page], n: u64) -> (u64, u64) {
        let full: Vec<usize> = (0..self.groups.len()).filter(|g| self.groups[*g] == Kind::Full).collect();
        let in_full = |page: &&Page| full.iter().all(|group| self.is_named(*group, **page));
        let most =
            |most: u64, looks_behind: bool| ((most + u64::from(looks_behind)).min(n / self.page)) as usize;
        let has_lost = self.is_of_head(Kind::Full);
        let in_full_most = most(n.saturating_sub(1) / self.page, has_lost && self.groups.len() > 1);
        let mut leading = path[..in_full_most].iter().take_while(in_full).count();
        leading -= usize::from(has_lost && leading > 0);
        let others = self.others();
        if others.is_empty() {
            return (leading as u64, 0);
        }
        let lost = u64::from(self.is_of_others_head());
        let need = self.need() + lost;
        let mut run = 0;
        let mut hits = 0;
        for at in (0..most(leading as u64, lost > 0)).rev() {
            let there = others.iter().all(|group| self.is_named(*group, path[at]));
            run = if there { run + 1 } else { 0 };
            if run == need {
                hits = at as u64 + need;
                break;
            }
        }
        if hits == 0 && self.groups[others[0]] != Kind::Mamba {
            hits = run;
        }
        hits = hits.saturating_sub(lost);
        (hits, if leading as u64 > hits { leading as u64 } else { 0 })
    }

    /// The pages of windows and states that are kept, as ranges: those before places to go on from, and, with a draft
    /// head, the page behind such a place of a window.
    pub(super) fn ends(&self, limit: u64, full: u64, junction: u64) -> Vec<(u64, u64)> {
        let need = self.need();
        if self.drafted == 0 {
            return [limit, junction].map(|end| (end.saturating_sub(need), end)).into();
        }
        let behind = u64::from(self.is_of_others_head());
        let mut ends = vec![limit.saturating_sub(1), full.saturating_sub(1)];
        if junction > 0 {
            ends.push(junction);
            ends.extend((behind > 0).then_some(junction - 1));
        }
        ends.into_iter().map(|end| (end.saturating_sub(need), end + behind)).collect()
    }

    pub(super) fn chunk_end(&self, done: u64, n: u64, limit: u64, junction: u64) -> u64 {
        let mut next = (done + self.chunk).min(n);
        if !self.groups.contains(&Kind::Mamba) {
            return next;
        }
        let (limit, junction) = (limit * self.page, junction * self.page);
        if next < n {
            next = next / self.page * self.page;
        }
        if done < limit && limit < next {
            next = limit;
        }
        if done < junction && junction < next {
            next = junction;
        }
        next
    }

    pub(super) fn pin(&mut self, tables: &mut [Table], path: &[Page], hits: u64) {
        let need = self.need();
        for (group, table) in tables.iter_mut().enumerate() {
            let from = match self.groups[group] {
                Kind::Full => 0,
                _ => hits.saturating_sub(need),
            };
            for at in 0..hits {
                let block = (at >= from).then(|| self.names[&(group, path[at as usize])][0]);
                if let Some(block) = block {
                    if self.holders[block] == 0 {
                        self.unlink(block);
                    }
                    self.holders[block] += 1;
                }
                table.blocks.push(block);
            }
        }
    }

    pub(super) fn free_passed(&mut self, tables: &mut [Table], done: u64) {
        for (group, table) in tables.iter_mut().enumerate() {
            let passed = match self.groups[group] {
                Kind::Full => 0,
                Kind::Window(tokens) => (done + 1).saturating_sub(tokens) / self.page,
                Kind::Mamba => done.saturating_sub(1) / self.page,
            };
            for at in (0..(passed as usize).min(table.blocks.len())).rev() {
                match table.blocks[at].take() {
                    Some(block) => self.free(block),
                    None => break,
                }
            }
            if let Some(last) = table.last_state
                && (last as u64 + 1) < done.div_ceil(self.page)
                && let Some(block) = table.blocks[last].take()
            {
                self.free(block);
            }
        }
    }

    fn take(&mut self, tables: &mut [Table], next: u64) -> Option<()> {
        let wanted = |group: usize, table: &Table| {
            let drafted = if self.groups[group] == Kind::Mamba { 0 } else { self.drafted };
            let wanted = ((next + drafted).div_ceil(self.page) as usize).saturating_sub(table.blocks.len());
            if self.groups[group] == Kind::Mamba { wanted.min(1) } else { wanted }
        };
        if tables.iter().enumerate().map(|(group, table)| wanted(group, table)).sum::<usize>()
            > self.free_blocks()
        {
            return None;
        }
        for (group, table) in tables.iter_mut().enumerate() {
            let drafted = if self.groups[group] == Kind::Mamba { 0 } else { self.drafted };
            let wanted = (next + drafted).div_ceil(self.page) as usize;
            if table.blocks.len() >= wanted {
                continue;
            }
            if self.groups[group] == Kind::Mamba {
                table.last_state = table.blocks.len().checked_sub(1);
                table.blocks.resize(wanted - 1, None);
            }
            while table.blocks.len() < wanted {
                table.blocks.push(Some(self.take_one()?));
            }
        }
        Some(())
    }

    pub(super) fn take_one(&mut self) -> Option<Block> {
        if let Some(block) = self.unnamed.pop() {
            self.holders[block] = 1;
            return Some(block);
        }
        let sentinel = self.name_of.len();
        let block = Some(self.after[sentinel]).filter(|block| *block != sentinel)?;
        self.unlink(block);
        self.holders[block] = 1;
        let name = self.name_of[block].take()?;
        let holders = self.names.get_mut(&name)?;
        holders.retain(|other| *other != block);
        if holders.is_empty() {
            self.names.remove(&name);
        }
        Some(block)
    }

    pub(super) fn name(&mut self, tables: &[Table], path: &[Page], page: u64, ends: &[(u64, u64)]) {
        let need = self.need();
        let tail = |(from, to): &(u64, u64)| (*from..*to).contains(&page);
        let behind = u64::from(self.is_of_others_head());
        let kept = match self.retain {
            Retain::All => true,
            Retain::Ends => ends.iter().any(tail),
            Retain::Every(tokens) => {
                let every = tokens / self.page;
                // The next multiple from which on the page is not the one behind a place to go on from.
                let next = (page.saturating_sub(behind) / every + 1) * every;
                let of_interval = [next, next.saturating_sub(every)];
                let of_interval = of_interval.into_iter().filter(|end| *end > 0);
                let mut of_interval = of_interval.map(|end| (end.saturating_sub(need), end + behind));
                let is_dense = behind > 0 && need + behind >= every;
                is_dense || ends.iter().any(tail) || of_interval.any(|range| tail(&range))
            }
        };
        for (group, table) in tables.iter().enumerate() {
            let wanted = self.groups[group] == Kind::Full || kept;
            if let Some(block) = table.blocks[page as usize].filter(|_| wanted) {
                let name = (group, path[page as usize]);
                self.name_of[block] = Some(name);
                self.names.entry(name).or_default().push(block);
            }
        }
    }

    fn free(&mut self, block: Block) {
        self.holders[block] -= 1;
        if self.holders[block] > 0 {
            return;
        }
        if self.name_of[block].is_none() {
            self.unnamed.push(block);
            return;
        }
        let sentinel = self.name_of.len();
        let last = self.before[sentinel];
        (self.before[block], self.after[block]) = (last, sentinel);
        self.after[last] = block;
        self.before[sentinel] = block;
        self.queued += 1;
    }

    pub(super) fn unlink(&mut self, block: Block) {
        self.queued -= 1;
        let (before, after) = (self.before[block], self.after[block]);
        self.after[before] = after;
        self.before[after] = before;
    }
}

/// A request: the ids of its pages, the tokens of its prompt, those it generates, and the ids of its output's pages.
pub struct SlowAsked<'a> {
    pub ids: &'a [u64],
    pub input: u64,
    pub output: u64,
    pub known_outputs: &'a [u64],
}

/// The pool under load; what it is asked borrows from the test.
#[derive(Clone)]
pub struct SlowPool<'a> {
    pub pool: SlowHybrid,
    pub asked: std::marker::PhantomData<&'a ()>,
}

impl<'a> SlowCache for SlowPool<'a> {
    type Asked = SlowAsked<'a>;
    type Request = SlowRequest;

    fn begin(&mut self, asked: &SlowAsked<'a>) -> Option<SlowRequest> {
        self.pool.begin_request(asked.ids, asked.input, asked.output, asked.known_outputs)
    }

    fn hits(request: &SlowRequest) -> u64 {
        request.hits
    }

    fn stored(request: &SlowRequest) -> (u64, u64) {
        (request.done - request.prompt, request.stored - request.prompt)
    }

    fn decode(&mut self, request: &mut SlowRequest) -> Option<()> {
        self.pool.decode_one(request)
    }

    fn finish(&mut self, request: SlowRequest) {
        self.pool.finish_request(request);
    }

    fn resume(&mut self, preempted: &SlowRequest) -> Option<SlowRequest> {
        self.pool.resume_request(preempted)
    }
}
