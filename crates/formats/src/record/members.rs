//! The members of a JSON object, each as its own JSON.

use crate::key::Key;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Names and values in the order of the object.
pub type Members<'o> = Vec<(Cow<'o, str>, &'o RawValue)>;

/// The text that a member of an object is; nothing where the object, or a text there, is none, or the name comes twice.
pub(crate) fn member_text(object: &str, name: &str) -> Option<String> {
    let mut named = members(object)?.into_iter().filter(|(key, _)| key == name);
    let (_, value) = named.next()?;
    let is_only_one = named.next().is_none();
    serde_json::from_str(value.get()).ok().filter(|_: &String| is_only_one)
}

/// The JSON of a member, of which the last of a name holds.
pub(crate) fn member<'o>(members: &Members<'o>, name: &str) -> Option<&'o str> {
    members.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.get())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_comes_twice_says_nothing() {
        assert_eq!(member_text(r#"{"role":"user","content":"a"}"#, "role").as_deref(), Some("user"));
        assert_eq!(member_text(r#"{"role":"user","role":"tool"}"#, "role"), None);
        assert_eq!(member_text(r#"{"role":7}"#, "role"), None);
        assert_eq!(member_text(r#"["role"]"#, "role"), None);
    }
}
