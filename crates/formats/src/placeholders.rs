//! Placeholders of images and other media among token ids, and lists of these that a log cuts.
//!
//! An engine puts one id as many times into a prompt as a picture takes tokens, and knows pictures apart by hashes
//! that stand alongside the ids. Of the ids alone two pictures of one size are the same: their pages would count as
//! found again. Some models end each row of a picture with an id of its own, or write two ids in turn, so what is
//! looked for is a stretch of at most two ids.

use kvset_core::request::longest::Longest;
use xxhash_rust::xxh3::xxh3_64;

/// Fewest ids of such a stretch. Line ends and spaces in a row are text, and fewer.
const FEWEST: usize = 32;
/// Ids at which a stretch is looked for: every stretch has two of them that far apart.
const STRIDE: usize = FEWEST / 2;
/// How many ids at the end of a list tell it from others.
const LAST_IDS: usize = 16;
/// How many ids show whether it is worth looking further.
const GLANCE: usize = 8;

/// The marks of a picture, a film and a sound, each between a begin and an end, before an engine puts as many in the
/// place of one as it takes: those of Qwen's models.
const MARKS: [[u32; 3]; 3] =
    [[151_652, 151_655, 151_653], [151_652, 151_656, 151_653], [151_647, 151_646, 151_648]];

/// Whether some ids in a row are placeholders rather than text.
pub fn has_placeholders(tokens: &[u32]) -> bool {
    has_runs(tokens) || has_marks(tokens)
}

fn has_marks(tokens: &[u32]) -> bool {
    tokens.windows(3).any(|ids| MARKS.iter().any(|mark| mark == ids))
}

fn has_runs(tokens: &[u32]) -> bool {
    (0..tokens.len()).step_by(STRIDE).any(|at| {
        let glance = &tokens[at..tokens.len().min(at + GLANCE)];
        glance.len() == GLANCE && pair(glance).is_some() && stretch(tokens, at) >= FEWEST
    })
}

/// The two ids that a slice is made of, which may be the same; nothing where there are more.
fn pair(tokens: &[u32]) -> Option<(u32, u32)> {
    let first = *tokens.first()?;
    let second = tokens.iter().copied().find(|token| *token != first).unwrap_or(first);
    tokens.iter().all(|token| *token == first || *token == second).then_some((first, second))
}

/// How many ids around this place are of the two that stand there.
fn stretch(tokens: &[u32], at: usize) -> usize {
    let first = tokens[at];
    // Where one id alone stands around, the second may be the next one on either side.
    let is_other = |token: &&u32| **token != first;
    let others = [tokens[at..].iter().find(is_other), tokens[..at].iter().rev().find(is_other)];
    let of = |second: Option<&u32>| {
        let is_of_two = |token: &&u32| **token == first || Some(*token) == second;
        let behind = tokens[at..].iter().take_while(is_of_two).count();
        behind + tokens[..at].iter().rev().take_while(is_of_two).count()
    };
    others.into_iter().map(of).max().unwrap_or_default()
}

/// Requests with placeholders, among all whose token ids were hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placeholders {
    /// Requests of token ids.
    pub requests: u64,
    /// Those with placeholders.
    pub with_placeholders: u64,
    /// The longest lists of ids.
    longest: Longest,
}

impl Placeholders {
    /// Looks at a request's token ids.
    pub fn note(&mut self, tokens: &[u32]) {
        self.requests += 1;
        self.with_placeholders += u64::from(has_placeholders(tokens));
        // The last few ids tell two lists apart that were cut at one length.
        let last = &tokens[tokens.len().saturating_sub(LAST_IDS)..];
        self.longest.add(&Longest::of(tokens.len(), xxh3_64(bytemuck::cast_slice(last))));
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.with_placeholders += other.with_placeholders;
        self.longest.add(&other.longest);
    }

    /// That so many lists of ids end at one length that the log cuts them there: in a few words, where others are
    /// shorter, and in a sentence.
    pub fn cut(&self) -> Option<(Option<String>, String)> {
        let Self { requests, longest, .. } = self;
        let (ids, lists) = longest.cut_of(*requests)?;
        let found = format!("{lists} of {requests} lists of token ids have {ids} ids, and none has more");
        let said = format!(
            "{found}: where the log cuts them there (vLLM's --max-log-len), what followed is neither in their length nor in \
             what prompts share; log them whole, or state `prompt_tokens` where prompts have one length"
        );
        Some(((lists < *requests).then_some(found), said))
    }

    /// What a reader of the result should know; nothing where no request has any.
    pub fn sentence(&self) -> Option<String> {
        let Self { requests, with_placeholders, .. } = self;
        (*with_placeholders > 0).then(|| {
            format!(
                "{with_placeholders} of {requests} requests have long runs of one or two token ids, or a mark between its begin and its end: placeholders of images \
                 or other media, of which the ids say nothing, so different pictures count as the same pages and hits come \
                 out too high; log page ids that the engine hashed with its media (vLLM's block hashes, Dynamo's traces), \
                 or leave such requests out"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every stretch of at most two ids, looked at one by one.
    fn naive(tokens: &[u32]) -> bool {
        (0..tokens.len()).any(|from| {
            let end = (from..tokens.len()).take_while(|to| pair(&tokens[from..=*to]).is_some()).count();
            end >= FEWEST
        })
    }

    #[test]
    fn rows_alone_and_in_turn_are_found_and_line_ends_are_text() {
        let text = |from: u32, count: u32| (from..from + count).collect::<Vec<u32>>();
        let run = |id: u32, count: usize| vec![id; count];
        let row = [run(9, 24), vec![10]].concat();
        for tokens in [
            [text(100, 20), run(9, 32), text(200, 20)].concat(),
            [text(100, 3), row.repeat(8), text(200, 3)].concat(),
            [7, 8].repeat(16),
            [text(100, 20), vec![151_652, 151_655, 151_653], text(200, 20)].concat(),
        ] {
            assert!(has_placeholders(&tokens));
        }
        for tokens in [
            [text(100, 20), run(9, 16), text(200, 20)].concat(),
            text(0, 1000),
            [1, 2, 3].repeat(40),
            Vec::new(),
        ] {
            assert!(!has_placeholders(&tokens));
        }
    }

    /// Hit rates were those of the length at which the log cuts, without a word.
    #[test]
    fn token_lists_cut_at_one_length_are_reported() {
        let told = |lengths: &[usize]| {
            let mut found = Placeholders::default();
            for (number, length) in lengths.iter().enumerate() {
                let list: Vec<u32> = (0..*length as u32).map(|at| at + 1000 * number as u32).collect();
                found.note(&list);
            }
            found.cut().map(|(doubt, _)| doubt.is_some())
        };
        assert_eq!(told(&[256, 256, 30, 256, 256]), Some(true));
        assert_eq!(told(&[333, 333, 30, 333, 333, 12]), Some(true), "at any length, where half of them are");
        assert_eq!(told(&[1024; 8]), Some(false), "as a benchmark's may be");
        assert_eq!(told(&[257; 8]), None);
        assert_eq!(told(&[256, 256, 257, 256, 256]), None);
        assert_eq!(told(&[333, 333, 30, 331, 12, 80, 333, 333, 7]), None);
    }

    proptest! {
        #[test]
        fn what_a_look_at_every_stretch_finds_is_found(
            parts in prop::collection::vec((0u32..5, 1usize..50, 0u32..5), 0..8),
        ) {
            let part = |(id, count, other): &(u32, usize, u32)| [vec![*id; *count], vec![*other]].concat();
            let tokens: Vec<u32> = parts.iter().flat_map(part).collect();
            prop_assert_eq!(has_placeholders(&tokens), naive(&tokens), "{:?}", tokens);
        }
    }
}
