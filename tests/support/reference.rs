//! The stack profiles, page at a time: slow, obvious, and checked against the engines' own answers.
//!
//! It is the model that property tests hold the fast engine against, so it shares nothing with it:
//! every page is interned by its whole prefix, and stands in one LRU stack.

use kvset::core::engines::profile::{Outputs, Profile};
use kvset::core::units::pages::Scope;
use std::collections::HashMap;

/// A page, numbered in the order in which pages were first seen.
type Page = usize;

/// A request as the reference takes it.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub ids: Vec<u64>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub output_ids: Vec<u64>,
    pub scope: Scope,
}

/// One pool's LRU stack under one profile (any but `sglang`).
pub struct Reference {
    profile: Profile,
    outputs: Outputs,
    page_size: u64,
    include_partial: bool,
    stack: Stack,
    /// A page by its parent (none for a first page, which its scope tells apart) and its id.
    pages: HashMap<(Result<Page, Scope>, u64), Page>,
    next_page: Page,
    /// 1 if the previous request left a partial page at the front of the free queue.
    previous_partial: u64,
}

impl Reference {
    pub fn new(profile: Profile, outputs: Outputs, page_size: u64, include_partial: bool) -> Self {
        assert_ne!(profile, Profile::Sglang, "sglang has no stack");
        Self {
            profile,
            outputs,
            page_size,
            include_partial,
            stack: Stack::default(),
            pages: HashMap::new(),
            next_page: 0,
            previous_partial: 0,
        }
    }

    /// What each page of the reusable prefix needs to be a hit, the running maximum along the prefix.
    pub fn request(&mut self, ids: &[u64], input_tokens: u64, output_tokens: u64, scope: Scope) -> Vec<u64> {
        self.serve(&Asked { ids: ids.to_vec(), input_tokens, output_tokens, output_ids: vec![], scope })
    }

    /// The same for a request that may know its output pages' ids.
    pub fn serve(&mut self, asked: &Asked) -> Vec<u64> {
        let mut needs = match self.profile {
            Profile::Vllm => self.serve_vllm(asked),
            Profile::LeafFirst => self.serve_leaf_first(asked),
            _ => self.serve_root_first(asked),
        };
        for at in 1..needs.len() {
            needs[at] = needs[at].max(needs[at - 1]);
        }
        needs
    }

    /// Distinct pages seen so far, prompt and output.
    pub fn distinct_pages(&self) -> u64 {
        self.next_page as u64
    }

    fn serve_root_first(&mut self, asked: &Asked) -> Vec<u64> {
        let mut needs = Vec::new();
        for page in self.intern(None, asked.scope, self.prompt(asked)) {
            if let Some(depth) = self.stack.depth(page) {
                needs.push(depth + 1);
            }
            self.stack.touch(page);
        }
        needs
    }

    fn serve_leaf_first(&mut self, asked: &Asked) -> Vec<u64> {
        let pages = self.intern(None, asked.scope, self.prompt(asked));
        let needs = pages.iter().filter_map(|page| self.stack.depth(*page)).map(|depth| depth + 1).collect();
        pages.iter().rev().for_each(|page| self.stack.touch(*page));
        needs
    }

    fn serve_vllm(&mut self, asked: &Asked) -> Vec<u64> {
        let page_size = self.page_size;
        let n = asked.input_tokens;
        let kv = match self.outputs {
            Outputs::Cached if asked.output_tokens >= 1 => n + asked.output_tokens - 1,
            _ => n,
        };
        let limit = if n == 0 { 0 } else { (n - 1) / page_size };
        let mut pages = self.intern(None, asked.scope, &asked.ids[..(n / page_size) as usize]);
        let looked_up = pages.iter().take(limit as usize).filter_map(|page| self.stack.depth(*page));
        let needs = looked_up.map(|depth| depth + 1 + self.previous_partial).collect();

        let output_pages = (kv / page_size - n / page_size) as usize;
        let known = &asked.output_ids[..output_pages.min(asked.output_ids.len())];
        pages.extend(self.intern(pages.last().copied(), asked.scope, known));
        for _ in known.len()..output_pages {
            pages.push(self.next_page);
            self.next_page += 1;
        }
        pages.iter().rev().for_each(|page| self.stack.touch(*page));
        self.previous_partial = u64::from(kv % page_size != 0);
        needs
    }

    /// The prompt's pages: its full ones, and the partial last one where configured.
    fn prompt<'a>(&self, asked: &'a Asked) -> &'a [u64] {
        let full = (asked.input_tokens / self.page_size) as usize;
        if self.include_partial { &asked.ids } else { &asked.ids[..full.min(asked.ids.len())] }
    }

    fn intern(&mut self, parent: Option<Page>, scope: Scope, ids: &[u64]) -> Vec<Page> {
        let mut parent = parent.ok_or(scope);
        let mut pages = Vec::new();
        for id in ids {
            let page = *self.pages.entry((parent, *id)).or_insert(self.next_page);
            self.next_page = self.next_page.max(page + 1);
            parent = Ok(page);
            pages.push(page);
        }
        pages
    }
}

/// An LRU stack: when each page was last touched, and a Fenwick tree over the touches that are
/// still somebody's last, so that a depth is one sum.
#[derive(Default)]
pub struct Stack {
    last_touch: HashMap<Page, usize>,
    touches: usize,
    /// `sums[i]` covers the `i & -i` touches that end at touch `i`, counted from 1.
    sums: Vec<u64>,
}

impl Stack {
    /// Pages touched after this one; `None` for one never touched.
    pub fn depth(&self, page: Page) -> Option<u64> {
        let touch = *self.last_touch.get(&page)?;
        Some(self.last_touch.len() as u64 - self.live_up_to(touch))
    }

    /// Moves a page to the top.
    pub fn touch(&mut self, page: Page) {
        self.touches += 1;
        if self.touches >= self.sums.len() {
            self.grow();
        }
        if let Some(old) = self.last_touch.insert(page, self.touches) {
            self.add(old, u64::MAX);
        }
        self.add(self.touches, 1);
    }

    fn live_up_to(&self, mut touch: usize) -> u64 {
        let mut live = 0u64;
        while touch > 0 {
            live = live.wrapping_add(self.sums[touch]);
            touch &= touch - 1;
        }
        live
    }

    fn add(&mut self, mut touch: usize, by: u64) {
        while touch < self.sums.len() {
            self.sums[touch] = self.sums[touch].wrapping_add(by);
            touch += touch & touch.wrapping_neg();
        }
    }

    fn grow(&mut self) {
        self.sums = vec![0; (self.sums.len() * 2).max(1024)];
        let touches: Vec<usize> = self.last_touch.values().copied().collect();
        touches.into_iter().for_each(|touch| self.add(touch, 1));
    }
}
