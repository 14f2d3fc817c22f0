//! A stack too large for a processor's caches, where the ids of a path are told by their digest instead of
//! being compared, against the page-at-a-time reference.

use crate::support::reference::Reference;
use kvset::core::engines::profile::{Outputs, Profile};
use kvset::core::request::outcome::Outcome;
use kvset::core::stack::{Access, ChainCheck, ChainPolicy, MAX_TRACKED_PAGES, Order, Stack, StackConfig};
use kvset::core::units::PageCount;
use kvset::core::units::pages::{PageIds, Scope, mix};

const SESSIONS: u64 = 500;
const RETURNS: u64 = 1_000;

/// A page's id: of every other session one chained with all above it, of the others a small number that many
/// pages share, so that paths differ by little.
fn id(session: u64, above: &[u64], branch: u64) -> u64 {
    match above.last() {
        None => session,
        Some(last) if session.is_multiple_of(2) => mix(last ^ (branch << 48)),
        Some(_) => above.len() as u64 + branch,
    }
}

/// Sessions begin with more pages than a cache holds, then return at random: as they were, cut short, grown,
/// or with another tail, which stays.
fn requests() -> Vec<Vec<u64>> {
    let mut sessions: Vec<Vec<u64>> = Vec::new();
    for session in 0..SESSIONS {
        let mut ids = Vec::new();
        (0..1_100 + mix(session) % 200).for_each(|_| ids.push(id(session, &ids, 0)));
        sessions.push(ids);
    }
    let mut requests = sessions.clone();
    for turn in 0..RETURNS {
        let draw = mix(turn ^ 0xfa4);
        let session = draw % SESSIONS;
        let ids = &mut sessions[session as usize];
        let place = 1 + (draw >> 20) as usize % ids.len();
        let new = (draw >> 40) % 90;
        match draw >> 10 & 3 {
            0 => {}
            1 => {
                requests.push(ids[..place].to_vec());
                continue;
            }
            action => {
                ids.truncate(if action == 2 { ids.len() } else { place });
                (0..new).for_each(|_| ids.push(id(session, ids, 1 + turn)));
            }
        }
        requests.push(ids.clone());
    }
    requests
}

fn equals_the_reference(order: Order, profile: Profile) {
    let mut stack = Stack::new(StackConfig {
        order,
        max_tracked_pages: PageCount(MAX_TRACKED_PAGES),
        chain_check: ChainCheck::Sampled,
        chain_policy: ChainPolicy::Report,
    });
    let mut reference = Reference::new(profile, Outputs::Ignored, 1, false);
    let mut outcome = Outcome::default();
    for (number, ids) in requests().iter().enumerate() {
        let pages = PageIds::from_slice(ids);
        let access = Access { scope: Scope::GLOBAL, pages, lookup_limit: ids.len(), ..Access::default() };
        stack.access(&access, &mut outcome).expect("violations are only reported");
        let found: Vec<u64> =
            outcome.runs.iter().flat_map(|run| (0..run.pages).map(|page| run.need_at(page))).collect();
        let expected = reference.request(ids, ids.len() as u64, 0, Scope::GLOBAL);
        assert!(found == expected, "needs of request {number}, {} pages", ids.len());
    }
    assert_eq!(stack.tracked_pages().0, reference.distinct_pages());
    assert!(stack.tracked_pages().0 > 1 << 19, "more ids than are taken to be in the caches");
}

#[test]
fn digests_change_no_distance_root_first() {
    equals_the_reference(Order::RootFirst, Profile::Paper);
}

#[test]
fn digests_change_no_distance_leaf_first() {
    equals_the_reference(Order::LeafFirst, Profile::LeafFirst);
}
