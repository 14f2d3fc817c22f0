//! Prefixes named by their last id against a list of all prefixes that a stack holds.

use super::*;
use crate::request::event::KnownPrefix;
use std::collections::BTreeSet;
use std::num::NonZeroU32;

/// A request in the scope of its session.
type Scoped = (Scope, Vec<u64>);

fn prefix(last_id: u64, pages: usize) -> KnownPrefix {
    KnownPrefix { last_id, pages: NonZeroU32::new(pages as u32).expect("a page at least") }
}

/// Whether a stack holds all pages of a request, found by following its ids from the first one on.
fn holds(stack: &mut Stack, scope: Scope, ids: &[u64]) -> bool {
    let mut outcome = Outcome::default();
    stack.look_up(&Access { scope, ..access(ids, 0) }, &mut outcome);
    outcome.runs.iter().map(|run| run.pages as usize).sum::<usize>() == ids.len()
}

/// What resolving should say of an id at a depth: all prefixes that were ever made and are held still are looked at.
fn expected(
    stack: &mut Stack,
    made: &BTreeSet<(u64, Vec<u64>)>,
    scope: Scope,
    last_id: u64,
    pages: usize,
) -> Result<Vec<u64>, UnknownPrefix> {
    let of_scope = made.iter().filter(|(of, _)| *of == scope.value()).map(|(_, ids)| ids);
    let ends_so = of_scope.filter(|ids| ids.len() == pages && ids.last() == Some(&last_id));
    let held: Vec<_> = ends_so.filter(|ids| holds(stack, scope, ids)).collect();
    match (&held[..], pages as u32) {
        ([], pages) => Err(UnknownPrefix::NotHeld { pages }),
        ([one], _) => Ok(one.to_vec()),
        (_, pages) => Err(UnknownPrefix::Ambiguous { pages }),
    }
}

/// Runs requests, asking for prefixes of some of them on the way, and taking a snapshot now and then.
fn resolves_as_a_list_does(
    mut stack: Stack,
    requests: &[Scoped],
    asks_from: usize,
) -> Result<(), TestCaseError> {
    let mut made = BTreeSet::new();
    let mut outcome = Outcome::default();
    for (number, (scope, ids)) in requests.iter().enumerate() {
        let access = Access { scope: *scope, ..access(ids, number as u32 % 3) };
        stack.access(&access, &mut outcome).expect("reported only");
        made.extend((1..=ids.len()).map(|end| (scope.value(), ids[..end].to_vec())));
        if number % 17 == 16 {
            let bytes = postcard::to_allocvec(&stack).expect("bytes");
            stack = postcard::from_bytes(&bytes).expect("the same bytes");
        }
        if number < asks_from {
            continue;
        }
        // Of this request, of one long ago, of no request, and in a scope that is not theirs.
        let earlier = &requests[number * 7 / 11].1;
        for (ids, wrong) in [(ids, 0), (earlier, 0), (earlier, 1)] {
            let Some(&last) = ids.last() else { continue };
            for pages in [ids.len(), ids.len().div_ceil(2), ids.len() + wrong] {
                let last = ids.get(pages - 1).copied().unwrap_or(last);
                let expected = expected(&mut stack, &made, *scope, last, pages);
                let mut found = vec![9; 3];
                let result = stack.resolve(*scope, prefix(last, pages), &mut found);
                prop_assert_eq!(result.map(|()| found), expected);
            }
        }
    }
    Ok(())
}

/// Three sessions, with the same ids in each.
fn scoped(draws: &[Draw]) -> Vec<Scoped> {
    let scopes = [Scope::GLOBAL, Scope::named(b"a"), Scope::named(b"b")];
    let requests = requests(draws).into_iter().enumerate();
    requests.map(|(number, (ids, _))| (scopes[number * 5 % 7 % 3], ids)).collect()
}

proptest! {
    #[test]
    fn a_prefix_named_by_its_last_id_is_the_one_a_list_of_all_has(draws in draws(), asks_from in 0usize..60) {
        resolves_as_a_list_does(stack(Order::RootFirst, MAX_TRACKED_PAGES), &scoped(&draws), asks_from)?;
    }

    #[test]
    fn a_forgotten_prefix_is_not_held(draws in draws(), bound in 1u64..30, asks_from in 0usize..60) {
        resolves_as_a_list_does(stack(Order::LeafFirst, bound), &scoped(&draws), asks_from)?;
    }

    /// Of ids that are not chained, and are not noticed to be, the stack tells no prefix that it could mistake.
    #[test]
    fn one_id_under_two_prefixes_is_ambiguous(draws in draws(), bound in 10u64..60, asks_from in 0usize..60) {
        let few = |(scope, ids): Scoped| (scope, ids.iter().map(|id| 1 + id % 5).collect());
        let requests: Vec<_> = requests(&draws).into_iter().map(|(ids, _)| few((Scope::GLOBAL, ids))).collect();
        let config = stack(Order::RootFirst, bound).config;
        let stack = Stack::new(StackConfig { chain_check: ChainCheck::Sampled, ..config });
        prop_assert!((1..6).all(|id| !ChainCheck::Sampled.watches(Scope::GLOBAL, id)));
        resolves_as_a_list_does(stack, &requests, asks_from)?;
    }
}

/// Enough requests for slots to be renumbered and removed ids to be collected, in a stack that forgets.
#[test]
fn renumbering_and_collecting_garbage_move_no_prefix() {
    let mut stack = stack(Order::RootFirst, 6_000);
    let mut outcome = Outcome::default();
    let session = |of: u64, pages: u64| -> Vec<u64> { (0..pages).map(|page| of << 20 | page).collect() };
    let (mut found, mut held) = (Vec::new(), 0);
    for turn in 0..20_000u64 {
        let (of, pages) = (turn % 50 + turn / 5_000 * 50, 20 + turn / 50 % 100);
        let scope = Scope::named(&(of % 3).to_le_bytes());
        let ids = session(of, pages);
        stack.access(&Access { scope, ..access(&ids, 0) }, &mut outcome).expect("chained");
        let asked = session(turn * 31 % 200, 1 + turn % 90);
        let scope = Scope::named(&(turn * 31 % 200 % 3).to_le_bytes());
        let result = stack.resolve(scope, prefix(asked[asked.len() - 1], asked.len()), &mut found);
        assert_eq!(result.is_ok(), holds(&mut stack, scope, &asked), "turn {turn}");
        if result.is_ok() {
            assert_eq!(found, asked);
            held += 1;
        }
    }
    assert!((2_000..18_000).contains(&held), "{held} of 20000 were held");
}

#[test]
fn ids_found_not_to_be_chained_name_nothing() {
    let mut stack = stack(Order::RootFirst, 100);
    let mut outcome = Outcome::default();
    stack.access(&access(&[1, 2, 3], 0), &mut outcome).expect("reported only");
    let mut ids = Vec::new();
    assert_eq!(stack.resolve(Scope::GLOBAL, prefix(2, 2), &mut ids), Ok(()));
    assert_eq!(ids, [1, 2]);
    stack.access(&access(&[4, 2], 0), &mut outcome).expect("reported only");
    assert_eq!(outcome.chain_violations, 1);
    assert_eq!(stack.resolve(Scope::GLOBAL, prefix(3, 3), &mut ids), Err(UnknownPrefix::NotChained));
}

/// An id under a hundred thousand prefixes would make a table of the general kind visit all of them for each.
#[test]
fn an_id_under_many_prefixes_costs_no_more_than_any() {
    let config = stack(Order::RootFirst, MAX_TRACKED_PAGES).config;
    let mut stack = Stack::new(StackConfig { chain_check: ChainCheck::Sampled, ..config });
    let mut outcome = Outcome::default();
    let mut ids = Vec::new();
    let _ = stack.resolve(Scope::GLOBAL, prefix(3, 1), &mut ids);
    for first in 0..100_000u64 {
        let chained = [first << 32 | 1, 3];
        stack.access(&access(&chained, 0), &mut outcome).expect("reported only");
        if outcome.chain_violations > 0 {
            stack.disproved = false;
        }
    }
    assert_eq!(
        stack.resolve(Scope::GLOBAL, prefix(3, 2), &mut ids),
        Err(UnknownPrefix::Ambiguous { pages: 2 })
    );
}

#[test]
fn only_a_stack_that_is_asked_keeps_an_index_of_21_bytes_a_page_at_most() {
    let mut outcome = Outcome::default();
    for pages in [9_000u64, 14_000, 15_000, 30_000, 100_000, 115_000] {
        let mut stack = stack(Order::RootFirst, MAX_TRACKED_PAGES);
        let ids: Vec<u64> = (1..=pages).collect();
        stack.access(&access(&ids, 0), &mut outcome).expect("chained");
        assert!(stack.prefixes.is_none());
        let without = stack.memory_bytes();
        stack.resolve(Scope::GLOBAL, prefix(pages, pages as usize), &mut Vec::new()).expect("held");
        let bytes = (stack.memory_bytes() - without) as f64 / pages as f64;
        assert!((9.0..21.0).contains(&bytes), "{bytes} bytes a page of {pages}");
    }
}
