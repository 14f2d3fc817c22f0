//! What a replay takes from a model's config: the cost of a token, and vLLM's groups of layers.

use crate::cli::Failure;
use crate::cli::args::ReplayArgs;
use crate::model::{ModelCost, Pooling, SharedPool};
use kvset_core::engines::hybrid::{Attention, DraftLayers, GroupKind};
use kvset_core::engines::profile::Profile;
use kvset_core::engines::rules::EnginePart;
use kvset_core::units::PageSize;

/// What the config says, as far as the replay needs it.
#[derive(Debug, Default)]
pub(in crate::commands) struct FromModel {
    /// Bytes of KV state per token, or of a block per token of it where groups share a pool.
    pub costs: Vec<f64>,
    /// The groups, where they are taken from the config.
    pub attention: Option<Attention>,
    /// The groups that the draft head's layers lie in, where one drafts and they are taken from the config.
    pub draft_layers: Option<DraftLayers>,
    /// Tokens of one full group that take as much as a state of one group, where SGLang's pool of states needs them and
    /// the config says them.
    pub state_tokens: Option<u32>,
    /// Layers of the model, and those of one group, where groups are taken from the config.
    pub layers: Option<(u64, u64)>,
    /// Fewest tokens of a block that holds a state, in vLLM.
    least_block_tokens: Option<u64>,
    /// What was taken, why nothing was, and what to know of the figure.
    pub notes: Vec<String>,
}

impl FromModel {
    /// Reads the config, where one is given.
    ///
    /// # Errors
    /// It cannot be read or understood, or says what cannot be had with the other arguments.
    pub fn of(args: &ReplayArgs) -> Result<Self, Failure> {
        let models = args.model_costs()?;
        let Some(first) = models.first() else {
            return Ok(Self { costs: args.kv_bytes_per_token.clone(), ..Self::default() });
        };
        let mut from_model = Self {
            costs: models.iter().map(|model| model.bytes_per_token as f64).collect(),
            notes: first.warnings.iter().map(|remark| format!("note: {remark}")).collect(),
            ..Self::default()
        };
        let derives = args.engines.contains(&Profile::Vllm) && !args.options.has("attention");
        match &first.pooling {
            Pooling::Shared(pool) => {
                if args.engines.iter().any(|engine| *engine != Profile::Sglang) {
                    from_model.least_block_tokens = pool.least_block_tokens;
                }
                if derives {
                    from_model.share(args, pool, &models)?;
                } else if !args.options.has("attention") && args.engines.contains(&Profile::Sglang) {
                    let kept = if pool.attention.other() == Some(GroupKind::Mamba) { "states" } else { "windows" };
                    from_model.notes.push(format!(
                        "note: SGLang keeps {kept} in a pool of their own, which takes memory that is not counted here: \
                         --attention {} models both pools",
                        pool.attention
                    ));
                }
            }
            Pooling::NotModelled(reason) if derives => from_model.notes.push(format!(
                "note: vLLM's shared pool is not modelled for this model, since {reason}: only the layers that keep \
                 every token are"
            )),
            _ => {}
        }
        from_model.weigh_states(args, &models)?;
        from_model.check_page(args.trace.page_size)?;
        Ok(from_model)
    }

    /// Fewest tokens of a page, where the groups are modelled and a state lies in each.
    pub fn least_page(&self) -> Option<u64> {
        self.attention.as_ref().and(self.least_block_tokens)
    }

    /// Takes what a state weighs, where SGLang's pool of states needs it.
    ///
    /// # Errors
    /// The config cannot say it.
    fn weigh_states(&mut self, args: &ReplayArgs, models: &[ModelCost]) -> Result<(), Failure> {
        let rules = args.options.rules(None);
        if !EnginePart::STATE_POOL.holds(&rules, Profile::Sglang)
            || !args.engines.contains(&Profile::Sglang)
            || args.options.has("state_tokens")
        {
            return Ok(());
        }
        let refuse = |reason: &str| {
            Err(Failure::usage(format!(
                "{reason}: give --state-tokens, the tokens of one full group that take as much"
            )))
        };
        let (Profile::Sglang, [model], 1) = (args.engines[0], models, args.engines.len()) else {
            return refuse("what a state weighs is taken from a config for sglang alone, at one --kv-dtype");
        };
        match model.state_tokens(&rules.attention).map(u32::try_from) {
            Some(Ok(tokens)) => {
                self.notes.push(format!(
                    "note: a state of one group takes as much as {tokens} tokens of one full group, by the model's config"
                ));
                self.state_tokens = Some(tokens);
                Ok(())
            }
            _ => refuse("the model's config has no layers with a state alongside full attention"),
        }
    }

    /// Takes the groups of vLLM's shared pool, and the bytes of its blocks.
    fn share(&mut self, args: &ReplayArgs, pool: &SharedPool, models: &[ModelCost]) -> Result<(), Failure> {
        let of_block = |model: &ModelCost| match &model.pooling {
            Pooling::Shared(pool) => pool.block_bytes_per_token,
            _ => model.bytes_per_token,
        };
        if args.engines.len() > 1 && models.iter().any(|model| of_block(model) != model.bytes_per_token) {
            return Err(Failure::usage(
                "blocks of vLLM's shared pool have another size than a page of the other engines: name vllm alone, or \
                 give --attention full",
            ));
        }
        self.costs = models.iter().map(|model| of_block(model) as f64).collect();
        self.attention = Some(pool.attention.clone());
        self.layers = Some((pool.layers, pool.layers_a_group));
        self.place_head(args, pool);
        self.notes.push(format!(
            "note: the model's layers are {} in vLLM's shared pool of blocks, modelled at each capacity on its own; \
             --attention full models those that keep every token alone",
            pool.attention
        ));
        Ok(())
    }

    /// Takes where the layers of a draft head lie alongside windows.
    fn place_head(&mut self, args: &ReplayArgs, pool: &SharedPool) {
        let has_windows = matches!(pool.attention.other(), Some(GroupKind::Window(_)));
        let derives = has_windows && args.options.has("draft_head") && !args.options.has("draft_layers");
        let Some(layers) = pool.draft_layers.filter(|_| derives) else { return };
        self.draft_layers = Some(layers);
        self.notes.push(format!(
            "note: the draft head's layers are those that the model's config lists: --draft-layers {}",
            layers.name()
        ));
    }

    /// Whether vLLM's blocks of a page hold a state; what to know where they do not. The one rule for every engine:
    /// it is refused where the groups are modelled, and said where they are not. SGLang alone keeps states in a
    /// pool of their own.
    ///
    /// # Errors
    /// They do not, and what a capacity in bytes holds cannot be known.
    pub fn check_page(&self, page_size: Option<PageSize>) -> Result<Option<String>, Failure> {
        let (Some(least), Some(page)) = (self.least_block_tokens, page_size) else { return Ok(None) };
        if u64::from(page.get()) >= least {
            return Ok(None);
        }
        let page = page.get();
        let fact = format!(
            "vLLM holds a state of this model in blocks of {least} tokens or more, and pages have {page}"
        );
        if self.attention.is_none() {
            return Ok(Some(format!(
                "note: {fact}: it finds whole blocks only, and states take room that is not counted here; --engine vllm \
                 --page-size {least} models both where the trace has tokens"
            )));
        }
        Err(Failure::usage(format!(
            "{fact}: read the trace at --page-size {least} where it has tokens, or give the groups with --attention to \
             model blocks of the trace's pages"
        )))
    }
}
