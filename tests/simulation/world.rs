//! What all processes of a life share, and how one of them meets it: step by step, and at any step it
//! may die.

use crate::broker::{Broker, SESSION_TIMEOUT};
use crate::chance::Chance;
use kvset::kafka::KafkaFailure;
use kvset::service::clock::Clock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What happened how often, by what and where.
pub type Tally = BTreeMap<(&'static str, &'static str), u64>;

/// How often things go wrong: once in so many times, 0 for never.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    pub crash: u64,
    pub stall: u64,
    pub passing: u64,
    pub lost_reply: u64,
    pub abortable: u64,
    pub fatal: u64,
    pub disk: u64,
}

/// Everything outside of the processes.
#[derive(Debug)]
pub struct State {
    pub chance: Chance,
    pub now: Duration,
    pub broker: Broker,
    pub rates: Rates,
    /// Nothing goes wrong any more.
    pub calm: bool,
    pub tally: Tally,
    /// What processes say they hold: their numbers, and partitions.
    pub held: BTreeSet<(usize, i32)>,
    /// By number, whether each process has died.
    dead: Vec<bool>,
    /// The first promise that was broken.
    pub broken: Option<String>,
    trace: Option<Vec<String>>,
}

impl State {
    pub fn new(chance: Chance, broker: Broker, rates: Rates, traced: bool) -> Self {
        let (now, calm, broken) = (Duration::ZERO, false, None);
        let (tally, dead, trace) = (Tally::new(), Vec::new(), traced.then(Vec::new));
        Self { chance, now, broker, rates, calm, tally, held: BTreeSet::new(), dead, broken, trace }
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        let now = self.now.as_millis();
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>7} ms  {}", now, text()));
        }
    }

    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    pub fn count(&mut self, what: &'static str, at: &'static str) {
        *self.tally.entry((what, at)).or_default() += 1;
    }

    /// Whether something goes wrong now; counted if it does.
    pub fn strikes(&mut self, one_in: u64, what: &'static str, at: &'static str) -> bool {
        let strikes = !self.calm && self.chance.one_in(one_in);
        if strikes {
            self.count(what, at);
            self.note(|| format!("{what}: {at}"));
        }
        strikes
    }

    /// A broken promise ends the life.
    pub fn demand(&mut self, kept: Result<(), String>) {
        if let Err(reason) = kept {
            self.note(|| format!("BROKEN: {reason}"));
            self.broken.get_or_insert(reason);
        }
    }

    /// Lets time pass, and what was waited for too long end.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        let expired = self.broker.expire(self.now, &mut self.chance);
        self.demand(expired);
    }
}

/// The world, shared.
#[derive(Debug, Clone)]
pub struct World {
    state: Arc<Mutex<State>>,
    /// Where simulated time begins; its value shows nowhere.
    begin: Instant,
}

impl World {
    pub fn new(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), begin: Instant::now() }
    }

    /// One thread lives in this world, so the lock is free.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn spawn(&self) -> Process {
        let mut state = self.state();
        state.dead.push(false);
        Process { world: self.clone(), number: state.dead.len() - 1 }
    }
}

/// The process died: nothing it does has an effect any more.
#[derive(Debug, Clone, Copy)]
pub struct Dead;

const DEAD: &str = "the process is dead";

impl From<Dead> for KafkaFailure {
    fn from(_: Dead) -> Self {
        Self::fatal(DEAD)
    }
}

impl From<Dead> for std::io::Error {
    fn from(_: Dead) -> Self {
        Self::other(DEAD)
    }
}

/// A process of the service.
#[derive(Debug, Clone)]
pub struct Process {
    pub world: World,
    pub number: usize,
}

impl Process {
    /// One step. The process may die right before it, or right after it took effect.
    pub fn step<T>(&self, at: &'static str, effect: impl FnOnce(&mut State) -> T) -> Result<T, Dead> {
        let mut state = self.world.state();
        if state.dead[self.number] {
            return Err(Dead);
        }
        // Most of what a process does is polling; the other steps shall have their share.
        let rarer = if at == "poll" { 8 } else { 1 };
        let (crash, stall) = (state.rates.crash * rarer, state.rates.stall * rarer);
        if state.strikes(crash, "crash before", at) {
            self.dies(&mut state);
            return Err(Dead);
        }
        if state.strikes(stall, "stalled before", at) {
            self.stall(&mut state);
        }
        let result = effect(&mut state);
        if state.strikes(crash, "crash after", at) {
            self.dies(&mut state);
            return Err(Dead);
        }
        Ok(result)
    }

    /// The machine stands still, perhaps for so long that the brokers give the process up.
    fn stall(&self, state: &mut State) {
        let time = Duration::from_secs(state.chance.between(1, 15));
        if time > SESSION_TIMEOUT {
            state.broker.group.expel(self.number, &mut state.chance);
        }
        state.pass(time);
    }

    pub fn is_dead(&self) -> bool {
        self.world.state().dead[self.number]
    }

    pub fn die(&self) {
        self.dies(&mut self.world.state());
    }

    /// The group learns of it only by and by.
    pub fn dies(&self, state: &mut State) {
        if std::mem::replace(&mut state.dead[self.number], true) {
            return;
        }
        let (number, now) = (self.number, state.now);
        state.note(|| format!("process {number} dies"));
        if let Some(member) = state.broker.group.members.get_mut(&number) {
            member.died = Some(now);
        }
    }
}

impl Clock for Process {
    fn now(&self) -> Instant {
        self.world.begin + self.world.state().now
    }

    fn sleep(&self, time: Duration) {
        self.world.state().pass(time);
    }
}
