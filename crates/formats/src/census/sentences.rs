//! What fields that nobody read mean, in words, with what helps.

use super::{UnreadField, UnreadKind};
use crate::row_values::FRONT;

impl UnreadKind {
    /// Whether what is of this kind is a part of a prompt.
    pub(super) const fn is_of_prompts(self) -> bool {
        matches!(self, Self::Text | Self::Functions | Self::Integers | Self::Partial)
    }

    /// Whether what is of this kind changes the answer by itself: where one of so many rows has it, and what is wrong
    /// then.
    pub(super) const fn doubt(self) -> Option<(u64, &'static str)> {
        match self {
            Self::Partial => Some((10, "rows say that their prompts are not whole")),
            Self::Limit => Some((10, "prompts are longer than the rows say that they may be")),
            Self::Media | Self::Added | Self::WithAnswer => {
                Some((10, "rows name parts of prompts that neither texts nor token ids show"))
            }
            _ if self.is_of_prompts() => Some((100, "rows have parts of prompts that were not read")),
            Self::AnswerCache | Self::NotComputed | Self::NoAnswer => {
                Some((10, "rows seem to be of requests that no engine computed"))
            }
            Self::Outcome => Some((10, "rows may be of requests that no engine computed")),
            Self::Contradiction => Some((10, "rows state two counts of one thing that differ")),
            Self::SampleRate => Some((10, "the log is a sample of the traffic")),
            Self::Rest => Some((1, "the file is one page of more")),
            Self::Answering => Some((2, "requests of one model seem to be answered by several")),
            Self::NoLookup => Some((2, "rows ask for what makes an engine look nothing up in its cache")),
            Self::Cache => Some((2, "rows seem to name several caches in a field that was not read")),
            _ => None,
        }
    }
}

impl UnreadField {
    /// What it means that it was not read, and what helps.
    pub(crate) fn sentence(&self) -> String {
        let Self { rows, of, values, said, .. } = self;
        let path = self.name();
        let looked_at = format!("in {rows} of the {of} rows looked at");
        let unread = format!("{path} was not read ({looked_at})");
        let unread_values = format!("{path} was not read ({values} values, {looked_at})");
        match self.kind {
            UnreadKind::Text => format!(
                "{unread}. It is a text that no prompt contains. If the engine had it, prompts are longer and share more \
                 than is reported: write it as a message"
            ),
            UnreadKind::Functions => format!(
                "{unread}. It describes functions. If the engine had them, prompts are longer and share more than is \
                 reported: write them as `tools` of the request"
            ),
            UnreadKind::Integers => format!(
                "{unread}. It lists whole numbers. If these are the prompt's tokens, write them as `token_ids` in place \
                 of what was read"
            ),
            UnreadKind::CachedTokens => format!(
                "{unread}. By its name it counts what a cache had, and nothing else says what the engine found: write {} \
                 as `cached_tokens`{}",
                self.cached_tokens_there(),
                self.response_cure()
            ),
            UnreadKind::Cache => format!(
                "{unread_values}. It seems to name the cache that served, and all requests went to one cache: write it as \
                 `replica` to have each by itself"
            ),
            UnreadKind::Adapter => format!(
                "{unread}. It seems to name an adapter. Equal prompts of two adapters share pages here and none in the \
                 engine: write it as `lora_name`{}",
                self.scope_cure()
            ),
            UnreadKind::Model => format!(
                "{unread_values}. By its name it is the model that was asked. If several models are asked the same (a \
                 guard, a second opinion), none finds what another one computed: write it as `model`{}",
                self.scope_cure()
            ),
            UnreadKind::Answering => format!(
                "{path} is by its name the model that answered ({values} values, {looked_at}), and requests of one model \
                 have several of them. Each has a cache of its own, and all were taken for one: write it as `model`{}",
                self.scope_cure()
            ),
            UnreadKind::Rest => format!(
                "{path} of what lies around the rows says {said}: the file is one page of more, and what is missing would \
                 have been found and have evicted others; fetch all pages, and give their files together"
            ),
            UnreadKind::Owner => format!(
                "{unread_values}. It would part the log. If each has caches of its own, write it as `replica`; if its \
                 pages are its own{}",
                match self.scope_cure() {
                    none if none.is_empty() => ", write it as `cache_salt`".to_owned(),
                    cure => cure.replacen(", or", ",", 1),
                }
            ),
            UnreadKind::Time if self.said.is_empty() => format!(
                "{unread}. It is a time, and no row says when its request came, so requests are taken in the order of the \
                 file: write it as `timestamp` of the request, as a date or in seconds since 1970 (of a \
                 spreadsheet's days: less 25569, times 86400)"
            ),
            UnreadKind::Time => format!(
                "{unread}. It is a time {said}. If the one that was read is when rows were written, requests came at other \
                 times than they do here: write it as `timestamp` of the request"
            ),
            UnreadKind::SampleRate if self.share.is_none() => format!(
                "the log is a sample: {path}, in {rows} of {of} rows, names the rule by which they were kept, and not \
                 their share. Requests, hit rate and capacity are those of what was kept; log all, or whole sessions"
            ),
            UnreadKind::SampleRate => {
                let share = self.share.unwrap_or(1.0);
                let uneven = match rows < of {
                    true => format!(
                        " in {rows} of {of} rows, and others were kept otherwise: rows count unequally"
                    ),
                    false => String::new(),
                };
                format!(
                    "the log is a sample: {path} says that {:.3} % of the traffic was kept{uneven}. Requests, hit \
                     rate and capacity are those of that part; whole sessions have {:.1} times as many pages in all, \
                     and of single requests that were sampled no hit rate can be told",
                    share * 100.0,
                    1.0 / share
                )
            }
            UnreadKind::AnswerCache => format!(
                "{unread}. It seems to say that a cache of answers (a gateway's own, or a semantic one) answered. Such \
                 prompts reached no engine and count here{}: {}",
                self.hits_that_count(),
                // One of that name has a value that says neither.
                if self.path.ends_with("cache_hit") {
                    "write true or false in it"
                } else {
                    "write it as `cache_hit`"
                }
            ),
            UnreadKind::NotComputed => format!(
                "{unread}. It seems to say that no engine computed the prompt (refused, failed, only tried, or no call for \
                 an answer). Such prompts count here{}: leave these rows out, or write the HTTP status of each as \
                 `status`",
                self.hits_that_count()
            ),
            UnreadKind::Partial => format!(
                "{path} says that the prompt is not whole ({looked_at}). What is missing is neither in its length nor in \
                 what prompts share: log whole prompts, or the engine's token ids"
            ),
            UnreadKind::Limit => format!(
                "{path} limits prompts ({looked_at}), and one of them has {said}. A server that cuts longer prompts had \
                 others than were logged: log the token ids that the engine was sent"
            ),
            UnreadKind::Media => format!(
                "{path} speaks of pictures, sounds or files that are a part of the prompt ({looked_at}). Neither a text \
                 nor token ids show them, so prompts that differ there alone count as the same, and hits come out too \
                 high: log page ids that the engine hashed with its media, or leave such requests out"
            ),
            UnreadKind::Added => format!(
                "{path} speaks of what a server adds to the messages or takes from them ({looked_at}): files, a search, \
                 tools by their names, a cut. Such prompts are longer or others than is reported: log the token ids that \
                 the engine was sent, or what it added as messages and `tools`"
            ),
            UnreadKind::WithAnswer => format!(
                "{path} marks the tokens of the answer ({looked_at}), which no list has by itself. The ids of the row are \
                 of the prompt and of its answer, so prompts are too long: log the prompt's as `prompt_token_ids`, and \
                 the answer's as `output_token_ids`"
            ),
            UnreadKind::Outcome => format!(
                "{path} was not read ({said} of the {of} rows looked at). By its name it says what became of a request. If \
                 a value means that this engine computed no prompt (refused, failed, answered from a cache or by \
                 another), such prompts count all the same: leave these rows out, or write the HTTP status of each as \
                 `status`"
            ),
            UnreadKind::Contradiction => format!(
                "{path} contradicts another count ({looked_at}), in one of them {said}. Which of the two the engine counted \
                 is not known, and one was read: log that one alone"
            ),
            UnreadKind::NoAnswer => format!(
                "{rows} of the {of} rows looked at have no answer, and others have ({path}). If no engine computed these \
                 prompts, they count all the same: leave these rows out, or write the HTTP status of each as `status`"
            ),
            UnreadKind::NoLookup => format!(
                "{path} makes an engine compute the whole prompt ({looked_at}). The engine looks nothing up in its cache \
                 and fills it all the same, so what these requests could have found is in the figures and was not lost in \
                 the engine: leave them out if they are many"
            ),
        }
    }

    /// The field as it is named: a path, or what stands at none.
    fn name(&self) -> String {
        if self.path == FRONT { format!("what stands {FRONT}") } else { format!("`{}`", self.path) }
    }

    /// What of a count of a cache is to be written as its tokens.
    fn cached_tokens_there(&self) -> &'static str {
        const IN_OTHER_UNITS: [&str; 10] =
            ["block", "page", "ratio", "rate", "pct", "percent", "share", "fraction", "ktok", "char"];
        let words = super::words::words(&self.path);
        let has = |parts: &[&str]| words.iter().any(|word| parts.iter().any(|part| word.contains(part)));
        match words.as_slice() {
            // llama.cpp counts all that it holds.
            [tokens, cached] if tokens == "tokens" && cached == "cached" && self.path.contains('_') => {
                "what of the prompt was found (llama.cpp holds the prompt and the answer in this one, and counts hits \
                 in `timings.cache_n`)"
            }
            _ if has(&IN_OTHER_UNITS) => "its tokens",
            _ if has(&["prefill", "computed"]) => "what the prompt has beyond these tokens",
            _ if has(&["metric", "details"]) => "the tokens in it",
            _ => "it",
        }
    }

    /// How much of what is compared with the engine's cache is of these rows.
    fn hits_that_count(&self) -> String {
        self.cached_share.map_or_else(String::new, |share| {
            format!(
                ", and {:.1} % of the measured hits are theirs, which are compared with the engine's",
                share * 100.0
            )
        })
    }

    /// The option that reads a usage where it lies.
    fn response_cure(&self) -> String {
        let above =
            self.path.split('.').next().filter(|first| *first != self.path && !first.contains(['[', ' ']));
        above.map_or_else(String::new, |place| {
            format!(", or name where the answer lies with --response {place}")
        })
    }

    /// The option that keeps the pages of each value apart.
    fn scope_cure(&self) -> String {
        match self.path.contains(['.', '[']) {
            true => String::new(),
            false => format!(", or keep its pages apart with --id-scope field:{}", self.path),
        }
    }
}
