//! Request events made compact: what earlier events of the same log listed is named, not listed again.
//!
//! One set of known page ids a partition of the raw log, whose events go out in its order: so whoever reads a reference
//! has read what it refers to. Which pages are known is no state to keep: without it, events list more.

use kvset_core::units::EventTime;
use kvset_core::units::pages::{PageIds, Scope, mix, shared_near};
use kvset_formats::codec::{
    DecodeLimits, Encoding, RequestDecoder, RequestEncoding, RequestMessage, encode_request,
};
use kvset_formats::output::{Destination, OutputRecord};
use std::collections::HashSet;

/// Bytes that a known id takes at most, while the set grows.
const BYTES_AN_ID: u64 = 32;

/// How far back compact events may refer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactRules {
    /// Memory for known ids, in bytes; when it is used up, all are forgotten.
    pub memory: u64,
    /// After so much event time all are forgotten, in milliseconds: whoever begins to read then knows all that is
    /// referred to from then on.
    pub refresh_ms: u64,
}

impl CompactRules {
    fn max_ids(self) -> usize {
        usize::try_from(self.memory / BYTES_AN_ID).unwrap_or(usize::MAX)
    }
}

/// Makes the events of one partition compact, in their order.
#[derive(Debug)]
pub struct Compactor {
    rules: CompactRules,
    decoder: RequestDecoder,
    /// Pages that events have listed since all were forgotten, by pool, scope and id. With a page, all before it in
    /// its prompt are here. One that is here by the coincidence of two hashes costs an event, which its pool refuses.
    known: HashSet<u64>,
    /// Event time of the first of these events.
    since: Option<EventTime>,
}

/// Pages of a prompt, as the known ones are told apart.
struct Pages<'a> {
    ids: PageIds<'a>,
    scope: Scope,
    pool: Scope,
}

impl Pages<'_> {
    fn key(&self, page: usize) -> Option<u64> {
        self.ids.get(page).map(|id| mix(self.scope.key(id) ^ self.pool.value()))
    }

    fn keys(&self, from: usize) -> impl Iterator<Item = u64> {
        (from..self.ids.len()).filter_map(|page| self.key(page))
    }
}

impl Compactor {
    /// One that knows no page.
    pub fn new(rules: CompactRules) -> Self {
        let any = DecodeLimits { max_record_bytes: usize::MAX, ..DecodeLimits::default() };
        Self { rules, decoder: RequestDecoder::new(Encoding::Avro, any), known: HashSet::new(), since: None }
    }

    /// Makes the next event compact, where its ids are declared chained and a prefix of it is known. Anything else stays
    /// as it is.
    pub fn compact(&mut self, output: &mut OutputRecord) {
        let (Destination::Results, Some(pool), Some(value)) =
            (output.destination, &output.key, &output.value)
        else {
            return;
        };
        let Self { rules, decoder, known, since } = self;
        let Ok(mut message) = decoder.read(value) else { return };
        if !message.ids_chained || message.prefix_last_id.is_some() {
            return;
        }
        let event_time = EventTime(message.event_time);
        let begin = *since.get_or_insert(event_time);
        if event_time.0.abs_diff(begin.0) >= rules.refresh_ms {
            known.clear();
            *since = Some(event_time);
        }
        let scope = message.scope.as_ref().map_or(Scope::GLOBAL, |name| Scope::named(name.as_bytes()));
        let ids = message.page_ids.first(full_pages(&message));
        let pages = Pages { ids, scope, pool: Scope::named(pool) };
        let prefix = learn(known, &pages, rules.max_ids());
        let Some(last_id) = prefix.checked_sub(1).and_then(|last| ids.get(last)) else { return };
        message.prefix_last_id = Some(last_id);
        message.prefix_pages = i64::try_from(prefix).ok();
        message.page_ids = message.page_ids.from(prefix);
        let mut compact = Vec::new();
        if encode_request(&message, RequestEncoding::Avro, &mut compact).is_ok()
            && compact.len() < value.len()
        {
            output.value = Some(compact);
        }
    }
}

/// Leading pages of a prompt that are known; all of them are from now on, as far as there is room.
fn learn(known: &mut HashSet<u64>, pages: &Pages<'_>, max_ids: usize) -> usize {
    let is_known = |page| pages.key(page).is_some_and(|key| known.contains(&key));
    let prefix = shared_near(pages.ids.len(), pages.ids.len(), is_known);
    if known.len() + (pages.ids.len() - prefix) <= max_ids {
        known.extend(pages.keys(prefix));
        return prefix;
    }
    known.clear();
    if pages.ids.len() <= max_ids {
        known.extend(pages.keys(0));
    }
    0
}

/// Pages of a prompt that are full: a partial one does not become a part of a longer prompt.
fn full_pages(message: &RequestMessage<'_>) -> usize {
    let pages = message.page_ids.len();
    let Some(tokens) = message.input_tokens else { return pages };
    match message.page_size.map(i64::from).filter(|size| *size > 0) {
        Some(size) => usize::try_from(tokens / size).unwrap_or(0).min(pages),
        None => pages.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_core::request::event::KnownPrefix;
    use kvset_formats::position::Partition;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const RULES: CompactRules = CompactRules { memory: 64 << 20, refresh_ms: 1000 };

    fn output(pool: &str, message: &RequestMessage<'_>) -> OutputRecord {
        let mut value = Vec::new();
        encode_request(message, RequestEncoding::Avro, &mut value).expect("serialises");
        OutputRecord {
            destination: Destination::Results,
            partition: Partition(0),
            window: None,
            key: Some(pool.as_bytes().to_vec()),
            value: Some(value),
            headers: Vec::new(),
            placed_by: None,
        }
    }

    fn event(time: i64, ids: &[u64]) -> RequestMessage<'_> {
        RequestMessage {
            event_time: time,
            page_ids: PageIds::from_slice(ids),
            page_size: Some(4),
            input_tokens: Some(ids.len() as i64 * 4),
            ids_chained: true,
            ..RequestMessage::default()
        }
    }

    /// The listed ids and the known prefix of an event that was made compact.
    fn made(
        compactor: &mut Compactor,
        pool: &str,
        message: &RequestMessage<'_>,
    ) -> (Vec<u64>, Option<KnownPrefix>) {
        let mut output = output(pool, message);
        compactor.compact(&mut output);
        let mut decoder = RequestDecoder::default();
        let value = output.value.expect("an event");
        let event = decoder.decode(output.key.as_deref(), &value).expect("a valid event").event;
        (event.page_ids.iter().collect(), event.known_prefix)
    }

    fn listed(compactor: &mut Compactor, pool: &str, message: &RequestMessage<'_>) -> Vec<u64> {
        made(compactor, pool, message).0
    }

    #[test]
    fn what_was_listed_is_named() {
        let mut compactor = Compactor::new(RULES);
        assert_eq!(listed(&mut compactor, "a", &event(0, &[1, 2, 3])), [1, 2, 3]);
        let (ids, prefix) = made(&mut compactor, "a", &event(1, &[1, 2, 3, 4]));
        let prefix = prefix.expect("known");
        assert_eq!((ids, prefix.last_id, prefix.pages.get()), (vec![4], 3, 3));
        assert_eq!(listed(&mut compactor, "a", &event(2, &[1, 2, 9])), [9], "a branch");
        assert_eq!(listed(&mut compactor, "a", &event(3, &[1, 2, 3, 4])), [0; 0], "all of it");
        assert_eq!(listed(&mut compactor, "b", &event(4, &[1, 2])), [1, 2], "another pool");
        let scoped = RequestMessage { scope: Some("s".into()), ..event(5, &[1, 2]) };
        assert_eq!(listed(&mut compactor, "a", &scoped), [1, 2], "another scope");
        assert_eq!(listed(&mut compactor, "a", &scoped), [0; 0]);
    }

    #[test]
    fn a_partial_page_is_always_listed_and_never_known() {
        let mut compactor = Compactor::new(RULES);
        let partial = RequestMessage { input_tokens: Some(9), ..event(0, &[1, 2, 3]) };
        assert_eq!(listed(&mut compactor, "a", &partial), [1, 2, 3]);
        assert_eq!(listed(&mut compactor, "a", &partial), [3]);
        let unsized_pages = RequestMessage { page_size: None, ..event(0, &[1, 2]) };
        assert_eq!(
            listed(&mut compactor, "a", &unsized_pages),
            [2],
            "it may be partial, for all that is said"
        );
        let uncounted = RequestMessage { page_size: None, input_tokens: None, ..event(0, &[1, 2]) };
        assert_eq!(listed(&mut compactor, "a", &uncounted), [0; 0], "all of its ids count");
    }

    #[test]
    fn ids_that_are_not_declared_chained_and_events_of_others_stay_as_they_are() {
        let mut compactor = Compactor::new(RULES);
        let undeclared = RequestMessage { ids_chained: false, ..event(0, &[1, 2]) };
        for _ in 0..2 {
            assert_eq!(listed(&mut compactor, "a", &undeclared), [1, 2]);
        }
        let compact = RequestMessage {
            prefix_last_id: Some(7),
            prefix_pages: Some(3),
            input_tokens: Some(20),
            ..event(0, &[1, 2])
        };
        for _ in 0..2 {
            assert_eq!(listed(&mut compactor, "a", &compact), [1, 2]);
        }
        let mut letter = output("a", &event(0, &[1, 2]));
        letter.destination = Destination::DeadLetters;
        compactor.compact(&mut letter);
        assert_eq!(listed(&mut compactor, "a", &event(0, &[1, 2])), [1, 2], "a dead letter teaches nothing");
    }

    #[test]
    fn all_is_listed_again_after_the_refresh_whichever_way_time_jumps() {
        let mut compactor = Compactor::new(RULES);
        for time in [0, 1000, 2000, 900_000, 3000] {
            assert_eq!(listed(&mut compactor, "a", &event(time, &[1, 2])), [1, 2], "at {time}");
            assert_eq!(listed(&mut compactor, "a", &event(time + 999, &[1, 2])), [0; 0], "after {time}");
        }
    }

    #[test]
    fn memory_has_a_bound_and_an_event_beyond_it_is_written_whole() {
        let mut compactor = Compactor::new(CompactRules { memory: 4 * BYTES_AN_ID, ..RULES });
        assert_eq!(listed(&mut compactor, "a", &event(0, &[1, 2, 3])), [1, 2, 3]);
        assert_eq!(listed(&mut compactor, "a", &event(0, &[1, 2, 3, 4])), [4]);
        assert_eq!(listed(&mut compactor, "a", &event(0, &[1, 2, 3, 4, 5])), [1, 2, 3, 4, 5]);
        assert!(compactor.known.is_empty(), "it has no room for five");
        assert_eq!(listed(&mut compactor, "a", &event(0, &[1, 2])), [1, 2]);
        assert_eq!(listed(&mut compactor, "a", &event(0, &[6, 7, 8])), [6, 7, 8], "all others are forgotten");
        assert_eq!(listed(&mut compactor, "a", &event(0, &[6, 7])), [0; 0]);
        assert!(compactor.known.len() <= 4);
    }

    proptest! {
        /// Whoever reads from any refresh on can complete every event that follows.
        #[test]
        fn what_is_named_was_listed_since_the_last_refresh(
            draws in prop::collection::vec((any::<prop::sample::Index>(), 0usize..8, 0usize..6, 0u64..3, 0i64..80), 1..120),
            room in 10u64..200,
        ) {
            let rules = CompactRules { memory: room * BYTES_AN_ID, refresh_ms: 500 };
            let mut compactor = Compactor::new(rules);
            let mut prompts: Vec<Vec<u64>> = vec![Vec::new()];
            // By last id and length, each prefix that was listed, and when.
            let mut seen: BTreeMap<(u64, usize), (Vec<u64>, i64)> = BTreeMap::new();
            let (mut now, mut refreshed) = (0, None);
            for (base, keep, grow, branch, pause) in draws {
                let base = &prompts[base.index(prompts.len())];
                let mut ids = base[..keep.min(base.len())].to_vec();
                (0..grow).for_each(|_| ids.push(mix(ids.last().copied().unwrap_or(7) ^ (branch + 1))));
                now += pause;
                if now - *refreshed.get_or_insert(now) >= 500 {
                    refreshed = Some(now);
                    seen.clear();
                }
                let (listed, prefix) = made(&mut compactor, "a", &event(now, &ids));
                let mut whole = prefix.map_or(Vec::new(), |prefix| {
                    seen[&(prefix.last_id, prefix.pages.get() as usize)].0.clone()
                });
                whole.extend(listed);
                prop_assert_eq!(&whole, &ids);
                for end in 1..=ids.len() {
                    seen.insert((ids[end - 1], end), (ids[..end].to_vec(), now));
                }
                prop_assert!(compactor.known.len() as u64 <= room);
                prompts.push(ids);
            }
        }
    }
}
