//! The models whose caches are known, and what each caches: tables to be checked line by line.
//!
//! A row names classes (`architectures`) and types (`model_type`) with one cache layout, the rule for it, and the
//! values that the class's own code takes where a config leaves a field out (transformers 5.24). Rules were read in
//! vLLM 0.33 and SGLang 0.5.23. A class that is in no table is computed by its type, or refused by its name.

mod refused;
mod rules;
mod text;
mod wrappers;

pub(super) use refused::refusal;
pub(super) use rules::{Family, HeadNames, LayerCache, LayerLayout, Recurrence, StateType};

/// Counts that a class takes where the config has no such field.
pub(super) type Defaults = &'static [(&'static str, u64)];

/// Models with one cache layout and one set of defaults.
#[derive(Debug)]
pub(super) struct FamilyRow {
    /// Class names, as `architectures` lists them.
    pub classes: &'static [&'static str],
    /// Type names, as `model_type` has them; the first is the one that stands for the row.
    pub types: &'static [&'static str],
    pub family: Family,
    pub defaults: Defaults,
}

/// Models that keep their text model's fields one level down, or on their own level in older configs.
#[derive(Debug)]
pub(super) struct Wrapper {
    pub classes: &'static [&'static str],
    pub types: &'static [&'static str],
    /// Type of the text model where its level does not say.
    pub text: &'static str,
    /// Whether a config without a text level has another text model than that type's defaults describe.
    pub has_own_defaults: bool,
}

/// The row that names this class.
pub(super) fn of_class(class: Option<&str>) -> Option<&'static FamilyRow> {
    rows().find(|row| class.is_some_and(|class| row.classes.contains(&class)))
}

/// The row that names this type.
pub(super) fn of_type(model_type: Option<&str>) -> Option<&'static FamilyRow> {
    rows().find(|row| model_type.is_some_and(|name| row.types.contains(&name)))
}

/// The wrapper of a class, or of a type where the class is in no table.
pub(super) fn wrapper(class: Option<&str>, model_type: Option<&str>) -> Option<&'static Wrapper> {
    let has = |names: &[&str], name: Option<&str>| name.is_some_and(|name| names.contains(&name));
    let of_class = wrappers::WRAPPERS.iter().find(|wrapper| has(wrapper.classes, class));
    of_class.or_else(|| wrappers::WRAPPERS.iter().find(|wrapper| has(wrapper.types, model_type)))
}

/// Whether a wrapper has this class.
pub(super) fn wraps(class: Option<&str>) -> bool {
    class.is_some() && wrapper(class, None).is_some()
}

/// Every row of text models.
fn rows() -> impl Iterator<Item = &'static FamilyRow> {
    text::PLAIN.iter().chain(text::WINDOWED).chain(text::LATENT).chain(text::HYBRID)
}

/// Classes to name in a message: the first of each row.
pub(super) fn known_names() -> String {
    let text = rows().filter_map(|row| row.classes.first());
    let wrapped = wrappers::WRAPPERS.iter().filter_map(|wrapper| wrapper.classes.first());
    text.chain(wrapped).copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_stands_for_two_layouts() {
        let mut seen = BTreeSet::new();
        let refused = refused::REFUSED.iter().flat_map(|(names, _)| names.iter());
        let wrapped =
            wrappers::WRAPPERS.iter().flat_map(|wrapper| wrapper.classes.iter().chain(wrapper.types));
        let text = rows().flat_map(|row| row.classes.iter().chain(row.types));
        for name in text.chain(wrapped).chain(refused) {
            assert!(seen.insert(*name), "{name} twice");
        }
    }

    #[test]
    fn the_documentation_names_every_class() {
        let page = include_str!("../../../docs/models.md");
        let wrapped = wrappers::WRAPPERS.iter().flat_map(|wrapper| wrapper.classes);
        for class in rows().flat_map(|row| row.classes).chain(wrapped) {
            assert!(page.contains(&format!("`{class}`")), "docs/models.md lacks {class}");
        }
    }

    #[test]
    fn every_row_has_names_and_every_wrapper_a_text_model() {
        for row in rows() {
            assert!(!row.types.is_empty(), "{:?}", row.classes);
        }
        for wrapper in wrappers::WRAPPERS {
            assert!(of_type(Some(wrapper.text)).is_some(), "{}", wrapper.text);
        }
    }
}
