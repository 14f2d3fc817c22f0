//! Opening the stores that addresses name, and signing requests to clouds with OpenSSL: `object_store` would
//! bring another library for it.

use object_store::path::Path;
use object_store::{ObjectStore, Result};
use url::Url;

/// The store at `url` and the place in it. `options` have the names of `object_store`'s settings; those that
/// this store does not know are passed over, as they may be of another cloud.
///
/// # Errors
/// The address names no store of this build, or its settings are not complete.
pub fn open(url: &Url, options: &[(String, String)]) -> Result<(Box<dyn ObjectStore>, Path)> {
    #[cfg(feature = "cloud")]
    if let Some(opened) = cloud::open(url, options)? {
        return Ok(opened);
    }
    let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    object_store::parse_url_opts(url, options)
}

#[cfg(feature = "cloud")]
mod cloud {
    use crate::signatures::OpenSsl;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreScheme, Result};
    use std::sync::Arc;
    use url::Url;

    /// The builder of a cloud's store, with everything it knows of `options`.
    macro_rules! build {
        ($builder:ty, $url:expr, $options:expr) => {{
            let builder = <$builder>::new().with_url($url.as_str()).with_crypto_provider(Arc::new(OpenSsl));
            let set = |builder: $builder, (name, value): &(String, String)| match name.parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            };
            Box::new($options.iter().fold(builder, set).build()?)
        }};
    }

    /// The store of a cloud that this build knows; none for every other address.
    pub fn open(url: &Url, options: &[(String, String)]) -> Result<Option<(Box<dyn ObjectStore>, Path)>> {
        let (scheme, path) = ObjectStoreScheme::parse(url)?;
        let store: Box<dyn ObjectStore> = match scheme {
            #[cfg(feature = "object-store-s3")]
            ObjectStoreScheme::AmazonS3 => build!(object_store::aws::AmazonS3Builder, url, options),
            #[cfg(feature = "object-store-gcs")]
            ObjectStoreScheme::GoogleCloudStorage => {
                build!(object_store::gcp::GoogleCloudStorageBuilder, url, options)
            }
            #[cfg(feature = "object-store-azure")]
            ObjectStoreScheme::MicrosoftAzure => {
                build!(object_store::azure::MicrosoftAzureBuilder, url, options)
            }
            _ => return Ok(None),
        };
        Ok(Some((store, path)))
    }
}
