//! Names that a log gives a request alongside its pages: which cache served it, on whose behalf, how its page ids
//! were made, how long they are to be kept.
//!
//! Every layer carries them as one value, so that another name is a variant here, a field of the request event's
//! schema, and whatever reads it.

/// One of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// The cache that served the request, where there are several of one pool.
    Replica,
    /// On whose behalf the request was made.
    Tenant,
    /// How its page ids were made ([`IdScheme`](crate::request::id_scheme::IdScheme)).
    IdScheme,
    /// How long, or how preferably, it asks its cache to keep its pages: `5m`, `1h`, `priority-80`, `pinned`.
    RetentionClass,
}

impl Label {
    /// Every label, in the order of the request event's schema.
    pub const ALL: [Self; 4] = [Self::Replica, Self::Tenant, Self::IdScheme, Self::RetentionClass];

    /// The field's name in events and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replica => "replica",
            Self::Tenant => "tenant",
            Self::IdScheme => "id_scheme",
            Self::RetentionClass => "retention_class",
        }
    }

    /// The label of a field; nothing where the field is none.
    pub fn of_field(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.name() == name)
    }
}

/// The labels of a request: each as whatever a layer holds names in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Labels<T>([Option<T>; Label::ALL.len()]);

impl<T> Default for Labels<T> {
    fn default() -> Self {
        Self(Label::ALL.map(|_| None))
    }
}

impl<T> FromIterator<(Label, T)> for Labels<T> {
    fn from_iter<I: IntoIterator<Item = (Label, T)>>(values: I) -> Self {
        let mut labels = Self::default();
        values.into_iter().for_each(|(label, value)| labels.set(label, Some(value)));
        labels
    }
}

impl<T> Labels<T> {
    /// The value of a label.
    pub const fn get(&self, label: Label) -> Option<&T> {
        self.0[label as usize].as_ref()
    }

    /// Sets or clears a label.
    pub fn set(&mut self, label: Label, value: Option<T>) {
        self.0[label as usize] = value;
    }

    /// Where the value of a label is kept.
    pub const fn place(&mut self, label: Label) -> &mut Option<T> {
        &mut self.0[label as usize]
    }

    /// Takes a label away.
    pub const fn take(&mut self, label: Label) -> Option<T> {
        self.0[label as usize].take()
    }

    /// The labels that are there.
    pub fn iter(&self) -> impl Iterator<Item = (Label, &T)> {
        Label::ALL.into_iter().filter_map(|label| Some((label, self.get(label)?)))
    }

    /// The same labels held in another way.
    pub fn map<U>(self, mut change: impl FnMut(T) -> U) -> Labels<U> {
        Labels(self.0.map(|value| value.map(&mut change)))
    }

    /// The same labels, borrowed.
    pub fn each_ref(&self) -> Labels<&T> {
        Labels(self.0.each_ref().map(Option::as_ref))
    }

    /// These labels, and those of `other` where one is not there.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self
    where
        T: Clone,
    {
        for (label, value) in other.iter() {
            let _ = self.0[label as usize].get_or_insert_with(|| value.clone());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_found_by_its_name_and_kept_in_its_place() {
        let mut labels = Labels::default();
        for (number, label) in Label::ALL.into_iter().enumerate() {
            assert_eq!(label as usize, number, "the order of the schema");
            assert_eq!(Label::of_field(label.name()), Some(label));
            labels.set(label, Some(label.name()));
        }
        assert_eq!(Label::of_field("pool"), None);
        assert!(labels.iter().all(|(label, name)| label.name() == *name));
    }

    #[test]
    fn what_is_there_is_kept_and_what_is_not_is_taken_from_the_other() {
        let own = Labels::from_iter([(Label::Tenant, "own")]);
        let other = Labels::from_iter([(Label::Tenant, "other"), (Label::Replica, "other")]);
        let both = own.or(&other);
        assert_eq!((both.get(Label::Tenant), both.get(Label::Replica)), (Some(&"own"), Some(&"other")));
    }
}
