//! A member with a stable name that gave partitions up is killed before it joins again, and is back within its
//! session: the brokers give it what it had, and nobody those partitions.

use crate::kafka_support::{Broker, wait_for};
use kvset::kafka::config::{AssignmentStrategy, MemberProtocol, Membership};
use kvset::kafka::member::{Event, Member as _};
use kvset::kafka::source::Source;
use kvset::position::{NextOffset, Partition};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

const PARTITIONS: u32 = 4;
const MOMENT: Duration = Duration::from_millis(50);

/// A member, and what it has.
struct Held {
    source: Source,
    partitions: BTreeSet<Partition>,
    /// Whether it was ever given anything, or nothing.
    is_assigned: bool,
}

impl Held {
    fn join(broker: &Broker, topic: &str, name: &str) -> Self {
        let membership = Membership {
            group: broker.topic("stuck"),
            instance: Some(name.to_owned()),
            leave_on_stop: false,
            protocol: MemberProtocol::Classic(AssignmentStrategy::CooperativeSticky),
            poll_within: Duration::from_secs(60),
        };
        let source = Source::join(&broker.connection, &membership, topic).expect("a member");
        Self { source, partitions: BTreeSet::new(), is_assigned: false }
    }

    /// Answers what comes within a moment; gives what is to be given up, unanswered.
    fn poll(&mut self) -> Vec<Partition> {
        match self.source.poll(MOMENT) {
            Some(Event::Assigned(partitions)) => {
                let starts: Vec<_> = partitions.iter().map(|partition| (*partition, NextOffset(0))).collect();
                self.source.assign(&starts).expect("assigned");
                self.is_assigned = true;
                self.partitions.extend(partitions);
                Vec::new()
            }
            Some(Event::Revoked(partitions) | Event::Lost(partitions)) => partitions,
            _ => Vec::new(),
        }
    }

    /// The same, and gives up what it must.
    fn obey(&mut self) {
        let partitions = self.poll();
        if !partitions.is_empty() {
            self.source.unassign(&partitions).expect("given up");
            self.partitions.retain(|partition| !partitions.contains(partition));
        }
    }
}

#[test]
fn partitions_of_a_member_killed_on_the_way_get_owners_again() {
    let Some(mut broker) = Broker::real() else { return };
    // Long enough that no session ends meanwhile, which would have the partitions shared out by itself.
    let properties = [("session.timeout.ms", "45000"), ("heartbeat.interval.ms", "500")];
    broker.connection.properties =
        properties.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let topic = broker.create("requests", PARTITIONS);
    let mut one = Held::join(&broker, &topic, "one");
    wait_for(|| {
        one.obey();
        one.partitions.len() == PARTITIONS as usize
    });
    let two = RefCell::new(Held::join(&broker, &topic, "two"));
    wait_for(|| {
        two.borrow_mut().obey();
        !one.poll().is_empty()
    });
    // Killed: what was to be given up is not, and nobody joins again.
    drop(one);
    let mut one = Held::join(&broker, &topic, "one");
    wait_for(|| {
        two.borrow_mut().obey();
        one.obey();
        one.is_assigned && two.borrow().is_assigned
    });
    let unowned = |of: &Held| of.source.unowned(Duration::from_secs(10)).expect("a description");
    let found = [unowned(&one), unowned(&two.borrow())];
    let held = one.partitions.len() + two.borrow().partitions.len();
    assert!(held < PARTITIONS as usize, "the brokers shared them out: nothing is left to show");
    assert_eq!(found[0].0.len(), PARTITIONS as usize - held);
    assert_eq!(found.iter().filter(|(_, is_mine)| *is_mine).count(), 1, "one of them sees to it: {found:?}");

    let mut two = two.into_inner();
    if found[0].1 { &one } else { &two }.source.share_out_again();
    wait_for(|| {
        two.obey();
        one.obey();
        one.partitions.len() + two.partitions.len() == PARTITIONS as usize && unowned(&one).0.is_empty()
    });
    assert!(one.partitions.is_disjoint(&two.partitions) && !two.partitions.is_empty());
}
