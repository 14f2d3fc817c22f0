//! Requests that a log writes more than once: when it starts and when it ends, once an attempt, on both legs of a
//! prefill and a decode worker, at the gateway and at the engine, in a file and in its packed copy.
//!
//! A second copy of a prompt finds all of itself, so k copies make a hit rate of (k-1)/k. Whether a prompt that comes
//! back whole is a copy no prompt says; that it does within seconds, or under the same name, is told with the number.
//! A count of cached tokens does say: copies of one request have the same one. A request that found more or less than
//! the one before it is its own, as in a benchmark that sends few prompts often. So is one that was answered otherwise,
//! or is another sample of its prompt.

use super::remembered::Remembered;
use super::request_names::request_names;
use super::row::{Draft, RowBatch, StatedTimes};
use kvset_core::request::event::RequestEvent;
use kvset_core::units::pages::Scope;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// How far apart copies are written, in milliseconds.
const WITHIN_MS: u64 = 30_000;
/// How far apart copies are where every prompt comes back.
const WITHIN_LATE_MS: u64 = 120_000;
/// How far apart copies are at most where only some prompts have one.
const AT_ONCE_MS: u64 = 5_000;
/// Fewest different prompts that come back before that is told where nothing names requests: one that many send is no
/// copy.
const TOLD_PROMPTS: u64 = 3;
/// How many prompts come back whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RepeatFacts {
    /// Requests whose prompts fill a page.
    pub requests: u64,
    /// Those with the whole prompt of an earlier one, within seconds of it or under its name.
    pub whole: u64,
    /// Different prompts, as far as they are remembered, and those of them that came back.
    pub prompts: u64,
    pub repeated_prompts: u64,
    /// Of the prompts that came back, those which the engine looked up anew.
    pub looked_up_prompts: u64,
    /// Of the requests that came back, those under the name of the earlier one.
    pub same_name: u64,
    /// Of the requests that came back, those at the very time of the earlier one, which found as much.
    pub same_time: u64,
    /// Of the latter, those with the same answer and no other name: copies.
    pub identical: u64,
    /// How far they are from the earlier one at most, in milliseconds.
    pub farthest_ms: u64,
    /// Requests that came back later than that, their prompts, and how far from the earlier one they are at most.
    pub late: u64,
    pub late_prompts: u64,
    pub latest_ms: u64,
    /// Requests with the whole prompt of one of another pool within seconds of it, or under its name.
    pub of_others: u64,
    /// Chats that ask what another one asked within seconds of it, or under its name, in another prompt.
    pub asked_again: u64,
    /// Requests that state their cached tokens, those of them that state all of the prompt but its last token, and
    /// those of these whose prompts no request before them had, as far as they are remembered.
    pub stating: u64,
    pub found_whole: u64,
    pub found_new: u64,
}

/// Follows the prompts of a log.
#[derive(Debug, Default)]
pub struct PromptRepeats {
    facts: RepeatFacts,
    seen: Remembered<SeenPrompt>,
    /// Prompts whatever pool they are of, with a digest of that; what chats asked, with a digest of the prompt.
    anywhere: Remembered<SeenTwin>,
    asked: Remembered<SeenTwin>,
}

/// What may stand in a log twice, but for something in which the two differ.
#[derive(Debug, Clone, Copy)]
struct SeenTwin {
    /// A digest of what differs between twins.
    differs: u64,
    /// When it came, in milliseconds.
    moment: Option<i64>,
    name: Option<u64>,
    answer: SeenAnswer,
}

/// What tells requests of one prompt apart.
#[derive(Debug, Clone, Copy, Default)]
struct SeenAnswer {
    /// Tokens of the answer.
    tokens: Option<u64>,
    /// Digests of the answer, and of the seed or the number of the sample.
    text: Option<u64>,
    sample: Option<u64>,
}

impl SeenAnswer {
    /// Whether two requests were sent and answered by themselves: copies of one have one answer. A prefill worker makes
    /// a token of it.
    fn is_other_than(&self, other: &Self) -> bool {
        let both = self.tokens.zip(other.tokens).filter(|(one, other)| *one > 1 && *other > 1);
        both.is_some_and(|(one, other)| one.abs_diff(other) * 8 > one.max(other))
            || self.is_other_sample(other)
    }

    /// Whether they are samples of one prompt: another seed or number, or an answer that begins otherwise.
    fn is_other_sample(&self, other: &Self) -> bool {
        let differ = |(one, other): (u64, u64)| one != other;
        self.sample.zip(other.sample).is_some_and(differ) || self.text.zip(other.text).is_some_and(differ)
    }
}

impl SeenTwin {
    /// Whether it comes within seconds of this earlier one, or under its name, and differs, but for its answer.
    fn is_twin_of(&self, earlier: &Self) -> bool {
        let near = |(one, two): (i64, i64)| one.abs_diff(two) <= WITHIN_MS;
        let is_near = earlier.moment.zip(self.moment).is_some_and(near);
        let is_same = is_near || (self.name.is_some() && self.name == earlier.name);
        earlier.differs != self.differs && is_same && !earlier.answer.is_other_than(&self.answer)
    }
}

#[derive(Debug, Clone, Copy)]
struct SeenPrompt {
    /// When it came, in milliseconds.
    moment: Option<i64>,
    name: Option<u64>,
    /// Cached tokens, where they are stated and leave more than the last token to be computed. A decode worker that
    /// gets a prompt from its prefill worker states all the others.
    cached: Option<u64>,
    answer: SeenAnswer,
    came_back: bool,
    was_looked_up: bool,
}

impl SeenPrompt {
    fn of(moment: Option<i64>, name: Option<u64>, cached: Option<u64>, answer: SeenAnswer) -> Self {
        Self { moment, name, cached, answer, came_back: false, was_looked_up: false }
    }
}

impl PromptRepeats {
    /// Adds requests whose moments are known.
    pub(crate) fn add(&mut self, batch: &RowBatch) {
        for draft in batch.drafts.iter().filter(|draft| !draft.ids.is_empty()) {
            let moment = (draft.when != StatedTimes::Unstated).then_some(draft.moment.ms());
            let pool = draft.pool.as_ref().map_or("", |pool| &batch.text[pool.clone()]);
            let whole = digest_of(draft, batch, draft.scope, pool);
            // In whatever pool, and under whatever name of a model in its scope.
            let anywhere = digest_of(draft, batch, Scope::GLOBAL, "");
            let name = draft.request_id;
            let answer = SeenAnswer { tokens: draft.output_tokens, text: draft.answer, sample: draft.sample };
            let is_new = self.see(whole, SeenPrompt::of(moment, name, cached_of(draft), answer));
            self.facts.note_found(draft, is_new);
            let pool = xxh3_64(pool.as_bytes());
            let has_twin = |seen: &mut Remembered<SeenTwin>, digest, differs| {
                let twin = SeenTwin { differs, moment, name, answer };
                u64::from(seen.see(digest, twin).0.is_some_and(|earlier| twin.is_twin_of(&earlier)))
            };
            self.facts.of_others += has_twin(&mut self.anywhere, anywhere, pool);
            let asked = draft.asked.map(|asked| xxh3_64_with_seed(&asked.to_le_bytes(), pool));
            self.facts.asked_again += asked.map_or(0, |asked| has_twin(&mut self.asked, asked, whole));
        }
    }

    /// Adds a request that a record became; `record` may name it, `moment` is when it came, where that is known.
    pub fn add_event(&mut self, pool: &str, event: &RequestEvent<'_>, record: &[u8], moment: Option<i64>) {
        let ids = &event.page_ids;
        let some = |at: usize| ids.get(at).unwrap_or(0);
        let Some(last) = ids.len().checked_sub(1) else { return };
        let parts = [some(0), some(last / 2), some(last)];
        let digest = digest(ids.len(), event.input_tokens, parts, event.scope, pool);
        let of_prompt = |cached: &u64| event.input_tokens.is_none_or(|tokens| cached + 1 < tokens);
        let cached = event.cached_tokens.count().filter(of_prompt);
        let (name, sample) = request_names(record);
        let answer = SeenAnswer { tokens: event.output_tokens, text: None, sample };
        self.see(digest, SeenPrompt::of(moment, name, cached, answer));
    }

    /// Whether no request before had the prompt.
    fn see(&mut self, digest: u64, prompt: SeenPrompt) -> bool {
        self.facts.requests += 1;
        let (earlier, kept) = self.seen.see(digest, prompt);
        self.facts.prompts += u64::from(earlier.is_none());
        if let Some(earlier) = earlier {
            self.facts.compare(earlier, kept);
        }
        earlier.is_none()
    }

    pub fn facts(&self) -> RepeatFacts {
        self.facts
    }
}

impl RepeatFacts {
    /// Counts a prompt that was seen before, and notes on it what is known of both.
    fn compare(&mut self, earlier: SeenPrompt, prompt: &mut SeenPrompt) {
        (prompt.came_back, prompt.was_looked_up) = (earlier.came_back, earlier.was_looked_up);
        if earlier.answer.is_other_sample(&prompt.answer) {
            return;
        }
        let apart = earlier.moment.zip(prompt.moment).map(|(one, other)| one.abs_diff(other));
        let is_same_name = prompt.name.is_some() && prompt.name == earlier.name;
        if !is_same_name && apart.is_none_or(|apart| apart > WITHIN_MS) {
            if let Some(apart) = apart.filter(|apart| *apart <= WITHIN_LATE_MS) {
                let is_looked_up =
                    earlier.cached.zip(prompt.cached).is_some_and(|(before, now)| before != now);
                self.late += u64::from(!is_looked_up);
                self.late_prompts += u64::from(!is_looked_up && !earlier.came_back);
                self.latest_ms = self.latest_ms.max(apart);
                prompt.came_back |= !is_looked_up;
            }
            return;
        }
        let found = earlier.cached.zip(prompt.cached);
        let is_answered = earlier.answer.is_other_than(&prompt.answer);
        let is_looked_up = !is_same_name && (is_answered || found.is_some_and(|(before, now)| before != now));
        self.whole += 1;
        self.repeated_prompts += u64::from(!earlier.came_back);
        self.looked_up_prompts += u64::from(is_looked_up && !earlier.was_looked_up);
        self.same_name += u64::from(is_same_name);
        let is_at_once = apart == Some(0) && earlier.cached == prompt.cached;
        self.same_time += u64::from(is_at_once);
        self.identical += u64::from(
            is_at_once && earlier.answer.tokens == prompt.answer.tokens && earlier.name == prompt.name,
        );
        self.farthest_ms = self.farthest_ms.max(apart.unwrap_or(0));
        prompt.came_back = true;
        prompt.was_looked_up |= is_looked_up;
    }

    /// Counts what a request states of how much was found of its prompt.
    fn note_found(&mut self, draft: &Draft, is_new: bool) {
        let Some((found, prompt)) = draft.cached_tokens.count().zip(draft.input_tokens) else { return };
        let is_whole = found + 1 >= prompt;
        self.stating += 1;
        self.found_whole += u64::from(is_whole);
        self.found_new += u64::from(is_whole && is_new);
    }

    /// That prompts which come for the first time are stated as found, where nearly all are.
    pub fn sentence_of_found(&self) -> Option<String> {
        const FEWEST: u64 = 8;
        let Self { stating, found_whole, found_new, .. } = *self;
        (found_new >= FEWEST && found_whole * 20 >= stating * 19).then(|| {
            format!(
                "{found_whole} of {stating} requests state that all of their prompts was found but the last token, \
                 {found_new} of them with a prompt that no request before had: what comes for the first time cannot \
                 have been found. A decode worker counts so what it was handed; log what was cached where prompts are \
                 prefilled"
            )
        })
    }

    /// Whether so many different prompts come back that copies are likely.
    pub fn are_told(&self) -> bool {
        let are_most = self.repeated_prompts * 2 >= self.prompts;
        // Fewer are, where all come back at once: what agents and users ask again comes back at any time.
        let are_at_once = self.farthest_ms <= AT_ONCE_MS && self.late == 0;
        let are_some = self.repeated_prompts * 8 >= self.prompts && are_at_once;
        let are_own = self.looked_up_prompts * 2 >= self.repeated_prompts;
        // One log in two files: nobody sends many prompts again within the same millisecond.
        let are_copied = self.same_time * 10 >= self.requests && self.same_time == self.whole;
        let are_several = self.repeated_prompts >= TOLD_PROMPTS;
        self.same_name > 0
            || (are_several && (are_most || are_some || are_copied) && !are_own)
            || self.are_all_late()
    }

    /// Whether nearly every prompt comes back within minutes, as attempts and states of one request do.
    fn are_all_late(&self) -> bool {
        let came_back = self.late_prompts + self.repeated_prompts;
        self.late_prompts >= TOLD_PROMPTS && came_back * 10 >= self.prompts * 9
    }

    /// Requests that come back, and how far from the earlier one they are at most, in milliseconds.
    pub fn coming_back(&self) -> (u64, u64) {
        match self.are_all_late() {
            true => (self.whole + self.late, self.farthest_ms.max(self.latest_ms)),
            false => (self.whole, self.farthest_ms),
        }
    }

    /// Requests equal to an earlier one in time, prompt, counts and name, where that is told by itself.
    pub fn copies(&self) -> u64 {
        const ONE_IN: u64 = 1000;
        if self.identical * ONE_IN >= self.requests { self.identical } else { 0 }
    }

    /// The same in a sentence, where nothing else tells it.
    pub fn sentence_of_copies(&self) -> Option<String> {
        let copies = self.copies();
        (copies > 0 && !self.are_told()).then(|| {
            format!(
                "{copies} of {} requests are equal to an earlier one, time and prompt included: where the log was \
                 delivered or collected twice, each copy finds all of itself; drop the copies",
                self.requests
            )
        })
    }

    /// Whether most requests have the prompt of one of another pool.
    pub fn are_of_others(&self) -> bool {
        self.are_twins(self.of_others)
    }

    /// Whether most requests ask what another one asked.
    pub fn are_asked_again(&self) -> bool {
        self.are_twins(self.asked_again)
    }

    /// Whether so many of the requests are twins of others that copies are likely: of two copies one is.
    fn are_twins(&self, twins: u64) -> bool {
        twins >= TOLD_PROMPTS && twins * 10 >= self.requests * 4
    }

    /// In a few words, where so many are told that the answer is of them.
    pub fn doubt(&self) -> Option<String> {
        let Self { requests, of_others, .. } = *self;
        let (whole, _) = self.coming_back();
        let is_much = self.are_told() && whole * 10 >= requests;
        let asked_again = self.asked_again;
        let again = || format!("{asked_again} of {requests} requests ask what another one asked");
        let repeated = || format!("{whole} of {requests} requests repeat the whole prompt of another");
        let others =
            || format!("{of_others} of {requests} requests have the whole prompt of one of another model");
        let repeated = is_much.then(repeated).or_else(|| self.are_of_others().then(others));
        repeated.or_else(|| self.are_asked_again().then(again))
    }

    /// That requests are those of another pool, where most are.
    pub fn sentence_of_others(&self) -> Option<String> {
        let Self { requests, of_others, .. } = *self;
        self.are_of_others().then(|| {
            format!(
                "{of_others} of {requests} requests have the whole prompt of one of another model, within seconds of it or \
                 under its name: where the log writes a request under two models (a span and its parent, an alias and a \
                 model), each has a cache for it, and both together are too large; log each request once, or take one \
                 model with --pool"
            )
        })
    }

    /// That requests ask what others asked, where most copies do.
    pub fn sentence_of_twins(&self) -> Option<String> {
        let Self { requests, asked_again, .. } = *self;
        self.are_asked_again().then(|| {
            format!(
                "{asked_again} of {requests} requests ask what another one asked within seconds of it or under its name, \
                 and differ in system prompts, white space or an answer behind it: where the log writes a request twice or \
                 more (the application and the engine, its start and its end), each copy counts as a request; log each \
                 request once, as the engine got it"
            )
        })
    }

    /// The same in a sentence, where they are told.
    pub fn sentence(&self) -> Option<String> {
        let Self { requests, same_name, .. } = *self;
        let (whole, farthest_ms) = self.coming_back();
        let named = match same_name {
            0 => String::new(),
            _ if same_name == whole => " under the same request id".to_owned(),
            some => format!(", {some} of them under the same request id"),
        };
        let apart = match farthest_ms {
            0..100 => String::new(),
            ms => format!(" at most {:.1} s before", ms as f64 / 1000.0),
        };
        self.are_told().then(|| {
            format!(
                "{whole} of {requests} requests repeat the whole prompt of another{apart}{named}: where the log \
                 writes a request twice or more (its start and its end, its attempts, the prefill and the decode \
                 worker, the gateway and the engine, a file and its copy), each copy finds all of itself, and the \
                 hit rate is too high; log each request once"
            )
        })
    }
}

/// Stated cached tokens that leave more than the last token of a prompt to be computed.
fn cached_of(draft: &Draft) -> Option<u64> {
    let of_prompt = |cached: &u64| draft.input_tokens.is_none_or(|tokens| cached + 1 < tokens);
    draft.cached_tokens.count().filter(of_prompt)
}

/// A digest of a prompt: its length, some of its ids, and what keeps it apart.
fn digest(pages: usize, tokens: Option<u64>, ids: [u64; 3], scope: Scope, pool: &str) -> u64 {
    let some = [pages as u64, tokens.unwrap_or(0), ids[0], ids[1], ids[2], scope.value()];
    xxh3_64_with_seed(bytemuck::bytes_of(&some), xxh3_64(pool.as_bytes()))
}

fn digest_of(draft: &Draft, batch: &RowBatch, scope: Scope, pool: &str) -> u64 {
    let ids = &batch.ids[draft.ids.clone()];
    let parts = [ids[0], ids[ids.len() / 2], ids[ids.len() - 1]];
    digest(ids.len(), draft.input_tokens, parts, scope, pool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_core::request::event::CachedTokens;

    #[test]
    fn samples_of_one_prompt_are_requests() {
        let told = |change: &dyn Fn(u64, &mut Draft)| {
            let mut sent = batch(&(0..40).map(|at| (at / 8, at as u64 / 8, None)).collect::<Vec<_>>());
            sent.drafts.iter_mut().enumerate().for_each(|(at, draft)| change(at as u64 % 8, draft));
            let mut repeats = PromptRepeats::default();
            repeats.add(&sent);
            repeats.facts().doubt()
        };
        assert!(told(&|_, _| ()).is_some_and(|said| said.starts_with("35 of 40 requests repeat")));
        assert!(told(&|_, draft| (draft.answer, draft.sample) = (Some(7), Some(7))).is_some());
        assert_eq!(told(&|at, draft| draft.answer = Some(at)), None);
        assert_eq!(told(&|at, draft| draft.sample = Some(at)), None);
    }

    fn batch(prompts: &[(i64, u64, Option<u64>)]) -> RowBatch {
        use crate::time::{Moment, TimeBase, TimeForm};
        let mut batch = RowBatch::default();
        for (second, id, name) in prompts {
            let start = batch.ids.len();
            batch.ids.push(*id);
            let mut draft = Draft { ids: start..start + 1, request_id: *name, ..Draft::default() };
            draft.moment = Moment::default().after(std::time::Duration::from_secs(*second as u64));
            draft.when = StatedTimes::At { clock: TimeBase::Epoch, form: TimeForm::Date };
            batch.drafts.push(draft);
        }
        batch
    }

    #[test]
    fn copies_within_seconds_are_told_and_prompts_that_return_later_are_not() {
        let mut repeats = PromptRepeats::default();
        repeats.add(&batch(&[
            (0, 1, None),
            (4, 1, None),
            (5, 2, None),
            (9, 2, None),
            (20, 3, None),
            (21, 3, None),
        ]));
        let facts = repeats.facts();
        assert_eq!((facts.whole, facts.requests, facts.farthest_ms), (3, 6, 4000));
        assert!(facts.sentence().is_some_and(|said| said.contains("3 of 6 requests repeat")));
        let mut hot = PromptRepeats::default();
        hot.add(&batch(&[(0, 1, None), (1, 1, None), (2, 1, None), (3, 1, None), (4, 1, None)]));
        assert_eq!(hot.facts().sentence(), None, "one prompt that many send");
        let mut benchmark = PromptRepeats::default();
        let mut sent =
            batch(&[(0, 1, None), (1, 2, None), (2, 3, None), (3, 1, None), (4, 2, None), (5, 3, None)]);
        for (draft, cached) in sent.drafts.iter_mut().zip([0, 0, 0, 96, 96, 0]) {
            (draft.input_tokens, draft.cached_tokens) = (Some(128), CachedTokens::Stated(cached));
        }
        benchmark.add(&sent);
        assert_eq!((benchmark.facts().whole, benchmark.facts().looked_up_prompts), (3, 2));
        assert_eq!(
            benchmark.facts().sentence(),
            None,
            "requests of which the engine found more are their own"
        );
        // Two files of one log: some requests stand in both.
        let mut exported = PromptRepeats::default();
        exported.add(&batch(&(0..20).map(|at| (60 * at, at as u64, None)).collect::<Vec<_>>()));
        exported.add(&batch(&(3..7).map(|at| (60 * at, at as u64, None)).collect::<Vec<_>>()));
        assert!(exported.facts().sentence().is_some_and(|said| said.contains("4 of 24 requests repeat")));
        assert_eq!(
            exported.facts().doubt().as_deref(),
            Some("4 of 24 requests repeat the whole prompt of another")
        );
        let mut legs = PromptRepeats::default();
        for (draft, cached) in sent.drafts.iter_mut().zip([0, 0, 0, 127, 127, 127]) {
            draft.cached_tokens = CachedTokens::Stated(cached);
        }
        legs.add(&sent);
        assert!(legs.facts().sentence().is_some(), "a decode worker has all of its prompt from the other");
        let mut answered = PromptRepeats::default();
        for (at, draft) in sent.drafts.iter_mut().enumerate() {
            draft.output_tokens = Some(40 + 20 * at as u64);
        }
        answered.add(&sent);
        assert_eq!(answered.facts().sentence(), None, "each has an answer of its own");
        let mut later = PromptRepeats::default();
        later.add(&batch(&[(0, 1, None), (40, 1, None), (80, 1, None)]));
        assert_eq!(later.facts().sentence(), None);
        let mut named = PromptRepeats::default();
        named.add(&batch(&[(0, 1, Some(7)), (400, 1, Some(7)), (900, 1, Some(8))]));
        assert_eq!((named.facts().whole, named.facts().same_name), (1, 1));
    }

    /// Attempts and states of one request, half a minute and more apart, made a hit rate of 90 % without a word.
    #[test]
    fn prompts_that_all_come_back_within_minutes_are_told_and_one_that_many_send_is_not() {
        let mut states = PromptRepeats::default();
        let at = |id: u64| [(id as i64, id, None), (id as i64 + 40, id, None), (id as i64 + 95, id, None)];
        let mut rows: Vec<_> = (0..20).flat_map(at).collect();
        rows.sort();
        states.add(&batch(&rows));
        assert_eq!(states.facts().coming_back(), (40, 55_000));
        assert!(states.facts().doubt().is_some_and(|said| said.starts_with("40 of 60 requests repeat")));
        let mut hot = PromptRepeats::default();
        hot.add(&batch(&(0..50).map(|at| (40 * at, 1, None)).collect::<Vec<_>>()));
        assert_eq!(hot.facts().sentence(), None);
    }

    /// A log of which every fifth row stood twice was reported without a word.
    #[test]
    fn some_copies_are_told_where_all_come_at_once() {
        let told = |apart: i64| {
            let mut repeats = PromptRepeats::default();
            let at = |id: u64| [(10 * id as i64, id, None), (10 * id as i64 + apart, id, None)];
            let copies = |id: &u64| if id.is_multiple_of(5) { 2 } else { 1 };
            let rows: Vec<_> = (0..20).flat_map(|id| at(id).into_iter().take(copies(&id))).collect();
            repeats.add(&batch(&rows));
            repeats.facts().doubt()
        };
        assert_eq!(told(1).as_deref(), Some("4 of 24 requests repeat the whole prompt of another"));
        assert_eq!(told(20), None);
    }

    /// A span and its parent, or an alias and its model, made two caches of one.
    #[test]
    fn requests_of_another_model_with_the_same_prompt_are_told() {
        let mut spans = PromptRepeats::default();
        let mut both = batch(&(0..20).map(|at| (at / 2, at as u64 / 2, None)).collect::<Vec<_>>());
        both.text.push_str("qwen");
        both.drafts.iter_mut().step_by(2).for_each(|draft| draft.pool = Some(0..4));
        spans.add(&both);
        assert_eq!((spans.facts().of_others, spans.facts().whole), (10, 0));
        assert!(spans.facts().sentence_of_others().is_some_and(|said| said.contains("10 of 20 requests")));
        let mut models = PromptRepeats::default();
        both.drafts
            .iter_mut()
            .enumerate()
            .for_each(|(at, draft)| draft.output_tokens = Some(90 - at as u64 % 2 * 60));
        models.add(&both);
        assert_eq!(models.facts().of_others, 0, "a guard and a model, each with its answer");
    }

    #[test]
    fn prompts_that_come_first_and_were_found_are_told() {
        let told = |found: u64| {
            let mut repeats = PromptRepeats::default();
            let mut sent = batch(&(0..20).map(|at| (60 * at, at as u64, None)).collect::<Vec<_>>());
            for draft in &mut sent.drafts {
                (draft.input_tokens, draft.cached_tokens) = (Some(128), CachedTokens::Stated(found));
            }
            repeats.add(&sent);
            repeats.facts().sentence_of_found()
        };
        assert!(
            told(127)
                .is_some_and(|said| said.contains("20 of them with a prompt that no request before had"))
        );
        assert_eq!(told(112), None);
    }
}
