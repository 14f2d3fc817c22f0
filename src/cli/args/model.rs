//! Arguments of `kvset model`.

use super::parse::{choice, page_size};
use crate::model::{CostOptions, KvDtype, Tier};
use clap::Args;
use kvset_core::units::PageSize;
use kvset_settings::Choice;
use std::num::NonZeroU32;
use std::path::PathBuf;

impl Choice for Tier {
    const NAMES: &'static [(&'static str, Self)] = &[("gpu", Tier::Gpu), ("host", Tier::Host)];
}

/// Arguments of `kvset model`.
#[derive(Debug, Args)]
#[command(after_help = "\
The formula is printed with the numbers put in, so that it can be checked by hand.

Examples:
  kvset model config.json
  kvset model config.json --kv-dtype fp8 --tp 8
  kvset model deepseek/config.json --tier host --json | jq .bytes_per_token")]
pub struct ModelArgs {
    /// The model's config.json; - is standard input.
    #[arg(value_name = "CONFIG.json")]
    pub config: PathBuf,
    /// Type of the cached elements: bf16, fp16, fp32 or fp8; the model's own where left out.
    #[arg(long, value_name = "TYPE")]
    pub kv_dtype: Option<KvDtype>,
    /// Ranks the model is split over (tensor parallelism).
    #[arg(long, value_name = "N", default_value = "1")]
    pub tp: NonZeroU32,
    /// Where the cache is kept: in the ranks' own memory, or in memory that they share.
    #[arg(long, value_name = "TIER", default_value = "gpu", value_parser = choice::<Tier>())]
    pub tier: Tier,
    /// Tokens a page, to round what sequences reserve up to whole pages.
    #[arg(long, value_name = "N", value_parser = page_size)]
    pub page_size: Option<PageSize>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

impl ModelArgs {
    /// How the cache is kept.
    pub fn cost_options(&self) -> CostOptions {
        CostOptions {
            kv_dtype: self.kv_dtype,
            tensor_parallel: self.tp,
            tier: self.tier,
            page_size: self.page_size,
        }
    }
}
