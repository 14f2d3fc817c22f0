//! Text to token ids, without doing again what was done before.
//!
//! A tokenizer first cuts its text at the *added tokens* that are matched in the raw text (those with
//! `normalized: false`, such as `<|im_start|>`), and from there on treats what lies between them each by
//! itself: normaliser, pre-tokenizer and model never look across such a cut. So a text cut in front of
//! such tokens tokenises piece by piece to the same ids, and a piece met before need not be tokenised
//! again. In a chat every turn begins with such a token: a conversation that grows costs its last turn.
//!
//! Why a piece's ids do not depend on what surrounds it:
//! - Added tokens are found by one scan, leftmost first and longest there, without overlaps. The scan of
//!   a piece that begins where the whole text's scan has a match, and ends where it has one, finds the
//!   matches of the whole text: none of them crosses either end.
//! - `rstrip` takes the spaces after a token, which end at the next cut (tokens that begin with a space
//!   are no cuts), and `lstrip` those before it (tokens with `lstrip` are no cuts, and reach back to
//!   the token before them at most). `single_word` looks at both neighbours: with such a token nothing
//!   is cut.
//! - The one pre-tokenizer that asks where it stands (`Metaspace` with `prepend_scheme: first`) asks
//!   whether it is at the start of the text. Text after a cut is not, in a piece no more than in the
//!   whole: a token precedes it.

use super::cache::SharedCache;
use super::error::ModelError;
use aho_corasick::{AhoCorasick, MatchKind};
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use tokenizers::models::ModelWrapper;
use tokenizers::{AddedToken, Tokenizer};

/// The file a tokenizer is read from.
pub(super) const TOKENIZER_FILE: &str = "tokenizer.json";

/// A tokenizer, and where its texts may be cut.
pub(super) struct Encoder {
    tokenizer: Tokenizer,
    cuts: Option<Cuts>,
    /// What the tokenizer puts in front of a text and behind it by itself, such as a token for its beginning.
    frame: (Vec<u32>, Vec<u32>),
}

/// How much was tokenised and how much was known, in bytes of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncoderReuse {
    /// Bytes that went through the tokenizer.
    pub encoded_bytes: u64,
    /// Bytes whose token ids were known.
    pub reused_bytes: u64,
}

impl Encoder {
    /// Reads a `tokenizer.json`.
    pub fn from_json(json: &[u8]) -> Result<Self, ModelError> {
        let unusable = |reason: String| ModelError::Tokenizer { file: TOKENIZER_FILE, reason };
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|error| unusable(error.to_string()))?;
        if let ModelWrapper::BPE(bpe) = tokenizer.get_model()
            && bpe.dropout.is_some_and(|dropout| dropout > 0.0)
        {
            return Err(unusable("its model drops merges at random".to_owned()));
        }
        // Engines tokenise whole prompts; what a file says here is for training.
        tokenizer.with_padding(None).with_truncation(None).map_err(|error| unusable(error.to_string()))?;
        let cuts = Cuts::of(tokenizer.get_added_tokens_decoder().values()).map_err(unusable)?;
        let frame = frame(&tokenizer).map_err(unusable)?;
        Ok(Self { tokenizer, cuts, frame })
    }

    /// Appends the ids of `text` to `ids`; `framed` adds what the tokenizer puts around a text. Returns the last of the
    /// pieces that it was cut into.
    pub fn encode<'t>(
        &self,
        text: &'t str,
        framed: bool,
        cache: &SharedCache,
        reuse: &mut EncoderReuse,
        ids: &mut Vec<u32>,
    ) -> Result<&'t str, DecodeError> {
        if framed {
            ids.extend(&self.frame.0);
        }
        let mut last = text;
        for piece in self.pieces(text) {
            last = piece;
            if cache.append(piece, ids) {
                reuse.reused_bytes += piece.len() as u64;
                continue;
            }
            let start = ids.len();
            self.encode_piece(piece, ids)?;
            reuse.encoded_bytes += piece.len() as u64;
            cache.insert(piece, &ids[start..]);
        }
        if framed {
            ids.extend(&self.frame.1);
        }
        Ok(last)
    }

    fn encode_piece(&self, piece: &str, ids: &mut Vec<u32>) -> Result<(), DecodeError> {
        let encoding = self.tokenizer.encode_fast(piece, false).map_err(|_| {
            let detail = format!("the tokenizer failed on a text of {} bytes", piece.len());
            DecodeError::new(ErrorCode::TokenizerFailed, detail)
        })?;
        ids.extend(encoding.get_ids());
        Ok(())
    }

    /// The text cut where it may be; the pieces joined are the text.
    fn pieces<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut starts = self.cuts.iter().flat_map(move |cuts| cuts.starts(text)).filter(|start| *start > 0);
        let mut begin = Some(0);
        std::iter::from_fn(move || {
            let start = begin?;
            begin = starts.next();
            Some(&text[start..begin.unwrap_or(text.len())])
        })
    }
}

/// Looks at what the tokenizer puts around a short text.
fn frame(tokenizer: &Tokenizer) -> Result<(Vec<u32>, Vec<u32>), String> {
    let ids = |framed| -> Result<Vec<u32>, String> {
        let encoding = tokenizer.encode_fast("a", framed).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().to_vec())
    };
    let (bare, framed) = (ids(false)?, ids(true)?);
    let head = (0..=framed.len().saturating_sub(bare.len())).find(|at| framed[*at..].starts_with(&bare));
    let head = head.filter(|_| !bare.is_empty() || framed.is_empty());
    let head = head.ok_or("what it puts around a text depends on the text")?;
    Ok((framed[..head].to_vec(), framed[head + bare.len()..].to_vec()))
}

/// Finds the places where a text may be cut.
struct Cuts {
    /// Every added token that is matched in the raw text.
    tokens: AhoCorasick,
    /// Whether the text may be cut in front of the token, by pattern.
    before: Vec<bool>,
}

impl Cuts {
    /// None where nothing can be cut.
    fn of<'t>(tokens: impl Iterator<Item = &'t AddedToken>) -> Result<Option<Self>, String> {
        let mut raw: Vec<&AddedToken> =
            tokens.filter(|token| !token.normalized && !token.content.is_empty()).collect();
        raw.sort_by(|a, b| a.content.cmp(&b.content));
        let before: Vec<bool> =
            raw.iter().map(|t| !t.lstrip && !t.content.starts_with(char::is_whitespace)).collect();
        if raw.iter().any(|token| token.single_word) || !before.contains(&true) {
            return Ok(None);
        }
        let tokens = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(raw.iter().map(|token| &token.content))
            .map_err(|error| error.to_string())?;
        Ok(Some(Self { tokens, before }))
    }

    fn starts(&self, text: &str) -> impl Iterator<Item = usize> {
        let matches = self.tokens.find_iter(text);
        matches.filter(|found| self.before[found.pattern().as_usize()]).map(|found| found.start())
    }
}
