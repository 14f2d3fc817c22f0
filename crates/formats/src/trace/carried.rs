//! What goes on from file to file of a trace, and what is said of it in the end.

use super::options::Format;
use super::time_facts::TimeFacts;
use super::timeline::TraceTimeline;
use crate::census::{FieldCensus, UnreadField};
use crate::logs::{Places, RecordPath};
use crate::placeholders::Placeholders;
use crate::record::file_spans::FileSpans;
use crate::record::repeats::PromptRepeats;
use crate::record::row::RowBatch;
use crate::record::subagents::SubagentEvidence;
use crate::stated::StatedPrompts;
use kvset_core::request::event::CachedTokens;
#[cfg(feature = "tokenize")]
use kvset_tokenize::ChatRemarks;
use std::collections::BTreeMap;

/// Most models that a note names.
const MOST_MODELS: usize = 8;

/// What goes on from file to file.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// When requests came.
    pub timeline: TraceTimeline,
    /// The formats of the files read so far, each once.
    pub formats: Vec<Format>,
    /// Where in their rows records lay, file by file; the first few.
    places: Vec<String>,
    /// Lines that are comments.
    pub comments: u64,
    /// Whether a file lists the pages of requests that may name their session.
    pub lists_pages: bool,
    /// Whether the models of the file at hand share one pool.
    pub merges_models: bool,
    /// Models that share one, in their order; the first few.
    models: Vec<Box<str>>,
    /// Records that are of no request which a cache served, by the reason.
    pub passed_over: BTreeMap<&'static str, u64>,
    /// Prompts whose tokens the log states.
    pub stated: StatedPrompts,
    /// Requests whose counts of cached tokens cannot be.
    impossible_counts: u64,
    /// When the requests of each file came.
    pub files: FileSpans,
    /// Requests that may be written more than once.
    pub repeats: PromptRepeats,
    /// Fields that could matter and were not read.
    pub fields: FieldCensus,
    /// Requests of token ids, and those with placeholders of media among them.
    pub placeholders: Placeholders,
    /// What chats held that engines treat each in a way of its own.
    #[cfg(feature = "tokenize")]
    pub chats: ChatRemarks,
}

impl Carried {
    /// Gives the requests of `batch` their moments and their pools. Returns whether all were kept, as
    /// [`TraceTimeline::place`] does.
    pub fn place(&mut self, batch: &mut RowBatch) -> bool {
        if self.merges_models {
            for draft in &mut batch.drafts {
                let Some(model) = draft.pool.take().map(|model| &batch.text[model]) else { continue };
                if self.models.len() < MOST_MODELS && self.models.iter().all(|known| **known != *model) {
                    self.models.push(Box::from(model));
                }
            }
        }
        for why in batch.passed_over.drain(..) {
            *self.passed_over.entry(why).or_default() += 1;
        }
        let all_kept = self.timeline.place(batch);
        self.set_aside(batch);
        self.files.add(batch);
        self.repeats.add(batch);
        all_kept
    }

    /// Sets counts aside that cannot be: more tokens found than a prompt has.
    fn set_aside(&mut self, batch: &mut RowBatch) {
        for draft in &mut batch.drafts {
            let page = draft.page_size.map_or(0, |page| u64::from(page.get()));
            let prompt = draft.input_tokens.unwrap_or(draft.ids.len() as u64 * page);
            if draft.cached_tokens.stated().is_some_and(|cached| cached > prompt) {
                draft.cached_tokens = CachedTokens::Unstated;
                self.impossible_counts += 1;
            }
        }
    }

    /// That counts were set aside, where they were.
    pub fn set_aside_note(&self) -> Option<String> {
        (self.impossible_counts > 0).then(|| {
            format!(
                "{} requests state more cached tokens than their prompts have, and these counts are set aside: \
                 SGLang before its pull request 11900 adds up what a request finds again after it was retracted \
                 (preempted)",
                self.impossible_counts
            )
        })
    }

    /// That several models share one pool, where they do.
    pub fn models_note(&self) -> Option<String> {
        let [_, _, ..] = self.models.as_slice() else { return None };
        let more = if self.models.len() == MOST_MODELS { " and more" } else { "" };
        Some(format!(
            "requests of several models ({}{more}) share one pool, as WEKA's files number their pages; --id-scope \
             field:model keeps the pages of each apart, --pool takes one model",
            self.models.join(", ")
        ))
    }

    /// What of the fields could matter and was not read; a text beside prompts that are whole could not.
    pub fn unread(&self) -> FieldCensus {
        let fields = self.fields.clone();
        match self.stated.are_whole(self.repeats.facts().requests) {
            true => fields.beside_whole_prompts(),
            false => fields,
        }
    }

    /// What could change the answer by itself.
    pub fn doubt(&self) -> Option<String> {
        let of_rows = self.unread().doubt().or_else(|| self.repeats_doubt());
        #[cfg(feature = "tokenize")]
        let of_rows = of_rows.or_else(|| self.remarks().doubt());
        let of_rows = of_rows.or_else(|| self.cut_ids()?.0);
        let of_order = of_rows.or_else(|| self.rotated());
        of_order
            .or_else(|| self.timeline.facts().doubt())
            .or_else(|| self.turns_doubt())
            .or_else(|| self.transcripts())
    }

    /// That a file without times stands before an older one.
    fn rotated(&self) -> Option<String> {
        self.files.rotated().filter(|_| self.timeline.facts().clock.is_none())
    }

    /// The same in a sentence.
    pub fn rotated_note(&self) -> Option<String> {
        let found = self.rotated()?;
        Some(format!("{found}, and no row says when its request came: name the oldest file first"))
    }

    /// That rows may be transcripts, where each has answers to requests that are not in the log.
    fn transcripts(&self) -> Option<String> {
        #[cfg(feature = "tokenize")]
        {
            let TimeFacts { same_start, other_start, .. } = *self.timeline.facts();
            self.chats.transcripts(same_start + other_start)
        }
        #[cfg(not(feature = "tokenize"))]
        None
    }

    /// That in a sentence.
    pub fn transcripts_note(&self) -> Option<String> {
        let found = self.transcripts()?;
        Some(format!(
            "{found}: where a row is a transcript, each answer in it was a request of its own, which does not count here; \
             log each request, with the messages before its answer"
        ))
    }

    /// That lists of ids are cut, where they are and the log does not say how long they are.
    pub fn cut_ids(&self) -> Option<(Option<String>, String)> {
        self.placeholders.cut().filter(|_| !self.stated.are_whole(self.placeholders.requests))
    }

    /// That texts have another number of tokens than the log states, where nothing else says why.
    pub fn stated_note(&self) -> Option<String> {
        #[cfg(feature = "tokenize")]
        if self.chats.hides_parts() {
            return None;
        }
        self.stated.sentence()
    }

    /// What the chats show of how they were logged; nothing of cuts and masks where the log's counts of their tokens
    /// agree with the texts.
    #[cfg(feature = "tokenize")]
    pub fn remarks(&self) -> ChatRemarks {
        match self.stated.agree(self.repeats.facts().requests) {
            true => self.chats.of_whole_texts(),
            false => self.chats,
        }
    }

    /// A field that names several models and was not read, where requests of one pool seem to stand there twice: they
    /// are those of two models then.
    fn models_of_repeats(&self) -> Option<&UnreadField> {
        let facts = self.repeats.facts();
        self.fields.models.first().filter(|_| facts.are_told() || facts.are_asked_again())
    }

    fn repeats_doubt(&self) -> Option<String> {
        match self.models_of_repeats() {
            Some(_) => Some("rows seem to be of several models in a field that was not read".to_owned()),
            None => self.repeats.facts().doubt(),
        }
    }

    /// What is to be said of prompts that come back.
    pub fn repeats_notes(&self) -> Vec<String> {
        let facts = self.repeats.facts();
        let of_one_pool = match self.models_of_repeats() {
            Some(models) => [Some(models.sentence()), None],
            None => [facts.sentence(), facts.sentence_of_twins()],
        };
        let others = [facts.sentence_of_copies(), facts.sentence_of_others(), facts.sentence_of_found()];
        of_one_pool.into_iter().chain(others).flatten().collect()
    }

    /// That rows may list what a turn adds, where sessions go on and no row has what was said before.
    fn turns_doubt(&self) -> Option<String> {
        let TimeFacts { same_start, other_start, .. } = *self.timeline.facts();
        let later = same_start + other_start;
        let go_on = later > 0 && later * 4 >= self.repeats.facts().requests;
        let starts_anew = (same_start == 0)
            .then(|| format!("none of {later} later requests of sessions begins as its session did"));
        go_on.then(|| self.lone_turns().or(starts_anew))?
    }

    /// That nearly all chats are of one message, which puts an answer of nothing to reuse in doubt.
    pub fn lone_turns(&self) -> Option<String> {
        #[cfg(feature = "tokenize")]
        return self.chats.lone_turns();
        #[cfg(not(feature = "tokenize"))]
        None
    }

    /// The same in a sentence, where sessions go on.
    pub fn turns_note(&self) -> Option<String> {
        let found = self.turns_doubt().filter(|_| !self.lists_pages)?;
        Some(turns_sentence(&found))
    }

    /// Notes the format of a file.
    pub fn note_format(&mut self, format: Format) {
        if !self.formats.contains(&format) {
            self.formats.push(format);
        }
    }

    /// Notes where the records of a file lay in its rows.
    pub fn note_place(&mut self, file: &str, place: Option<&RecordPath>) {
        const MOST: usize = 5;
        if let Some(place) = place
            && self.places.len() < MOST
        {
            self.places.push(format!("the records of {file} lie {place} of its rows and were read there"));
        }
    }

    /// Notes where in the records of a file requests were looked for that nobody had named a place of.
    pub fn note_places(&mut self, file: &str, places: &Places) {
        let Some(request) = &places.request else { return };
        let answers = match &places.response {
            Some(response) => format!(", and their answers at `{response}`"),
            None => String::new(),
        };
        self.places.push(format!("the requests of {file} were read at `{request}`{answers}"));
    }

    /// Notes that nothing says when the requests of a file came, where fields of its rows seem to.
    pub fn note_unread_times(&mut self, file: &str, fields: &[String]) {
        if fields.is_empty() {
            return;
        }
        let fields: Vec<_> = fields.iter().map(|field| format!("`{field}`")).collect();
        self.places.push(format!(
            "the requests of {file} were taken in the order of the file: no field says when they came by a name that \
             is known; {} may: write it as `timestamp`",
            fields.join(" or ")
        ));
    }

    /// That lines are comments, where some are.
    pub fn comments_note(&self) -> Option<String> {
        (self.comments > 0).then(|| {
            format!(
                "{} lines begin as comments do (`#` or `//`) and were passed over: what they say of the log, such as \
                 that it is a sample, is not known here",
                self.comments
            )
        })
    }

    /// What was noted of places.
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// Notes from where the requests of a file's sub-agents count their times, where that is not as the format has it.
    pub fn note_subagents(&mut self, file: &str, evidence: SubagentEvidence) {
        if evidence.absolute > 0 {
            self.places.push(format!("{file}: {evidence}"));
        }
    }

    /// That no prompt of a session goes on with the one before it, where none does.
    pub fn session_note(&self) -> Option<String> {
        let TimeFacts { same_start: 0, other_start: later @ 1.., .. } = self.timeline.facts() else {
            return None;
        };
        self.lists_pages.then(|| {
            format!(
                "{later} later requests of sessions never contain the first page of their session: if rows list only \
                 what is new, read them with --format mooncake-delta"
            )
        })
    }
}

/// What it means where rows list what a turn adds.
pub(super) fn turns_sentence(found: &str) -> String {
    format!(
        "{found}: where rows list only what a turn adds, what was said before it is not in the log, and neither hits nor \
         capacity are the engine's; log whole prompts, or the engine's token ids"
    )
}
