//! The state of layers without a growing cache: linear attention, Mamba, short convolutions.

use super::cache_type;
use super::error::{ModelConfigError, ModelRead};
use super::families::{Recurrence, StateType};
use super::fields::ConfigFields;
use super::formula::{CostLine, Factor, factor, group, product};
use super::options::{CostOptions, KvDtype, StateDtype};

const NEEDED_FOR: &str = "it gives the size of a state-space or linear-attention layer's state";

/// Fields that give a state's type.
const TYPE_FIELDS: [&str; 2] = ["mamba_ssm_cache_dtype", "mamba_ssm_dtype"];

/// Bytes one checkpoint of `layers` layers takes over all ranks, and what to know of it.
pub(super) fn of(
    (recurrence, usual): (Recurrence, StateType),
    fields: &ConfigFields<'_>,
    layers: u64,
    options: &CostOptions,
) -> ModelRead<(Vec<CostLine>, Vec<String>)> {
    let model = match cache_type::of_weights(fields)?.0 {
        KvDtype::Fp16 => StateDtype::Float16,
        _ => StateDtype::Bfloat16,
    };
    let given = options.state_dtype.map_or_else(|| declared(fields), |dtype| Ok(Some(dtype)))?;
    let dtype = given.or(options.unnamed_state_dtype).unwrap_or(match usual {
        StateType::Model => model,
        StateType::Float32 => StateDtype::Float32,
    });
    let calculation = Calculation { fields, options, layers: factor("L", layers), model, dtype };
    let lines = calculation.lines(recurrence)?;
    let keeps_a_state = recurrence != Recurrence::ShortConvolution;
    let remarks = match (given, usual) {
        (None, _) if options.unnamed_state_dtype.is_some() => {
            vec![format!("the config names no type for the states: {}, as SGLang keeps them", dtype.name())]
        }
        (None, StateType::Model) if keeps_a_state => vec![format!(
            "the config names no type for the states: {} as vLLM keeps them, the model's own; SGLang keeps them in float32 \
             (--mamba-ssm-dtype float32)",
            dtype.name()
        )],
        (None, StateType::Float32) => {
            vec!["the config names no type for the states: float32, as engines keep them".to_owned()]
        }
        _ => Vec::new(),
    };
    Ok((lines, remarks))
}

/// The element type the config names for recurrent states.
fn declared(fields: &ConfigFields<'_>) -> ModelRead<Option<StateDtype>> {
    for name in TYPE_FIELDS {
        let Some(text) = fields.text(name)?.filter(|text| *text != "auto") else { continue };
        let found = || fields.inconsistent(name, "another text".to_owned(), "float32, bfloat16 or float16");
        return text.parse().map(Some).map_err(|_| found());
    }
    Ok(None)
}

/// What the lines of a state are computed from.
struct Calculation<'a, 'b> {
    fields: &'a ConfigFields<'b>,
    options: &'a CostOptions,
    layers: Factor,
    /// Type of the inputs that convolutions keep.
    model: StateDtype,
    /// Type of the recurrent state.
    dtype: StateDtype,
}

impl Calculation<'_, '_> {
    fn lines(&self, recurrence: Recurrence) -> ModelRead<Vec<CostLine>> {
        match recurrence {
            Recurrence::GatedDelta => self.gated_delta(),
            Recurrence::Mamba2 { heads, width, groups, state, kernel } => {
                self.mamba2(heads, width, [groups, state, kernel])
            }
            Recurrence::Mamba1 => self.mamba1(),
            Recurrence::ShortConvolution => self.short_convolution(),
            Recurrence::Lightning => self.lightning(),
            Recurrence::KimiDelta { heads, width, kernel } => self.kimi_delta(heads, width, kernel),
        }
    }

    fn count(&self, name: &str) -> ModelRead<u64> {
        self.fields.count(name, NEEDED_FOR)
    }

    fn ranks(&self) -> u64 {
        u64::from(self.options.tensor_parallel.get())
    }

    /// A count that is split evenly over the ranks.
    fn split(&self, name: &str) -> ModelRead<u64> {
        let count = self.count(name)?;
        if count.is_multiple_of(self.ranks()) {
            return Ok(count);
        }
        let field = self.fields.path_of(name);
        Err(ModelConfigError::TensorParallel {
            tensor_parallel: self.options.tensor_parallel.get(),
            field,
            count,
        })
    }

    fn convolution(&self, channels: Factor, kernel: u64) -> ModelRead<CostLine> {
        let taps = group("(k-1)", format!("({kernel}-1)"), kernel - 1);
        product("convolution", 1, &[self.layers.clone(), channels, taps, factor("b", self.model.bytes())])
    }

    fn state(&self, what: &str, factors: &[Factor]) -> ModelRead<CostLine> {
        let bytes = factor("b", self.dtype.bytes());
        let factors: Vec<Factor> =
            [self.layers.clone()].into_iter().chain(factors.iter().cloned()).chain([bytes]).collect();
        product(what, 1, &factors)
    }

    fn gated_delta(&self) -> ModelRead<Vec<CostLine>> {
        let (hk, dk) = (self.split("linear_num_key_heads")?, self.count("linear_key_head_dim")?);
        let (hv, dv) = (self.split("linear_num_value_heads")?, self.count("linear_value_head_dim")?);
        let kernel = self.count("linear_conv_kernel_dim")?;
        let channels = self.width("linear_num_value_heads", [(2, hk, dk), (1, hv, dv)])?;
        let channels = group("(2*Hk*Dk + Hv*Dv)", format!("(2*{hk}*{dk} + {hv}*{dv})"), channels);
        Ok(vec![
            self.convolution(channels, kernel)?,
            self.state("linear-attention state", &[factor("Hv", hv), factor("Dk", dk), factor("Dv", dv)])?,
        ])
    }

    fn mamba2(
        &self,
        heads: &str,
        width: &str,
        [groups, state, kernel]: [&str; 3],
    ) -> ModelRead<Vec<CostLine>> {
        let h = self.split(heads)?;
        let p = self.mamba2_width(width, h)?;
        let (n, kernel) = (self.count(state)?, self.count(kernel)?);
        let g = match self.count(groups)? {
            count if count.is_multiple_of(self.ranks()) => count,
            // Fewer groups than ranks: each rank keeps the one its heads belong to.
            count if self.ranks().is_multiple_of(count) => self.ranks(),
            _ => self.split(groups)?,
        };
        let channels = self.width(heads, [(1, h, p), (2, g, n)])?;
        let channels = group("(H*P + 2*G*N)", format!("({h}*{p} + 2*{g}*{n})"), channels);
        Ok(vec![
            self.convolution(channels, kernel)?,
            self.state("state-space state", &[factor("H", h), factor("P", p), factor("N", n)])?,
        ])
    }

    /// Elements of a head; where the config has none, or `auto`, all heads share the width of the layer.
    fn mamba2_width(&self, width: &str, heads: u64) -> ModelRead<u64> {
        let auto = self.fields.value(width).is_some_and(|value| value.as_str() == Some("auto"));
        if let Some(width) = if auto { None } else { self.fields.optional_count(width)? } {
            return Ok(width);
        }
        let inner = match self.fields.optional_count("mamba_d_ssm")? {
            Some(inner) => inner,
            None => self.inner()?,
        };
        if inner.is_multiple_of(heads) {
            return Ok(inner / heads);
        }
        let expected = format!("a count that the {inner} elements of the layer divide into");
        Err(self.fields.inconsistent(width, "absent".to_owned(), expected))
    }

    /// Elements of a Mamba layer.
    fn inner(&self) -> ModelRead<u64> {
        let (expand, hidden) = (self.count("mamba_expand")?, self.count("hidden_size")?);
        self.width("mamba_expand", [(1, expand, hidden), (0, 0, 0)])
    }

    fn mamba1(&self) -> ModelRead<Vec<CostLine>> {
        let (expand, hidden) = (self.count("mamba_expand")?, self.count("hidden_size")?);
        let inner = self.inner()?;
        if !inner.is_multiple_of(self.ranks()) {
            self.split("hidden_size")?;
        }
        let channels = group("(E*D)", format!("({expand}*{hidden})"), inner);
        Ok(vec![
            self.convolution(channels.clone(), self.count("mamba_d_conv")?)?,
            self.state("state-space state", &[channels, factor("N", self.count("mamba_d_state")?)])?,
        ])
    }

    fn short_convolution(&self) -> ModelRead<Vec<CostLine>> {
        let name = if self.fields.value("conv_dim").is_some() { "conv_dim" } else { "hidden_size" };
        let channels = factor(name, self.split(name)?);
        Ok(vec![self.convolution(channels, self.count("conv_L_cache")?)?])
    }

    fn lightning(&self) -> ModelRead<Vec<CostLine>> {
        let heads = self.split("num_attention_heads")?;
        let dim = match self.fields.optional_count("head_dim")? {
            Some(dim) => dim,
            None => self.count("hidden_size")? / heads,
        };
        let factors = [factor("H", heads), factor("D", dim), factor("D", dim)];
        Ok(vec![self.state("linear-attention state", &factors)?])
    }

    fn kimi_delta(&self, heads: &str, width: &str, kernel: &str) -> ModelRead<Vec<CostLine>> {
        let (h, d) = (self.split(heads)?, self.count(width)?);
        let kernel = self.count(kernel)?;
        let channels = self.width(heads, [(3, h, d), (0, 0, 0)])?;
        let channels = group("(3*H*D)", format!("(3*{h}*{d})"), channels);
        Ok(vec![
            self.convolution(channels, kernel)?,
            self.state("linear-attention state", &[factor("H", h), factor("D", d), factor("D", d)])?,
        ])
    }

    /// A sum of products of counts.
    fn width(&self, name: &str, parts: [(u64, u64, u64); 2]) -> ModelRead<u64> {
        let sum = parts
            .iter()
            .try_fold(0u64, |sum, (a, b, c)| a.checked_mul(*b)?.checked_mul(*c)?.checked_add(sum));
        sum.ok_or_else(|| ModelConfigError::Overflow {
            what: "the convolution's width".to_owned(),
            formula: self.fields.path_of(name),
        })
    }
}
