//! What a replay takes from a model's config: the cost of a token, and vLLM's groups of layers.

use crate::cli::Failure;
use crate::cli::args::ReplayArgs;
use crate::model::{ModelCost, Pooling, SharedPool};
use kvset_core::hybrid::Attention;
use kvset_core::profile::Profile;
use kvset_core::units::PageSize;

/// What the config says, as far as it is asked.
#[derive(Debug, Default)]
pub(super) struct FromModel {
    /// Bytes of KV state a token costs, or a block by the token where groups share a pool.
    pub costs: Vec<f64>,
    /// The groups, where they are taken from the config.
    pub attention: Option<Attention>,
    least_block_tokens: Option<u64>,
    /// What was taken, or why nothing was.
    pub note: Option<String>,
}

impl FromModel {
    /// Reads the config, where one is given.
    ///
    /// # Errors
    /// It cannot be read or understood, or says what cannot be had with the other arguments.
    pub fn of(args: &ReplayArgs) -> Result<Self, Failure> {
        let models = args.model_costs()?;
        let costs = match models.as_slice() {
            [] => args.kv_bytes_per_token.clone(),
            models => models.iter().map(|model| model.bytes_per_token as f64).collect(),
        };
        let plain = Self { costs, ..Self::default() };
        let derives = args.engines.contains(&Profile::Vllm) && args.options.attention.is_none();
        match models.first().map(|model| &model.pooling) {
            Some(Pooling::Shared(pool)) if derives => Self::shared(args, pool, &models),
            Some(Pooling::NotModelled(reason)) if derives => {
                let note = format!(
                    "note: vLLM's shared pool is not modelled for this model, since {reason}: only the layers that keep \
                     every token are"
                );
                Ok(Self { note: Some(note), ..plain })
            }
            _ => Ok(plain),
        }
    }

    fn shared(args: &ReplayArgs, pool: &SharedPool, models: &[ModelCost]) -> Result<Self, Failure> {
        let of_block = |model: &ModelCost| match &model.pooling {
            Pooling::Shared(pool) => pool.block_bytes_per_token,
            _ => model.bytes_per_token,
        };
        if args.engines.len() > 1 && models.iter().any(|model| of_block(model) != model.bytes_per_token) {
            return Err(usage(
                "blocks of vLLM's shared pool have another size than a page of the other engines: name vllm alone, or \
                 give --attention full",
            ));
        }
        let from_model = Self {
            costs: models.iter().map(|model| of_block(model) as f64).collect(),
            attention: Some(pool.attention.clone()),
            least_block_tokens: pool.least_block_tokens,
            note: Some(format!(
                "note: the model's layers are {} in vLLM's shared pool of blocks, modelled at each capacity on its own; \
                 --attention full models those that keep every token alone",
                pool.attention
            )),
        };
        from_model.check_page(args.trace.page_size)?;
        Ok(from_model)
    }

    /// Whether blocks of a page hold a state.
    ///
    /// # Errors
    /// They do not, so what a capacity in bytes holds cannot be told.
    pub fn check_page(&self, page_size: Option<PageSize>) -> Result<(), Failure> {
        let (Some(least), Some(page)) = (self.least_block_tokens, page_size) else { return Ok(()) };
        if u64::from(page.get()) >= least {
            return Ok(());
        }
        Err(usage(&format!(
            "vLLM holds a state of this model in blocks of {least} tokens or more, and pages have {}: read the trace at \
             --page-size {least} where it has tokens, or give the groups with --attention to model blocks of the \
             trace's pages",
            page.get()
        )))
    }
}

fn usage(reason: &str) -> Failure {
    Failure::Usage(anyhow::anyhow!(reason.to_owned()))
}
