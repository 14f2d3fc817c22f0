//! The members of a JSON object, each as its own JSON.

use crate::key::Key;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Names and values in the order of the object.
pub type Members<'o> = Vec<(Cow<'o, str>, &'o RawValue)>;

/// The members of an object, in their order; nothing where the text is no object.
pub(crate) fn members(object: &str) -> Option<Members<'_>> {
    struct MembersVisitor;
    impl<'de> Visitor<'de> for MembersVisitor {
        type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(Key(name)) = map.next_key()? {
                members.push((name, map.next_value()?));
            }
            Ok(members)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(object);
    let members = deserializer.deserialize_map(MembersVisitor).ok()?;
    deserializer.end().ok().map(|()| members)
}
