//! The pool over vLLM's tier in host memory: vLLM's connector and manager transcribed, a key at a time
//! (docs/engines/vllm.md).

use super::slow_hybrid::{Kind, Retain, SlowHybrid, SlowRequest, Table};
use super::slow_manager::{Key, SlowManager};
use std::collections::HashSet;

/// What the connector knows of the request it serves.
struct Connected {
    /// Keys of each group's chunks, and the blocks that it has noted of each group's pages.
    keys: Vec<Vec<Key>>,
    blocks: Vec<Vec<Option<usize>>>,
    next: usize,
    ends: Vec<u64>,
}

impl SlowHybrid {
    /// Hits of a request in the pool, and pages that the tier had behind them; `None` where blocks run out.
    pub fn request_over(
        &mut self,
        (ids, n, sampled): (&[u64], u64, u64),
        known_outputs: &[u64],
        tier: &mut SlowManager,
    ) -> Option<(u64, u64)> {
        let stored = if self.outputs_cached && sampled >= 1 { n + sampled - 1 } else { n };
        let path = self.path(&ids[..(n / self.page) as usize], known_outputs, (stored / self.page) as usize);
        let limit = n.saturating_sub(1) / self.page;
        let (hits, junction) = self.lookup(&path, n);
        let ends = self.ends(limit, n / self.page, junction);
        let limit = if self.drafted > 0 { (n / self.page).saturating_sub(1) } else { limit };
        let mut request = SlowRequest { path, n, prompt: n, stored, hits, ends, ..SlowRequest::default() };
        (request.named, request.is_first) = (hits, true);
        let chunk = tier.pages_a_chunk as usize;
        let full = (n / self.page) as usize / chunk;
        let key = |group: usize| (0..full).map(|at| (request.path[(at + 1) * chunk - 1], group)).collect();
        let keys: Vec<Vec<Key>> = (0..self.groups.len()).map(key).collect();
        let size = tier.pages_a_chunk * self.page;
        let mut own = Connected {
            keys,
            blocks: Vec::new(),
            next: 0,
            ends: [Some(n.saturating_sub(1)), Some(junction * self.page).filter(|end| *end > 0)]
                .into_iter()
                .flatten()
                .collect(),
        };
        tier.begin(own.keys.iter().flat_map(|keys| (1i64..).zip(keys.iter().copied())));
        let found = self.look_up_below(&own, tier, n, hits * self.page);
        let start = hits * self.page + found;
        if found > 0 {
            self.load_below(&mut request, start)?;
            own.next = start.div_ceil(size) as usize;
            let loaded: Vec<Key> = (0..self.groups.len())
                .flat_map(|group| {
                    let from = self.skipped(group, start).max(hits) / tier.pages_a_chunk;
                    own.keys[group][from as usize..own.next].to_vec()
                })
                .collect();
            tier.load(&loaded);
        } else {
            request.tables = vec![Table::default(); self.groups.len()];
            self.pin(&mut request.tables, &request.path.clone(), hits);
            request.done = start;
        }
        let mut states = self.name_up_to(&mut request, start);
        let mut taken = Vec::new();
        let mut is_new = true;
        while request.done < n {
            let next = self.chunk_end(request.done, n, limit, junction);
            let before: Vec<Vec<Option<usize>>> =
                request.tables.iter().map(|table| table.blocks.clone()).collect();
            let named = request.named;
            self.step(&mut request, next)?;
            states.extend(self.states_since(&request, named));
            self.note(&mut own, &request, (is_new, &before), tier.pages_a_chunk as usize, &mut taken);
            is_new = false;
            self.offer_below(&mut own, &states, request.done, tier);
            states.clear();
        }
        while request.done < stored {
            let before: Vec<Vec<Option<usize>>> =
                request.tables.iter().map(|table| table.blocks.clone()).collect();
            self.decode_one(&mut request)?;
            self.note(&mut own, &request, (is_new, &before), tier.pages_a_chunk as usize, &mut taken);
            is_new = false;
            self.offer_below(&mut own, &[], n, tier);
        }
        self.free_passed(&mut request.tables, request.done);
        self.finish_request(request);
        self.offer_below(&mut own, &[], n, tier);
        tier.finish();
        Some((hits, found / self.page))
    }

    /// Pages that a group needs no more once so many tokens are there.
    fn skipped(&self, group: usize, tokens: u64) -> u64 {
        match self.groups[group] {
            Kind::Full => 0,
            Kind::Window(window) => (tokens + 1).saturating_sub(window) / self.page,
            Kind::Mamba => tokens.saturating_sub(1) / self.page,
        }
    }

    /// Names what is full by so many tokens; the pages of the states among it.
    fn name_up_to(&mut self, request: &mut SlowRequest, tokens: u64) -> Vec<u64> {
        let named = request.named;
        for page in named..tokens / self.page {
            self.name(&request.tables, &request.path, page, &request.ends);
        }
        request.named = request.named.max(tokens / self.page);
        self.states_since(request, named)
    }

    /// Pages of states that have got names since.
    fn states_since(&self, request: &SlowRequest, named: u64) -> Vec<u64> {
        let Some(group) = self.groups.iter().position(|kind| *kind == Kind::Mamba) else { return Vec::new() };
        let is_named = |page: &u64| {
            let block = request.tables[group].blocks.get(*page as usize).copied().flatten();
            block.is_some_and(|block| self.name_of[block].is_some())
        };
        (named..request.named).filter(is_named).collect()
    }

    fn load_below(&mut self, request: &mut SlowRequest, start: u64) -> Option<()> {
        let end = start.div_ceil(self.page);
        let mut tables = vec![Table::default(); self.groups.len()];
        let hits = request.hits;
        for (group, table) in tables.iter_mut().enumerate() {
            let low = self.skipped(group, start);
            for at in 0..hits.max(low) {
                let block = (at >= low).then(|| self.names[&(group, request.path[at as usize])][0]);
                if let Some(block) = block {
                    if self.holders[block] == 0 {
                        self.unlink(block);
                    }
                    self.holders[block] += 1;
                }
                table.blocks.push(block);
            }
        }
        for table in &mut tables {
            while (table.blocks.len() as u64) < end {
                table.blocks.push(Some(self.take_one()?));
            }
        }
        request.tables = tables;
        (request.done, request.is_first) = (start, false);
        Some(())
    }

    /// Notes the blocks that a step has brought; those of windows that were taken anew meanwhile are forgotten.
    fn note(
        &self,
        own: &mut Connected,
        request: &SlowRequest,
        (is_new, before): (bool, &[Vec<Option<usize>>]),
        chunk: usize,
        taken: &mut Vec<usize>,
    ) {
        taken.clear();
        let mut ends: Vec<usize> = own.blocks.iter().map(Vec::len).collect();
        if is_new {
            own.blocks = request.tables.iter().map(|table| table.blocks.clone()).collect();
            ends = vec![0; own.blocks.len()];
        } else {
            for (group, table) in request.tables.iter().enumerate() {
                let new = &table.blocks[before[group].len()..];
                taken.extend(new.iter().flatten());
                own.blocks[group].extend(new);
            }
        }
        for (group, blocks) in own.blocks.iter_mut().enumerate() {
            if self.groups[group] == Kind::Full {
                continue;
            }
            for block in &mut blocks[(own.next * chunk).min(ends[group])..ends[group]] {
                *block = block.filter(|block| !taken.contains(block));
            }
        }
    }

    fn is_kept_below(&self, own: &Connected, window: u64, page: u64, chunk: u64) -> Option<bool> {
        let behind = u64::from(self.is_of_head(Kind::Window(window)));
        let need = (window - 1).div_ceil(self.page) + behind;
        let every = match self.retain {
            Retain::All => Some(chunk),
            Retain::Ends => None,
            Retain::Every(tokens) => Some(tokens / self.page),
        };
        if every.is_some_and(|every| need >= every) {
            return None;
        }
        let of_interval =
            every.is_some_and(|every| page >= behind && (page - behind) % every >= every - need);
        let mut ends = own.ends.iter().map(|tokens| tokens / (chunk * self.page) * chunk + behind);
        let at_end = ends.any(|end| page < end && page >= end.saturating_sub(need));
        Some(of_interval || (at_end && self.retain != Retain::All))
    }

    fn offer_below(&self, own: &mut Connected, states: &[u64], done: u64, tier: &mut SlowManager) {
        tier.step();
        let chunk = tier.pages_a_chunk;
        for group in (0..self.groups.len()).filter(|group| self.groups[*group] == Kind::Mamba) {
            for state in states.iter().filter(|page| (**page + 1).is_multiple_of(chunk)) {
                let at = ((state + 1) / chunk - 1) as usize;
                if let Some(key) = own.keys[group].get(at) {
                    tier.offer(&[*key]);
                }
            }
        }
        let end = ((done / (chunk * self.page)) as usize).min(own.keys[0].len());
        let mut offered = Vec::new();
        for (group, kind) in self.groups.iter().enumerate() {
            for at in own.next..end {
                let pages = at as u64 * chunk..(at as u64 + 1) * chunk;
                let has = |page: u64| own.blocks[group][page as usize].is_some();
                let is_offered = match kind {
                    Kind::Full => true,
                    Kind::Mamba => false,
                    Kind::Window(window) => {
                        let kept = |page: u64| self.is_kept_below(own, *window, page, chunk).unwrap_or(true);
                        has(pages.end - 1)
                            && pages.clone().any(kept)
                            && pages.clone().all(|page| !kept(page) || has(page))
                    }
                };
                offered.extend(is_offered.then(|| own.keys[group][at]));
            }
        }
        if offered.is_empty() || tier.offer(&offered) {
            own.next = own.next.max(end);
        }
    }

    /// Tokens that the tier has behind the pool's, looked up as vLLM does it.
    fn look_up_below(&self, own: &Connected, tier: &SlowManager, n: u64, computed: u64) -> u64 {
        let size = tier.pages_a_chunk * self.page;
        let of_kind = |full: bool| {
            let groups =
                (0..self.groups.len()).filter(move |group| (self.groups[*group] == Kind::Full) == full);
            groups.collect::<Vec<_>>()
        };
        let (full, others) = (of_kind(true), of_kind(false));
        let mut most = n;
        if !others.is_empty() {
            most = most.saturating_sub(1);
            if self.groups.contains(&Kind::Mamba) {
                most = most / size * size;
            }
        }
        let mut hit = 0;
        let is_of_head = |group: usize| self.is_of_head(self.groups[group]);
        let mut has_lost = HashSet::new();
        let mut groups: Vec<usize> = full.into_iter().chain(others.clone()).collect();
        while !groups.is_empty() {
            let mut has_window = false;
            for group in std::mem::take(&mut groups) {
                let keys = &own.keys[group];
                most = most.min(keys.len() as u64 * size);
                if most < computed + size {
                    return 0;
                }
                let lost = usize::from(is_of_head(group) && !has_lost.contains(&group));
                let queried = (most + lost as u64 * size).min(keys.len() as u64 * size);
                let chunks = (queried.div_ceil(size) as usize).min(keys.len());
                let first = (computed / size) as usize;
                let keys = &keys[first..chunks];
                let found = match self.groups[group] {
                    Kind::Full => keys.iter().take_while(|key| tier.has(key)).count(),
                    Kind::Mamba => window(keys, tier, 1, 1),
                    Kind::Window(tokens) => {
                        let usual = tokens.div_ceil(size).max((tokens - 1).div_ceil(size));
                        let end = most.min((chunks - lost) as u64 * size);
                        let padding = (size - end % size) % size;
                        let at_first = usual.max((tokens - 1 + padding).div_ceil(size));
                        window(keys, tier, usual as usize + lost, at_first as usize + lost)
                    }
                };
                if found == 0 {
                    return 0;
                }
                has_lost.extend((lost > 0).then_some(group));
                most = most.min(size * (first + found - lost) as u64);
                if most < computed + size {
                    return 0;
                }
                if most - computed < hit {
                    if !is_of_head(group) {
                        has_lost.clear();
                    }
                    if has_window && groups.is_empty() {
                        groups.clone_from(&others);
                    }
                }
                has_window |= self.groups[group] != Kind::Full;
                hit = most - computed;
            }
        }
        hit
    }
}

fn window(keys: &[Key], tier: &SlowManager, usual: usize, at_first: usize) -> usize {
    let (mut run, mut needed) = (0, at_first);
    for at in (0..keys.len()).rev() {
        if tier.has(&keys[at]) {
            run += 1;
        } else {
            (run, needed) = (0, usual);
        }
        if run == needed {
            return at + needed;
        }
    }
    run
}
