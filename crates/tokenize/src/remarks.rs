//! What the bodies of a log held that engines treat each in a way of its own, and that a reader of the result should
//! know.

use super::rules::{ChatRules, engine_version};
use kvset_core::engines::chat_engine::ChatEngine;
use kvset_core::request::longest::Longest;

/// Texts that trail off in dots, as those of users do and those that were cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrailingTexts {
    texts: u64,
    /// Their least and greatest length, in bytes.
    shortest: usize,
    longest: usize,
}

impl TrailingTexts {
    pub(super) fn add(&mut self, bytes: usize) {
        self.merge(&Self { texts: 1, shortest: bytes, longest: bytes });
    }

    fn merge(&mut self, other: &Self) {
        if other.texts == 0 {
            return;
        }
        self.shortest = if self.texts == 0 { other.shortest } else { self.shortest.min(other.shortest) };
        self.longest = self.longest.max(other.longest);
        self.texts += other.texts;
    }

    /// Whether several are as long as where a log cuts, white space at their ends aside.
    fn are_of_one_length(&self) -> bool {
        const APART: usize = 8;
        self.texts > 2 && self.longest - self.shortest <= APART
    }
}

/// How many chats held what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChatRemarks {
    /// Chats that were rendered.
    pub chats: u64,
    /// Of these, those with a block that Claude Code makes anew for each request.
    pub billing_headers: u64,
    /// Those of Anthropic's API with a system message among the others.
    pub late_systems: u64,
    /// Late system messages that moved to the head of their chat.
    pub moved_systems: u64,
    /// Blocks of thoughts that the engine leaves out.
    pub dropped_thoughts: u64,
    /// Chats whose template writes the time of the request.
    pub dated: u64,
    /// Chats with the tools of an earlier one in another order.
    pub reordered_tools: u64,
    /// Completions that were tokenised, where it is looked at what parts their prompts.
    pub completions: u64,
    /// Prompts with the system message, or else the first text, of an earlier one but for its numbers.
    pub renumbered_systems: u64,
    pub renumbered_texts: u64,
    /// Chats whose last message is an assistant's.
    pub answered: u64,
    /// Of one chat, a digest of what was said in it before an answer was asked for, system prompts and the white space
    /// around texts aside.
    pub asked: Option<u64>,
    /// Of one chat, a digest of what a user said first.
    pub opening: Option<u64>,
    /// Chats in which a user says one thing, and nobody else but a system anything.
    pub lone: u64,
    /// Chats with answers that no user of theirs asked for, and those with several answers.
    pub headless: u64,
    pub several: u64,
    /// Texts of messages, and those that are masked, end as cut ones do, or are empty though a system or a user says
    /// them.
    pub texts: u64,
    pub masked_texts: u64,
    /// Texts, or completions' prompts, that are written in a code in which they are longer.
    pub coded_texts: u64,
    pub cut_texts: u64,
    pub empty_texts: u64,
    /// Those of some length, and those of them that trail off in dots.
    pub long_texts: u64,
    pub trailing: TrailingTexts,
    /// Chats whose user says something in which a name or a picture was replaced, and completions with a mark of a
    /// picture.
    pub stand_ins: u64,
    /// The longest of them, or of completions' prompts.
    pub longest: Longest,
    /// The first character at which one of them parts from the earlier one.
    pub parted_at: Option<usize>,
}

impl ChatRemarks {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.chats += other.chats;
        self.billing_headers += other.billing_headers;
        self.late_systems += other.late_systems;
        self.moved_systems += other.moved_systems;
        self.dropped_thoughts += other.dropped_thoughts;
        self.dated += other.dated;
        self.reordered_tools += other.reordered_tools;
        self.completions += other.completions;
        self.renumbered_systems += other.renumbered_systems;
        self.renumbered_texts += other.renumbered_texts;
        self.answered += other.answered;
        self.asked = other.asked.or(self.asked);
        self.opening = other.opening.or(self.opening);
        self.lone += other.lone;
        self.headless += other.headless;
        self.several += other.several;
        self.texts += other.texts;
        self.masked_texts += other.masked_texts;
        self.coded_texts += other.coded_texts;
        self.cut_texts += other.cut_texts;
        self.empty_texts += other.empty_texts;
        self.long_texts += other.long_texts;
        self.trailing.merge(&other.trailing);
        self.stand_ins += other.stand_ins;
        self.longest.add(&other.longest);
        self.parted_at = self.parted_at.into_iter().chain(other.parted_at).min();
    }

    /// In a few words, that so many texts are not those which the engine had that the answer is of others.
    pub fn doubt(&self) -> Option<String> {
        let of_one_length = self.longest.cut().map_or(0, |(_, texts)| texts);
        let hidden = self.masked_texts.max(self.cut()).max(of_one_length).max(self.coded_texts);
        let texts = self.texts + self.completions;
        let what = if hidden == self.coded_texts { "in a code" } else { "masked or cut off" };
        let of_texts =
            (hidden > 0 && hidden * 10 >= texts).then(|| format!("{hidden} of {texts} texts are {what}"));
        of_texts.or_else(|| self.replaced()).or_else(|| self.begun_before())
    }

    /// In a few words, that so many chats have no user's message that what came before seems not to be logged.
    fn begun_before(&self) -> Option<String> {
        const FEWEST: u64 = 3;
        let Self { headless, chats, .. } = self;
        (*headless >= FEWEST && headless * 10 >= *chats).then(|| {
            format!("{headless} of {chats} chats have an answer or a tool's result, and nothing of a user")
        })
    }

    /// In a few words, that nearly all chats have several answers, and that hardly one is followed by another request of
    /// its conversation, of which there are so many: each is a transcript.
    pub fn transcripts(&self, later: u64) -> Option<String> {
        const FEWEST: u64 = 5;
        let Self { several, chats, answered, .. } = self;
        let are_told = answered * 5 >= chats * 2;
        (*several >= FEWEST && several * 4 >= chats * 3 && later * 10 <= *several && !are_told).then(|| {
            format!("{several} of {chats} chats have several answers, and no other request of their conversations is there")
        })
    }

    /// Whether parts of texts are cut off or left out.
    pub fn hides_parts(&self) -> bool {
        self.cut() > 0 || self.longest.cut().is_some()
    }

    /// Texts that were cut: trailing off shows it where they are of one length, or most of the long ones.
    fn cut(&self) -> u64 {
        let Self { trailing, long_texts, .. } = self;
        let is_cut =
            trailing.are_of_one_length() || (trailing.texts > 1 && trailing.texts * 2 >= *long_texts);
        self.cut_texts + if is_cut { trailing.texts } else { 0 }
    }

    /// In a few words, that names or pictures in what users say were replaced, where they are in so many chats that what
    /// differs may count as the same.
    fn replaced(&self) -> Option<String> {
        const FEWEST: u64 = 3;
        let (stand_ins, prompts) = (self.stand_ins, self.chats + self.completions);
        let kind = if self.completions > 0 { "prompts" } else { "chats" };
        (stand_ins >= FEWEST && stand_ins * 10 >= prompts)
            .then(|| format!("{stand_ins} of {prompts} {kind} have masks in place of names or pictures"))
    }

    /// The same where the log's own counts of tokens agree with the texts: these are what the engine had.
    pub fn of_whole_texts(self) -> Self {
        Self {
            masked_texts: 0,
            coded_texts: 0,
            cut_texts: 0,
            empty_texts: 0,
            trailing: TrailingTexts::default(),
            stand_ins: 0,
            longest: Longest::default(),
            ..self
        }
    }

    /// In a few words, that nearly all chats are of one message of a user, as turns are whose history is not logged.
    pub fn lone_turns(&self) -> Option<String> {
        const FEWEST: u64 = 10;
        let are_lone = self.chats >= FEWEST && self.lone * 10 >= self.chats * 9;
        are_lone.then(|| format!("{} of {} chats hold one message of a user", self.lone, self.chats))
    }

    /// The same in sentences; `setting` is how users name the engine.
    pub fn sentences(&self, engine: ChatEngine, setting: &str) -> Vec<String> {
        let (name, rules) = (engine_version(engine), ChatRules::of(engine));
        let mut sentences = Vec::new();
        if self.chats > 0 {
            sentences.push(format!(
                "{} chats are rendered as {name} renders them; {setting} names another engine",
                self.chats
            ));
        }
        if self.billing_headers > 0 {
            let done = if rules.drops_billing_header {
                format!("which {name} leaves out of the prompt")
            } else {
                format!(
                    "which {name} keeps: it differs in each request, so nothing behind it is ever found again"
                )
            };
            sentences.push(format!(
                "{} chats have a system block that begins with x-anthropic-billing-header, {done}",
                self.billing_headers
            ));
        }
        if self.late_systems > 0 {
            let done = match self.moved_systems {
                0 => format!("{name} leaves it in its place, since the chat template takes it there"),
                _ => format!(
                    "{name} moves it to the head, since the chat template does not take it elsewhere: at each new one \
                     nothing of the conversation is found again"
                ),
            };
            sentences.push(format!(
                "{} chats have a system message in the middle of the conversation: {done}; vLLM 0.23 always moved it \
                 to the head",
                self.late_systems
            ));
        }
        if self.dropped_thoughts > 0 {
            sentences.push(format!(
                "{} thinking blocks are left out of prompts, as {name} does without a reasoning parser",
                self.dropped_thoughts
            ));
        }
        if self.dated > 0 {
            sentences.push(format!(
                "the chat template writes the time of the request into {} prompts: that is UTC here and the time \
                 zone of its machine in an engine, so prompts change at another hour where the two differ",
                self.dated
            ));
        }
        if self.reordered_tools > 0 {
            sentences.push(format!(
                "{} of {} chats have the tools of an earlier chat in another order: their prompts part inside the \
                 tools, and nothing behind is found again; send tools in one order",
                self.reordered_tools, self.chats
            ));
        }
        // A few ask to go on with what they say in the assistant's place; where half of them do, a log writes requests
        // when they begin and with their answers when they end.
        if self.answered * 5 >= self.chats * 2 && self.answered >= 3 {
            sentences.push(format!(
                "{} of {} chats end with an assistant's message: these are conversations with their answers, and prompts \
                 end with what was asked; log each request with the messages before its answer",
                self.answered, self.chats
            ));
        }
        let texts = self.texts;
        for (some, what) in [
            (
                self.masked_texts,
                "are masked (redacted, or a digest in place of a text): which prompts share what is not in the log, \
                 and neither hit rate nor capacity is the engine's; log the texts, or the engine's page ids",
            ),
            (
                self.cut(),
                "end as texts do that were cut off, or say that a part was left out (truncated): that is neither in their length nor in what \
                 prompts share; log them whole, or the engine's token ids",
            ),
            (
                self.empty_texts,
                "are empty, though a system or a user says them: the log may leave content out",
            ),
        ] {
            if some > 0 {
                sentences.push(format!("{some} of {texts} texts of messages {what}"));
            }
        }
        sentences.extend(self.replaced().map(|found| {
            format!(
                "{found} (`<PERSON>`, `<image>`, `[Image omitted]`): where these differ for the engine, prompts share less than is \
                 reported; log the texts, or the engine's page ids"
            )
        }));
        sentences.extend(self.begun_before().map(|found| {
            format!(
                "{found}: where rows list only what a turn adds, what was said before it is not in the log, and prompts are \
                 longer and share more; log whole prompts"
            )
        }));
        if self.coded_texts > 0 {
            sentences.push(format!(
                "{} of {} texts are written in a code (of URLs, HTML, or JSON within JSON): prompts have other tokens here, \
                 and more of them; log them as they were sent",
                self.coded_texts,
                texts + self.completions
            ));
        }
        if let Some((chars, some)) = self.longest.cut() {
            sentences.push(format!(
                "{some} of {} texts have {chars} characters, and none has more: the log cuts texts there, and what followed \
                 is neither in their length nor in what prompts share; log them whole, or the engine's token ids",
                texts + self.completions
            ));
        }
        let prompts = self.chats + self.completions;
        for (parted, what) in
            [(self.renumbered_systems, "system message"), (self.renumbered_texts, "first text")]
        {
            if parted > 0 {
                let place =
                    self.parted_at.map_or_else(String::new, |at| format!(", the first at character {at}"));
                sentences.push(format!(
                    "{parted} of {prompts} prompts have the {what} of an earlier one but for numbers or ids in \
                     it{place}: they part inside the {what}, and nothing behind is found again; put what changes \
                     behind what does not"
                ));
            }
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_with_their_answers_are_told_and_a_few_that_go_on_are_not() {
        let said = |answered| {
            let remarks = ChatRemarks { chats: 40, answered, ..ChatRemarks::default() };
            remarks.sentences(ChatEngine::Vllm, "--chat-engine").join("; ")
        };
        assert!(said(40).contains("40 of 40 chats end with an assistant's message"));
        assert!(said(20).contains("assistant"), "each request when it began and when it ended");
        assert!(!said(10).contains("assistant"));
    }

    /// Agents' runs were one request each.
    #[test]
    fn transcripts_and_chats_without_a_user_are_reported() {
        let told = |several, answered, later| {
            ChatRemarks { chats: 40, several, answered, ..ChatRemarks::default() }
                .transcripts(later)
                .is_some()
        };
        assert!(told(40, 0, 0) && told(36, 8, 3));
        assert!(!told(40, 40, 0) && !told(20, 0, 0) && !told(40, 0, 12));
        let headless = |headless| ChatRemarks { chats: 40, headless, ..ChatRemarks::default() }.doubt();
        assert!(headless(20).is_some_and(|found| found.contains("nothing of a user")));
        assert_eq!(headless(3), None);
    }

    /// Rows that list a turn alone made "there is nothing to reuse" without a word.
    #[test]
    fn chats_of_one_message_of_a_user_are_told_where_nearly_all_are() {
        let told = |lone| ChatRemarks { chats: 40, lone, ..ChatRemarks::default() }.lone_turns();
        assert_eq!(told(36).as_deref(), Some("36 of 40 chats hold one message of a user"));
        assert_eq!(told(35), None);
    }

    /// A user's three dots were told as texts that the log cut off.
    #[test]
    fn ends_in_dots_are_cuts_where_they_are_of_one_length_or_of_most_long_texts() {
        let told = |lengths: &[usize], long_texts| {
            let mut remarks = ChatRemarks { texts: 20, long_texts, ..ChatRemarks::default() };
            lengths.iter().for_each(|length| remarks.trailing.add(*length));
            remarks.doubt().is_some()
        };
        assert!(told(&[1003, 1003, 1001], 12) && told(&[300, 400, 900], 5));
        assert!(!told(&[300, 400, 900], 12) && !told(&[300], 1) && !told(&[], 0));
    }

    #[test]
    fn masks_are_reported_unless_the_log_counts_the_tokens_of_the_texts() {
        let remarks =
            ChatRemarks { chats: 20, texts: 40, stand_ins: 3, masked_texts: 9, ..ChatRemarks::default() };
        assert!(remarks.doubt().is_some() && remarks.of_whole_texts().doubt().is_none());
        let few = ChatRemarks { chats: 40, stand_ins: 3, ..ChatRemarks::default() };
        assert_eq!(few.doubt(), None);
    }

    #[test]
    fn many_masked_texts_put_the_answer_in_doubt() {
        let doubt = |masked_texts| ChatRemarks { texts: 100, masked_texts, ..ChatRemarks::default() }.doubt();
        assert_eq!(doubt(10).as_deref(), Some("10 of 100 texts are masked or cut off"));
        assert_eq!(doubt(9), None);
    }
}
