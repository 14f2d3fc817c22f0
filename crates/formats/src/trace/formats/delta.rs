//! Rows that list only what a request adds to its session's prompt (`mooncake-delta`, as Dynamo's replay reads it).
//!
//! A prompt is what the session's requests before it added, with their answers between, and what this one adds. A
//! page of it that is one listed block has the block's id. A page with tokens of an answer, or of two rows, has an id
//! of its session alone: no block says what is in it.

use crate::record::fault::RowFault;
use crate::record::row::RowBatch;
use crate::trace::options::ReadOptions;
use crate::trace::records::{Decode, RecordSink, Records, RowForm};
use kvset_core::units::PageSize;
use kvset_core::units::pages::Scope;
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64;

/// Most pages of all sessions together that are remembered.
const MAX_PAGES: usize = 1 << 26;

/// Reads such rows.
pub(super) struct Delta {
    rows: Records,
    sessions: HashMap<Scope, DeltaSession>,
    /// Pages of all sessions.
    pages: usize,
    most_pages: usize,
}

/// A session so far.
#[derive(Default)]
struct DeltaSession {
    /// The full pages of its last prompt.
    pages: Vec<u64>,
    /// Tokens of its last prompt and of the answer to that.
    tokens: u64,
}

impl DeltaSession {
    /// Appends the pages of a prompt that goes on with `blocks` of `tokens` tokens.
    fn go_on(&mut self, name: &[u8], blocks: &[u64], tokens: u64, page_size: PageSize) {
        let before = self.tokens;
        self.tokens = self.tokens.saturating_add(tokens);
        let size = u64::from(page_size.get());
        for page in self.pages.len() as u64..self.tokens / size {
            let block = (page * size).checked_sub(before).filter(|offset| offset % size == 0);
            let listed = block.and_then(|offset| blocks.get(usize::try_from(offset / size).ok()?));
            self.pages.push(listed.copied().unwrap_or_else(|| own_page(name, page)));
        }
    }
}

/// The id of a page that is of its session alone.
fn own_page(session: &[u8], page: u64) -> u64 {
    xxh3_64(&[session, b"\0", &page.to_le_bytes()].concat())
}

impl Delta {
    /// Reads rows of this form.
    pub fn new(form: RowForm, options: &ReadOptions) -> Self {
        Self { rows: Records::new(form, options), sessions: HashMap::new(), pages: 0, most_pages: MAX_PAGES }
    }

    /// Makes a whole prompt of what a row adds.
    fn complete(&mut self, index: usize, batch: &mut RowBatch) -> Result<(), RowFault> {
        let page_size = self.rows.page_size;
        let draft = &batch.drafts[index];
        let name = draft.session.clone().ok_or_else(|| RowFault::missing("session_id"))?;
        let name = batch.text[name].as_bytes();
        let (page_size, blocks) = (draft.page_size.unwrap_or(page_size), &batch.ids[draft.ids.clone()]);
        let tokens = draft.input_tokens.unwrap_or(blocks.len() as u64 * u64::from(page_size.get()));
        if blocks.len() as u64 != tokens.div_ceil(page_size.get().into()) {
            return Err(RowFault::Blocks { blocks: blocks.len(), tokens, page_size: page_size.get() });
        }
        let session = self.sessions.entry(Scope::named(name)).or_default();
        let pages = session.pages.len();
        let size = u64::from(page_size.get());
        let added = (session.tokens.saturating_add(tokens) / size).saturating_sub(pages as u64);
        if added > (self.most_pages - self.pages) as u64 {
            return Err(RowFault::SessionPages { most: self.most_pages });
        }
        session.go_on(name, blocks, tokens, page_size);
        self.pages += session.pages.len() - pages;
        let draft = &mut batch.drafts[index];
        let start = batch.ids.len();
        batch.ids.extend_from_slice(&session.pages);
        (draft.ids, draft.input_tokens) = (start..batch.ids.len(), Some(session.tokens));
        session.tokens = session.tokens.saturating_add(draft.output_tokens.unwrap_or(0));
        Ok(())
    }
}

impl Decode for Delta {
    fn decode(&mut self, record: &[u8], sink: &mut RecordSink<'_>) -> Result<(), RowFault> {
        let RecordSink { batch, number, .. } = sink;
        let first = batch.drafts.len();
        self.rows.read(record, *number, batch)?;
        (first..batch.drafts.len()).try_for_each(|index| self.complete(index, batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::NumberUnit;
    use crate::trace::carried::Carried;
    use proptest::prelude::*;

    const FORM: RowForm =
        RowForm { unit: NumberUnit::Milliseconds, page_size: PageSize::new(512).unwrap(), sessions: false };

    fn read(delta: &mut Delta, line: &str) -> Result<(Vec<u64>, Option<u64>), RowFault> {
        let (mut batch, mut carried) = (RowBatch::default(), Carried::default());
        delta.decode(
            line.as_bytes(),
            &mut RecordSink { batch: &mut batch, carried: &mut carried, number: 1 },
        )?;
        let draft = &batch.drafts[0];
        Ok((batch.ids[draft.ids.clone()].to_vec(), draft.input_tokens))
    }

    fn row(session: &str, input: u64, output: u64, ids: &[u64]) -> String {
        format!(
            r#"{{"timestamp":0,"session_id":"{session}","block_size":4,"input_length":{input},"output_length":{output},"hash_ids":{ids:?}}}"#
        )
    }

    #[test]
    fn a_prompt_is_all_that_its_session_added_with_the_answers_between() {
        let mut delta = Delta::new(FORM, &ReadOptions::default());
        assert_eq!(read(&mut delta, &row("a", 8, 0, &[1, 2])), Ok((vec![1, 2], Some(8))));
        assert_eq!(read(&mut delta, &row("b", 4, 2, &[9])), Ok((vec![9], Some(4))));
        assert_eq!(
            read(&mut delta, &row("a", 6, 1, &[3, 4])),
            Ok((vec![1, 2, 3], Some(14))),
            "the last is not full"
        );
        let (pages, tokens) = read(&mut delta, &row("a", 5, 0, &[5, 6])).expect("a prompt");
        assert_eq!((pages.len(), &pages[..3], tokens), (5, &[1, 2, 3][..], Some(20)));
        let (of_b, _) = read(&mut delta, &row("b", 5, 0, &[5, 6])).expect("a prompt");
        assert_eq!((of_b.len(), of_b[0]), (2, 9));
        assert!(!pages.contains(&of_b[1]), "what follows an answer is of its session");
        let missing = read(&mut delta, r#"{"timestamp":0,"hash_ids":[1]}"#);
        assert_eq!(missing, Err(RowFault::missing("session_id")));
        assert!(matches!(read(&mut delta, &row("a", 40, 0, &[1])), Err(RowFault::Blocks { .. })));
    }

    #[test]
    fn sessions_that_grow_beyond_memory_are_refused() {
        let mut delta = Delta { most_pages: 3, ..Delta::new(FORM, &ReadOptions::default()) };
        assert!(read(&mut delta, &row("a", 8, 0, &[1, 2])).is_ok());
        assert_eq!(read(&mut delta, &row("b", 8, 0, &[1, 2])), Err(RowFault::SessionPages { most: 3 }));
        assert!(read(&mut delta, &row("b", 4, 0, &[1])).is_ok());
    }

    proptest! {
        #[test]
        fn pages_are_those_of_the_tokens(rows in prop::collection::vec((0u64..14, 0u64..9), 1..12)) {
            let size = PageSize::new(4).expect("a size");
            let (mut session, mut tokens) = (DeltaSession::default(), Vec::new());
            for (turn, (input, output)) in rows.into_iter().enumerate() {
                let blocks: Vec<u64> = (0..input.div_ceil(4)).map(|block| (turn as u64) << 8 | block).collect();
                let listed = (0..input).map(|token| (blocks[(token / 4) as usize], token % 4));
                tokens.extend(listed.map(Some));
                let before = session.pages.clone();
                session.go_on(b"s", &blocks, input, size);
                prop_assert_eq!(&session.pages[..before.len()], &before[..]);
                let naive: Vec<Option<u64>> = tokens.chunks_exact(4).map(|page: &[Option<(u64, u64)>]| {
                    let (block, _) = page[0].filter(|(_, at)| *at == 0)?;
                    (0..4).all(|at| page[at as usize] == Some((block, at))).then_some(block)
                }).collect();
                prop_assert_eq!(session.pages.len(), naive.len());
                for (page, (found, listed)) in session.pages.iter().zip(naive).enumerate() {
                    prop_assert_eq!(*found, listed.unwrap_or_else(|| own_page(b"s", page as u64)));
                }
                tokens.extend((0..output).map(|_| None));
                session.tokens += output;
            }
        }
    }
}
