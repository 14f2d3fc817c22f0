//! Tokens for SASL/OAUTHBEARER, by the client credentials grant of OAuth 2 (RFC 6749, 4.4).
//!
//! librdkafka's own way needs libcurl, a second HTTP client; its property names are kept. A client asks
//! for a token while it is polled, so whoever only asks questions polls before.

use crate::http;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kvset_pipeline::publish::KafkaFailure;
use rdkafka::client::OAuthToken;
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use ureq::Agent;

/// Longest time a request for a token may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer read, in bytes.
const MAX_ANSWER: u64 = 1 << 20;
/// Seconds a token lasts whose answer does not say.
const UNSAID_LIFETIME: u64 = 300;

const METHOD: &str = "sasl.oauthbearer.method";
const ENDPOINT: &str = "sasl.oauthbearer.token.endpoint.url";
const CLIENT_ID: &str = "sasl.oauthbearer.client.id";
const CLIENT_SECRET: &str = "sasl.oauthbearer.client.secret";
const SCOPE: &str = "sasl.oauthbearer.scope";
const AUTHORITIES: &str = "https.ca.location";
/// The properties read here, which librdkafka is not given.
const OURS: [&str; 6] = [METHOD, ENDPOINT, CLIENT_ID, CLIENT_SECRET, SCOPE, AUTHORITIES];

type OauthProperties = [(String, String)];

fn value<'p>(properties: &'p OauthProperties, name: &str) -> Option<&'p str> {
    let found = properties.iter().rev().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}

/// Whether tokens are fetched here.
fn is_oidc(properties: &OauthProperties) -> bool {
    value(properties, METHOD).is_some_and(|method| method.eq_ignore_ascii_case("oidc"))
}

/// What is left for librdkafka.
pub(super) fn for_librdkafka(properties: &OauthProperties) -> impl Iterator<Item = &(String, String)> {
    let oidc = is_oidc(properties);
    properties.iter().filter(move |(name, _)| !(oidc && OURS.contains(&name.as_str())))
}

/// Where tokens come from.
pub(super) struct TokenSource {
    agent: Agent,
    endpoint: String,
    client_id: String,
    client_secret: String,
    scope: Option<String>,
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSource").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// What a server answers that grants a token.
#[derive(Deserialize)]
pub struct TokenResponse {
    access_token: String,
    expires_in: Option<u64>,
}

impl TokenResponse {
    /// Reads an answer's body; `None` when it holds no token.
    pub fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// How long the token is good for; at most some 136 years, whatever the server says.
    pub fn lifetime(&self) -> Duration {
        Duration::from_secs(self.expires_in.unwrap_or(UNSAID_LIFETIME).min(u64::from(u32::MAX)))
    }
}

impl fmt::Debug for TokenResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}

/// Where a client's tokens come from; nowhere unless the properties ask for it.
pub(super) type OptionalTokens = Option<Arc<TokenSource>>;

impl TokenSource {
    /// Reads the properties.
    ///
    /// # Errors
    /// One is missing, or names a file that cannot be used.
    pub(super) fn of(properties: &OauthProperties) -> Result<OptionalTokens, KafkaFailure> {
        if !is_oidc(properties) {
            return Ok(None);
        }
        let needed = |name: &str| {
            let missing =
                || KafkaFailure::fatal(format!("{METHOD} = \"oidc\" needs kafka.properties.\"{name}\""));
            value(properties, name).map(str::to_owned).ok_or_else(missing)
        };
        let authorities = value(properties, AUTHORITIES).map(Path::new);
        let agent = http::agent(authorities, TIMEOUT)
            .map_err(|error| KafkaFailure::fatal(format!("kafka.properties.\"{AUTHORITIES}\": {error}")))?;
        let (endpoint, client_id) = (needed(ENDPOINT)?, needed(CLIENT_ID)?);
        let (client_secret, scope) = (needed(CLIENT_SECRET)?, value(properties, SCOPE).map(str::to_owned));
        Ok(Some(Arc::new(Self { agent, endpoint, client_id, client_secret, scope })))
    }

    /// A new token. Errors repeat neither what was sent nor what was answered.
    fn token(&self) -> Result<OAuthToken, String> {
        let failed = |what: &str| format!("no token from {ENDPOINT}: {what}");
        let login = STANDARD.encode(format!("{}:{}", self.client_id, self.client_secret));
        let login = http::secret_header(format!("Basic {login}")).ok_or_else(|| failed("no such client"))?;
        let scope = self.scope.as_deref().map(|scope| ("scope", scope));
        let form = [("grant_type", "client_credentials")].into_iter().chain(scope);
        let asked = SystemTime::now();
        let answer = self.agent.post(&self.endpoint).header("Authorization", login).send_form(form);
        let answer = answer.map_err(|error| match error {
            error if http::is_untrusted(&error) => failed(&format!("{error}; check {AUTHORITIES}")),
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => failed("this is no address"),
            error => failed(&error.to_string()),
        })?;
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(failed(&format!(
                "answered {status}; check {CLIENT_ID}, {CLIENT_SECRET} and {SCOPE}"
            )));
        }
        let body = answer.into_body().into_with_config().limit(MAX_ANSWER).read_to_vec();
        let body = body.map_err(|error| failed(&error.to_string()))?;
        let answer = TokenResponse::read(&body).ok_or_else(|| failed("the answer holds no access_token"))?;
        let until = asked.duration_since(UNIX_EPOCH).unwrap_or_default() + answer.lifetime();
        Ok(OAuthToken {
            token: answer.access_token,
            principal_name: self.client_id.clone(),
            lifetime_ms: i64::try_from(until.as_millis()).unwrap_or(i64::MAX),
        })
    }
}

/// Answers a client that wants a token.
pub(super) fn token_of(tokens: &OptionalTokens) -> Result<OAuthToken, Box<dyn std::error::Error>> {
    let unset = format!("SASL/OAUTHBEARER needs kafka.properties.\"{METHOD}\" = \"oidc\" and {ENDPOINT}");
    let source = tokens.as_ref().ok_or(unset)?;
    source.token().map_err(|reason| {
        tracing::warn!("{reason}");
        reason.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_read_here_is_not_given_to_librdkafka() {
        let oidc =
            properties(&[(METHOD, "oidc"), (ENDPOINT, "http://x"), ("sasl.mechanisms", "OAUTHBEARER")]);
        let left: Vec<_> = for_librdkafka(&oidc).map(|(name, _)| name.as_str()).collect();
        assert_eq!(left, ["sasl.mechanisms"]);
        let other = properties(&[(SCOPE, "kafka")]);
        assert_eq!(for_librdkafka(&other).count(), 1, "without the method it is librdkafka's");
        assert!(TokenSource::of(&other).expect("not asked for").is_none());
    }

    #[test]
    fn a_missing_property_is_named_and_the_secret_is_not_shown() {
        let mut given = vec![(METHOD, "oidc"), (ENDPOINT, "http://x"), (CLIENT_SECRET, "hunter2")];
        let error = TokenSource::of(&properties(&given)).expect_err("no client").to_string();
        assert!(error.contains(CLIENT_ID) && !error.contains("hunter2"), "{error}");
        given.push((CLIENT_ID, "kvset"));
        let source = TokenSource::of(&properties(&given)).expect("complete").expect("asked for");
        assert!(!format!("{source:?}").contains("hunter2"));
    }
}
