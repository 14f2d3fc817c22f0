//! What a hybrid model needs alongside the tokens of its full-attention layers.

use super::architecture::KnownModel;
use super::caches::{CacheReach, TokenCaches};
use super::error::{ModelConfigError, ModelRead};
use super::formula::total;
use super::kind::LayerKind;
use super::layers::Layers;
use super::options::CostOptions;
use super::report::{LayerWindow, ModelCost, Reserve, ReservePer};
use super::state;

/// Adds the reserves of windowed layers and of layers with a state.
pub(super) fn add(
    model: &KnownModel<'_>,
    layers: &Layers,
    caches: &TokenCaches,
    options: &CostOptions,
    cost: &mut ModelCost,
) -> ModelRead<()> {
    // If no layer is full, the windowed ones are counted by the token already.
    let hybrid = !layers.of_kind(LayerKind::Full).is_empty();
    if let Some((field, tokens)) = layers.window.filter(|_| hybrid) {
        let lines = caches.lines(CacheReach::Window)?;
        let windowed = caches.by_layer(CacheReach::Window)?.len() as u64;
        let pages = options.page_size.map(|page| pages_of_window(tokens, u64::from(page.get())));
        let held = match (pages, options.page_size) {
            (Some(pages), Some(page)) => pages * u64::from(page.get()),
            _ => tokens,
        };
        let overflow = || ModelConfigError::Overflow {
            what: "the window's reserve".to_owned(),
            formula: model.fields.path_of(field),
        };
        let bytes = total("the window's reserve", &lines)?.checked_mul(held).ok_or_else(overflow)?;
        cost.window = Some(LayerWindow { tokens, is_chunk: field == "attention_chunk_size" });
        cost.reserves.push(Reserve {
            per: ReservePer::Sequence,
            what: format!("{windowed} windowed layers of `{field}` = {tokens}"),
            layers: windowed,
            tokens: Some(held),
            pages,
            bytes,
            lines,
        });
    }
    let stateful = layers.of_kind(LayerKind::State).len() as u64;
    if stateful > 0 {
        let recurrence = model.family.recurrence.ok_or_else(|| ModelConfigError::Unexpected {
            field: model.fields.path_of("layer_types"),
            found: format!("a list with {stateful} layers that keep a state"),
            expected: "layers with attention, for this architecture's states are not among the rules"
                .to_owned(),
        })?;
        let (lines, remarks) = state::of(recurrence, &model.fields, stateful, options)?;
        cost.warnings.extend(remarks);
        cost.reserves.push(Reserve {
            per: ReservePer::Checkpoint,
            what: format!("{stateful} layers with a state"),
            layers: stateful,
            tokens: None,
            pages: None,
            bytes: total("the state's reserve", &lines)?,
            lines,
        });
    }
    Ok(())
}

/// Most pages a run of `tokens` tokens lies on: it seldom begins at a page's edge.
fn pages_of_window(tokens: u64, page: u64) -> u64 {
    (tokens - 1).div_ceil(page) + 1
}

#[cfg(test)]
mod tests {
    use super::pages_of_window;

    #[test]
    fn a_window_lies_on_as_many_pages_as_its_worst_position() {
        for (tokens, page) in
            [(1u64, 1u64), (1, 16), (2, 16), (16, 16), (17, 16), (18, 16), (128, 16), (127, 64)]
        {
            let worst = (0..page).map(|start| (start + tokens).div_ceil(page)).max();
            assert_eq!(Some(pages_of_window(tokens, page)), worst, "{tokens} tokens on pages of {page}");
        }
    }
}
