//! What the settings ask for that this build may not have, found before anything is opened.

use kvset_core::units::features::{Feature, MissingFeature};
use kvset_kafka::registry::client::needs_tls;
use kvset_settings::Settings;

/// A setting that asks for a part of the program which this build lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {missing}")]
pub struct NotBuilt {
    /// The setting, and its value where that is no secret.
    pub setting: String,
    /// What it needs.
    pub missing: MissingFeature,
}

impl NotBuilt {
    /// Goes on where the feature is `built` in.
    fn check(feature: Feature, built: bool, setting: impl FnOnce() -> String) -> Result<(), Self> {
        feature.require(built).map_err(|missing| Self { setting: setting(), missing })
    }
}

/// The features of this build, in the order of [`Feature::ALL`].
pub fn built() -> impl Iterator<Item = Feature> {
    Feature::ALL.into_iter().filter(|feature| is_built(*feature))
}

/// Whether this build has it.
const fn is_built(feature: Feature) -> bool {
    match feature {
        Feature::Tokenize => cfg!(feature = "tokenize"),
        Feature::Tls => cfg!(feature = "tls"),
        Feature::ObjectStore => cfg!(feature = "object-store"),
        Feature::ObjectStoreS3 => cfg!(feature = "object-store-s3"),
        Feature::ObjectStoreGcs => cfg!(feature = "object-store-gcs"),
        Feature::ObjectStoreAzure => cfg!(feature = "object-store-azure"),
    }
}

/// Everything the settings ask for is in this build.
///
/// # Errors
/// The first setting that asks for more.
pub fn check(settings: &Settings) -> Result<(), NotBuilt> {
    check_models(settings)?;
    check_connection(settings.kafka.properties.shown())?;
    check_store(&settings.state.shared)?;
    let registry = needs_tls(&settings.schema_registry);
    registry.map_or(Ok(()), |setting| {
        NotBuilt::check(Feature::Tls, is_built(Feature::Tls), || format!("schema_registry.{setting}"))
    })
}

/// Models can be loaded, where the settings name any.
///
/// # Errors
/// They do, and they cannot.
pub fn check_models(settings: &Settings) -> Result<(), NotBuilt> {
    let prepare = &settings.prepare;
    let setting = match prepare.models.first() {
        Some(entry) => format!("prepare.models, `{entry}`"),
        None if prepare.format == kvset_prepare::RawFormat::Openai => "prepare.format, `openai`".to_owned(),
        None => return Ok(()),
    };
    NotBuilt::check(Feature::Tokenize, is_built(Feature::Tokenize), || setting)
}

/// The client can connect in the way that librdkafka's properties ask for.
///
/// # Errors
/// They ask for TLS, or for a mechanism that needs its library.
pub fn check_connection<'p>(
    properties: impl IntoIterator<Item = (&'p str, &'p str)>,
) -> Result<(), NotBuilt> {
    let asking = properties.into_iter().find(|(name, value)| {
        let value = value.trim().to_ascii_lowercase();
        match *name {
            "security.protocol" => matches!(value.as_str(), "ssl" | "sasl_ssl"),
            "sasl.mechanism" | "sasl.mechanisms" => value.starts_with("scram-") || value == "oauthbearer",
            _ => false,
        }
    });
    asking.map_or(Ok(()), |(name, value)| {
        let setting = || format!("kafka.properties.\"{name}\", `{value}`");
        NotBuilt::check(Feature::Tls, is_built(Feature::Tls), setting)
    })
}

/// The store that hosts share can be opened; an empty address is none.
///
/// # Errors
/// It cannot.
pub fn check_store(address: &str) -> Result<(), NotBuilt> {
    if address.is_empty() {
        return Ok(());
    }
    let feature = store_feature(address);
    // The rest of an address may hold a credential.
    let scheme = address.split(':').next().unwrap_or_default();
    NotBuilt::check(feature, is_built(feature), || format!("state.shared, `{scheme}:...`"))
}

/// The feature that opens a store at this address: its scheme says, or the host where that is the cloud's.
fn store_feature(address: &str) -> Feature {
    let (scheme, rest) = address.split_once(':').unwrap_or((address, ""));
    let authority = rest.trim_start_matches('/').split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default().split(':').next().unwrap_or_default();
    let host = host.to_ascii_lowercase();
    let at = |domains: &[&str]| domains.iter().any(|domain| host.ends_with(domain));
    match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" => Feature::ObjectStoreS3,
        "gs" => Feature::ObjectStoreGcs,
        "az" | "adl" | "azure" | "abfs" | "abfss" => Feature::ObjectStoreAzure,
        "https" if at(&["amazonaws.com", "r2.cloudflarestorage.com"]) => Feature::ObjectStoreS3,
        "https" if at(&["core.windows.net", "fabric.microsoft.com"]) => Feature::ObjectStoreAzure,
        _ => Feature::ObjectStore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_the_feature_that_opens_it() {
        for (address, feature) in [
            ("s3://bucket/prefix", Feature::ObjectStoreS3),
            ("S3A://bucket", Feature::ObjectStoreS3),
            ("https://bucket.s3.eu-west-1.amazonaws.com/prefix", Feature::ObjectStoreS3),
            ("https://id.r2.cloudflarestorage.com:443/bucket", Feature::ObjectStoreS3),
            ("gs://bucket/prefix", Feature::ObjectStoreGcs),
            ("abfss://container@account.dfs.core.windows.net/x", Feature::ObjectStoreAzure),
            ("https://account.blob.core.windows.net/container?sig=x", Feature::ObjectStoreAzure),
            ("file:///mnt/shared", Feature::ObjectStore),
            ("file:///mnt/x.amazonaws.com", Feature::ObjectStore),
            ("nonsense", Feature::ObjectStore),
        ] {
            assert_eq!(store_feature(address), feature, "{address}");
        }
    }

    #[test]
    fn a_build_takes_exactly_what_it_has() {
        for feature in Feature::ALL {
            let address = match feature {
                Feature::ObjectStoreS3 => "s3://bucket?key=SECRET",
                Feature::ObjectStoreGcs => "gs://bucket?key=SECRET",
                Feature::ObjectStoreAzure => "az://bucket?key=SECRET",
                Feature::ObjectStore => "file:///mnt/SECRET",
                Feature::Tls | Feature::Tokenize => continue,
            };
            let checked = check_store(address);
            assert_eq!(checked.is_ok(), built().any(|built| built == feature), "{address}");
            if let Err(refused) = checked {
                let said = refused.to_string();
                assert!(said.contains(&format!("--features {}`", feature.name())), "{said}");
                assert!(!said.contains("SECRET"), "{said}");
            }
        }
        assert_eq!(check_store(""), Ok(()));
    }

    #[test]
    fn tls_scram_and_tokens_are_asked_for_by_name() {
        for (name, value, needs) in [
            ("security.protocol", "SSL", true),
            ("security.protocol", "sasl_ssl", true),
            ("security.protocol", "SASL_PLAINTEXT", false),
            ("sasl.mechanisms", "SCRAM-SHA-512", true),
            ("sasl.mechanism", "OAUTHBEARER", true),
            ("sasl.mechanisms", "PLAIN", false),
            ("client.id", "ssl", false),
        ] {
            let checked = check_connection([(name, value)]);
            assert_eq!(checked.is_ok(), !needs || cfg!(feature = "tls"), "{name} = {value}");
        }
    }
}
