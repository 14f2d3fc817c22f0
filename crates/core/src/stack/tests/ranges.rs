//! Ranges taken side by side and merged in order, against one stack that takes all requests.

use super::*;

/// A request as a stack gets it.
#[derive(Debug, Clone)]
struct Drawn {
    scope: Scope,
    ids: Vec<u64>,
    lookup_limit: usize,
    outputs: u32,
    extra_need: u64,
}

impl Drawn {
    fn access(&self) -> Access<'_> {
        Access {
            scope: self.scope,
            lookup_limit: self.lookup_limit,
            extra_need: self.extra_need,
            ..access(&self.ids, self.outputs)
        }
    }
}

/// Chained requests of some scopes, and requests whose ids are not chained.
fn drawn(most: usize) -> impl Strategy<Value = Vec<Drawn>> {
    let beside =
        (0u64..3, 0usize..4, 0u64..2, prop::option::weighted(0.1, prop::collection::vec(0u64..9, 0..12)));
    let draw = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..6, 0u32..3, 0u64..4)
        .prop_map(|(base, keep, grow, outputs, branch)| Draw { base, keep, grow, outputs, branch });
    prop::collection::vec((draw, beside), 1..most).prop_map(|all| {
        let (draws, beside): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let requests = requests(&draws).into_iter().skip(1);
        let drawn = |((ids, outputs), (scope, cut, extra_need, unchained)): ((Vec<u64>, u32), _)| {
            let ids: Vec<u64> = Option::unwrap_or(unchained, ids);
            let scope = if scope == 0 { Scope::GLOBAL } else { Scope::named(&[scope as u8]) };
            Drawn { scope, lookup_limit: ids.len().saturating_sub(cut), ids, outputs, extra_need }
        };
        requests.zip(beside).map(drawn).collect()
    })
}

/// The bytes of a stack once its dead slots are dropped, which is done now and then.
fn bytes(stack: &mut Stack) -> Vec<u8> {
    let renumbered = stack.slots.renumber();
    stack.tree.renumber_slots(&renumbered);
    postcard::to_allocvec(stack).expect("memory")
}

/// Takes requests as a range, or one after another where that is said to be the way.
fn take(stack: &mut Stack, requests: &[Drawn]) -> (Vec<Outcome>, Result<(), InOrder>) {
    let mut range = RangeStack::new(stack.config).expect("violations are reported");
    let taken = requests.iter().try_for_each(|request| range.access(&request.access()));
    let merged = taken.and_then(|()| stack.merge(range.finish()));
    let mut outcomes = Vec::new();
    for request in requests {
        let mut outcome = Outcome::default();
        match merged {
            Ok(()) => assert!(stack.access_next(request.extra_need, &mut outcome), "one for each"),
            Err(_) => stack.access(&request.access(), &mut outcome).expect("reported only"),
        }
        outcomes.push(outcome);
    }
    assert!(!stack.access_next(0, &mut Outcome::default()), "no more than there are");
    (outcomes, merged)
}

/// Merges ranges of requests that end where `cuts` say. Whether all of them were merged.
fn equals_one_stack(
    fresh: impl Fn() -> Stack,
    requests: &[Drawn],
    cuts: &[prop::sample::Index],
) -> Result<bool, TestCaseError> {
    let (mut one, mut merged) = (fresh(), fresh());
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(requests.len() + 1)).collect();
    ends.push(requests.len());
    ends.sort_unstable();
    let (mut begin, mut all_merged) = (0, true);
    for end in ends {
        let range = &requests[begin..end];
        let mut expected = Outcome::default();
        let (found, how) = take(&mut merged, range);
        all_merged &= how.is_ok();
        for (request, found) in range.iter().zip(found) {
            one.access(&request.access(), &mut expected).expect("reported only");
            prop_assert_eq!(&found, &expected);
        }
        prop_assert_eq!(merged.tracked_pages(), one.tracked_pages());
        prop_assert_eq!(merged.accumulated_pages(), one.accumulated_pages());
        prop_assert_eq!(merged.disproved, one.disproved);
        prop_assert_eq!(merged.chain.counts(), one.chain.counts());
        prop_assert!(bytes(&mut merged) == bytes(&mut one), "one state after request {}", end);
        begin = end;
    }
    Ok(all_merged)
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 1..64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4000 }))]

    #[test]
    fn two_to_64_merged_ranges_equal_one_stack(requests in drawn(120), cuts in cuts(), root_first: bool, full: bool) {
        let order = if root_first { Order::RootFirst } else { Order::LeafFirst };
        let fresh = || if full { stack(order, MAX_TRACKED_PAGES) } else { sampling_stack(order) };
        prop_assert!(equals_one_stack(fresh, &requests, &cuts)?, "nothing stands in the way");
    }

    #[test]
    fn ranges_within_and_beyond_the_bound_equal_one_stack(
        requests in drawn(80), cuts in cuts(), root_first: bool, bound in 1u64..200,
    ) {
        let order = if root_first { Order::RootFirst } else { Order::LeafFirst };
        equals_one_stack(|| stack(order, bound), &requests, &cuts)?;
    }
}

fn drawn_of(ids: &[u64]) -> Drawn {
    Drawn { scope: Scope::GLOBAL, ids: ids.to_vec(), lookup_limit: ids.len(), outputs: 0, extra_need: 0 }
}

/// Sessions that take turns and branch, long enough for slots to be renumbered while a range is merged.
#[test]
fn ranges_of_many_requests_equal_one_stack() {
    let session = |number: u64| -> Vec<u64> {
        let turns = 3 + number % 400 * 7 % 90;
        (0..turns).map(|page| if page < 20 { page } else { number % 400 * 1000 + page }).collect()
    };
    let requests: Vec<Drawn> = (0..9000).map(|number| drawn_of(&session(number * number % 977))).collect();
    for order in [Order::RootFirst, Order::LeafFirst] {
        for size in [9000, 4000, 500] {
            let (mut one, mut merged) = (sampling_stack(order), sampling_stack(order));
            for range in requests.chunks(size) {
                let (found, how) = take(&mut merged, range);
                assert_eq!(how, Ok(()));
                for (request, found) in range.iter().zip(found) {
                    let mut expected = Outcome::default();
                    one.access(&request.access(), &mut expected).expect("reported only");
                    assert_eq!(found, expected);
                }
            }
            assert!(bytes(&mut merged) == bytes(&mut one), "one state");
        }
    }
}

#[test]
fn what_depends_on_all_requests_before_is_not_taken_in_ranges() {
    let config = stack(Order::RootFirst, 10).config;
    for chain_policy in [ChainPolicy::Reject, ChainPolicy::Trust] {
        let refused = RangeStack::new(StackConfig { chain_policy, ..config }).err();
        assert_eq!(refused, Some(InOrder::Policy));
    }
    let mut range =
        RangeStack::new(StackConfig { chain_check: ChainCheck::Sampled, ..config }).expect("a range");
    assert_eq!(range.access(&access(&[1; 10], 1)), Err(InOrder::Bound));
    let declared = Access { ids_chained: true, ..access(&[1], 0) };
    assert_eq!(range.access(&declared), Err(InOrder::Declared));
    assert_eq!(range.access(&access(&[1, 2], 0)), Ok(()));
    let range = range.finish();
    assert_eq!((range.requests(), range.pages), (1, 2));
    assert_eq!(stack(Order::RootFirst, 11).merge(range).err(), Some(InOrder::Unfit));
}

#[test]
fn a_stack_that_merges_is_not_written() {
    let mut stack = sampling_stack(Order::RootFirst);
    let mut range = RangeStack::new(stack.config).expect("a range");
    range.access(&access(&[1], 0)).expect("taken");
    stack.merge(range.finish()).expect("merged");
    assert!(postcard::to_allocvec(&stack).is_err());
    assert!(stack.access_next(0, &mut Outcome::default()) && !stack.is_merging());
    assert!(postcard::to_allocvec(&stack).is_ok());
}
