//! What the engines read: requests held in memory, so that only the engines are timed.

use kvset::core::units::pages::{PageIds, Scope, mix};
use kvset::trace::{IdScope, ReadOptions, TraceItem};
use std::path::PathBuf;

/// A sequence of requests.
pub struct Load {
    pub name: &'static str,
    pub ids: Vec<u64>,
    requests: Vec<(usize, Scope)>,
}

impl Load {
    pub fn new(name: &'static str) -> Self {
        Self { name, ids: Vec::new(), requests: Vec::new() }
    }

    pub fn push(&mut self, scope: Scope, ids: impl IntoIterator<Item = u64>) {
        self.ids.extend(ids);
        self.requests.push((self.ids.len(), scope));
    }

    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Request<'_>> {
        slices(&self.ids, self.requests.iter().copied())
    }

    /// The requests a few at a time, with their ids where `ids` says.
    pub fn batches(&self, ids: Ids, mut each: impl FnMut(&[Request<'_>])) {
        let requests: Vec<Request<'_>> = self.iter().collect();
        if ids == Ids::InMemory {
            return each(&requests);
        }
        let (mut buffer, mut rest) = (Vec::with_capacity(BATCH), &requests[..]);
        while !rest.is_empty() {
            let within = rest.iter().scan(0, |ids, (_, pages)| {
                *ids += pages.len();
                Some(*ids <= BATCH)
            });
            let (batch, later) = rest.split_at(within.take_while(|within| *within).count().max(1));
            buffer.clear();
            let ends: Vec<(usize, Scope)> = batch
                .iter()
                .map(|&(scope, pages)| {
                    buffer.extend(pages.iter());
                    (buffer.len(), scope)
                })
                .collect();
            each(&slices(&buffer, ends.into_iter()).collect::<Vec<_>>());
            rest = later;
        }
    }
}

/// Ids in a batch, but for a single request that has more: few enough for a processor's nearest caches.
const BATCH: usize = 1 << 14;

/// Where the ids of a request are when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// Written a moment before, as by whoever decoded or received them.
    JustWritten,
    /// In memory that was not touched for long.
    InMemory,
}

/// A request: what its ids are unique within, and the ids.
pub type Request<'a> = (Scope, PageIds<'a>);

/// Requests whose ids follow one another, by where each ends.
fn slices(ids: &[u64], ends: impl Iterator<Item = (usize, Scope)>) -> impl Iterator<Item = Request<'_>> {
    let mut start = 0;
    ends.map(move |(end, scope)| {
        let pages = PageIds::from_slice(&ids[start..end]);
        start = end;
        (scope, pages)
    })
}

/// The week of coding sessions.
pub fn week() -> Option<Load> {
    shared_trace("week", "weka_claude_code_week.jsonl.zst", IdScope::Auto)
}

/// The 710 coding sessions.
pub fn sessions() -> Option<Load> {
    shared_trace("coding sessions", "weka_claude_code_sessions.jsonl.zst", IdScope::Session)
}

/// A public trace from the folder of shared traces; none where it is not there.
fn shared_trace(name: &'static str, file: &str, id_scope: IdScope) -> Option<Load> {
    let beside = || format!("{}/../shared", env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::var("KVSET_SHARED").unwrap_or_else(|_| beside());
    let path = PathBuf::from(folder).join("traces").join(file);
    if !path.exists() {
        println!("skipped: {name} ({file} is not there; KVSET_SHARED names the folder of shared traces)");
        return None;
    }
    let options = ReadOptions { id_scope, ..ReadOptions::default() };
    let mut reader = kvset::trace::open(&[path], &options).expect("a readable trace");
    let mut load = Load::new(name);
    while let Some(item) = reader.next_item().expect("a whole trace") {
        let TraceItem::Request(row) = item else { panic!("{name} has a bad row") };
        load.push(row.event.scope, row.event.page_ids.iter());
    }
    Some(load)
}

/// A chain of ids: what hashing a growing prompt gives.
fn chain(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(mix(seed + 1)), |id| Some(mix(id ^ 0x9e37_79b9)))
}

/// Sessions that grow over a few shared system prompts, with tails that diverge and are taken up again.
pub fn agentic(distinct: usize) -> Load {
    let mut load = Load::new("agentic, diverging tails");
    let mut dice = chain(42);
    let mut roll = move |below: u64| dice.next().unwrap_or_default() % below;
    let mut sessions: Vec<Vec<u64>> = Vec::new();
    let mut made = 0;
    while made < distinct {
        if sessions.len() < 200 || roll(60) == 0 {
            let system: Vec<u64> = chain(roll(8)).take(120).collect();
            let slot = if sessions.len() < 200 { sessions.len() } else { roll(200) as usize };
            if slot == sessions.len() {
                sessions.push(system);
            } else {
                sessions[slot] = system;
            }
        }
        let index = roll(sessions.len() as u64) as usize;
        let session = &mut sessions[index];
        if roll(12) == 0 {
            let keep = session.len() - (roll(40) as usize).min(session.len() - 1);
            session.truncate(keep);
        }
        let grow = 20 + roll(100) as usize;
        session.extend(chain(mix(made as u64 + (1 << 40)) ^ index as u64).take(grow));
        made += grow;
        load.push(Scope::GLOBAL, session.iter().copied());
        if session.len() > 3000 {
            session.truncate(120);
        }
    }
    load
}

/// Nothing but pages never seen before.
pub fn all_cold(pages: usize) -> Load {
    let mut cold = Load::new("all cold");
    for request in 0..pages / 1000 {
        cold.push(Scope::GLOBAL, chain(request as u64).take(1000));
    }
    cold
}

/// The same, a page a request: each new page costs all that a new path does.
pub fn cold_pages(pages: usize) -> Load {
    let mut cold = Load::new("one-page requests, all cold");
    chain(9).take(pages).for_each(|id| cold.push(Scope::GLOBAL, [id]));
    cold
}

/// Requests that have no run to save on.
pub fn one_page(pages: usize) -> Load {
    let mut single = Load::new("one-page requests");
    let keys = (pages / 8).max(1) as u64;
    let mut dice = chain(7);
    for _ in 0..pages {
        single.push(Scope::GLOBAL, [mix(dice.next().unwrap_or_default() % keys)]);
    }
    single
}

/// One long path that every request leaves somewhere.
pub fn twigs(pages: usize) -> Load {
    let mut twigs = Load::new("deep chains of tiny branches");
    let trunk: Vec<u64> = chain(3).take(2000).collect();
    for request in 0..pages / 1000 {
        let depth = 1 + mix(request as u64) as usize % (trunk.len() - 1);
        twigs.push(Scope::GLOBAL, trunk[..depth].iter().copied().chain([mix(request as u64 | 1 << 60)]));
    }
    twigs
}

/// A root with as many children as there are requests.
pub fn fan(pages: usize) -> Load {
    let mut fan = Load::new("all share the first page");
    for request in 0..pages / 4 {
        let branch = mix(1 + request as u64 % (pages as u64 / 16).max(1));
        fan.push(Scope::GLOBAL, [1, branch, mix(branch), mix(branch ^ 5)]);
    }
    fan
}
