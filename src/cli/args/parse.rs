//! Readers of single arguments.

use crate::replay::WarmUp;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use kvset_core::units::capacity::{CapacitySize, CapacitySpec};
#[cfg(not(feature = "tokenize"))]
use kvset_core::units::features::{Feature, MissingFeature};
use kvset_core::units::ratio::Ratio;
use kvset_core::units::{Bytes, PageSize};
use kvset_settings::{Choice, HttpUrl};

/// What `--model` names: a loaded model, or nothing in a build that can load none.
#[cfg(feature = "tokenize")]
pub type ModelArgument = std::sync::Arc<kvset_tokenize::Model>;
/// What `--model` names: a loaded model, or nothing in a build that can load none.
#[cfg(not(feature = "tokenize"))]
pub type ModelArgument = std::convert::Infallible;

/// A parser for one of a few names, which help and completions then list.
pub fn choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let find = |name: String| {
        let known = T::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, value)| *value).ok_or_else(|| format!("unknown value `{name}`"))
    };
    PossibleValuesParser::new(T::NAMES.iter().map(|(name, _)| *name)).try_map(find)
}

/// Reads the address of an HTTP server.
pub fn server(text: &str) -> Result<HttpUrl, String> {
    let url = HttpUrl::new(text).ok().filter(|url| *url != HttpUrl::default());
    url.ok_or_else(|| "expected an address like http://127.0.0.1:9464, without credentials".to_owned())
}

/// Reads a page size.
pub fn page_size(text: &str) -> Result<PageSize, String> {
    let tokens = text.parse().ok().filter(|tokens| (1..=65_536).contains(tokens));
    tokens.and_then(PageSize::new).ok_or_else(|| "expected 1 to 65536 tokens".to_owned())
}

/// Loads a model directory: one that cannot be used is wrong usage, like any other argument.
#[cfg(feature = "tokenize")]
pub fn model(directory: &str) -> Result<ModelArgument, String> {
    let loaded = kvset_tokenize::Model::load(std::path::Path::new(directory));
    loaded.map(ModelArgument::new).map_err(|error| error.to_string())
}

/// Says what loading a model would take.
#[cfg(not(feature = "tokenize"))]
pub fn model(_: &str) -> Result<ModelArgument, MissingFeature> {
    Err(MissingFeature(Feature::Tokenize))
}

/// Reads a size in bytes, such as 80GiB.
pub fn bytes(text: &str) -> Result<Bytes, String> {
    match text.parse::<CapacitySpec>().map_err(|error| error.to_string())?.size {
        CapacitySize::Bytes(bytes) => Ok(bytes),
        CapacitySize::Pages(_) => Err("expected a size in bytes, such as 80GiB".to_owned()),
    }
}

/// Reads bytes per token.
pub fn token_cost(text: &str) -> Result<f64, String> {
    let bytes = text.parse().ok().filter(|bytes: &f64| *bytes > 0.0 && *bytes <= 1e9);
    bytes.ok_or_else(|| "expected a number above 0, up to 1000000000".to_owned())
}

/// Reads what a token of a model costs, `MODEL=X`.
pub fn pool_cost(text: &str) -> Result<(String, f64), String> {
    let (model, cost) = text.rsplit_once('=').ok_or("expected MODEL=X, such as llama-70b=327680")?;
    Ok((model.to_owned(), token_cost(cost)?))
}

/// Reads a price.
pub fn price(text: &str) -> Result<f64, String> {
    let price = text.parse().ok().filter(|price: &f64| *price >= 0.0 && *price <= 1e9);
    price.ok_or_else(|| "expected a number from 0 to 1000000000".to_owned())
}

/// Reads a share that is not 0.
pub fn share(text: &str) -> Result<Ratio, String> {
    let share = text.parse::<Ratio>().map_err(|error| error.to_string())?;
    if share == Ratio::ZERO { Err("expected more than 0, at most 1".to_owned()) } else { Ok(share) }
}

/// Reads a positive factor.
pub fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| *factor > 0.0 && *factor <= 1e6);
    factor.ok_or_else(|| "expected a number above 0, up to 1000000".to_owned())
}

/// Reads how many times the traffic.
pub fn traffic_factor(text: &str) -> Result<f64, String> {
    let factor = text
        .trim()
        .parse()
        .ok()
        .filter(|factor: &f64| (0.05..=0.95).contains(factor) || (1.0..=64.0).contains(factor));
    factor.ok_or_else(|| "expected a number from 0.05 to 0.95 or from 1 to 64".to_owned())
}

/// Reads the leading requests that do not count: a number of them, or a share of all.
pub fn warm_up(text: &str) -> Result<WarmUp, String> {
    let read = match text.strip_suffix('%') {
        None => text.parse().ok().map(WarmUp::Requests),
        Some(percent) => hundredth(percent).map(WarmUp::Share),
    };
    read.ok_or_else(|| format!("`{text}` is neither a number of requests nor a share like 20%"))
}

/// Reads a percentage with at most 7 decimal places as the share it is, exactly.
fn hundredth(percent: &str) -> Option<Ratio> {
    let (whole, places) = percent.trim().split_once('.').unwrap_or((percent.trim(), ""));
    let number: u32 = whole.parse().ok().filter(|number| *number <= 100)?;
    if !places.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{}.{:02}{places}", number / 100, number % 100).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "tokenize")]
    #[test]
    fn a_model_is_loaded_from_its_directory() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tokenize/chatml");
        assert!(model(folder).is_ok());
        assert!(model("no-such-folder").expect_err("no model").contains("tokenizer.json"));
    }

    #[cfg(not(feature = "tokenize"))]
    #[test]
    fn an_option_for_a_model_stays_and_says_what_it_takes() {
        assert!(model("any").expect_err("no tokenizer").to_string().contains("--features tokenize"));
    }

    #[test]
    fn a_warm_up_is_a_count_or_an_exact_share() {
        let share = |text: &str| WarmUp::Share(text.parse().expect("a share"));
        for (text, expected) in [
            ("0", WarmUp::Requests(0)),
            ("800", WarmUp::Requests(800)),
            ("20%", share("0.2")),
            ("5%", share("0.05")),
            ("12.5%", share("0.125")),
            ("100%", share("1")),
        ] {
            assert_eq!(warm_up(text), Ok(expected), "{text}");
        }
        for text in ["", "%", "-1", "101%", "100.5%", "1.5", "20 percent", "1.x%"] {
            assert!(warm_up(text).is_err(), "{text} should be refused");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(page_size("0").is_err() && page_size("65537").is_err() && page_size("64").is_ok());
        assert!(token_cost("nan").is_err() && token_cost("-1").is_err() && token_cost("61504.5").is_ok());
        assert!(factor("inf").is_err() && factor("0").is_err() && factor("60").is_ok());
        assert!(share("0").is_err() && share("0.01").is_ok());
    }
}
