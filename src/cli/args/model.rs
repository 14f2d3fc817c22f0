//! Arguments of `kvset model`.

use super::parse::{bytes, choice, page_size, share};
use crate::model::{CacheTier, CostOptions, Deployment, IndexerDtype, KvDtype, StateDtype, Weights};
use clap::Args;
use kvset_core::units::ratio::Ratio;
use kvset_core::units::{Bytes, PageSize};
use kvset_settings::Choice;
use std::num::NonZeroU32;
use std::path::PathBuf;

impl Choice for CacheTier {
    const NAMES: &'static [(&'static str, Self)] = &[("gpu", CacheTier::Gpu), ("host", CacheTier::Host)];
}

/// Arguments of `kvset model`.
#[derive(Debug, Args)]
#[command(after_help = "\
The formula is printed with the numbers put in, so that it can be checked by hand.

Examples:
  kvset model config.json
  kvset model config.json --kv-dtype fp8 --tp 8
  kvset model deepseek/config.json --tier host --json | jq .bytes_per_token
  kvset model config.json --accelerator-memory 80GiB --tp 8 --dp 2 --weights 140GB --page-size 16")]
pub struct ModelArgs {
    /// The model's config.json, or the directory it is in; - is standard input.
    #[arg(value_name = "CONFIG.json")]
    pub config: PathBuf,
    /// Type of the cached elements: auto, bf16, fp16, fp32, fp8, int8, nvfp4, mxfp8, fp8_per_token_head,
    /// int8_per_token_head, int4_per_token_head, fp8_ds_mla or nvfp4_ds_mla; auto is what the checkpoint declares.
    #[arg(long, value_name = "TYPE", default_value = "auto", visible_alias = "kv-cache-dtype")]
    pub kv_dtype: KvDtype,
    /// Type of the states of linear attention and Mamba: float32, bfloat16 or float16.
    #[arg(long, value_name = "TYPE", visible_alias = "mamba-ssm-cache-dtype")]
    pub mamba_ssm_dtype: Option<StateDtype>,
    /// Type of the index keys of sparse attention: auto, bf16, fp8 or mxfp4.
    #[arg(long, value_name = "TYPE", default_value = "auto", visible_alias = "indexer-kv-dtype")]
    pub indexer_dtype: IndexerDtype,
    /// Ranks the model is split over (tensor parallelism).
    #[arg(long, value_name = "N", default_value = "1", visible_aliases = ["tensor-parallel", "tensor-parallel-size"])]
    pub tp: NonZeroU32,
    /// Where the cache is kept: in the ranks' own memory, or in memory that they share.
    #[arg(long, value_name = "TIER", default_value = "gpu", value_parser = choice::<CacheTier>())]
    pub tier: CacheTier,
    /// Tokens per page, to round what sequences reserve up to whole pages.
    #[arg(long, value_name = "N", value_parser = page_size)]
    pub page_size: Option<PageSize>,
    /// Memory of one accelerator: says how many tokens fit into what is left for the cache.
    #[arg(long, value_name = "SIZE", value_parser = bytes, visible_alias = "gpu-memory")]
    pub accelerator_memory: Option<Bytes>,
    /// Share of that memory which the engine may take, weights and all; vLLM's default.
    #[arg(
        long,
        value_name = "R",
        default_value = "0.92",
        value_parser = share,
        requires = "accelerator_memory",
        visible_alias = "gpu-memory-utilization"
    )]
    pub memory_utilization: Ratio,
    /// Bytes of all weights; those of model.safetensors.index.json alongside the config where left out.
    #[arg(long, value_name = "SIZE", value_parser = bytes, requires = "accelerator_memory")]
    pub weights: Option<Bytes>,
    /// Bytes of weights on each accelerator, where they are not split evenly (expert parallelism).
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = bytes,
        requires = "accelerator_memory",
        conflicts_with = "weights"
    )]
    pub weights_per_accelerator: Option<Bytes>,
    /// What an engine keeps on each accelerator alongside weights and cache: activations, graphs, buffers.
    #[arg(long, value_name = "SIZE", value_parser = bytes, requires = "accelerator_memory")]
    pub overhead: Option<Bytes>,
    /// Engines, each with all weights and a cache of its own (data parallelism).
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        requires = "accelerator_memory",
        visible_aliases = ["data-parallel", "data-parallel-size"]
    )]
    pub dp: NonZeroU32,
    /// Ranks among those of --tp that share out the tokens they would hold copies of (context parallelism).
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        requires = "accelerator_memory",
        visible_aliases = ["context-parallel", "decode-context-parallel-size"]
    )]
    pub cp: NonZeroU32,
    /// Tokens of the longest sequence: tokens of a model with windows are counted in such, as vLLM counts them; those
    /// of the config where left out.
    #[arg(long, value_name = "TOKENS", requires = "accelerator_memory")]
    pub max_model_len: Option<NonZeroU32>,
    /// Most tokens that one step computes, which layers with a window reserve beside it; vLLM's default.
    #[arg(
        long,
        value_name = "TOKENS",
        default_value = "8192",
        requires = "accelerator_memory",
        visible_alias = "max-num-batched-tokens"
    )]
    pub prefill_chunk: NonZeroU32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

impl ModelArgs {
    /// How the cache is kept.
    pub fn cost_options(&self) -> CostOptions {
        CostOptions {
            kv_dtype: self.kv_dtype,
            state_dtype: self.mamba_ssm_dtype,
            unnamed_state_dtype: None,
            indexer_dtype: self.indexer_dtype,
            tensor_parallel: self.tp,
            tier: self.tier,
            page_size: self.page_size,
        }
    }

    /// The memory the model is served in, where its size is given; `index` is the size of the weights that the
    /// checkpoint itself says.
    ///
    /// # Errors
    /// Nothing says what the weights take.
    pub fn deployment(&self, index: Option<Bytes>) -> Result<Option<Deployment>, &'static str> {
        let Some(memory) = self.accelerator_memory else { return Ok(None) };
        let weights = match (self.weights_per_accelerator, self.weights.or(index)) {
            (Some(bytes), _) => Weights::EachAccelerator(bytes),
            (None, Some(bytes)) => Weights::Whole(bytes),
            (None, None) => {
                return Err(
                    "--accelerator-memory needs to know what the weights take: give --weights, or put \
                            model.safetensors.index.json next to the config",
                );
            }
        };
        Ok(Some(Deployment {
            memory,
            utilization: self.memory_utilization,
            weights,
            overhead: self.overhead.unwrap_or_default(),
            data_parallel: self.dp,
            context_parallel: self.cp,
            longest_sequence: self.max_model_len,
            prefill_chunk: self.prefill_chunk,
        }))
    }
}
