//! What a configuration lets others see, which may be meant.

use super::Settings;
use super::url::{HttpUrl, host_of, is_of_this_machine};

/// Where tokens for `sasl.mechanisms = "OAUTHBEARER"` are fetched, in exchange for a secret.
const TOKEN_ENDPOINT: &str = "sasl.oauthbearer.token.endpoint.url";

impl Settings {
    /// What others may read or overhear, in whole sentences: nothing is wrong with it where it is meant.
    pub fn exposures(&self) -> Vec<String> {
        let found =
            [self.open_page(), self.plain_registry(), self.plain_token_endpoint(), self.plain_brokers()];
        found.into_iter().flatten().collect()
    }

    fn open_page(&self) -> Option<String> {
        let address = self.http.listen.0.filter(|address| !is_of_this_machine(&address.ip().to_string()))?;
        Some(format!(
            "http.listen is {address}: whoever reaches it can read the pools' names and estimates, without a password; \
             let a network policy or a proxy say who does"
        ))
    }

    fn plain_registry(&self) -> Option<String> {
        let registry = &self.schema_registry;
        let has_secret = !registry.token.is_empty() || !registry.password.is_empty();
        (has_secret && is_plain_and_far(&registry.url)).then(|| {
            "schema_registry.url is http://: its password or token passes the network in plain text; use https://"
                .to_owned()
        })
    }

    fn plain_token_endpoint(&self) -> Option<String> {
        let endpoint = HttpUrl::new(self.kafka.properties.value(TOKEN_ENDPOINT)?).ok()?;
        is_plain_and_far(&endpoint).then(|| {
            format!("{TOKEN_ENDPOINT} is http://: the client's secret and the token pass the network in plain text; use https://")
        })
    }

    fn plain_brokers(&self) -> Option<String> {
        let property =
            |name: &str| self.kafka.properties.value(name).unwrap_or_default().to_ascii_lowercase();
        let is_far = self.kafka.brokers.split(',').any(|broker| !is_here(broker.trim()));
        if property("security.protocol") != "sasl_plaintext" || !is_far {
            return None;
        }
        let also = match (property("sasl.mechanisms") + &property("sasl.mechanism")).as_str() {
            "plain" => ", the password too",
            "oauthbearer" => ", the token too",
            _ => "",
        };
        Some(format!(
            "security.protocol is sasl_plaintext: what the log holds passes the network in plain text{also}; use sasl_ssl"
        ))
    }
}

/// Whether what is sent to this address can be read on the way.
fn is_plain_and_far(url: &HttpUrl) -> bool {
    url.as_str().starts_with("http://") && !url.host().is_some_and(is_of_this_machine)
}

/// Whether an authority is of this machine.
fn is_here(authority: &str) -> bool {
    host_of(authority).is_some_and(is_of_this_machine)
}
