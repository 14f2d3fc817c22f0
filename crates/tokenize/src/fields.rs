//! The fields of an object of a chat, in their order.

use minijinja::Value;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::fmt;

/// A JSON object in the order it was written; of a repeated key the last value counts.
#[derive(Clone, Default)]
pub(super) struct ObjectFields(pub Vec<(String, Value)>);

impl ObjectFields {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Who says a message; nobody where it does not tell.
    pub fn role(&self) -> &str {
        self.get("role").and_then(Value::as_str).unwrap_or_default()
    }

    /// Takes a field away.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key != name);
    }

    /// Sets a field in its place, or as the last one.
    pub fn set(&mut self, name: &str, value: Value) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
}

impl<'de> Deserialize<'de> for ObjectFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

/// Fills itself.
impl<'de> Visitor<'de> for ObjectFields {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        // Through a map, so that an object of many keys costs no search a key.
        let mut places = hashbrown::HashMap::<String, usize, foldhash::fast::RandomState>::default();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            match places.get(&key) {
                Some(place) => self.0[*place].1 = value,
                None => {
                    places.insert(key.clone(), self.0.len());
                    self.0.push((key, value));
                }
            }
        }
        Ok(self)
    }
}
