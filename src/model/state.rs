//! The state of layers without a growing cache: linear attention and Mamba.

use super::error::ModelError;
use super::families::StateNames;
use super::fields::Fields;
use super::formula::{CostLine, factor, group, product};
use super::options::{CostOptions, KvDtype, declared_dtype};

/// Bytes one checkpoint of `layers` layers takes, over all ranks.
pub(super) fn lines(
    names: StateNames,
    fields: &Fields<'_>,
    layers: u64,
    options: &CostOptions,
) -> Result<Vec<CostLine>, ModelError> {
    let model = declared_dtype(fields)?;
    match names {
        StateNames::Linear => linear(fields, layers, model, options),
        StateNames::Nemotron => mamba(
            &Mamba {
                heads: "mamba_num_heads",
                head_dim: "mamba_head_dim",
                groups: "n_groups",
                state: "ssm_state_size",
                kernel: "conv_kernel",
            },
            fields,
            layers,
            model,
            options,
        ),
        StateNames::Granite => mamba(
            &Mamba {
                heads: "mamba_n_heads",
                head_dim: "mamba_d_head",
                groups: "mamba_n_groups",
                state: "mamba_d_state",
                kernel: "mamba_d_conv",
            },
            fields,
            layers,
            model,
            options,
        ),
    }
}

const NEEDED_FOR: &str = "it gives the size of a state-space or linear-attention layer's state";

/// Gated delta nets: convolution `(2*Hk*Dk + Hv*Dv)*(k-1)`, state `Hv*Dk*Dv`.
fn linear(
    fields: &Fields<'_>,
    layers: u64,
    model: KvDtype,
    options: &CostOptions,
) -> Result<Vec<CostLine>, ModelError> {
    let count = |name| fields.count(name, NEEDED_FOR);
    let (hk, dk) = (count("linear_num_key_heads")?, count("linear_key_head_dim")?);
    let (hv, dv) = (count("linear_num_value_heads")?, count("linear_value_head_dim")?);
    let kernel = count("linear_conv_kernel_dim")?;
    split(fields, "linear_num_key_heads", hk, options)?;
    split(fields, "linear_num_value_heads", hv, options)?;
    // The recurrence is kept in fp32 unless the config says otherwise.
    let state = state_dtype(fields)?.unwrap_or(KvDtype::Fp32);
    let layer = factor("L", layers);
    let channels = width(fields, "linear_num_value_heads", [(2, hk, dk), (1, hv, dv)])?;
    let shown = format!("(2*{hk}*{dk} + {hv}*{dv})");
    Ok(vec![
        product(
            "convolution",
            1,
            &[
                layer.clone(),
                group("(2*Hk*Dk + Hv*Dv)", shown, channels),
                group("(k-1)", format!("({kernel}-1)"), kernel - 1),
                factor("b", model.bytes()),
            ],
        )?,
        product(
            "linear-attention state",
            1,
            &[layer, factor("Hv", hv), factor("Dk", dk), factor("Dv", dv), factor("b", state.bytes())],
        )?,
    ])
}

/// What an architecture calls the numbers of its Mamba 2 layers.
struct Mamba {
    heads: &'static str,
    head_dim: &'static str,
    groups: &'static str,
    state: &'static str,
    kernel: &'static str,
}

/// Mamba 2: convolution `(H*P + 2*G*N)*(k-1)`, state `H*P*N`.
fn mamba(
    names: &Mamba,
    fields: &Fields<'_>,
    layers: u64,
    model: KvDtype,
    options: &CostOptions,
) -> Result<Vec<CostLine>, ModelError> {
    let count = |name| fields.count(name, NEEDED_FOR);
    let (h, p, n) = (count(names.heads)?, count(names.head_dim)?, count(names.state)?);
    let kernel = count(names.kernel)?;
    split(fields, names.heads, h, options)?;
    let ranks = u64::from(options.tensor_parallel.get());
    let g = match count(names.groups)? {
        groups if groups.is_multiple_of(ranks) => groups,
        // Fewer groups than ranks: each rank keeps the one its heads belong to.
        groups if ranks.is_multiple_of(groups) => ranks,
        groups => {
            split(fields, names.groups, groups, options)?;
            groups
        }
    };
    let state = state_dtype(fields)?.unwrap_or(model);
    let layer = factor("L", layers);
    let channels = width(fields, names.heads, [(1, h, p), (2, g, n)])?;
    Ok(vec![
        product(
            "convolution",
            1,
            &[
                layer.clone(),
                group("(H*P + 2*G*N)", format!("({h}*{p} + 2*{g}*{n})"), channels),
                group("(k-1)", format!("({kernel}-1)"), kernel - 1),
                factor("b", model.bytes()),
            ],
        )?,
        product(
            "state-space state",
            1,
            &[layer, factor("H", h), factor("P", p), factor("N", n), factor("b", state.bytes())],
        )?,
    ])
}

/// The element type the config names for recurrent states.
fn state_dtype(fields: &Fields<'_>) -> Result<Option<KvDtype>, ModelError> {
    for name in ["mamba_ssm_dtype", "mamba_ssm_cache_dtype"] {
        if let Some(text) = fields.text(name)? {
            let found =
                || fields.inconsistent(name, "another text".to_owned(), "float32, bfloat16 or float16");
            return text.parse().map(Some).map_err(|_| found());
        }
    }
    Ok(None)
}

/// Heads are split evenly over the ranks.
fn split(fields: &Fields<'_>, name: &str, count: u64, options: &CostOptions) -> Result<(), ModelError> {
    if count.is_multiple_of(u64::from(options.tensor_parallel.get())) {
        return Ok(());
    }
    let (tensor_parallel, field) = (options.tensor_parallel.get(), fields.path_of(name));
    Err(ModelError::TensorParallel { tensor_parallel, field, count })
}

/// A sum of products of counts.
fn width(fields: &Fields<'_>, name: &str, parts: [(u64, u64, u64); 2]) -> Result<u64, ModelError> {
    let sum =
        parts.iter().try_fold(0u64, |sum, (a, b, c)| a.checked_mul(*b)?.checked_mul(*c)?.checked_add(sum));
    let overflow =
        || ModelError::Overflow { what: "the convolution's width".to_owned(), formula: fields.path_of(name) };
    sum.ok_or_else(overflow)
}
