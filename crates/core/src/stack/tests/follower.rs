//! Replicas along a pool's tree alongside stacks of their own.

use super::*;
use crate::stack::Follower;
use crate::units::heap::HeapBytes;

fn config(order: Order, bound: u64) -> StackConfig {
    StackConfig {
        order,
        max_tracked_pages: PageCount(bound),
        chain_check: ChainCheck::Full,
        chain_policy: ChainPolicy::Report,
    }
}

/// A replica's cache, kept along the pool's tree until that may forget.
enum Kept {
    Along(Box<Follower>),
    Apart(Box<Stack>),
}

impl Kept {
    fn access(&mut self, pool: &Stack, access: &Access<'_>, outcome: &mut Outcome) {
        match self {
            Self::Along(follower) => {
                follower.access(pool, access.lookup(), access.unshared_outputs, outcome);
            }
            Self::Apart(stack) => stack.access(access, outcome).expect("reported only"),
        }
    }

    /// The same after it was written to a snapshot and read back.
    fn read_back(self, pool: &Stack) -> Self {
        match self {
            Self::Along(follower) => {
                let bytes = postcard::to_allocvec(&follower).expect("memory");
                let mut read: Follower = postcard::from_bytes(&bytes).expect("what was written");
                assert!(read.resume(pool), "it fits the pool's stack");
                assert_eq!(postcard::to_allocvec(&read).expect("memory"), bytes, "the same state");
                Self::Along(Box::new(read))
            }
            apart @ Self::Apart(_) => apart,
        }
    }

    fn apart(self, pool: &Stack, config: StackConfig) -> Self {
        match self {
            Self::Along(follower) => Self::Apart(Box::new(follower.into_stack(pool, config))),
            apart @ Self::Apart(_) => apart,
        }
    }
}

proptest! {
    /// Whatever is asked of it: looked up, written down in between, or on its own once the pool may forget.
    #[test]
    fn a_replica_along_the_pools_tree_equals_a_stack_of_its_own(
        draws in draws(),
        replicas in prop::collection::vec(0usize..3, 80),
        scopes in prop::collection::vec(0u64..3, 80),
        order in prop_oneof![Just(Order::RootFirst), Just(Order::LeafFirst)],
        bound in prop_oneof![Just(1_000_000), 20u64..200],
        written in 0usize..80,
    ) {
        let config = config(order, bound);
        let mut pool = Stack::new(config);
        let mut own: Vec<Stack> = (0..3).map(|_| Stack::new(config)).collect();
        let mut kept: Vec<Kept> = (0..3).map(|_| Kept::Along(Box::default())).collect();
        let (mut found, mut expected, mut looked) = <(Outcome, Outcome, Outcome)>::default();
        for (number, (ids, outputs)) in requests(&draws).into_iter().enumerate() {
            let access = Access {
                scope: Scope::named(&scopes[number % 80].to_le_bytes()),
                pages: PageIds::from_slice(&ids),
                lookup_limit: ids.len().saturating_sub(number % 2),
                unshared_outputs: outputs,
                extra_need: number as u64 % 3,
                keeps_copies: order == Order::LeafFirst,
                ..Access::default()
            };
            if number == written {
                kept = kept.into_iter().map(|kept| kept.read_back(&pool)).collect();
            }
            if pool.may_forget((ids.len() as u64) + u64::from(outputs)) {
                kept = kept.into_iter().map(|kept| kept.apart(&pool, config)).collect();
            }
            pool.access(&access, &mut found).expect("reported only");
            let replica = replicas[number % 80];
            own[replica].access(&access, &mut expected).expect("reported only");
            if let Kept::Along(follower) = &mut kept[replica] {
                follower.look_up(&pool, access.lookup(), &mut looked);
                prop_assert_eq!(&looked.runs, &expected.runs, "looked up, request {}", number);
            }
            kept[replica].access(&pool, &access, &mut found);
            found.chain_violations = expected.chain_violations;
            prop_assert_eq!(&found, &expected, "request {}", number);
        }
    }
}

/// More requests than slots are kept for, in sessions that grow and are left half-way.
#[test]
fn a_replica_along_the_pools_tree_renumbers_its_slots() {
    let config = config(Order::LeafFirst, 1 << 20);
    let (mut pool, mut own, mut follower) = (Stack::new(config), Stack::new(config), Follower::default());
    let (mut found, mut expected) = (Outcome::default(), Outcome::default());
    for number in 0..20_000_u64 {
        let chance = crate::units::pages::mix(number);
        let (session, pages) = (chance % 40, 1 + (chance >> 32) % 30);
        let ids: Vec<u64> =
            [7].into_iter().chain((1..pages).map(|page| (session + 1) << 32 | page)).collect();
        let access =
            Access { pages: PageIds::from_slice(&ids), lookup_limit: ids.len(), ..Access::default() };
        pool.access(&access, &mut found).expect("chained");
        if chance.is_multiple_of(3) {
            continue;
        }
        own.access(&access, &mut expected).expect("chained");
        follower.access(&pool, access.lookup(), 0, &mut found);
        assert_eq!(found, expected, "request {number}");
    }
    assert!(follower.heap_bytes() < own.heap_bytes(), "it keeps no ids");
}

#[test]
fn a_follower_of_another_stack_is_refused() {
    let config = config(Order::RootFirst, 1 << 20);
    let (mut pool, mut follower, mut outcome) = (Stack::new(config), Follower::default(), Outcome::default());
    let ids = [1, 2, 3];
    let access = Access { pages: PageIds::from_slice(&ids), ..Access::default() };
    pool.access(&access, &mut outcome).expect("chained");
    follower.access(&pool, access.lookup(), 0, &mut outcome);
    let bytes = postcard::to_allocvec(&follower).expect("memory");
    let read = || postcard::from_bytes::<Follower>(&bytes).expect("what was written");
    assert!(read().resume(&pool));
    assert!(!read().resume(&Stack::new(config)), "the place is no segment there");
    let mut short = Stack::new(config);
    let access = Access { pages: PageIds::from_slice(&ids[..2]), ..Access::default() };
    short.access(&access, &mut outcome).expect("chained");
    assert!(!read().resume(&short), "the segment does not reach that far");
}
