//! Page ids from token ids: a chain of 64-bit hashes that any language can reproduce.
//!
//! A prompt of token ids `t[0], t[1], ...` (each an unsigned 32-bit number) at `P` tokens a page has
//!
//! ```text
//! id[-1] = namespace value          0 when there is no namespace
//! id[i]  = XXH3_64( id[i-1] as 8 bytes ++ t[i*P] as 4 bytes ++ ... ++ t[i*P + P-1] as 4 bytes )
//! ```
//!
//! where every number is written little-endian, `++` joins bytes, and `XXH3_64` is the 64-bit XXH3 of
//! xxHash 0.8 with seed 0 and the default secret. Page `i` therefore hashes `8 + 4 * P` bytes, and its
//! id stands for the whole prefix that ends with it. A partial last page is left out unless it is asked
//! for; it is hashed the same way over the tokens it has.
//!
//! The namespace value of a name (a tenant, a cache salt, a LoRA adapter) is `max(1, XXH3_64(name bytes,
//! seed 0x6b7673657473636f))`: the value of [`Scope::named`]. It enters the
//! first page only, and through the chain every other.
//!
//! `schemas/page-ids.md` says the same to producers. The vectors alongside it are frozen: changing one
//! changes every page id ever published.

use crate::units::PageSize;
use crate::units::keyed::HashKey;
use crate::units::pages::Scope;
use xxhash_rust::xxh3::xxh3_64;

/// Appends the token behind each full page of a prompt and of the answer stored behind it, as far as there is one.
/// The last token of an answer is not stored.
pub fn tokens_behind(page_size: PageSize, prompt: &[u32], answer: &[u32], behind: &mut Vec<u64>) {
    let page_tokens = page_size.get() as usize;
    let stored = &answer[..answer.len().saturating_sub(1)];
    let ends = prompt.iter().chain(stored).skip(page_tokens).step_by(page_tokens);
    behind.extend(ends.map(|token| u64::from(*token)));
}

/// Hashes prompts into page ids, reusing one page-sized buffer.
#[derive(Debug, Clone)]
pub struct PageHasher {
    page_size: PageSize,
    /// The previous page's id and the page's tokens, as they are hashed.
    message: Vec<u8>,
    key: Option<HashKey>,
}

impl PageHasher {
    /// A hasher for pages of `page_size` tokens.
    pub fn new(page_size: PageSize) -> Self {
        Self { page_size, message: Vec::new(), key: None }
    }

    /// The same, whose ids only who holds the key can make ([`crate::units::keyed`]).
    pub fn keyed(page_size: PageSize, key: HashKey) -> Self {
        Self { key: Some(key), ..Self::new(page_size) }
    }

    /// Tokens per page.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Appends the page ids of a prompt to `ids`: its full pages, and the partial last one where
    /// `include_partial` asks for it.
    pub fn hash(&mut self, namespace: Scope, tokens: &[u32], include_partial: bool, ids: &mut Vec<u64>) {
        let mut previous = namespace.value();
        let page_tokens = self.page_size.get() as usize;
        for page in tokens.chunks(page_tokens) {
            if page.len() < page_tokens && !include_partial {
                break;
            }
            previous = self.chain(previous, page);
            ids.push(previous);
        }
    }

    /// Appends the ids of the pages that `answer` fills behind `prompt`, whose pages are `prompt_ids`: the one that the
    /// prompt began first. The last token of an answer is not among them: nothing was computed of it.
    pub fn hash_answer(
        &mut self,
        namespace: Scope,
        (prompt, prompt_ids): (&[u32], &[u64]),
        answer: &[u32],
        ids: &mut Vec<u64>,
    ) {
        let page_tokens = self.page_size.get() as usize;
        let full = prompt.len() / page_tokens;
        let [stored @ .., _] = answer else { return };
        let mut previous = match full {
            0 => namespace.value(),
            full => prompt_ids[full - 1],
        };
        let behind: Vec<u32> = prompt[full * page_tokens..].iter().chain(stored).copied().collect();
        for page in behind.chunks_exact(page_tokens) {
            previous = self.chain(previous, page);
            ids.push(previous);
        }
    }

    /// The id of the page that holds `tokens` and follows the page `previous` (the namespace's value
    /// for the first page).
    pub fn chain(&mut self, previous: u64, tokens: &[u32]) -> u64 {
        self.message.clear();
        self.message.extend_from_slice(&previous.to_le_bytes());
        // Little-endian in memory, which `lib.rs` asserts at compile time.
        self.message.extend_from_slice(bytemuck::cast_slice(tokens));
        match &self.key {
            None => xxh3_64(&self.message),
            Some(key) => key.hash(&self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hash(page_size: u32, namespace: Scope, tokens: &[u32], include_partial: bool) -> Vec<u64> {
        let mut ids = Vec::new();
        let page_size = PageSize::new(page_size).expect("not zero");
        PageHasher::new(page_size).hash(namespace, tokens, include_partial, &mut ids);
        ids
    }

    proptest! {
        #[test]
        fn prompts_share_ids_exactly_as_far_as_they_share_full_pages(
            shared in prop::collection::vec(any::<u32>(), 0..40),
            a in prop::collection::vec(any::<u32>(), 0..20),
            b in prop::collection::vec(any::<u32>(), 0..20),
        ) {
            let left: Vec<u32> = shared.iter().chain(&a).copied().collect();
            let right: Vec<u32> = shared.iter().chain(&b).copied().collect();
            let common = left.iter().zip(&right).take_while(|(x, y)| x == y).count();
            let (left, right) = (hash(4, Scope::GLOBAL, &left, false), hash(4, Scope::GLOBAL, &right, false));
            let equal = left.iter().zip(&right).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(equal, common / 4);
        }
    }

    proptest! {
        #[test]
        fn pages_of_an_answer_are_those_of_the_prompt_that_goes_on_behind_it(
            prompt in prop::collection::vec(any::<u32>(), 0..40),
            answer in prop::collection::vec(any::<u32>(), 0..40),
            partial: bool,
        ) {
            let mut hasher = PageHasher::new(PageSize::new(4).expect("not zero"));
            let (mut ids, mut output) = (Vec::new(), Vec::new());
            hasher.hash(Scope::GLOBAL, &prompt, partial, &mut ids);
            hasher.hash_answer(Scope::GLOBAL, (&prompt, &ids), &answer, &mut output);
            let stored = answer.len().saturating_sub(1);
            let next: Vec<u32> = prompt.iter().chain(&answer[..stored]).copied().collect();
            let whole = hash(4, Scope::GLOBAL, &next, false);
            prop_assert_eq!([&ids[..prompt.len() / 4], &output].concat(), whole);
        }
    }

    #[derive(serde::Deserialize)]
    struct Vector {
        name: String,
        tokens: Vec<u32>,
        page_size: u32,
        namespace: Option<String>,
        include_partial_page: bool,
        page_ids: Vec<String>,
    }

    /// The file was made with Python's `xxhash` 3 from the definition above, not with this code.
    #[test]
    fn the_published_vectors_hold() {
        let file = include_str!("../../schemas/page-id-vectors.json");
        let vectors: Vec<Vector> = serde_json::from_str(file).expect("vectors");
        assert!(vectors.len() >= 10);
        for vector in vectors {
            let namespace = vector.namespace.map_or(Scope::GLOBAL, |name| Scope::named(name.as_bytes()));
            let ids = hash(vector.page_size, namespace, &vector.tokens, vector.include_partial_page);
            let ids: Vec<_> = ids.iter().map(|id| format!("{id:016x}")).collect();
            assert_eq!(ids, vector.page_ids, "{}", vector.name);
        }
    }

    #[test]
    fn a_partial_page_is_left_out_unless_asked_for() {
        let tokens: Vec<u32> = (0..10).collect();
        let full = hash(4, Scope::GLOBAL, &tokens, false);
        let all = hash(4, Scope::GLOBAL, &tokens, true);
        assert_eq!((full.len(), all.len()), (2, 3));
        assert_eq!(full, all[..2]);
        assert_eq!(hash(4, Scope::GLOBAL, &[], true), [0u64; 0]);
    }

    #[test]
    fn a_namespace_changes_every_page() {
        let tokens: Vec<u32> = (0..8).collect();
        let (plain, named) =
            (hash(4, Scope::GLOBAL, &tokens, false), hash(4, Scope::named(b"tenant-a"), &tokens, false));
        assert!(plain.iter().all(|id| !named.contains(id)));
    }
}
