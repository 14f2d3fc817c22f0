//! The answer, for programs (serde) and for people (`Display`).

use super::error::ModelRead;
use super::formula::{CostLine, total};
use super::options::{CacheTier, CostOptions, KvDtype};
use super::pooling::Pooling;
use kvset_core::engines::hybrid::{Attention, GroupKind};
use kvset_core::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What one cached token costs, over all tensor-parallel ranks of one replica, and how that came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCost {
    /// The architecture, as the config names it.
    pub architecture: String,
    /// Type of the cached elements.
    pub kv_dtype: KvDtype,
    /// Ranks the model is split over.
    pub tensor_parallel: u32,
    /// Where the cache lies.
    pub tier: CacheTier,
    /// Bytes each cached token takes in the layers that keep every token.
    pub bytes_per_token: u64,
    /// Each rank's part of it; absent on the host, which the ranks share.
    pub bytes_per_token_per_rank: Option<u64>,
    /// Ranks that hold a copy of each token: those that a latent is copied to, or that share a KV head.
    #[serde(default = "one")]
    pub copies: u64,
    /// Bytes of each if windowed layers, too, keep every token: an engine without a hybrid allocator.
    pub bytes_per_token_all_layers: u64,
    /// The calculation of `bytes_per_token`; the lines add up.
    pub lines: Vec<CostLine>,
    /// What windowed layers add in `bytes_per_token_all_layers`.
    pub windowed_lines: Vec<CostLine>,
    /// Tokens that a layer with a window keeps of a running sequence, where others keep all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<LayerWindow>,
    /// Tokens of the longest sequence that the model takes, where the config says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_sequence: Option<u64>,
    /// What is needed alongside: by sequence or by checkpoint, however long the cached prefix is.
    pub reserves: Vec<Reserve>,
    /// How vLLM lays its layers out in one pool of blocks.
    #[serde(default)]
    pub pooling: Pooling,
    /// Tokens per page, where they were given.
    #[serde(default)]
    pub page_size: Option<u32>,
    /// What to know before using the figures.
    pub warnings: Vec<String>,
}

/// What older results leave out: each token is there once.
fn one() -> u64 {
    1
}

/// What layers with a window keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerWindow {
    /// Tokens of it.
    pub tokens: u64,
    /// It begins at a multiple of its length, and slides not.
    pub is_chunk: bool,
}

/// Memory that does not grow with the tokens cached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// What it is needed for each of.
    pub per: ReservePer,
    /// Which layers need it.
    pub what: String,
    /// How many layers.
    pub layers: u64,
    /// Tokens it holds: whole pages where the page size is known; absent for a state.
    pub tokens: Option<u64>,
    /// Pages it holds at most, where the page size is known.
    pub pages: Option<u64>,
    /// Bytes, over all ranks.
    pub bytes: u64,
    /// The calculation: bytes per token for a window, bytes a checkpoint for a state.
    pub lines: Vec<CostLine>,
}

/// What a reserve is needed for each of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservePer {
    /// Each sequence whose prefix is to be continued.
    Sequence,
    /// Each position a sequence is to be continued from.
    Checkpoint,
}

impl ModelCost {
    pub(super) fn new(architecture: String, kv_dtype: KvDtype, options: &CostOptions) -> Self {
        Self {
            architecture,
            kv_dtype,
            tensor_parallel: options.tensor_parallel.get(),
            tier: options.tier,
            bytes_per_token: 0,
            bytes_per_token_per_rank: None,
            copies: 1,
            bytes_per_token_all_layers: 0,
            lines: Vec::new(),
            windowed_lines: Vec::new(),
            window: None,
            longest_sequence: None,
            reserves: Vec::new(),
            pooling: Pooling::Alike,
            page_size: None,
            warnings: Vec::new(),
        }
    }

    /// Adds the lines up.
    pub(super) fn finish(&mut self) -> ModelRead<()> {
        self.bytes_per_token = total("a token", &self.lines)?;
        self.bytes_per_token_all_layers = total("a token", self.lines.iter().chain(&self.windowed_lines))?;
        self.bytes_per_token_per_rank =
            (self.tier == CacheTier::Gpu).then(|| self.bytes_per_token / u64::from(self.tensor_parallel));
        Ok(())
    }

    /// Tokens of one full group that weigh as much as a state of one group, rounded up, where the layers are in these
    /// groups; `None` where no layer keeps a state, or tokens cost nothing.
    pub fn state_tokens(&self, attention: &Attention) -> Option<u64> {
        let states = self.reserves.iter().find(|reserve| reserve.per == ReservePer::Checkpoint)?;
        let groups = |kind| attention.groups().iter().filter(|group| **group == kind).count() as u64;
        let state = states.bytes.checked_mul(groups(GroupKind::Full))?;
        let token = self.bytes_per_token.checked_mul(groups(GroupKind::Mamba))?;
        (token > 0).then(|| state.div_ceil(token))
    }

    /// How many cached tokens weigh as much as a reserve, rounded up; `None` where tokens cost nothing.
    pub fn tokens_as_heavy_as(&self, reserve: &Reserve) -> Option<u64> {
        (self.bytes_per_token > 0).then(|| reserve.bytes.div_ceil(self.bytes_per_token))
    }
}

impl fmt::Display for ModelCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, {} cache, tp {}, {} tier",
            self.architecture, self.kv_dtype, self.tensor_parallel, self.tier
        )?;
        writeln!(f, "\n{} bytes per token", self.bytes_per_token)?;
        write_lines(f, &self.lines)?;
        if let Some(rank) = self.bytes_per_token_per_rank.filter(|_| self.tensor_parallel > 1) {
            writeln!(f, "  {rank} on each rank")?;
        }
        if !self.windowed_lines.is_empty() {
            writeln!(
                f,
                "\n{} bytes per token where windowed layers keep every token too",
                self.bytes_per_token_all_layers
            )?;
            write_lines(f, &self.windowed_lines)?;
        }
        for reserve in &self.reserves {
            self.write_reserve(f, reserve)?;
        }
        self.write_pooling(f)?;
        for warning in &self.warnings {
            writeln!(f, "\nnote: {warning}")?;
        }
        Ok(())
    }
}

impl ModelCost {
    fn write_pooling(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pooling {
            Pooling::Alike => Ok(()),
            Pooling::NotModelled(reason) => {
                writeln!(f, "\nin vLLM's shared pool of blocks: not modelled, since {reason}")
            }
            Pooling::Shared(pool) => {
                writeln!(f, "\nin vLLM's shared pool of blocks (kvset replay --engine vllm --model-config)")?;
                let lines = pool.lines(self.page_size.map(u64::from), self.bytes_per_token_all_layers);
                lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
            }
        }
    }

    fn write_reserve(&self, f: &mut fmt::Formatter<'_>, reserve: &Reserve) -> fmt::Result {
        let per = match reserve.per {
            ReservePer::Sequence => "sequence",
            ReservePer::Checkpoint => "checkpoint",
        };
        write!(f, "\nreserve for each {per}: {} bytes ({}", reserve.bytes, Bytes(reserve.bytes))?;
        if let Some(tokens) = self.tokens_as_heavy_as(reserve) {
            write!(f, ", as much as {tokens} cached tokens")?;
        }
        writeln!(f, ")\n  {}", reserve.what)?;
        match (reserve.pages, reserve.tokens) {
            (Some(pages), Some(tokens)) => {
                writeln!(f, "  {tokens} tokens, the {pages} pages it lies on at most, each")?;
            }
            (None, Some(tokens)) => writeln!(f, "  {tokens} tokens each")?,
            _ => {}
        }
        write_lines(f, &reserve.lines)
    }
}

fn write_lines(f: &mut fmt::Formatter<'_>, lines: &[CostLine]) -> fmt::Result {
    for line in lines {
        writeln!(f, "  {}: {} = {} = {}", line.what, line.formula, line.numbers, line.bytes)?;
    }
    Ok(())
}
