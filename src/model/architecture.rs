//! Which architecture caches what: a table, for a name that is not in it is refused.

use super::error::ModelError;
use super::families::{Entry, Family, KNOWN, Nesting};
use super::fields::{Fields, shorten};

/// The levels a wrapper may keep its text model's fields in.
const TEXT_LEVELS: [&str; 3] = ["text_config", "llm_config", "language_config"];

/// Finds the architecture, its family, and the level its fields are on.
pub(super) fn find<'a>(root: &Fields<'a>) -> Result<(String, Family, Fields<'a>), ModelError> {
    let no_name = || ModelError::Missing {
        field: root.path_of("architectures"),
        needed_for: "it names the cache layout; a `model_type` does too",
    };
    let outer = named(root)?.ok_or_else(no_name)?;
    let Entry(class, _, family, nesting) = outer;
    if *nesting == Nesting::Wrapper {
        for level in TEXT_LEVELS {
            if let Some(inner) = root.nested(level)? {
                let family = named(&inner)?.map_or(*family, |entry| entry.2);
                return Ok(((*class).to_owned(), family, inner.with_defaults(family.defaults)));
            }
        }
    }
    Ok(((*class).to_owned(), *family, root.clone().with_defaults(family.defaults)))
}

/// The table's entry for the architecture a level names; `None` where it names none.
fn named(level: &Fields<'_>) -> Result<Option<&'static Entry>, ModelError> {
    let class = match level.value("architectures") {
        None => None,
        Some(value) => match value.as_array().map(|list| list.first().and_then(|class| class.as_str())) {
            Some(Some(class)) => Some(class),
            _ => {
                return Err(level.unexpected("architectures", value, "a list that begins with a class name"));
            }
        },
    };
    let model_type = level.text("model_type")?;
    let entry = KNOWN.iter().find(|Entry(known, types, ..)| match (class, model_type) {
        (Some(class), _) => class == *known,
        (None, Some(model_type)) => types.contains(&model_type),
        (None, None) => false,
    });
    match (entry, class.or(model_type)) {
        (Some(entry), _) => Ok(Some(entry)),
        (None, None) => Ok(None),
        (None, Some(name)) => Err(ModelError::UnknownArchitecture { name: shorten(name) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_stands_for_two_architectures() {
        let mut seen = BTreeSet::new();
        for Entry(class, types, ..) in KNOWN {
            assert!(seen.insert(*class), "{class} twice");
            assert!(!types.is_empty());
            types.iter().for_each(|name| assert!(seen.insert(*name), "{name} twice"));
        }
    }
}
