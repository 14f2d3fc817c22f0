//! What the engines are fed: requests held in memory, so that only the engines are timed.

use kvset::core::pages::{PageIds, Scope, mix};
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

    pub fn iter(&self) -> impl Iterator<Item = (Scope, PageIds<'_>)> {
        let mut start = 0;
        self.requests.iter().map(move |&(end, scope)| {
            let pages = PageIds::from_slice(&self.ids[start..end]);
            start = end;
            (scope, pages)
        })
    }
}

/// A public trace from the folder of shared traces; none where it is not there.
pub fn shared_trace(name: &'static str, file: &str, id_scope: IdScope) -> Option<Load> {
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

/// The shapes that hurt most; each holds about `pages` accesses.
pub fn worst_cases(pages: usize) -> Vec<Load> {
    let mut cold = Load::new("all cold");
    for request in 0..pages / 1000 {
        cold.push(Scope::GLOBAL, chain(request as u64).take(1000));
    }
    let mut single = Load::new("one-page requests");
    let keys = (pages / 8).max(1) as u64;
    let mut dice = chain(7);
    for _ in 0..pages {
        single.push(Scope::GLOBAL, [mix(dice.next().unwrap_or_default() % keys)]);
    }
    let mut twigs = Load::new("deep chains of tiny branches");
    let trunk: Vec<u64> = chain(3).take(2000).collect();
    for request in 0..pages / 1000 {
        let depth = 1 + mix(request as u64) as usize % (trunk.len() - 1);
        twigs.push(Scope::GLOBAL, trunk[..depth].iter().copied().chain([mix(request as u64 | 1 << 60)]));
    }
    let mut fan = Load::new("all share the first page");
    for request in 0..pages / 4 {
        let branch = mix(1 + request as u64 % (pages as u64 / 16).max(1));
        fan.push(Scope::GLOBAL, [1, branch, mix(branch), mix(branch ^ 5)]);
    }
    vec![cold, single, twigs, fan]
}
