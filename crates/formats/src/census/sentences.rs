//! What fields that nobody read mean, in words, with what helps.

use super::{UnreadField, UnreadKind};

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
        let Self { path, rows, of, values, .. } = self;
        let has = format!("`{path}`, in {rows} of the {of} rows that were looked at,");
        match self.kind {
            UnreadKind::Text => format!(
                "{has} is a text that no prompt contains and that was not read: where the engine had it, prompts are \
                 longer and share more than is reported; write it as a message"
            ),
            UnreadKind::Functions => format!(
                "{has} describes functions and was not read: where the engine had them, prompts are longer and share \
                 more than is reported; write them as `tools` of the request"
            ),
            UnreadKind::Integers => format!(
                "{has} lists whole numbers and was not read: where these are the prompt's tokens, write them as \
                 `token_ids` in place of what was read"
            ),
            UnreadKind::CachedTokens => format!(
                "{has} counts by its name what a cache had and was not read, so nothing says what the engine found: \
                 write {} as `cached_tokens`{}",
                self.cached_tokens_there(),
                self.response_cure()
            ),
            UnreadKind::Cache => format!(
                "{has} has {values} values, seems to name the cache that served, and was not read: all requests went \
                 to one cache; write it as `replica` to have each by itself"
            ),
            UnreadKind::Adapter => format!(
                "{has} seems to name an adapter and was not read: equal prompts of two adapters share pages here and \
                 none in the engine; write it as `lora_name`{}",
                self.scope_cure()
            ),
            UnreadKind::Model => format!(
                "{has} has {values} values, names by its name the model that was asked, and was not read: where \
                 several models are asked the same (a guard, a second opinion), none finds what another one computed; \
                 write it as `model`{}",
                self.scope_cure()
            ),
            UnreadKind::Answering => format!(
                "{has} has {values} values, names by its name the model that answered, and requests of one model have \
                 several of them: each has a cache of its own, and all were taken for one; write it as `model`{}",
                self.scope_cure()
            ),
            UnreadKind::Rest => format!(
                "`{path}` of what lies around the rows says {}: the file is one page of more, and what is missing would \
                 have been found and have evicted others; fetch all pages, and give their files together",
                self.said
            ),
            UnreadKind::Owner => format!(
                "{has} has {values} values, would part the log, and was not read: where each has caches of its own, \
                 write it as `replica`; where its pages are its own{}",
                match self.scope_cure() {
                    none if none.is_empty() => ", write it as `cache_salt`".to_owned(),
                    cure => cure.replacen(", or", ",", 1),
                }
            ),
            UnreadKind::Time if self.said.is_empty() => format!(
                "{has} is a time and was not read, and no row says when its request came: requests are taken in the \
                 order of the file; write it as `timestamp` of the request, as a date or in seconds since 1970 (of a \
                 spreadsheet's days: less 25569, times 86400)"
            ),
            UnreadKind::Time => format!(
                "{has} is a time and was not read, {}: where that one is when rows were written, requests came at \
                 other times than they do here; write it as `timestamp` of the request",
                self.said
            ),
            UnreadKind::SampleRate if self.share.is_none() => format!(
                "the log is a sample: `{path}`, in {rows} of {of} rows, names the rule by which they were kept, and not \
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
                    "the log is a sample: `{path}` says that {:.3} % of the traffic was kept{uneven}. Requests, hit \
                     rate and capacity are those of that part; whole sessions have {:.1} times as many pages in all, \
                     and of single requests that were sampled no hit rate can be told",
                    share * 100.0,
                    1.0 / share
                )
            }
            UnreadKind::AnswerCache => format!(
                "{has} seems to say that a cache of answers (a gateway's own, or a semantic one) answered, and was \
                 not read: such prompts reached no engine and count here{}; {}",
                self.hits_that_count(),
                // One of that name has a value that says neither.
                if path.ends_with("cache_hit") {
                    "write true or false in it"
                } else {
                    "write it as `cache_hit`"
                }
            ),
            UnreadKind::NotComputed => format!(
                "{has} seems to say that no engine computed the prompt (refused, failed, only tried, or no call for \
                 an answer), and was not read: such prompts count here{}; leave these rows out, or write the HTTP \
                 status of each as `status`",
                self.hits_that_count()
            ),
            UnreadKind::Partial => format!(
                "{has} says that the prompt is not whole: what is missing is neither in its length nor in what prompts \
                 share; log whole prompts, or the engine's token ids"
            ),
            UnreadKind::Limit => format!(
                "{has} limits prompts, and one has {}: where the server cuts what is longer, prompts are not those that \
                 were logged; log the token ids that the engine was sent",
                self.said
            ),
            UnreadKind::Media => format!(
                "{has} speaks of pictures, sounds or files that are a part of the prompt: neither a text nor token ids \
                 show them, so prompts of which they differ count as the same and hits come out too high; log page ids \
                 that the engine hashed with its media, or leave such requests out"
            ),
            UnreadKind::Added => format!(
                "{has} speaks of what a server adds to the messages or takes from them (files, a search, tools by their \
                 names, a cut): such prompts are longer or others than is reported; log the token ids that the engine \
                 was sent, or what it added as messages and `tools`"
            ),
            UnreadKind::WithAnswer => format!(
                "{has} marks the tokens of the answer, which no list has by itself: the ids of the row are of the prompt \
                 and of its answer, so prompts are too long; log the prompt's as `prompt_token_ids`, and the answer's as \
                 `output_token_ids`"
            ),
            UnreadKind::Outcome => format!(
                "`{path}`, {} of the {of} rows that were looked at, speaks by its name of what became of a request and \
                 was not read: where a value says that this engine computed no prompt (refused, failed, answered from \
                 a cache or by another), such prompts count here; leave these rows out, or write the HTTP status of \
                 each as `status`",
                self.said
            ),
            UnreadKind::Contradiction => format!(
                "`{path}` contradicts another count in {rows} of the {of} rows that were looked at, one of them \
                 {}: which of the two the engine counted is not known, and one was read; log that one alone",
                self.said
            ),
            UnreadKind::NoAnswer => format!(
                "{rows} of the {of} rows that were looked at have no answer, and others have (`{path}`): where no \
                 engine computed these prompts, they count here all the same; leave these rows out, or write the HTTP \
                 status of each as `status`"
            ),
            UnreadKind::NoLookup => format!(
                "{has} makes an engine compute the whole prompt: it looks nothing up in its cache and fills it all \
                 the same, so what these requests could have found is in the figures and was not lost in the engine; \
                 leave them out where they are many"
            ),
        }
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
