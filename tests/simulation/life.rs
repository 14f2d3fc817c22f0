//! A whole life of the service: some hosts, processes that come and go, a log that grows, and
//! everything that can go wrong, as one seed has it.

use crate::broker::Broker;
use crate::chance::Chance;
use crate::disk::{Desk, SimFiles};
use crate::fate::{STATE, Traits, plan, rates};
use crate::input::{Input, TOPIC};
use crate::member::SimMember;
use crate::sink::SimSink;
use crate::watch::Watch;
use crate::worker_pool::SimWorkerPool;
use crate::world::{Process, State, Tally, World};
use kvset::pipeline::publish::PublishError;
use kvset::pipeline::resume::{LostHistory, ResumeRefusal};
use kvset::service::error::ServiceError;
use kvset::service::estimating::stage::Estimating;
use kvset::service::plan::ServicePlan;
use kvset::service::poll_loop::coordinator::Coordinator;
use kvset::service::snapshots::checkpoints::Checkpoints;
use kvset::snapshot::directory::Directory;
use kvset::snapshot::memory::{MemoryFiles, NextProcess};
use kvset::snapshot::store::SnapshotStore;
use std::cell::OnceCell;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Most processes of one life.
const MAX_STARTS: usize = 64;
/// Starts while things go wrong; the rest is for the end.
const MAX_WILD_STARTS: usize = 40;
/// Turns within which a life must come to its end once nothing goes wrong any more.
const MAX_CALM_TURNS: usize = 20_000;

/// What a seed came to.
pub struct Outcome {
    pub broken: Option<String>,
    pub tally: Tally,
    pub trace: Vec<String>,
}

/// What a process borrows for as long as it lives.
struct Kit {
    clock: Process,
    member: SimMember,
    watch: Watch,
}

struct Running<'a> {
    process: Process,
    host: usize,
    /// The member's stable name, which is its transactional id too.
    name: usize,
    coordinator: Coordinator<'a, SimMember, SimSink, Estimating<'a, SimMember, SimWorkerPool>>,
    desk: Desk,
}

struct Host {
    /// The service's own disk, or the one all share.
    disk: MemoryFiles,
}

struct Life<'a> {
    world: World,
    kits: &'a [OnceCell<Kit>],
    plans: &'a [ServicePlan; 2],
    /// Which plan the operator has in force: to refuse lost history, or to go on without it.
    plan: usize,
    started: usize,
    hosts: Vec<Host>,
    running: Vec<Running<'a>>,
    traits: Traits,
    /// The service refused to go on, with good reason.
    refused: bool,
}

/// Lives the life of a seed.
pub fn live(seed: u64, input: Arc<Input>, traced: bool) -> Outcome {
    let mut chance = Chance::new(seed);
    let plans =
        [LostHistory::Refuse, LostHistory::Rebuild].map(|policy| plan(policy, &mut Chance::new(seed)));
    let traits = Traits::choose(&mut chance);
    let rates = rates(&mut chance);
    let broker = Broker::new(input, traits.promise, traits.eager);
    let disk = MemoryFiles::new();
    let hosts = (0..chance.between(1, 3))
        .map(|_| Host { disk: if traits.shared_store { disk.clone() } else { MemoryFiles::new() } });
    let hosts = hosts.collect();
    let mut state = State::new(chance, broker, rates, traced);
    state.note(|| format!("{traits:?} {rates:?}"));
    traits.names().for_each(|name| state.count("kind of life", name));
    let world = World::new(state);
    let kits: Vec<OnceCell<Kit>> = (0..MAX_STARTS).map(|_| OnceCell::new()).collect();
    let mut life = Life {
        world: world.clone(),
        kits: &kits,
        plans: &plans,
        plan: 0,
        started: 0,
        hosts,
        running: Vec::new(),
        traits,
        refused: false,
    };
    life.go_wrong();
    life.run_to_its_end();
    life.recreate_topic();
    drop(life);
    let mut state = world.state();
    Outcome {
        broken: state.broken.take(),
        tally: std::mem::take(&mut state.tally),
        trace: state.take_trace(),
    }
}

impl<'a> Life<'a> {
    fn draw(&self, bound: u64) -> u64 {
        self.world.state().chance.below(bound)
    }

    fn is_over(&self) -> bool {
        self.refused || self.world.state().broken.is_some()
    }

    fn go_wrong(&mut self) {
        for _ in 0..40 + self.draw(160) {
            if self.is_over() {
                return;
            }
            match self.draw(100) {
                0..64 => self.turn_one(),
                64..74 => self.write_one(),
                74..84 => self.grow(),
                84..91 => self.start_one(),
                91 => self.kill_one(),
                92 => self.stop_one(),
                93..95 => self.expel_one(),
                95 => self.rot(),
                96 => self.delete_old_records(),
                97 => self.replace_one(),
                98 => self.world.state().pass(Duration::from_secs(3)),
                _ => self.rebalance(),
            }
        }
    }

    /// Nothing goes wrong any more: everything must come to its end.
    fn run_to_its_end(&mut self) {
        self.world.state().calm = true;
        let partitions = self.world.state().broker.input.partitions.len();
        for partition in 0..partitions {
            let mut state = self.world.state();
            let all = state.broker.input.partitions[partition].records.len();
            state.broker.logs[partition].visible = all;
        }
        for _ in 0..MAX_CALM_TURNS {
            if self.is_over() {
                return;
            }
            if self.world.state().broker.is_done() {
                self.world.state().count("life", "came to its end");
                while !self.running.is_empty() && !self.is_over() {
                    self.stop(0);
                }
                return;
            }
            if self.running.is_empty() {
                self.start(0, 0);
            }
            self.turn_one();
            self.write_one();
        }
        let mut state = self.world.state();
        let committed: Vec<_> = state.broker.logs.iter().map(|log| log.committed).collect();
        state.demand(Err(format!("does not come to its end: committed {committed:?}")));
    }

    fn one_running(&self) -> Option<usize> {
        let count = self.running.len() as u64;
        (count > 0).then(|| self.draw(count) as usize)
    }

    fn turn_one(&mut self) {
        let Some(index) = self.one_running() else { return };
        for _ in 0..=self.draw(6) {
            let result = self.running[index].coordinator.turn();
            if result.is_err() || self.running[index].process.is_dead() {
                let ended = self.running.swap_remove(index);
                self.end(ended, result.err());
                return;
            }
        }
    }

    fn write_one(&mut self) {
        let Some(index) = self.one_running() else { return };
        self.running[index].desk.write_one();
    }

    /// The log grows.
    fn grow(&mut self) {
        let mut state = self.world.state();
        let State { broker, chance, .. } = &mut *state;
        let partition = chance.below(broker.logs.len() as u64) as usize;
        let all = broker.input.partitions[partition].records.len();
        let log = &mut broker.logs[partition];
        log.visible = all.min(log.visible + chance.between(1, 9) as usize);
    }

    fn idle_hosts(&self) -> Vec<usize> {
        let is_idle = |host: &usize| self.running.iter().all(|running| running.host != *host);
        (0..self.hosts.len()).filter(is_idle).collect()
    }

    fn start_one(&mut self) {
        let idle = self.idle_hosts();
        let host = self.world.state().chance.pick(&idle);
        if let Some(host) = host.filter(|_| self.started < MAX_WILD_STARTS) {
            self.start(host, host);
        }
    }

    /// Starts a process on a host, under the name of the member that usually is on `named`.
    fn start(&mut self, host: usize, named: usize) {
        let Some(kit) = self.kits.get(self.started) else {
            self.world.state().demand(Err("too many starts: the service does not get on".to_owned()));
            return;
        };
        self.started += 1;
        let process = self.world.spawn();
        let sink = SimSink::open(process.clone(), format!("kvset-{named}"));
        let mut state = self.world.state();
        state.note(|| format!("process {} starts on host {host} as member {named}", process.number));
        let State { broker, chance, .. } = &mut *state;
        if self.traits.named_members {
            let same = self.running.iter().filter(|other| other.name == named);
            same.for_each(|other| broker.group.fence(other.process.number, chance));
        }
        broker.group.join(process.number, chance);
        drop(state);
        let files = SimFiles::new(process.clone(), self.hosts[host].disk.clone());
        let plan = &self.plans[self.plan];
        let Some(state_plan) = &plan.state else { return };
        let store: Arc<dyn SnapshotStore> =
            Arc::new(Directory::new(files, Path::new(STATE), state_plan.generations));
        let (report, written) = crossbeam_channel::unbounded();
        let desk = Desk::new(process.clone(), Arc::clone(&store), report);
        let checkpoints = Checkpoints::over(store, Box::new(desk.clone()), written, state_plan, TOPIC);
        let kit = kit.get_or_init(|| Kit {
            clock: process.clone(),
            member: SimMember(process.clone()),
            watch: Watch(process.clone()),
        });
        let workers = SimWorkerPool::new(process.clone());
        let stage = Estimating::new(plan, &kit.clock, workers, Some(checkpoints), &kit.watch);
        let coordinator = Coordinator::new(&plan.stream, &kit.clock, &kit.member, sink, stage, &kit.watch);
        self.running.push(Running { process, host, name: named, coordinator, desk });
    }

    /// A process is over: it died, or it cannot go on.
    fn end(&mut self, ended: Running<'a>, error: Option<ServiceError>) {
        let Running { process, host, coordinator, .. } = ended;
        let error = match error {
            Some(error) if !process.is_dead() => coordinator.fail(error).1,
            _ => return self.fell(host),
        };
        self.world.state().note(|| format!("process {} ends: {error}", process.number));
        if process.is_dead() {
            self.fell(host);
        } else {
            self.says_it_holds_nothing(process.number);
        }
        self.judge(&error);
    }

    /// Metrics and the page outlive the clients, and the next ones may be given other partitions.
    fn says_it_holds_nothing(&self, number: usize) {
        let mut state = self.world.state();
        let held: Vec<i32> = state.held.iter().filter(|held| held.0 == number).map(|held| held.1).collect();
        let told =
            if held.is_empty() { Ok(()) } else { Err(format!("{number} ended, still showing {held:?}")) };
        state.demand(told);
    }

    /// A process fell over, and perhaps its machine with it.
    fn fell(&mut self, host: usize) {
        let mut state = self.world.state();
        if !self.traits.shared_store && state.strikes(3, "power failure", "host") {
            let seed = state.chance.below(u64::MAX);
            self.hosts[host].disk.restart(NextProcess::PowerFailure(seed));
        }
    }

    /// Whether a process had reason to give up.
    fn judge(&mut self, error: &ServiceError) {
        let mut state = self.world.state();
        match error {
            ServiceError::Resume { refusal: ResumeRefusal::HistoryLost { .. }, .. }
                if self.traits.retention =>
            {
                state.count("refused", "lost history");
                if self.traits.yields_to_retention {
                    self.plan = 1;
                } else {
                    self.refused = true;
                }
            }
            ServiceError::Kafka(_) => state.count("process ended", "brokers"),
            ServiceError::Publish(PublishError::Migrated(_)) => state.count("process ended", "fenced"),
            ServiceError::Publish(_) => state.count("process ended", "publishing"),
            error => state.demand(Err(format!("a process gave up without reason: {error}"))),
        }
    }

    fn kill_one(&mut self) {
        let Some(index) = self.one_running() else { return };
        let ended = self.running.swap_remove(index);
        self.world.state().count("killed", "between two steps");
        ended.process.die();
        self.end(ended, None);
    }

    fn stop_one(&mut self) {
        let Some(index) = self.one_running() else { return };
        self.world.state().count("life", "clean stop");
        self.stop(index);
    }

    fn stop(&mut self, index: usize) {
        let Running { process, host, coordinator, .. } = self.running.swap_remove(index);
        self.world.state().note(|| format!("process {} is asked to stop", process.number));
        let (_, result) = coordinator.stop();
        match result {
            _ if process.is_dead() => self.fell(host),
            Ok(()) => {}
            Err(error) => self.judge(&error),
        }
    }

    fn expel_one(&mut self) {
        let Some(index) = self.one_running() else { return };
        let mut state = self.world.state();
        let State { broker, chance, .. } = &mut *state;
        broker.group.expel(self.running[index].process.number, chance);
        state.count("rebalance", "expelled");
        state.note(|| format!("process {} is thought dead", self.running[index].process.number));
    }

    fn rebalance(&mut self) {
        let mut state = self.world.state();
        let State { broker, chance, .. } = &mut *state;
        broker.group.rebalance(chance);
        state.count("rebalance", "for no reason");
    }

    /// Another process takes a running one's name, as when a machine was cut off and replaced.
    fn replace_one(&mut self) {
        let Some(index) = self.one_running() else { return };
        let (name, idle) = (self.running[index].name, self.idle_hosts());
        let host = self.world.state().chance.pick(&idle);
        if let Some(host) = host.filter(|_| self.started < MAX_WILD_STARTS) {
            self.world.state().count("life", "replaced while running");
            self.start(host, name);
        }
    }

    /// Some snapshot file rots where it lies.
    fn rot(&mut self) {
        let hosts: Vec<usize> = (0..self.hosts.len()).collect();
        let mut state = self.world.state();
        let Some(disk) = state.chance.pick(&hosts).map(|host| &self.hosts[host].disk) else { return };
        let paths = disk.paths();
        let chosen: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let Some(path) = state.chance.pick(&chosen) else { return };
        let (at, cut) = (state.chance.below(1 << 16) as usize, state.chance.one_in(3));
        disk.corrupt(path, |bytes| match (cut, bytes.len()) {
            (_, 0) => {}
            (true, length) => bytes.truncate(at % length),
            (false, length) => bytes[at % length] ^= 1 << (at % 8),
        });
        state.count("rotten file", if cut { "cut off" } else { "bit flipped" });
        state.note(|| format!("{} rots", path.display()));
    }

    /// Retention moves the log's start, now and then past what was processed.
    fn delete_old_records(&mut self) {
        if !self.traits.retention {
            return;
        }
        let mut state = self.world.state();
        let State { broker, chance, .. } = &mut *state;
        let partition = chance.below(broker.logs.len() as u64) as i32;
        let end = broker.end(partition);
        let log = &mut broker.logs[partition as usize];
        let limit = if chance.one_in(4) { end } else { log.committed.unwrap_or(0) };
        log.start = log.start.max(chance.between(0, limit.max(0) as u64) as i64);
        let start = log.start;
        state.count("retention", "log start moved");
        state.note(|| format!("the log of partition {partition} begins at {start} now"));
    }

    /// At the end somebody deletes the topic and makes it anew, with other records at the same
    /// offsets: the service must refuse to go on from a state of the old one.
    fn recreate_topic(&mut self) {
        if self.is_over() || !self.traits.recreated || !self.holds_snapshots(0) {
            return;
        }
        {
            let mut state = self.world.state();
            let other = state.broker.input.recreated();
            state.broker.input = Arc::new(other);
            state.broker.logs.iter_mut().for_each(|log| log.start = 0);
            state.note(|| "the topic is recreated".to_owned());
        }
        self.start(0, 0);
        for _ in 0..1000 {
            let Some(running) = self.running.first_mut() else { return };
            match running.coordinator.turn() {
                Ok(()) => {}
                Err(ServiceError::Resume { refusal: ResumeRefusal::OtherLog { .. }, .. }) => {
                    self.world.state().count("refused", "recreated topic");
                    return;
                }
                Err(error) => {
                    let broken = format!("a recreated topic was met with: {error}");
                    return self.world.state().demand(Err(broken));
                }
            }
        }
        self.world.state().demand(Err("a recreated topic went unnoticed".to_owned()));
    }

    /// Whether a host has a snapshot that a recreated topic can be told by.
    fn holds_snapshots(&self, host: usize) -> bool {
        let store = Directory::new(self.hosts[host].disk.clone(), Path::new(STATE), NonZeroUsize::MIN);
        let partitions = store.partitions().unwrap_or_default();
        let found = partitions.iter().flat_map(|partition| store.list(partition).unwrap_or_default());
        found.filter_map(|generation| generation.header.ok()).any(|header| header.fact.last_record.is_some())
    }
}
