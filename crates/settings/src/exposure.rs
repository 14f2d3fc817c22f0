//! What a configuration lets others see, which may be meant.

use super::Settings;
use std::net::IpAddr;

impl Settings {
    /// What others may read or overhear, in whole sentences: nothing is wrong with it where it is meant.
    pub fn exposures(&self) -> Vec<String> {
        [self.open_page(), self.plain_registry(), self.plain_password()].into_iter().flatten().collect()
    }

    fn open_page(&self) -> Option<String> {
        let address = self.http.listen.0.filter(|address| !address.ip().is_loopback())?;
        Some(format!(
            "http.listen is {address}: whoever reaches it can read the pools' names and estimates, without a password; \
             let a network policy or a proxy say who does"
        ))
    }

    fn plain_registry(&self) -> Option<String> {
        let registry = &self.schema_registry;
        let has_secret = !registry.token.is_empty() || !registry.password.is_empty();
        let rest = registry.url.as_str().strip_prefix("http://").filter(|_| has_secret)?;
        let is_far = !is_here(rest.split(['/', ':']).next().unwrap_or(rest));
        is_far.then(|| {
            "schema_registry.url is http://: its password or token passes the network in plain text; use https://"
                .to_owned()
        })
    }

    fn plain_password(&self) -> Option<String> {
        let mut properties = self.kafka.properties.shown();
        let is_plain = properties
            .any(|(name, value)| name == "security.protocol" && value.eq_ignore_ascii_case("sasl_plaintext"));
        let is_far = self.kafka.brokers.split(',').any(|broker| {
            !is_here(
                broker.trim().rsplit_once(':').map_or(broker, |(host, _)| host).trim_matches(['[', ']', ' ']),
            )
        });
        (is_plain && is_far).then(|| {
            "security.protocol is sasl_plaintext: what the log holds passes the network in plain text, and with \
             sasl.mechanisms = \"PLAIN\" the password too; use sasl_ssl"
                .to_owned()
        })
    }
}

/// Whether this is a name or an address of this machine's own.
fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}
