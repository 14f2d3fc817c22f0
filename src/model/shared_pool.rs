//! How vLLM lays the layers of a hybrid model out in one pool of blocks.
//!
//! Every block is of one size, so layers are put into groups of equally many: as many as there are of the rarest
//! kind, or of the commonest where that is less than half as many again. A block holds a page of each layer of
//! one group. Kinds come in the order in which the model's layers first have them.

use super::caches::{CacheReach, TokenCaches};
use super::error::{ModelConfigError, ModelRead};
use super::families::LayerCache;
use super::kind::LayerKind;
use super::layers::Layers;
use super::pooling::{Pooling, SharedPool};
use super::report::{ModelCost, ReservePer};
use kvset_core::engines::hybrid::{Attention, DraftLayers, GroupKind, MAX_GROUPS};

/// Blocks hold a multiple of so many tokens where a state makes them larger.
const BLOCK_STEP: u64 = 16;

/// The multiple where layers with attention cache latents.
const LATENT_BLOCK_STEP: u64 = 128;

/// Derives the pool of a model whose other costs are reported already.
pub(super) fn of(
    cache: LayerCache,
    layers: &Layers,
    caches: &TokenCaches,
    cost: &ModelCost,
) -> ModelRead<Pooling> {
    let count = |kind| layers.of_kind(kind).len() as u64;
    let (full, windowed, states) =
        (count(LayerKind::Full), count(LayerKind::Windowed), count(LayerKind::State));
    if windowed == 0 && states == 0 {
        return Ok(Pooling::Alike);
    }
    let not_modelled = |reason: &str| Ok(Pooling::NotModelled(reason.to_owned()));
    if full == 0 {
        return not_modelled("no layer keeps the whole prompt");
    }
    if windowed > 0 && states > 0 {
        return not_modelled("it has layers with a window and layers with a state");
    }
    let (other, kind) = match layers.window {
        Some(("sliding_window", tokens)) => match u32::try_from(tokens).ok().filter(|tokens| *tokens > 1) {
            Some(tokens) => (windowed, GroupKind::Window(tokens)),
            None => return not_modelled("its window keeps nothing that could be found"),
        },
        Some((field, _)) => return not_modelled(&format!("its windows are those of `{field}`")),
        None => (states, GroupKind::Mamba),
    };
    if !layers.ratios.is_empty() {
        return not_modelled("its layers compress several tokens into one entry");
    }
    if !layers.of_kind(LayerKind::FullAndState).is_empty() {
        return not_modelled("it has layers with attention and a state at once");
    }
    let a_layer = |reach: CacheReach| {
        let sizes = caches.by_layer(reach)?;
        Ok::<_, ModelConfigError>(
            sizes.first().copied().filter(|size| sizes.iter().all(|other| other == size)),
        )
    };
    let Some(layer_bytes) = a_layer(CacheReach::Every)?.filter(|bytes| *bytes > 0) else {
        return not_modelled("its layers are of several sizes");
    };
    if windowed > 0 && a_layer(CacheReach::Window)? != Some(layer_bytes) {
        return not_modelled("layers with a window are of another size than those with full attention");
    }
    let (rarest, commonest) = (full.min(other), full.max(other));
    let layers_a_group = if 2 * commonest < 3 * rarest { commonest } else { rarest };
    let groups = [(GroupKind::Full, full), (kind, other)]
        .map(|(kind, layers)| (kind, layers.div_ceil(layers_a_group) as usize));
    if groups.iter().map(|(_, groups)| groups).sum::<usize>() > MAX_GROUPS {
        return not_modelled("it has too many groups");
    }
    let full_first = layers.of_kind(LayerKind::Full).first()
        < layers.of_kind(if windowed > 0 { LayerKind::Windowed } else { LayerKind::State }).first();
    let order = if full_first { [groups[0], groups[1]] } else { [groups[1], groups[0]] };
    let kinds = order.into_iter().flat_map(|(kind, groups)| std::iter::repeat_n(kind, groups)).collect();
    let Ok(attention) = Attention::new(kinds) else { return not_modelled("its groups are of several kinds") };
    let Some(block_bytes_per_token) = layers_a_group.checked_mul(layer_bytes) else {
        return not_modelled("a block comes to more bytes than 64 bits hold");
    };
    let state = cost.reserves.iter().find(|reserve| reserve.per == ReservePer::Checkpoint);
    let step = if cache == LayerCache::Grouped { BLOCK_STEP } else { LATENT_BLOCK_STEP };
    let least = state.map(|state| {
        let a_layer = state.bytes.div_ceil(state.layers.max(1));
        a_layer.div_ceil(layer_bytes).div_ceil(step).saturating_mul(step)
    });
    Ok(Pooling::Shared(SharedPool {
        attention,
        layers: full + other,
        layers_a_group,
        block_bytes_per_token,
        least_block_tokens: least,
        draft_layers: draft_layers(&layers.predicting),
    }))
}

/// Where the layers of a draft head of these kinds lie; `None` where nothing says so.
fn draft_layers(kinds: &[LayerKind]) -> Option<DraftLayers> {
    match [LayerKind::Full, LayerKind::Windowed].map(|kind| kinds.contains(&kind)) {
        [true, true] => Some(DraftLayers::All),
        [true, false] => Some(DraftLayers::Full),
        [false, true] => Some(DraftLayers::Windows),
        [false, false] => None,
    }
}

impl SharedPool {
    /// What each group holds of one prompt whose prefix can be found again, in words.
    pub(super) fn lines(&self, page_size: Option<u64>, all_full: u64) -> Vec<String> {
        // A config's numbers may be as large as 64 bits hold; their products are reported in 128.
        let page_size = page_size.map(|page| u128::from(page.max(self.least_block_tokens.unwrap_or(1))));
        let bytes_per_token = u128::from(self.block_bytes_per_token);
        let block = match page_size {
            Some(page) => {
                format!("{} bytes, {page} tokens of {} layers", bytes_per_token * page, self.layers_a_group)
            }
            None => format!("{bytes_per_token} bytes for each token of its page"),
        };
        let (full, others) = self.attention.counts();
        let (full, others) = (u128::from(full), u128::from(others));
        let token = full * bytes_per_token;
        let mut lines = vec![
            format!("groups: {}; a block: {block}", self.attention),
            format!(
                "each cached token: {token} bytes in {full} full group(s); {all_full} if every layer were full"
            ),
        ];
        match (self.attention.other(), page_size) {
            (Some(GroupKind::Window(tokens)), Some(page)) => {
                let blocks = u128::from(tokens - 1).div_ceil(page) * others;
                lines.push(format!(
                    "each place to go on from: {blocks} blocks of {others} window group(s), as much as {} cached tokens",
                    (blocks * page).div_ceil(full)
                ));
            }
            (Some(GroupKind::Window(tokens)), None) => lines.push(format!(
                "each place to go on from: the last {tokens} tokens in {others} window group(s)"
            )),
            (Some(GroupKind::Mamba), page) => {
                let tokens = page.or(self.least_block_tokens.map(u128::from)).unwrap_or(1);
                lines.push(format!(
                    "each place to go on from: {others} blocks, a state of each group; at {tokens} tokens per block as \
                     much as {} cached tokens",
                    (others * tokens).div_ceil(full)
                ));
            }
            _ => {}
        }
        if let Some(least) = self.least_block_tokens {
            lines.push(format!("a state needs blocks of {least} tokens or more"));
        }
        lines
    }
}
