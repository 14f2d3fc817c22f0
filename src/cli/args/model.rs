//! Arguments of `kvset model`.

use super::parse::page_size;
use crate::core::units::PageSize;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Arguments of `kvset model`.
#[derive(Debug, Args)]
#[command(after_help = "\
The formula is printed with the numbers put in, so that it can be checked by hand.

Examples:
  kvset model config.json
  kvset model config.json --kv-dtype fp8 --tp 8
  kvset model deepseek/config.json --tier host --json")]
pub struct ModelArgs {
    /// The model's config.json.
    #[arg(value_name = "CONFIG.json")]
    pub config: PathBuf,
    /// Type of the cached elements: bf16, fp16, fp32 or fp8; the model's own where left out.
    #[arg(long, value_name = "TYPE")]
    pub kv_dtype: Option<String>,
    /// Ranks the model is split over (tensor parallelism).
    #[arg(long, value_name = "N", default_value = "1")]
    pub tp: NonZeroU32,
    /// Where the cache is kept: gpu or host.
    #[arg(long, value_name = "TIER", default_value = "gpu", value_parser = ["gpu", "host"])]
    pub tier: String,
    /// Tokens a page, to round what sequences reserve up to whole pages.
    #[arg(long, value_name = "N", value_parser = page_size)]
    pub page_size: Option<PageSize>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
