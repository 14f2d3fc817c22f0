//! What an accelerator has left for the cache, and how many tokens that is.

use super::error::{ModelConfigError, ModelRead};
use super::options::CacheTier;
use super::pooling::Pooling;
use super::report::{LayerWindow, ModelCost, Reserve, ReservePer};
use kvset_core::units::Bytes;
use kvset_core::units::ratio::Ratio;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;

/// The memory that a model is served in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deployment {
    /// Memory of one accelerator.
    pub memory: Bytes,
    /// Share of it that the engine may take.
    pub utilization: Ratio,
    /// What the weights take.
    pub weights: Weights,
    /// What the engine keeps alongside them on each accelerator: activations, graphs, buffers.
    pub overhead: Bytes,
    /// Engines, each with all the weights and a cache of its own.
    pub data_parallel: NonZeroU32,
    /// Ranks that share out the tokens which each of them would hold a copy of.
    pub context_parallel: NonZeroU32,
    /// Tokens of the longest sequence; the config's own where it is `None`.
    pub longest_sequence: Option<NonZeroU32>,
    /// Most tokens that one step computes.
    pub prefill_chunk: NonZeroU32,
}

/// The sequence in which vLLM counts what a cache with windows holds: the longest one, while a chunk of it is computed.
struct CountedSequence {
    tokens: u64,
    /// Those that each layer with a window reserves.
    in_windows: u64,
    /// Bytes on an accelerator.
    bytes: u64,
}

/// Bytes of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// Of the whole model, split evenly over the ranks of an engine.
    Whole(Bytes),
    /// On each accelerator.
    EachAccelerator(Bytes),
}

/// What is left for the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvMemory {
    /// Accelerators of all engines.
    pub accelerators: u64,
    /// Engines (data parallelism).
    pub engines: u64,
    /// Accelerators that share out the tokens (context parallelism).
    pub context_parallel: u64,
    /// Bytes left on each accelerator.
    pub bytes_per_accelerator: u64,
    /// Bytes a cached token takes on each accelerator that holds it.
    pub bytes_per_token_per_accelerator: u64,
    /// Tokens that fit into the cache of one engine: whole pages of them where the page size is known.
    pub tokens_per_engine: u64,
    /// The pages of that.
    pub pages_per_engine: Option<u64>,
    /// Blocks of vLLM's shared pool that fit, where the model has one and the page size is known.
    pub blocks_per_engine: Option<u64>,
    /// Tokens of such a block.
    pub block_tokens: Option<u64>,
    /// Tokens that fit into the caches of all engines.
    pub tokens: u64,
    /// The calculation: what is left, then the tokens of an engine, then those of all.
    pub steps: Vec<CalculationStep>,
    /// What to know before using the figures.
    pub warnings: Vec<String>,
}

/// One step of the calculation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalculationStep {
    /// What it gives.
    pub what: String,
    /// The formula.
    pub formula: String,
    /// The formula with the numbers put in.
    pub numbers: String,
    /// What it comes to, in bytes or tokens.
    pub result: u64,
}

impl Deployment {
    /// What is left for a model's cache.
    ///
    /// # Errors
    /// The deployment does not fit the model, or nothing is left.
    pub fn left_for(&self, cost: &ModelCost) -> ModelRead<KvMemory> {
        let ranks = u64::from(cost.tensor_parallel);
        let sharing = u64::from(self.context_parallel.get());
        self.check(cost, ranks, sharing)?;
        let left = self.left(ranks)?;
        let token = cost.bytes_per_token.div_ceil(ranks);
        let page = u64::from(cost.page_size.unwrap_or(1));
        let page_bytes =
            token.checked_mul(page).filter(|bytes| *bytes > 0).ok_or_else(|| too_large("a page"))?;
        let counted = self.counted_sequence(cost, ranks)?;
        let pages = match &counted {
            None => left.result / page_bytes,
            Some(sequence) => sequence.tokens_in(left.result) / page,
        };
        let too_many = || too_large("the tokens of all engines");
        let tokens =
            pages.checked_mul(page).and_then(|tokens| tokens.checked_mul(sharing)).ok_or_else(too_many)?;
        let engines = u64::from(self.data_parallel.get());
        let all = tokens.checked_mul(engines).ok_or_else(too_many)?;
        let (block_tokens, blocks) = blocks(cost, left.result, ranks)?;
        let accelerators = ranks.checked_mul(engines).ok_or_else(too_many)?;
        let bytes_per_accelerator = left.result;
        let in_engine = CalculationStep {
            what: "tokens in an engine".to_owned(),
            formula: match counted {
                None => "pages of (left / bytes per token on an accelerator) * cp".to_owned(),
                Some(_) => "pages of (left / bytes of the longest sequence * its tokens)".to_owned(),
            },
            numbers: match &counted {
                None => format!("{bytes_per_accelerator} / ({token} * {page}) * {page} * {sharing}"),
                Some(sequence) => {
                    format!("{bytes_per_accelerator} / {} * {}", sequence.bytes, sequence.tokens)
                }
            },
            result: tokens,
        };
        let in_all = CalculationStep {
            what: "tokens in all engines".to_owned(),
            formula: "tokens in an engine * dp".to_owned(),
            numbers: format!("{tokens} * {engines}"),
            result: all,
        };
        Ok(KvMemory {
            accelerators,
            engines,
            context_parallel: sharing,
            bytes_per_accelerator,
            bytes_per_token_per_accelerator: token,
            tokens_per_engine: tokens,
            pages_per_engine: cost.page_size.map(|_| pages),
            blocks_per_engine: blocks,
            block_tokens,
            tokens: all,
            steps: vec![left, in_engine, in_all],
            warnings: self.warnings(cost, ranks, counted.as_ref()),
        })
    }

    /// What is not in the figures.
    fn warnings(&self, cost: &ModelCost, ranks: u64, counted: Option<&CountedSequence>) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.overhead == Bytes(0) {
            warnings.push(
                "activations, graphs and buffers are not counted: give what the engine's log says of them with --overhead"
                    .to_owned(),
            );
        }
        warnings.extend(counted.map(|sequence| {
            format!(
                "tokens are counted as vLLM counts them at its start: in sequences of {} tokens (--max-model-len), of which \
                 layers with a window reserve {}: the window, and {} that one step computes (--prefill-chunk). Shorter \
                 sequences reserve the same, so fewer tokens fit",
                sequence.tokens, sequence.in_windows, self.prefill_chunk
            )
        }));
        if counted.is_none() && cost.window.is_some() {
            warnings.push(
                "the config does not say how long a sequence may be: with --max-model-len, what layers with a window \
                 reserve is counted as vLLM counts it"
                    .to_owned(),
            );
        }
        let counts = |reserve: &&Reserve| counted.is_none() || reserve.per != ReservePer::Sequence;
        warnings.extend(cost.reserves.iter().filter(counts).map(|reserve| {
            let per = match reserve.per {
                ReservePer::Sequence => "sequence",
                ReservePer::Checkpoint => "checkpoint",
            };
            let bytes = Bytes(reserve.bytes.div_ceil(ranks));
            format!(
                "each {per} takes {bytes} of it on each accelerator, which the tokens do not count ({})",
                reserve.what
            )
        }));
        warnings
    }

    /// The sequence in which vLLM counts the tokens of a model with windows alongside full attention; `None` of another
    /// model, and where nothing says how long sequences may be.
    fn counted_sequence(&self, cost: &ModelCost, ranks: u64) -> ModelRead<Option<CountedSequence>> {
        let longest = self.longest_sequence.map(|tokens| u64::from(tokens.get())).or(cost.longest_sequence);
        let Some((window, tokens)) = cost.window.zip(longest).filter(|(_, tokens)| *tokens > 0) else {
            return Ok(None);
        };
        let page = u64::from(cost.page_size.unwrap_or(1));
        let in_windows = window.reserved(u64::from(self.prefill_chunk.get()), tokens, page);
        let windowed = cost.bytes_per_token_all_layers - cost.bytes_per_token;
        let part = |bytes: u64, tokens: u64| bytes.div_ceil(ranks).checked_mul(tokens);
        let bytes = part(cost.bytes_per_token, tokens.next_multiple_of(page))
            .zip(part(windowed, in_windows))
            .and_then(|(full, windowed)| full.checked_add(windowed))
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| too_large("a sequence"))?;
        Ok(Some(CountedSequence { tokens, in_windows, bytes }))
    }

    /// Whether the tokens can be shared out.
    fn check(&self, cost: &ModelCost, ranks: u64, sharing: u64) -> ModelRead<()> {
        let unfit = |reason: String| Err(ModelConfigError::Deployment { reason });
        if cost.tier == CacheTier::Host {
            return unfit("memory of accelerators is for --tier gpu".to_owned());
        }
        if sharing > 1 && !cost.copies.is_multiple_of(sharing) {
            return unfit(format!(
                "--context-parallel {sharing} shares out the copies of a token, and this model has {} of each on its {ranks} \
                 rank(s): it must divide them",
                cost.copies
            ));
        }
        if sharing > 1 && !cost.windowed_lines.is_empty() {
            return unfit("--context-parallel does not share out layers with a window".to_owned());
        }
        Ok(())
    }

    /// Bytes left on each accelerator, and how they came out.
    fn left(&self, ranks: u64) -> ModelRead<CalculationStep> {
        let usable = self.utilization.share_of(self.memory.0);
        let (weights, shown, formula) = match self.weights {
            Weights::Whole(Bytes(bytes)) => {
                (bytes.div_ceil(ranks), format!("{bytes} / {ranks}"), "weights / tp")
            }
            Weights::EachAccelerator(Bytes(bytes)) => (bytes, bytes.to_string(), "weights"),
        };
        let taken = weights.checked_add(self.overhead.0);
        let left = taken.and_then(|taken| usable.checked_sub(taken)).filter(|left| *left > 0);
        let Some(result) = left else {
            return Err(ModelConfigError::Deployment {
                reason: format!(
                    "nothing is left for the cache: {} of weights and {} next to them on each accelerator, of {} that the \
                     engine may take; split the model over more ranks with --tp",
                    Bytes(weights),
                    self.overhead,
                    Bytes(usable)
                ),
            });
        };
        Ok(CalculationStep {
            what: "left on an accelerator".to_owned(),
            formula: format!("memory * utilization - {formula} - overhead"),
            numbers: format!("{} * {} - {shown} - {}", self.memory.0, self.utilization, self.overhead.0),
            result,
        })
    }
}

impl CountedSequence {
    /// How many tokens are in as many such sequences, and parts of one, as have room.
    fn tokens_in(&self, bytes: u64) -> u64 {
        let tokens = u128::from(bytes) * u128::from(self.tokens) / u128::from(self.bytes);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

impl LayerWindow {
    /// Tokens that vLLM reserves of a running sequence of so many in each layer, in whole pages, where a step
    /// computes a chunk of so many: a window seldom begins at a page's edge.
    fn reserved(self, chunk: u64, longest: u64, page: u64) -> u64 {
        let (behind, edge) = if self.is_chunk { (self.tokens, 0) } else { (self.tokens - 1, 1) };
        let tokens = behind.saturating_add(chunk).min(longest);
        tokens.div_ceil(page).saturating_add(edge).saturating_mul(page)
    }
}

/// Tokens of a block of vLLM's shared pool, and how many fit.
fn blocks(cost: &ModelCost, left: u64, ranks: u64) -> ModelRead<(Option<u64>, Option<u64>)> {
    let (Pooling::Shared(pool), Some(page)) = (&cost.pooling, cost.page_size) else {
        return Ok((None, None));
    };
    let tokens = u64::from(page).max(pool.least_block_tokens.unwrap_or(1));
    let bytes = pool.block_bytes_per_token.div_ceil(ranks).checked_mul(tokens).filter(|bytes| *bytes > 0);
    Ok((Some(tokens), Some(left / bytes.ok_or_else(|| too_large("a block"))?)))
}

fn too_large(what: &str) -> ModelConfigError {
    ModelConfigError::Overflow { what: what.to_owned(), formula: "left / bytes per token".to_owned() }
}

impl fmt::Display for KvMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nleft for the cache on each of {} accelerator(s), {} engine(s): {}",
            self.accelerators,
            self.engines,
            Bytes(self.bytes_per_accelerator)
        )?;
        writeln!(
            f,
            "  {} bytes per token on each accelerator that holds it",
            self.bytes_per_token_per_accelerator
        )?;
        for step in &self.steps {
            writeln!(f, "  {}: {} = {} = {}", step.what, step.formula, step.numbers, step.result)?;
        }
        if let Some(pages) = self.pages_per_engine {
            writeln!(f, "  {pages} pages on each accelerator of an engine")?;
        }
        if let Some((blocks, tokens)) = self.blocks_per_engine.zip(self.block_tokens) {
            writeln!(f, "  {blocks} blocks of {tokens} tokens in vLLM's shared pool")?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "\nnote: {warning}"))
    }
}

#[cfg(test)]
mod tests {
    use super::LayerWindow;

    #[test]
    fn a_running_sequence_reserves_its_window_and_a_chunk() {
        let sliding = LayerWindow { tokens: 1024, is_chunk: false };
        assert_eq!(sliding.reserved(8192, 262_144, 16), (9215_u64.div_ceil(16) + 1) * 16);
        assert_eq!(sliding.reserved(8192, 4096, 16), 4096 + 16, "no more than the sequence, and a page");
        let chunked = LayerWindow { tokens: 8192, is_chunk: true };
        assert_eq!(chunked.reserved(2048, 1 << 20, 16), 10_240);
    }
}
