//! The type that cached elements have: what the user says, what the checkpoint declares, or the model's own.

use super::error::{ModelConfigError, ModelRead};
use super::fields::{ConfigFields, describe, shorten};
use super::json;
use super::options::{CostOptions, KvDtype};
use serde_json::{Map, Value};

/// Name of the file that older quantized checkpoints have alongside their config.
pub const QUANTIZATION_FILE: &str = "hf_quant_config.json";

/// Types of weights that engines serve, and cache, in 16 bit.
const SERVED_IN_16_BIT: [&str; 7] =
    ["float32", "fp32", "float", "float64", "float8_e4m3fn", "float8_e5m2", "uint8"];

/// Fields of a quantization that declare the cache's, that of AMD's Quark last.
const CACHE_FIELDS: [&str; 4] =
    ["kv_cache_scheme", "kv_cache_quant_algo", "kv_cache_dtype", "kv_cache_group"];

/// Finds the type of the cache, which is never [`KvDtype::Auto`], and what to know of it. `alongside` is the text of
/// `hf_quant_config.json`, where there is one.
pub(super) fn of(
    fields: &ConfigFields<'_>,
    beside: Option<&str>,
    options: &CostOptions,
) -> ModelRead<(KvDtype, Vec<String>)> {
    if options.kv_dtype != KvDtype::Auto {
        return Ok((options.kv_dtype, Vec::new()));
    }
    let mut remarks = Vec::new();
    if let Some((kv, place)) = declared(fields, beside, &mut remarks)? {
        remarks.push(format!(
            "{place} declares a cache in {kv}, and engines follow it: --kv-dtype says otherwise"
        ));
        return Ok((kv, remarks));
    }
    let (kv, remark) = of_weights(fields)?;
    remarks.extend(remark);
    Ok((kv, remarks))
}

/// The type the model computes in, which engines cache in unless configured otherwise, and a remark where the config
/// does not say it plainly.
pub(super) fn of_weights(fields: &ConfigFields<'_>) -> ModelRead<(KvDtype, Option<String>)> {
    let assumed = "engines compute and cache in 16 bit (bf16)";
    let Some((field, declared)) = fields.dtype()?.filter(|(_, text)| *text != "auto") else {
        return Ok((KvDtype::Bf16, Some(format!("no dtype in the config: {assumed}"))));
    };
    let plain = declared.strip_prefix("torch.").unwrap_or(declared);
    if SERVED_IN_16_BIT.contains(&plain) {
        let remark = format!("`{field}` is {plain}: {assumed} all the same; --kv-dtype fp32 is for float32");
        return Ok((KvDtype::Bf16, Some(remark)));
    }
    match plain.parse() {
        Ok(kv @ (KvDtype::Bf16 | KvDtype::Fp16)) => Ok((kv, None)),
        _ => Err(ModelConfigError::Unexpected {
            field,
            found: format!("the text `{}`", shorten(declared)),
            expected: "bfloat16, float16 or float32 (or --kv-dtype given)".to_owned(),
        }),
    }
}

/// What the checkpoint's quantization says of the cache, and where: as vLLM 0.33 reads it, that of the config's
/// root first, then the file alongside it, then the text model's.
fn declared(
    fields: &ConfigFields<'_>,
    beside: Option<&str>,
    remarks: &mut Vec<String>,
) -> ModelRead<Option<(KvDtype, String)>> {
    const OWN: &str = "`quantization_config`";
    let file = beside.map(|text| {
        json::parse(text).map_err(|error| ModelConfigError::Unexpected {
            field: QUANTIZATION_FILE.to_owned(),
            found: "not readable".to_owned(),
            expected: format!("a JSON object with `quantization` in it ({error})"),
        })
    });
    let place = format!("`{QUANTIZATION_FILE}`");
    if let Some(quantization) = fields.quantization() {
        let own = of_quantization(quantization, OWN, remarks);
        let other = file.transpose()?.and_then(|file| of_quantization(&file, &place, &mut Vec::new()));
        if let Some((kv, place)) = other.filter(|_| own.is_none()) {
            remarks.push(format!(
                "{place} declares a cache in {kv}, and the config's own quantization, which counts in vLLM, does not: \
                 --kv-dtype {kv} is for an engine that follows the file"
            ));
        }
        return Ok(own);
    }
    if let Some(file) = file.transpose()? {
        return Ok(of_quantization(&file, &place, remarks));
    }
    if let Some(quantization) = fields.own_quantization() {
        return Ok(of_quantization(quantization, OWN, remarks));
    }
    Ok(fields.runtime_quantization().and_then(|quantization| of_runtime(quantization, remarks)))
}

/// What another runtime's config says of its cache: MLC's text ends with the type it computes in (`q4f16_1`), and
/// TensorRT-LLM caches in int8, too.
fn of_runtime(quantization: &Value, remarks: &mut Vec<String>) -> Option<(KvDtype, String)> {
    const OWN: &str = "`quantization`";
    match quantization {
        Value::String(text) => {
            let types = [("bf16", KvDtype::Bf16), ("f16", KvDtype::Fp16), ("f32", KvDtype::Fp32)];
            let found = types.into_iter().find(|(name, _)| text.contains(name));
            found.map(|(_, kv)| (kv, format!("{OWN} ({})", shorten(text))))
        }
        Value::Object(own) => {
            let cache = own.get("kv_cache_quant_algo").and_then(Value::as_str);
            match cache.is_some_and(|text| text.eq_ignore_ascii_case("int8")) {
                true => Some((KvDtype::Int8, format!("{OWN} (`kv_cache_quant_algo`)"))),
                false => of_quantization(own, OWN, remarks),
            }
        }
        _ => None,
    }
}

fn of_quantization(
    quantization: &Map<String, Value>,
    place: &str,
    remarks: &mut Vec<String>,
) -> Option<(KvDtype, String)> {
    let inner = ["quantization", "export"].into_iter().find_map(|name| quantization.get(name)?.as_object());
    let levels = || inner.into_iter().chain([quantization]);
    let find = |name: &str| levels().find_map(|level| level.get(name).filter(|value| !value.is_null()));
    let (name, cache) = CACHE_FIELDS.into_iter().find_map(|name| Some((name, find(name)?)))?;
    let method = find("quant_method").and_then(Value::as_str).unwrap_or("modelopt");
    let is_followed =
        ["modelopt", "compressed-tensors", "compressed_tensors"].iter().any(|own| method.starts_with(own));
    let number = |name: &str| cache.get(name).and_then(Value::as_u64);
    let is_float = cache.get("type").and_then(Value::as_str) == Some("float");
    let kv = match cache {
        _ if !is_followed => None,
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "fp8" | "fp8_e4m3" | "float8_e4m3fn" => Some(KvDtype::Fp8),
            "nvfp4" => Some(KvDtype::Nvfp4),
            _ => None,
        },
        Value::Object(_) if is_float && number("num_bits") == Some(8) => Some(KvDtype::Fp8),
        Value::Object(_) if is_float && number("num_bits") == Some(4) => Some(KvDtype::Nvfp4),
        _ => None,
    };
    let place = format!("{place} (`{name}`)");
    if kv.is_none() && !says_none(cache) {
        let what = cache.as_str().map_or_else(|| describe(cache), |text| format!("`{}`", shorten(text)));
        remarks.push(format!(
            "{place} declares a quantized KV cache that engines do not follow ({what}): 16 bit is taken, give --kv-dtype \
             for another type"
        ));
    }
    kv.map(|kv| (kv, place))
}

/// Whether a declaration says that the cache is not quantized.
fn says_none(cache: &Value) -> bool {
    cache.as_array().is_some_and(Vec::is_empty)
        || cache
            .as_str()
            .is_some_and(|text| ["", "none", "auto"].contains(&text.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_value(value: Value) -> (Option<KvDtype>, usize) {
        let mut remarks = Vec::new();
        let found = of_quantization(value.as_object().expect("an object"), "`x`", &mut remarks);
        (found.map(|(kv, _)| kv), remarks.len())
    }

    #[test]
    fn other_runtimes_declare_their_caches_too() {
        let of = |value: Value| of_runtime(&value, &mut Vec::new()).map(|(kv, _)| kv);
        assert_eq!(of(json!("q4f16_1")), Some(KvDtype::Fp16));
        assert_eq!(of(json!("q4f32_1")), Some(KvDtype::Fp32));
        assert_eq!(of(json!("q0bf16")), Some(KvDtype::Bf16));
        assert_eq!(
            of(json!({"quant_algo": "W4A16_AWQ", "kv_cache_quant_algo": "INT8"})),
            Some(KvDtype::Int8)
        );
        assert_eq!(of(json!({"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"})), Some(KvDtype::Fp8));
        assert_eq!(of(json!({"quant_algo": null, "kv_cache_quant_algo": null})), None);
        assert_eq!(of(json!({"group_size": 64, "bits": 4})), None);
    }

    #[test]
    fn every_form_of_a_declared_cache_is_read() {
        let scheme = |bits: u64, kind: &str| json!({"kv_cache_scheme": {"num_bits": bits, "type": kind}});
        for (value, expected) in [
            (
                json!({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}),
                (Some(KvDtype::Fp8), 0),
            ),
            (json!({"kv_cache_quant_algo": "fp8"}), (Some(KvDtype::Fp8), 0)),
            (json!({"quantization": {"kv_cache_quant_algo": "NVFP4"}}), (Some(KvDtype::Nvfp4), 0)),
            (scheme(8, "float"), (Some(KvDtype::Fp8), 0)),
            (scheme(4, "float"), (Some(KvDtype::Nvfp4), 0)),
            (scheme(8, "int"), (None, 1)),
            (json!({"kv_cache_quant_algo": "INT8"}), (None, 1)),
            (json!({"kv_cache_scheme": null, "quant_method": "compressed-tensors"}), (None, 0)),
            (json!({"quantization": {"kv_cache_quant_algo": null}}), (None, 0)),
            (json!({"quant_method": "quark", "export": {"kv_cache_group": ["*k_proj"]}}), (None, 1)),
            (json!({"quant_method": "quark", "export": {"kv_cache_group": []}}), (None, 0)),
            (json!({"quant_method": "fp8", "kv_cache_dtype": "fp8"}), (None, 1)),
            (json!({"quantization": {"kv_cache_quant_algo": "none"}}), (None, 0)),
        ] {
            assert_eq!(of_value(value.clone()), expected, "{value}");
        }
    }
}
