//! Members of one group on a real broker: who works on what, what moves, and that whatever moves is
//! estimated exactly once.

use crate::kafka_support::process::{Instance, configure};
use crate::kafka_support::{Broker, Input, PATIENCE, Published, stamp, wait_for};
use kvset::kafka::config::{AssignmentStrategy, Connection, MemberProtocol};
use kvset::kafka::topic_producer::TopicProducer;
use kvset::pipeline::resume::{Origin, Resume};
use kvset::position::{NextOffset, Partition};
use kvset::service::error::ServiceError;
use kvset::service::estimating::serve;
use kvset::service::events::{Observer, ServiceEvent};
use kvset::service::plan::{CommitPace, ServicePlan};
use kvset::service::poll_loop::summary::Summary;
use kvset::service::shutdown::Shutdown;
use kvset::settings::Settings;
use kvset::workload::{Generator, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

const PROTOCOLS: [(&str, MemberProtocol); 3] = [
    ("cooperative", MemberProtocol::Classic(AssignmentStrategy::CooperativeSticky)),
    ("eager", MemberProtocol::Classic(AssignmentStrategy::Range)),
    ("consumer", MemberProtocol::Consumer),
];

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.estimate.windows =
        ["tumbling:1m", "last:100", "all"].map(|text| text.parse().expect("a window")).to_vec();
    settings
}

fn input(partitions: i32, requests: usize) -> Input {
    let mut input = Input::default();
    for partition in 0..partitions {
        let workload = Workload {
            seed: partition as u64 + 21,
            start_ms: 36_000_000,
            sessions_per_day: 4000,
            ..Workload::default()
        };
        for request in Generator::new(workload).expect("a workload").take(requests) {
            input.push_row(partition, &format!("pool-{partition}"), &request.as_row());
        }
    }
    input
}

/// A group on a topic that is written in pieces.
struct Group {
    broker: Broker,
    topic: String,
    input: Input,
    plan: ServicePlan,
}

/// How long a session lasts. The brokers of a group of the new protocol say it; `scripts/kafka.sh` has them say 6 s.
fn session(protocol: MemberProtocol, ms: &str) -> Vec<(String, String)> {
    if protocol == MemberProtocol::Consumer {
        return Vec::new();
    }
    let properties = [("session.timeout.ms", ms), ("heartbeat.interval.ms", "500")];
    properties.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

impl Group {
    /// On the real broker, if there is one; members are given up after 6 s of silence.
    fn new(run: &str, protocol: MemberProtocol, partitions: i32, requests: usize) -> Option<Self> {
        let mut broker = Broker::real()?;
        broker.connection.properties = session(protocol, "6000");
        let topic = broker.create("requests", partitions as u32);
        let mut plan = broker.plan(&settings(), run, partitions as u32);
        plan.stream.membership.protocol = protocol;
        Some(Self { input: input(partitions, requests), broker, topic, plan })
    }

    /// Gives members up only after so many milliseconds of silence, where that is for them to say.
    fn be_patient(&mut self, ms: &str) {
        self.broker.connection.properties = session(self.plan.stream.membership.protocol, ms);
        self.plan.stream.connection = self.broker.connection.clone();
    }

    fn produce(&self, records: Range<usize>) {
        self.producer().produce(records);
    }

    fn producer(&self) -> GroupProducer<'_> {
        GroupProducer { connection: &self.broker.connection, topic: &self.topic, input: &self.input }
    }

    fn assert_undisturbed(&self) {
        let published = Published::read(&self.broker, &self.plan.stream.outputs);
        assert!(published.estimates.values().map(Vec::len).sum::<usize>() > 20, "too little to compare");
        assert!(published == self.input.expected(&self.plan.task), "not what an undisturbed run publishes");
    }
}

/// What a thread needs to produce for a group.
#[derive(Clone, Copy)]
struct GroupProducer<'g> {
    connection: &'g Connection,
    topic: &'g str,
    input: &'g Input,
}

impl GroupProducer<'_> {
    /// Produces these records of every partition.
    fn produce(self, records: Range<usize>) {
        let producer =
            TopicProducer::open(self.connection, self.topic, Duration::from_secs(30)).expect("a producer");
        for at in records {
            for (partition, records) in &self.input.partitions {
                let (key, value) = &records[at];
                producer.send_to(Some(*partition), key, value, Some(stamp())).expect("room");
            }
        }
        producer.finish().expect("delivered");
    }
}

/// What happened to a member so far.
#[derive(Default)]
struct Story {
    rebalances: u32,
    /// Partitions given up or lost.
    gone: u32,
    held: BTreeSet<Partition>,
    resumes: Vec<(Partition, Resume)>,
    next: BTreeMap<Partition, NextOffset>,
    /// Partitions of nobody, as the member sees it.
    unowned: Vec<Partition>,
    /// Asked to stand still at the next estimate, standing still, let go.
    stand: Stand,
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum Stand {
    #[default]
    No,
    Asked,
    Still,
}

#[derive(Default)]
struct Seen {
    story: Mutex<Story>,
    let_go: Condvar,
}

impl Seen {
    fn story(&self) -> MutexGuard<'_, Story> {
        self.story.lock().expect("no panic under the lock")
    }

    fn go_on(&self) {
        self.story().stand = Stand::No;
        self.let_go.notify_all();
    }
}

impl Observer for Seen {
    fn on(&self, event: &ServiceEvent<'_>) {
        let mut story = self.story();
        match event {
            ServiceEvent::Polled { unowned, .. } => story.unowned = unowned.to_vec(),
            ServiceEvent::Rebalanced { .. } => story.rebalances += 1,
            ServiceEvent::Assigned { partition, resume, .. } => {
                story.held.insert(*partition);
                story.resumes.push((*partition, (*resume).clone()));
            }
            ServiceEvent::Revoked(partition) | ServiceEvent::Lost(partition) => {
                story.held.remove(partition);
                story.gone += 1;
            }
            ServiceEvent::Progress { partition, next, counts, .. } => {
                story.next.insert(*partition, *next);
                if story.stand == Stand::Asked && !counts.latest.is_empty() {
                    story.stand = Stand::Still;
                    drop(self.let_go.wait_while(story, |story| story.stand == Stand::Still));
                }
            }
            _ => {}
        }
    }
}

/// A running member, asked to stop when dropped.
struct Member<'scope> {
    seen: Arc<Seen>,
    shutdown: Shutdown,
    thread: Option<ScopedJoinHandle<'scope, Result<Summary, ServiceError>>>,
}

impl<'scope> Member<'scope> {
    fn start(scope: &'scope Scope<'scope, '_>, plan: &ServicePlan, instance: Option<&str>) -> Self {
        let (seen, shutdown, mut plan) = (Arc::new(Seen::default()), Shutdown::new(), plan.clone());
        plan.stream.membership.instance = instance.map(str::to_owned);
        let (watch, asked) = (Arc::clone(&seen), shutdown.clone());
        let thread = scope.spawn(move || serve(&plan, &asked, &*watch));
        Self { seen, shutdown, thread: Some(thread) }
    }

    fn held(&self) -> BTreeSet<Partition> {
        self.seen.story().held.clone()
    }

    /// Whether everything before this was processed of all it holds.
    fn has_done(&self, next: usize) -> bool {
        let story = self.seen.story();
        story.held.iter().all(|partition| story.next.get(partition) == Some(&NextOffset(next as i64)))
    }

    fn leave(&mut self) -> Result<Summary, ServiceError> {
        self.shutdown.request();
        self.thread.take().expect("it has not left").join().expect("no panic")
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.shutdown.request();
        self.seen.go_on();
        // A test that waits in vain should show what ended the member.
        if let Some(Ok(Err(error))) = self.thread.take().map(ScopedJoinHandle::join) {
            println!("a member ended: {error}");
        }
    }
}

/// Whether every partition is held by one of these members, and each of them holds some.
fn shared(members: &[&Member<'_>], partitions: usize) -> bool {
    let held: Vec<_> = members.iter().map(|member| member.held()).collect();
    let all: BTreeSet<_> = held.iter().flatten().collect();
    held.iter().all(|held| !held.is_empty())
        && all.len() == partitions
        && held.iter().map(BTreeSet::len).sum::<usize>() == partitions
}

#[test]
fn three_instances_come_and_go_and_every_partition_is_estimated_once() {
    for (run, protocol) in PROTOCOLS {
        let Some(mut group) = Group::new(run, protocol, 6, 300) else { return };
        // Small steps, so that there is something in flight whenever partitions move.
        group.plan.stream.flow.records = 4;
        let (producer, plan) = (group.producer(), &group.plan);
        std::thread::scope(|scope| {
            let mut one = Member::start(scope, plan, None);
            wait_for(|| one.held().len() == 6);
            let producing = scope.spawn(move || producer.produce(0..100));
            let mut two = Member::start(scope, plan, None);
            let mut three = Member::start(scope, plan, None);
            wait_for(|| shared(&[&one, &two, &three], 6));
            producing.join().expect("produced");
            let producing = scope.spawn(move || producer.produce(100..200));
            one.leave().expect("a clean run");
            wait_for(|| shared(&[&two, &three], 6));
            producing.join().expect("produced");
            let producing = scope.spawn(move || producer.produce(200..300));
            let mut four = Member::start(scope, plan, None);
            wait_for(|| shared(&[&two, &three, &four], 6));
            two.leave().expect("a clean run");
            producing.join().expect("produced");
            wait_for(|| shared(&[&three, &four], 6) && three.has_done(300) && four.has_done(300));
            three.leave().expect("a clean run");
            four.leave().expect("a clean run");
        });
        group.assert_undisturbed();
    }
}

/// It took up to five minutes, in which pools whose keys had moved were estimated by nobody.
#[test]
fn partitions_that_are_added_are_taken_up_in_seconds() {
    for (run, protocol) in PROTOCOLS {
        let Some(group) = Group::new(run, protocol, 1, 1) else { return };
        std::thread::scope(|scope| {
            let mut one = Member::start(scope, &group.plan, None);
            wait_for(|| one.held().len() == 1);
            group.broker.add_partitions(&group.topic, 3);
            let begin = Instant::now();
            wait_for(|| one.held().len() == 3);
            assert!(begin.elapsed() < Duration::from_secs(100), "{run}: {:?}", begin.elapsed());
            one.leave().expect("a clean run");
        });
    }
}

/// Every figure of the members was fine, and a part of the log was read by nobody.
#[test]
fn partitions_that_no_member_has_are_noticed() {
    let (run, protocol) = PROTOCOLS[0];
    let Some(mut group) = Group::new(run, protocol, 1, 1) else { return };
    // Clients that learn of new partitions late, as by their own defaults: between two looks at the group.
    for (name, ms) in
        [("topic.metadata.refresh.interval.ms", "40000"), ("topic.metadata.propagation.max.ms", "120000")]
    {
        group.plan.stream.connection.properties.push((name.to_owned(), ms.to_owned()));
    }
    std::thread::scope(|scope| {
        let mut one = Member::start(scope, &group.plan, None);
        wait_for(|| one.held().len() == 1);
        group.broker.add_partitions(&group.topic, 3);
        wait_for(|| one.seen.story().unowned == [Partition(1), Partition(2)]);
        wait_for(|| one.held().len() == 3);
        wait_for(|| one.seen.story().unowned.is_empty());
        one.leave().expect("a clean run");
    });
}

#[test]
fn a_group_goes_over_to_the_new_protocol_one_member_after_another() {
    let Some(group) = Group::new("over", MemberProtocol::default(), 4, 300) else { return };
    let mut newer = group.plan.clone();
    newer.stream.membership.protocol = MemberProtocol::Consumer;
    newer.stream.connection.properties = session(MemberProtocol::Consumer, "");
    let (group, newer) = (&group, &newer);
    std::thread::scope(|scope| {
        let mut one = Member::start(scope, &group.plan, None);
        wait_for(|| one.held().len() == 4);
        group.produce(0..100);
        wait_for(|| one.has_done(100));
        let mut two = Member::start(scope, newer, None);
        wait_for(|| shared(&[&one, &two], 4));
        group.produce(100..200);
        wait_for(|| one.has_done(200) && two.has_done(200));
        one.leave().expect("a clean run");
        let mut three = Member::start(scope, newer, None);
        wait_for(|| shared(&[&two, &three], 4));
        group.produce(200..300);
        wait_for(|| two.has_done(300) && three.has_done(300));
        two.leave().expect("a clean run");
        three.leave().expect("a clean run");
    });
    group.assert_undisturbed();
}

/// Partitions of an instance that was scaled away belonged to nobody until its session ended.
#[test]
fn a_member_with_a_name_that_is_to_leave_gives_its_partitions_to_the_others_at_once() {
    for (run, protocol) in &PROTOCOLS[..2] {
        let Some(mut group) = Group::new(&format!("{run}-leave"), *protocol, 4, 200) else { return };
        let session = Duration::from_secs(60);
        group.be_patient("60000");
        let (group, plan) = (&group, &group.plan);
        let mut leaving = plan.clone();
        leaving.stream.membership.leave_on_stop = true;
        std::thread::scope(|scope| {
            let mut one = Member::start(scope, plan, Some("one"));
            let mut two = Member::start(scope, &leaving, Some("two"));
            wait_for(|| shared(&[&one, &two], 4));
            group.produce(0..100);
            wait_for(|| one.has_done(100) && two.has_done(100));
            let begin = Instant::now();
            two.leave().expect("a clean run");
            wait_for(|| one.held().len() == 4);
            assert!(begin.elapsed() < session * 2 / 3, "{run}: {:?}", begin.elapsed());
            println!("{run}: the others have its partitions after {:?}", begin.elapsed());
            group.produce(100..200);
            wait_for(|| one.has_done(200));
            one.leave().expect("a clean run");
        });
        group.assert_undisturbed();
    }
}

#[test]
fn a_member_with_a_name_restarts_without_a_rebalance() {
    for (run, protocol) in PROTOCOLS {
        let Some(mut group) = Group::new(run, protocol, 4, 200) else { return };
        // A restart takes less, also on a busy machine.
        group.be_patient("30000");
        let (group, plan) = (&group, &group.plan);
        std::thread::scope(|scope| {
            let mut one = Member::start(scope, plan, Some("one"));
            let mut two = Member::start(scope, plan, Some("two"));
            wait_for(|| shared(&[&one, &two], 4));
            group.produce(0..100);
            wait_for(|| one.has_done(100) && two.has_done(100));
            let (held, rebalances) = (one.held(), two.seen.story().rebalances);
            one.leave().expect("a clean run");
            let mut one = Member::start(scope, plan, Some("one"));
            wait_for(|| one.held() == held);
            group.produce(100..200);
            wait_for(|| one.has_done(200) && two.has_done(200));
            assert_eq!(two.seen.story().rebalances, rebalances, "{run}: the other member saw a rebalance");
            one.leave().expect("a clean run");
            two.leave().expect("a clean run");
        });
        group.assert_undisturbed();
    }
}

/// How a configuration names it.
fn assignment(strategy: AssignmentStrategy) -> &'static str {
    match strategy {
        AssignmentStrategy::CooperativeSticky => "cooperative-sticky",
        AssignmentStrategy::Range => "range",
        AssignmentStrategy::RoundRobin => "roundrobin",
    }
}

/// Two processes, as they are in life: a client doubts that it was fenced if any client of its process had trouble with
/// brokers, and the tests of one program make trouble for each other.
#[test]
fn the_elder_of_two_members_with_one_name_ends_with_a_clear_error() {
    for (run, protocol) in PROTOCOLS {
        let Some(group) = Group::new(run, protocol, 2, 300) else { return };
        let (folder, input) = (tempfile::tempdir().expect("a folder"), &group.input);
        let member = match protocol {
            MemberProtocol::Consumer => "group_protocol = \"consumer\"\n".to_owned(),
            MemberProtocol::Classic(strategy) => {
                let properties = session(protocol, "6000").into_iter();
                let properties: String =
                    properties.map(|(name, value)| format!("\"{name}\" = \"{value}\"\n")).collect();
                format!("assignment = \"{}\"\n[kafka.properties]\n{properties}", assignment(strategy))
            }
        };
        let start = |name: &str| {
            let extra = format!("instance = \"same\"\n{member}");
            let config = configure(&group.broker, folder.path(), run, name, &extra);
            Instance::start(&config, folder.path().join(format!("{name}.log")))
        };
        let done = |records: usize| {
            let mut part = Input { partitions: input.partitions.clone() };
            part.partitions.values_mut().for_each(|of| of.truncate(records));
            let expected = part.expected(&group.plan.task);
            wait_for(|| Published::read(&group.broker, &group.plan.stream.outputs) == expected);
        };
        let mut elder = start("elder");
        group.produce(0..100);
        done(100);
        let mut younger = start("younger");
        // It has its producer and asked for its place, which brokers of the new protocol refuse as long as the elder is
        // there. The elder learns of it when it publishes, at the latest.
        let asked = ["partition 0: ", "joining the group anew"];
        wait_for(|| elder.ended().is_some() || asked.iter().any(|words| younger.said().contains(words)));
        group.produce(100..200);
        assert_eq!(elder.wait(PATIENCE).code(), Some(1), "{run}: {}", elder.said());
        let said = elder.said();
        assert!(said.contains("kafka.instance") && said.contains("name of its own"), "{run}: {said}");
        group.produce(200..300);
        done(300);
        younger.signal("TERM");
        let status = younger.wait(PATIENCE);
        assert!(status.success(), "{run}: the younger one goes on: {status}: {}", younger.said());
        group.assert_undisturbed();
    }
}

#[test]
fn a_partition_that_comes_back_untouched_goes_on_from_memory() {
    for (run, protocol) in PROTOCOLS {
        let Some(group) = Group::new(run, protocol, 4, 300) else { return };
        let (group, plan) = (&group, &group.plan);
        std::thread::scope(|scope| {
            let mut one = Member::start(scope, plan, None);
            wait_for(|| one.held().len() == 4);
            group.produce(0..100);
            wait_for(|| one.has_done(100));
            // Partitions go and come back, and nobody has written to them meanwhile.
            let mut two = Member::start(scope, plan, None);
            wait_for(|| shared(&[&one, &two], 4));
            let moved = two.held();
            let seen = one.seen.story().resumes.len();
            two.leave().expect("a clean run");
            wait_for(|| one.held().len() == 4);
            assert_resumed(&one, seen, &moved, |resume| resume.origin == Origin::Parked);
            group.produce(100..200);
            wait_for(|| one.has_done(200));
            // Now they are worked on while they are away: what was kept is out of date.
            let mut two = Member::start(scope, plan, None);
            wait_for(|| shared(&[&one, &two], 4));
            let (moved, seen) = (two.held(), one.seen.story().resumes.len());
            group.produce(200..300);
            wait_for(|| one.has_done(300) && two.has_done(300));
            two.leave().expect("a clean run");
            wait_for(|| one.held().len() == 4);
            assert_resumed(&one, seen, &moved, |resume| {
                resume.origin == Origin::Rebuild && resume.explanation.ends_with("is at 200 and is dropped")
            });
            one.leave().expect("a clean run");
        });
        group.assert_undisturbed();
    }
}

fn assert_resumed(
    member: &Member<'_>,
    after: usize,
    partitions: &BTreeSet<Partition>,
    how: fn(&Resume) -> bool,
) {
    let story = member.seen.story();
    for partition in partitions {
        let resume = story.resumes[after..].iter().rev().find(|(resumed, _)| resumed == partition);
        let (_, resume) = resume.expect("it came back");
        assert!(how(resume), "partition {partition}: {}", resume.explanation);
    }
}

#[test]
fn a_partition_is_committed_before_it_is_given_up() {
    for (run, protocol) in PROTOCOLS {
        let Some(mut group) = Group::new(run, protocol, 2, 200) else { return };
        let never = Duration::from_secs(3600);
        group.plan.stream.commit =
            CommitPace { every: never, linger: never, records: u64::MAX, bytes: usize::MAX };
        let (group, plan) = (&group, &group.plan);
        std::thread::scope(|scope| {
            let mut one = Member::start(scope, plan, None);
            wait_for(|| one.held().len() == 2);
            group.produce(0..200);
            wait_for(|| one.has_done(200));
            let mut two = Member::start(scope, plan, None);
            wait_for(|| shared(&[&one, &two], 2));
            for (partition, resume) in &two.seen.story().resumes {
                assert_eq!(
                    resume.publish_from,
                    NextOffset(200),
                    "partition {partition}: {}",
                    resume.explanation
                );
            }
            one.leave().expect("a clean run");
            two.leave().expect("a clean run");
        });
        group.assert_undisturbed();
    }
}

/// A member that stood still with estimates in hand, while another one did all of its work.
fn overtaken<'scope>(scope: &'scope Scope<'scope, '_>, group: &Group) -> Member<'scope> {
    let mut plan = group.plan.clone();
    plan.stream.connection.properties.push(("max.poll.interval.ms".to_owned(), "6000".to_owned()));
    let one = Member::start(scope, &plan, None);
    wait_for(|| one.held().len() == 2);
    group.produce(0..100);
    wait_for(|| one.has_done(100));
    one.seen.story().stand = Stand::Asked;
    group.produce(100..200);
    wait_for(|| one.seen.story().stand == Stand::Still);
    let mut two = Member::start(scope, &plan, None);
    wait_for(|| two.held().len() == 2 && two.has_done(200));
    two.leave().expect("a clean run");
    one
}

/// A suspended process, say: the group gives its partitions to others, and what it had in hand is theirs.
#[test]
fn a_member_that_stood_still_drops_what_it_lost_and_joins_again() {
    for (run, protocol) in PROTOCOLS {
        let Some(group) = Group::new(run, protocol, 2, 300) else { return };
        let group = &group;
        std::thread::scope(|scope| {
            let mut one = overtaken(scope, group);
            one.seen.go_on();
            wait_for(|| one.seen.story().gone >= 2 && one.held().len() == 2);
            group.produce(200..300);
            wait_for(|| one.has_done(300));
            one.leave().expect("a clean run");
        });
        group.assert_undisturbed();
    }
}

#[test]
fn a_member_that_lost_its_partitions_before_its_last_commit_stops_in_order() {
    for (run, protocol) in PROTOCOLS {
        let Some(group) = Group::new(run, protocol, 2, 200) else { return };
        let group = &group;
        std::thread::scope(|scope| {
            let mut one = overtaken(scope, group);
            one.shutdown.request();
            one.seen.go_on();
            one.leave().expect("its work is done by another member");
        });
        group.assert_undisturbed();
    }
}

#[test]
fn polling_goes_on_while_partitions_are_paused_behind_a_slow_worker() {
    let Some(mut group) = Group::new("slow", MemberProtocol::default(), 1, 150) else { return };
    // One at a time, and each of them long: the partition is paused after every record. All together take longer
    // than a member may go without polling.
    group.plan.stream.connection.properties.push(("max.poll.interval.ms".to_owned(), "6000".to_owned()));
    group.plan.stream.flow.records = 1;
    let ids = (0..400_000).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    for (at, (_, value)) in group.input.partitions.get_mut(&0).expect("one").iter_mut().enumerate() {
        let time = 36_000_000 + at as i64 * 20_000;
        *value = format!(
            "{{\"event_time\": {time}, \"page_size\": 1, \"page_ids\": [{ids}], \"input_tokens\": 400000}}"
        )
        .into_bytes();
    }
    let (group, plan) = (&group, &group.plan);
    // All are there before the member is: it shall wait for its worker, not for whoever writes to the topic.
    group.produce(0..150);
    std::thread::scope(|scope| {
        let mut one = Member::start(scope, plan, None);
        wait_for(|| one.held().len() == 1);
        wait_for(|| one.has_done(150));
        let story = one.seen.story();
        assert_eq!((story.gone, story.rebalances), (0, 1), "the group saw nothing of it");
        drop(story);
        one.leave().expect("a clean run");
    });
    group.assert_undisturbed();
}
