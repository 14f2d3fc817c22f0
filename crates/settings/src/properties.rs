//! Properties handed through to librdkafka, secrets among them.

use super::field::{Field, ValueRefusal, quoted};
use super::load::from_environment;
use super::secret::{MASK, SecretError, is_reference, look_up};
use config::{Value, ValueKind};
use std::collections::BTreeMap;
use std::fmt;

/// Properties that kvset sets itself, with what to use instead.
const CONTROLLED: &[(&str, &str)] = &[
    ("acks", "kvset always waits for all in-sync replicas"),
    ("auto.offset.reset", "set input.start and state.lost_history"),
    ("bootstrap.servers", "set kafka.brokers"),
    ("enable.auto.commit", "kvset commits offsets with the estimates"),
    ("enable.auto.offset.store", "kvset commits offsets with the estimates"),
    ("enable.idempotence", "set output.delivery"),
    ("enable.partition.eof", "kvset needs it to tell the end of a log"),
    ("group.id", "set kafka.group"),
    ("group.instance.id", "set kafka.instance"),
    ("group.protocol", "set kafka.group_protocol"),
    ("isolation.level", "kvset reads committed records only"),
    ("metadata.broker.list", "set kafka.brokers"),
    ("partition.assignment.strategy", "set kafka.assignment"),
    ("request.required.acks", "kvset always waits for all in-sync replicas"),
    ("transactional.id", "kvset derives it from kafka.group and kafka.instance"),
];

/// Properties that mean nothing where the brokers share partitions out, with what to use instead.
const CLASSIC_ONLY: &[(&str, &str)] = &[
    ("group.protocol.type", "it has one value"),
    ("heartbeat.interval.ms", "set group.consumer.heartbeat.interval.ms of the brokers or the group"),
    ("session.timeout.ms", "set group.consumer.session.timeout.ms of the brokers or the group"),
];

/// Parts of a property's name that mark its value as a secret.
const SECRET_MARKS: [&str; 7] =
    ["password", "secret", "token", "key", "jaas", "credential", "oauthbearer.config"];

/// librdkafka properties by name. A value may refer to a secret kept elsewhere (`file:/path`,
/// `env:NAME`); [`Properties::resolve`] looks it up, nothing prints it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Takes properties as they are written.
    pub fn new(properties: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(properties.into_iter().collect())
    }

    /// What the commented default shows.
    pub(super) fn example() -> Self {
        let pairs = [("sasl.username", "kvset"), ("sasl.password", "env:KAFKA_PASSWORD")];
        Self::new(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    /// Every property with its value, references looked up: what the client is given.
    pub fn resolve(&self) -> Result<Vec<(String, String)>, SecretError> {
        let resolved = |(name, value): (&String, &String)| {
            Ok((name.clone(), look_up(&format!("kafka.properties.\"{name}\""), value)?))
        };
        self.0.iter().map(resolved).collect()
    }

    /// A property as it is written, a reference or a secret perhaps.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Every property as it may be shown: secrets masked, references as written.
    pub fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| {
            let value = if is_secret(name, value) { MASK } else { value.as_str() };
            (name.as_str(), value)
        })
    }

    /// The properties that kvset sets itself, each with what to use instead.
    pub(super) fn controlled(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.among(CONTROLLED)
    }

    /// The properties that go with groups of the classic protocol only, each with what to use instead.
    pub(super) fn classic_only(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.among(CLASSIC_ONLY)
    }

    fn among(
        &self,
        names: &'static [(&'static str, &'static str)],
    ) -> impl Iterator<Item = (&str, &'static str)> {
        names.iter().filter_map(|(name, instead)| {
            self.0.get_key_value(*name).map(|(key, _)| (key.as_str(), *instead))
        })
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

/// Whether a value must not be shown. A reference is none: it only says where the secret is.
fn is_secret(name: &str, value: &str) -> bool {
    let named_so = SECRET_MARKS.iter().any(|mark| name.to_ascii_lowercase().contains(mark));
    let login_in_url = value.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    (named_so || login_in_url) && !is_reference(value)
}

impl Field for Properties {
    type Bound = bool;

    const MAY_BE_SECRET: bool = true;

    const ALLOWED: &'static str = "a table of Kafka client properties, each a text, a number or a flag";

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        let mut found = Vec::new();
        let ValueKind::Table(table) = &value.kind else { return Err(ValueRefusal::NotAllowed) };
        for (name, value) in table {
            flatten(name, value, &mut found)?;
        }
        // The environment comes last and so wins, though it spells names another way than the file.
        found.sort();
        Ok(Self::new(found.into_iter().map(|(_, name, text)| (name, text))))
    }

    fn toml(&self) -> Option<String> {
        let entries: Vec<String> =
            self.shown().map(|(name, value)| format!("{} = {}", quoted(name), quoted(value))).collect();
        (!entries.is_empty()).then(|| format!("{{ {} }}", entries.join(", ")))
    }
}

/// Collects one property with whether it is from the environment. Unquoted dotted names arrive as
/// nested tables. Environment variables cannot hold dots, so there an underscore stands for one (no
/// librdkafka property has underscores).
fn flatten(name: &str, value: &Value, into: &mut Vec<(bool, String, String)>) -> Result<(), ValueRefusal> {
    let text = match &value.kind {
        ValueKind::Table(table) => {
            return table
                .iter()
                .try_for_each(|(rest, value)| flatten(&format!("{name}.{rest}"), value, into));
        }
        ValueKind::String(text) => text.clone(),
        ValueKind::Boolean(flag) => flag.to_string(),
        ValueKind::I64(number) => number.to_string(),
        ValueKind::Float(number) => number.to_string(),
        _ => return Err(ValueRefusal::Because(format!("`{name}` must be a text, a number or a flag"))),
    };
    let environment = from_environment(value);
    let name = if environment { name.replace('_', ".") } else { name.to_owned() };
    into.push((environment, name, text));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(pairs: &[(&str, &str)]) -> Properties {
        Properties::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn no_way_of_printing_shows_a_secret() {
        let secrets = properties(&[
            ("sasl.password", "hunter2"),
            ("ssl.key.password", "hunter2"),
            ("ssl.key.pem", "hunter2"),
            ("sasl.jaas.config", "hunter2"),
            ("sasl.oauthbearer.client.secret", "hunter2"),
            ("SASL.Password", "hunter2"),
            ("http.proxy", "http://me:hunter2@proxy"),
        ]);
        let printed = format!("{secrets:?} {:?}", secrets.toml());
        assert!(!printed.contains("hunter2"), "{printed}");
        assert_eq!(printed.matches(MASK).count(), 14);
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        let plain = properties(&[("sasl.username", "me"), ("sasl.password", "env:KAFKA_PASSWORD")]);
        assert_eq!(
            plain.toml().as_deref(),
            Some(r#"{ "sasl.password" = "env:KAFKA_PASSWORD", "sasl.username" = "me" }"#)
        );
    }

    #[test]
    fn references_are_looked_up_late() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("password");
        std::fs::write(&path, "hunter2\n").expect("a file");
        let reference = format!("file:{}", path.display());
        let given = properties(&[("sasl.password", &reference), ("debug", "")]);
        let resolved = given.resolve().expect("the file is there");
        assert_eq!(resolved[1], ("sasl.password".to_owned(), "hunter2".to_owned()));
        assert!(!format!("{given:?}").contains("hunter2"));

        let missing = properties(&[("sasl.password", "env:KVSET_NO_SUCH_VARIABLE")]);
        let error = missing.resolve().expect_err("nothing there").to_string();
        assert!(error.contains("sasl.password") && error.contains("KVSET_NO_SUCH_VARIABLE"), "{error}");
    }
}
