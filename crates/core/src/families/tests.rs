use super::certainty::{Certainty, CertaintyStatus, FigureStanding, GROUPS, group, standard_error};
use super::overlay::{TrafficGrowth, renamed, span_ms};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A request: its time, its session, its pages.
type Request = (i64, Option<u64>, Vec<u64>);

fn read(log: &[Request]) -> (Vec<FamilyMember>, PromptTree) {
    let mut prompts = PromptTree::default();
    let member = |(time, session, ids): &Request| FamilyMember {
        path: prompts.add(Scope::GLOBAL, ids).0,
        scope: Scope::GLOBAL,
        time: EventTime(*time),
        session: *session,
    };
    let members: Vec<FamilyMember> = log.iter().map(member).collect();
    (members, prompts)
}

fn families(log: &[Request]) -> Families {
    let (members, prompts) = read(log);
    Families::of(&members, &prompts)
}

/// The definition, page by page: a page is a prefix.
fn common_pages(log: &[Request]) -> BTreeSet<&[u64]> {
    let pages = || log.iter().flat_map(|(_, _, ids)| (1..=ids.len()).map(move |end| &ids[..end]));
    let all: BTreeSet<&[u64]> = pages().collect();
    let has_sessions = log.iter().any(|(_, session, _)| session.is_some());
    let first = |page: &[u64]| {
        let named = log.iter().filter(|(_, session, ids)| session.is_some() && ids.starts_with(page));
        named.map(|(time, session, _)| (*time, *session)).min().and_then(|(_, session)| session)
    };
    let is_hub = |page: &[u64]| {
        let next: Vec<_> =
            all.iter().filter(|next| next.len() == page.len() + 1 && next.starts_with(page)).collect();
        match has_sessions {
            true => {
                next.iter().filter_map(|next| first(next)).collect::<BTreeSet<_>>().len() >= SESSIONS_PART
            }
            false => next.len() >= PAGES_PART,
        }
    };
    let hubs: Vec<&[u64]> = all.iter().copied().filter(|page| is_hub(page)).collect();
    all.into_iter().filter(|page| hubs.iter().any(|hub| hub.starts_with(page))).collect()
}

/// Families as sets of requests, by joining all that touch one another until nothing changes.
fn obvious(log: &[Request], common: &BTreeSet<&[u64]>) -> Vec<usize> {
    let share = |(_, one, ids): &Request, (_, other, others): &Request| {
        let shared = ids.iter().zip(others).take_while(|(one, other)| one == other).count();
        (one.is_some() && one == other) || (1..=shared).any(|end| !common.contains(&ids[..end]))
    };
    let mut of: Vec<usize> = (0..log.len()).collect();
    loop {
        let before = of.clone();
        for one in 0..log.len() {
            for other in 0..log.len() {
                if share(&log[one], &log[other]) {
                    let least = of[one].min(of[other]);
                    (of[one], of[other]) = (least, least);
                }
            }
        }
        if of == before {
            return of;
        }
    }
}

fn logs(sessions: bool) -> impl Strategy<Value = Vec<Request>> {
    let session = if sessions { prop::option::of(0u64..9).boxed() } else { Just(None).boxed() };
    let ids = (0u64..2, prop::collection::vec(0u64..12, 0..3)).prop_map(|(first, rest)| {
        let mut ids = vec![first, 7];
        ids.extend(rest);
        ids
    });
    let ids = prop_oneof![9 => ids, 1 => Just(Vec::new())];
    prop::collection::vec((0i64..20, session, ids), 0..60).prop_map(|mut log| {
        log.sort_by_key(|(time, ..)| *time);
        log
    })
}

fn check(log: &[Request]) -> Result<(), TestCaseError> {
    let (found, common) = (families(log), common_pages(log));
    let expected = obvious(log, &common);
    prop_assert_eq!(found.common_pages(), common.len() as u64);
    for (at, (_, _, ids)) in log.iter().enumerate() {
        let leading = (1..=ids.len()).take_while(|end| common.contains(&ids[..*end])).count();
        prop_assert_eq!(found.common_of(at), leading);
        for other in 0..at {
            let same = found.of_request(at) == found.of_request(other);
            prop_assert_eq!(same, expected[at] == expected[other]);
        }
    }
    let sizes: u64 = found.all().iter().map(|family| family.requests).sum();
    prop_assert_eq!(sizes, log.len() as u64);
    Ok(())
}

proptest! {
    #[test]
    fn families_equal_those_of_the_definition(named in logs(true), unnamed in logs(false)) {
        check(&named)?;
        check(&unnamed)?;
    }

    #[test]
    fn families_do_not_depend_on_the_order_of_equal_times(log in logs(true), salt: u64) {
        let mut places: Vec<usize> = (0..log.len()).collect();
        places.sort_by_key(|at| (log[*at].0, hash(&[salt, *at as u64])));
        let other: Vec<Request> = places.iter().map(|at| log[*at].clone()).collect();
        let (one, two) = (families(&log), families(&other));
        prop_assert_eq!(one.count(), two.count());
        for (new, old) in places.iter().enumerate() {
            prop_assert_eq!(one.common_of(*old), two.common_of(new));
            let family = one.of_request(*old);
            let (own, others) = (one.all()[family], two.all()[two.of_request(new)]);
            prop_assert_eq!(own.requests, others.requests);
            let members: Vec<usize> = (0..log.len()).filter(|at| one.of_request(*at) == family).collect();
            let mut first = members.iter().filter(|at| log[**at].0 == log[members[0]].0);
            if first.any(|at| one.common_of(*at) < log[*at].2.len()) {
                prop_assert_eq!(own.key, others.key);
            }
        }
    }

    #[test]
    fn a_grown_log_has_each_family_as_often_as_the_factor_says(log in logs(true), factor in 1.0f64..5.0, seed: u64) {
        let (members, prompts) = read(&log);
        let families = Families::of(&members, &prompts);
        let growth = TrafficGrowth { factor, seed };
        let grown = growth.overlay(&members, &families, &|_| true);
        prop_assert!(grown.is_sorted());
        let own = grown.iter().filter(|at| at.copy == 0);
        prop_assert_eq!(own.count(), log.len());
        let far = growth.apart_ms(span_ms(&members)) * factor.ceil() / 2.0 + 1.0;
        for at in &grown {
            let shift = at.time.0 - members[at.request as usize].time.0;
            prop_assert!(shift.unsigned_abs() as f64 <= far);
        }
        for request in 0..log.len() {
            let copies = grown.iter().filter(|at| at.request as usize == request).count() as f64;
            prop_assert!((copies - factor).abs() < 1.0);
        }
    }

    #[test]
    fn parts_of_the_families_have_each_request_equally_often(factor in 0.05f64..0.95, keys in prop::collection::vec(any::<u64>(), 400)) {
        let growth = TrafficGrowth { factor, seed: 1 };
        let windows = growth.windows();
        let kept = |window| keys.iter().filter(|key| growth.is_in_window(**key, window)).count();
        let all: usize = windows.clone().map(kept).sum();
        let share = all as f64 / keys.len() as f64 / f64::from(windows.end);
        prop_assert!((share - factor).abs() < 0.1, "{share} of {factor}");
    }
}

#[test]
fn four_sessions_part_at_a_common_page_and_three_do_not() {
    let log = |sessions: u64| -> Vec<Request> {
        (0..sessions).map(|at| (at as i64, Some(at), vec![1, 2, 100 + at])).collect()
    };
    assert_eq!((families(&log(3)).count(), families(&log(3)).common_pages()), (1, 0));
    let four = families(&log(4));
    assert_eq!((four.count(), four.common_pages(), four.common_of(0)), (4, 2, 2));
    assert!(four.has_sessions());
}

#[test]
fn without_names_eight_next_pages_part_at_a_common_page() {
    let log = |pages: u64| -> Vec<Request> {
        (0..pages).map(|at| (at as i64, None, vec![1, 2, 100 + at])).collect()
    };
    assert_eq!(families(&log(7)).count(), 1);
    assert_eq!((families(&log(8)).count(), families(&log(8)).common_pages()), (8, 2));
}

#[test]
fn scopes_with_the_same_ids_are_families_with_keys_of_their_own() {
    let mut prompts = PromptTree::default();
    let member = |name: &[u8]| {
        let scope = Scope::named(name);
        let path = prompts.add(scope, &[1, 2]).0;
        FamilyMember { path, scope, time: EventTime(0), session: None }
    };
    let log: Vec<FamilyMember> = [b"a", b"b"].map(|name| &name[..]).into_iter().map(member).collect();
    let found = Families::of(&log, &prompts);
    assert_ne!(found.all()[0].key, found.all()[1].key);
}

#[test]
fn a_figure_is_stated_with_five_families_above_it_and_thirty_in_all() {
    use CertaintyStatus::{FewConversations, Ready, TooFewConversations};
    assert_eq!(FigureStanding::of(5, Ready), FigureStanding::Stated);
    assert_eq!(FigureStanding::of(4, FewConversations), FigureStanding::Rough);
    assert_eq!(FigureStanding::of(0, Ready), FigureStanding::NotStated);
    assert_eq!(FigureStanding::of(9, TooFewConversations), FigureStanding::NotStated);
    let log = |sessions: u64| (0..sessions).map(|at| (0, Some(at), vec![at])).collect::<Vec<Request>>();
    let status = |log: &[Request]| Certainty::of(&families(log), "session").status;
    assert_eq!(status(&log(29)), TooFewConversations);
    assert_eq!((status(&log(30)), status(&log(100))), (FewConversations, Ready));
    let mut one = log(40);
    one.extend((0..60).map(|_| (1, Some(0), vec![0])));
    assert_eq!(status(&one), CertaintyStatus::OneConversation);
}

#[test]
fn the_error_is_that_of_a_jackknife_on_logarithms() {
    let without: Vec<Option<u64>> = (0..10).map(|at| Some(if at < 5 { 100 } else { 200 })).collect();
    let half = (2f64.ln() / 2.0).powi(2);
    let expected = (0.9 * 10.0 * half).sqrt();
    assert!((standard_error(&without).expect("known") - expected).abs() < 1e-12);
    assert_eq!(standard_error(&[Some(1), None]), None);
    assert!((0..1000).all(|key| group(key) < GROUPS));
    assert_eq!((renamed(5, 0), renamed(5, 1)), (5, hash(&[5, 1])));
}
