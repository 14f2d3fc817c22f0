//! The stack against an obvious one: a list of whole prefixes, most recent first.

mod follower;
mod ranges;

use super::*;
use crate::units::heap::HeapBytes;
use proptest::prelude::*;

/// A page is its whole prefix; the list is the LRU stack itself.
struct NaiveStack {
    order: Order,
    stack: Vec<Vec<u64>>,
    outputs: u64,
}

impl NaiveStack {
    fn new(order: Order) -> Self {
        Self { order, stack: Vec::new(), outputs: 0 }
    }

    /// Need of every page of the request that was seen before, in prefix order, as one running maximum.
    fn access(&mut self, ids: &[u64], outputs: u32) -> Vec<u64> {
        let prefixes: Vec<_> = (1..=ids.len()).map(|end| ids[..end].to_vec()).collect();
        let depths: Vec<Option<u64>> = match self.order {
            Order::RootFirst => prefixes.iter().map(|page| self.touch(page)).collect(),
            Order::LeafFirst => prefixes.iter().map(|page| self.depth(page)).collect(),
        };
        self.push_outputs(outputs);
        if self.order == Order::LeafFirst {
            for page in prefixes.iter().rev() {
                self.touch(page);
            }
        }
        let mut running = 0;
        let mut need_of = |depth: u64| {
            running = running.max(depth + 1);
            running
        };
        depths.into_iter().map_while(|depth| depth.map(&mut need_of)).collect()
    }

    fn push_outputs(&mut self, outputs: u32) {
        for _ in 0..outputs {
            self.outputs += 1;
            self.stack.insert(0, vec![u64::MAX, self.outputs]);
        }
    }

    fn depth(&self, page: &[u64]) -> Option<u64> {
        self.stack.iter().position(|held| held == page).map(|depth| depth as u64)
    }

    fn touch(&mut self, page: &[u64]) -> Option<u64> {
        let depth = self.depth(page);
        if let Some(depth) = depth {
            self.stack.remove(depth as usize);
        }
        self.stack.insert(0, page.to_vec());
        depth
    }
}

/// A request of a random chained workload: reuse a part of an earlier one, then grow.
#[derive(Debug, Clone)]
struct Draw {
    base: prop::sample::Index,
    keep: prop::sample::Index,
    grow: u8,
    outputs: u32,
    branch: u64,
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let draw = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..6, 0u32..3, 0u64..4)
        .prop_map(|(base, keep, grow, outputs, branch)| Draw { base, keep, grow, outputs, branch });
    prop::collection::vec(draw, 1..80)
}

/// Turns draws into requests with chained ids: branching, truncation, exact repeats and regrowth.
fn requests(draws: &[Draw]) -> Vec<(Vec<u64>, u32)> {
    let mut made: Vec<(Vec<u64>, u32)> = vec![(Vec::new(), 0)];
    for draw in draws {
        let base = &made[draw.base.index(made.len())].0;
        let mut ids = base[..draw.keep.index(base.len() + 1)].to_vec();
        for _ in 0..draw.grow {
            let parent = ids.last().copied().unwrap_or(7);
            ids.push(crate::units::pages::mix(parent ^ draw.branch));
        }
        made.push((ids, draw.outputs));
    }
    made
}

fn stack(order: Order, bound: u64) -> Stack {
    Stack::new(StackConfig {
        order,
        max_tracked_pages: PageCount(bound),
        chain_check: ChainCheck::Full,
        chain_policy: ChainPolicy::Report,
    })
}

/// A stack that looks at some ids only for violations, as stacks do unless they are to count them exactly.
fn sampling_stack(order: Order) -> Stack {
    let config = stack(order, MAX_TRACKED_PAGES).config;
    Stack::new(StackConfig { chain_check: ChainCheck::Sampled, ..config })
}

fn access<'a>(ids: &'a [u64], outputs: u32) -> Access<'a> {
    Access {
        pages: PageIds::from_slice(ids),
        lookup_limit: ids.len(),
        unshared_outputs: outputs,
        ..Access::default()
    }
}

fn needs(outcome: &Outcome) -> Vec<u64> {
    outcome.runs.iter().flat_map(|run| (0..run.pages).map(|page| run.need_at(page))).collect()
}

/// A stack that relies on ids being chained.
fn trusting_stack(order: Order) -> Stack {
    let config = stack(order, MAX_TRACKED_PAGES).config;
    Stack::new(StackConfig { chain_policy: ChainPolicy::Trust, ..config })
}

fn equals_the_naive_stack(
    mut fast: Stack,
    draws: &[Draw],
    is_declared: impl Fn(usize) -> bool,
) -> Result<(), TestCaseError> {
    let mut slow = NaiveStack::new(fast.config.order);
    let mut outcome = Outcome::default();
    let requests = requests(draws);
    for (index, (ids, outputs)) in requests.iter().enumerate() {
        // Looking ahead, at this request and at others, known and unknown, changes nothing.
        let next = (index..).zip(&requests[index..]);
        look_ahead(next.filter_map(|(index, (ids, _))| {
            fast.upcoming(Scope::GLOBAL, PageIds::from_slice(ids), is_declared(index))
        }));
        let access = Access { ids_chained: is_declared(index), ..access(ids, *outputs) };
        fast.access(&access, &mut outcome).expect("chained ids");
        prop_assert_eq!(needs(&outcome), slow.access(ids, *outputs));
        prop_assert_eq!(outcome.chain_violations, 0);
        prop_assert_eq!(fast.tracked_pages().0, slow.stack.len() as u64);
        prop_assert_eq!(fast.accumulated_pages().0, slow.stack.len() as u64);
    }
    Ok(())
}

/// With a bound, every need up to it is exact and everything beyond is reported as beyond, never as
/// new and never as a number.
fn is_exact_up_to_the_bound(order: Order, draws: &[Draw], bound: u64) -> Result<(), TestCaseError> {
    let (mut fast, mut slow) = (stack(order, bound), NaiveStack::new(order));
    let mut outcome = Outcome::default();
    for (ids, outputs) in requests(draws) {
        fast.access(&access(&ids, outputs), &mut outcome).expect("chained ids");
        let expected = slow.access(&ids, outputs);
        let found = needs(&outcome);
        let within = expected.iter().take_while(|&&need| need <= bound).count();
        prop_assert_eq!(found.len(), expected.len(), "a forgotten page is not new, a new one not forgotten");
        prop_assert_eq!(&found[..within], &expected[..within]);
        prop_assert!(found[within..].iter().all(|&need| need == BEYOND));
        let largest = ids.len() as u64 + u64::from(outputs);
        prop_assert!(fast.tracked_pages().0 < bound + largest.max(100), "memory is bounded");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4000 }))]

    #[test]
    fn every_distance_equals_the_naive_stack_root_first(draws in draws()) {
        equals_the_naive_stack(stack(Order::RootFirst, MAX_TRACKED_PAGES), &draws, |_| false)?;
    }

    #[test]
    fn looking_up_tells_what_an_access_finds_and_changes_nothing(draws in draws(), leaf_first: bool) {
        let order = if leaf_first { Order::LeafFirst } else { Order::RootFirst };
        let (mut asked, mut plain) = (stack(order, 1 << 20), stack(order, 1 << 20));
        let (mut told, mut found, mut expected) = (Outcome::default(), Outcome::default(), Outcome::default());
        for (ids, outputs) in requests(&draws) {
            asked.look_up(&access(&ids, outputs), &mut told);
            asked.access(&access(&ids, outputs), &mut found).expect("violations are only counted");
            plain.access(&access(&ids, outputs), &mut expected).expect("violations are only counted");
            prop_assert_eq!(&told.runs, &found.runs);
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn relying_on_chained_ids_changes_no_distance_where_they_are(draws in draws()) {
        for order in [Order::RootFirst, Order::LeafFirst] {
            equals_the_naive_stack(trusting_stack(order), &draws, |_| false)?;
        }
    }

    #[test]
    fn what_makers_declare_changes_no_distance_where_it_is_true(draws in draws(), declared: u64) {
        for order in [Order::RootFirst, Order::LeafFirst] {
            let is_declared = |index| declared >> (index % 64) & 1 == 1;
            equals_the_naive_stack(sampling_stack(order), &draws, is_declared)?;
        }
    }

    /// Wrong, and said to be wrong, but whole: what a walk by halving leaves behind is a tree.
    #[test]
    fn a_broken_promise_of_chained_ids_breaks_no_tree(
        requests in prop::collection::vec(prop::collection::vec(0u64..6, 0..40), 0..60),
    ) {
        let mut trusting = trusting_stack(Order::LeafFirst);
        let mut outcome = Outcome::default();
        for ids in &requests {
            trusting.access(&access(ids, 0), &mut outcome).expect("reported only");
            let bytes = postcard::to_allocvec(&trusting).expect("memory");
            prop_assert!(postcard::from_bytes::<Stack>(&bytes).is_ok(), "a sound tree");
        }
    }

    #[test]
    fn a_snapshot_in_mid_life_changes_nothing_after_it(draws in draws(), bound in 1u64..60, at in 0usize..80) {
        let (mut kept, mut moved) = (stack(Order::LeafFirst, bound), stack(Order::LeafFirst, bound));
        let (mut expected, mut found) = (Outcome::default(), Outcome::default());
        for (index, (ids, outputs)) in requests(&draws).into_iter().enumerate() {
            if index == at {
                let bytes = postcard::to_allocvec(&moved).expect("memory");
                moved = postcard::from_bytes(&bytes).expect("the bytes just written");
                prop_assert_eq!(postcard::to_allocvec(&moved).expect("memory"), bytes);
            }
            kept.access(&access(&ids, outputs), &mut expected).expect("chained ids");
            moved.access(&access(&ids, outputs), &mut found).expect("chained ids");
            prop_assert_eq!(&expected, &found);
        }
    }

    #[test]
    fn bytes_that_are_no_stack_are_refused_without_a_panic(
        draws in draws(), at in any::<prop::sample::Index>(), flip in 1u8..=255,
    ) {
        let mut original = stack(Order::RootFirst, 50);
        let mut outcome = Outcome::default();
        for (ids, outputs) in requests(&draws) {
            original.access(&access(&ids, outputs), &mut outcome).expect("chained ids");
        }
        let mut bytes = postcard::to_allocvec(&original).expect("memory");
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(mut read) = postcard::from_bytes::<Stack>(&bytes)
            && read.is_like(&stack(Order::RootFirst, 50))
        {
            for (ids, outputs) in requests(&draws) {
                let _ = read.access(&access(&ids, outputs), &mut outcome);
            }
        }
        prop_assert!(postcard::from_bytes::<Stack>(&bytes[..at]).is_err(), "a truncated stack");
    }

    #[test]
    fn every_distance_equals_the_naive_stack_leaf_first(draws in draws()) {
        equals_the_naive_stack(stack(Order::LeafFirst, MAX_TRACKED_PAGES), &draws, |_| false)?;
    }

    #[test]
    fn bounded_memory_is_exact_up_to_the_bound_root_first(draws in draws(), bound in 1u64..60) {
        is_exact_up_to_the_bound(Order::RootFirst, &draws, bound)?;
    }

    #[test]
    fn bounded_memory_is_exact_up_to_the_bound_leaf_first(draws in draws(), bound in 1u64..60) {
        is_exact_up_to_the_bound(Order::LeafFirst, &draws, bound)?;
    }
}

#[test]
fn the_worked_case_of_the_design_page_by_page() {
    // A B C A B A, each access a request of its own: distances - - - 2 2 1.
    let mut stack = stack(Order::RootFirst, 100);
    let mut outcome = Outcome::default();
    let found: Vec<_> = [1u64, 2, 3, 1, 2, 1]
        .iter()
        .map(|id| {
            stack.access(&access(&[*id], 0), &mut outcome).expect("chained");
            needs(&outcome).first().map(|need| need - 1)
        })
        .collect();
    assert_eq!(found, [None, None, None, Some(2), Some(2), Some(1)]);
}

#[test]
fn the_worked_case_of_the_design_request_by_request() {
    let mut stack = stack(Order::RootFirst, 100);
    let mut outcome = Outcome::default();
    stack.access(&access(&[1, 2], 0), &mut outcome).expect("chained");
    stack.access(&access(&[1, 3], 0), &mut outcome).expect("chained");
    assert_eq!((outcome.reusable_prefix(), outcome.need_of_prefix(1)), (1, 2));
}

#[test]
fn equal_ids_in_two_scopes_are_two_pages() {
    for ids in [&[1, 2, 3][..], &[1]] {
        let mut stack = stack(Order::RootFirst, 100);
        let mut outcome = Outcome::default();
        for scope in [Scope::GLOBAL, Scope::named(b"a"), Scope::named(b"b")] {
            stack.access(&Access { scope, ..access(ids, 0) }, &mut outcome).expect("chained");
            assert_eq!((outcome.reusable_prefix(), outcome.chain_violations), (0, 0));
        }
        assert_eq!(stack.tracked_pages(), PageCount(3 * ids.len() as u64));
    }
}

#[test]
fn an_id_under_two_prefixes_is_counted_once_a_page() {
    let mut stack = stack(Order::RootFirst, 100);
    let mut outcome = Outcome::default();
    let mut violations = Vec::new();
    for ids in [&[1, 2, 3][..], &[9, 2, 3], &[9, 2, 3], &[2], &[5, 5]] {
        stack.access(&access(ids, 0), &mut outcome).expect("reported only");
        violations.push(outcome.chain_violations);
    }
    assert_eq!(violations, [0, 2, 0, 1, 1]);
}

#[test]
fn a_broken_promise_of_chained_ids_is_noticed_and_counted() {
    let mut trusting = trusting_stack(Order::RootFirst);
    let mut outcome = Outcome::default();
    let mut violations = 0;
    // The last of a hundred pages is the same under a thousand prefixes.
    for number in 0..1000u64 {
        let mut ids: Vec<u64> = (0..99).map(|page| if page == 50 { 1000 + number } else { page }).collect();
        ids.push(99);
        trusting.access(&access(&ids, 0), &mut outcome).expect("reported only");
        violations += outcome.chain_violations;
    }
    assert!(violations > 0, "one request in 64 is compared whole");
}

/// How many pages of a request are taken for known that differs from one before in the midst of three.
fn taken_for_known(stack: &mut Stack) -> u64 {
    let mut outcome = Outcome::default();
    for ids in [[21, 22, 23], [21, 99, 23]] {
        let access = Access { ids_chained: true, ..access(&ids, 0) };
        stack.access(&access, &mut outcome).expect("reported only");
    }
    outcome.reusable_prefix()
}

#[test]
fn a_word_for_chained_ids_counts_until_a_page_is_found_that_breaks_it() {
    let never_broken = &mut sampling_stack(Order::RootFirst);
    assert_eq!(taken_for_known(never_broken), 3, "the last id tells of those before it");

    let broken = &mut sampling_stack(Order::RootFirst);
    let watched = (1..).find(|id| ChainCheck::Sampled.watches(Scope::GLOBAL, *id)).expect("one in 256");
    let mut outcome = Outcome::default();
    for ids in [[1, watched], [3, watched]] {
        broken.access(&access(&ids, 0), &mut outcome).expect("reported only");
    }
    assert_eq!((outcome.chain_violations, taken_for_known(broken)), (1, 1));
}

#[test]
fn who_refuses_violations_or_counts_them_exactly_takes_nobodys_word() {
    let config = sampling_stack(Order::RootFirst).config;
    let rejecting = StackConfig { chain_policy: ChainPolicy::Reject, ..config };
    let counting = StackConfig { chain_check: ChainCheck::Full, ..config };
    for config in [rejecting, counting] {
        assert_eq!(taken_for_known(&mut Stack::new(config)), 1, "{config:?}");
    }
}

#[test]
fn a_refused_request_leaves_no_trace() {
    let config = StackConfig {
        order: Order::RootFirst,
        max_tracked_pages: PageCount(100),
        chain_check: ChainCheck::Full,
        chain_policy: ChainPolicy::Reject,
    };
    let mut stack = Stack::new(config);
    let mut outcome = Outcome::default();
    stack.access(&access(&[1, 2, 3], 0), &mut outcome).expect("chained");
    for _ in 0..2 {
        assert_eq!(stack.access(&access(&[9, 8, 2], 0), &mut outcome), Err(ChainViolation { pages: 1 }));
    }
    assert_eq!((stack.tracked_pages(), stack.requests()), (PageCount(3), 1));
    stack.access(&access(&[9, 8], 0), &mut outcome).expect("8 and 9 were not kept");
    assert_eq!(outcome.reusable_prefix(), 0);
}

#[test]
fn forgotten_pages_that_return_are_no_chain_violation() {
    let mut stack = stack(Order::RootFirst, 3);
    let mut outcome = Outcome::default();
    for _ in 0..3 {
        for ids in [[1, 2, 3], [4, 5, 6], [7, 8, 9]] {
            stack.access(&access(&ids, 0), &mut outcome).expect("chained");
            assert_eq!(outcome.chain_violations, 0);
        }
    }
    assert_eq!(stack.accumulated_pages(), PageCount(9), "recalled pages are not counted again");
}

#[test]
fn the_lookup_limit_hides_pages_that_are_touched_all_the_same() {
    let mut stack = stack(Order::RootFirst, 100);
    let mut outcome = Outcome::default();
    let ids = [1, 2, 3];
    stack.access(&access(&ids, 0), &mut outcome).expect("chained");
    stack.access(&Access { lookup_limit: 2, ..access(&ids, 0) }, &mut outcome).expect("chained");
    assert_eq!((outcome.reusable_prefix(), outcome.new_pages), (2, 0));
}

/// Several times the bound passes through the stack; a leak of any part would show as a multiple of it.
/// The limit is a constant a page, not a comparison of two moments: hash tables double at a size that
/// depends on their seed.
#[test]
fn a_long_life_under_a_bound_keeps_memory_flat() {
    const BOUND: u64 = 20_000;
    const MOST_BYTES_A_PAGE: u64 = 80;
    let mut stack = stack(Order::LeafFirst, BOUND);
    let mut outcome = Outcome::default();
    let mut peak = 0;
    for request in 0..40_000u64 {
        let session = request % 500;
        let turn = request / 500 % 20;
        let epoch = request / 10_000;
        let ids: Vec<u64> = (0..20 + turn).map(|depth| (epoch << 40) | (session << 20) | depth).collect();
        stack.access(&access(&ids, 1), &mut outcome).expect("chained");
        peak = stack.heap_bytes().max(peak);
    }
    assert!(stack.accumulated_pages().0 > 5 * BOUND, "{} pages passed", stack.accumulated_pages());
    assert!(
        peak < (BOUND * MOST_BYTES_A_PAGE) as usize,
        "{} bytes per page at the peak",
        peak / BOUND as usize
    );
}

/// The cost of a request is that of its runs: others that branched off its path leave no trace in its walk.
#[test]
fn requests_that_branch_off_do_not_cut_a_path_up() {
    let mut stack = stack(Order::RootFirst, MAX_TRACKED_PAGES);
    let mut outcome = Outcome::default();
    let trunk: Vec<u64> = (1..=2000).collect();
    stack.access(&access(&trunk, 0), &mut outcome).expect("chained");
    for turn in 0..1000 {
        let mut branch = trunk[..1 + (turn * 7) % 2000].to_vec();
        branch.push(1 << 40 | turn as u64);
        stack.access(&access(&branch, 0), &mut outcome).expect("chained");
    }
    stack.access(&access(&trunk, 0), &mut outcome).expect("chained");
    assert_eq!(outcome.reusable_prefix(), 2000);
    assert_eq!(stack.path.len(), 1, "one segment");
    stack.access(&access(&trunk, 0), &mut outcome).expect("chained");
    assert_eq!((stack.path.len(), outcome.runs.len()), (1, 1), "whose regions were taken over once");
}
