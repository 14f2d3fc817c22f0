//! The names that a log has, up to a limit.

use super::MAX_NAMES;
use crate::units::heap::{flat, heap_bytes};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Places that are nobody's: later ones, and requests without a name.
const NOBODY: usize = 2;

/// An account: its name's place in order of appearance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AccountId(u32);

flat!(AccountId);

impl AccountId {
    /// Names that came after as many as are distinguished.
    pub(super) const LATER: Self = Self(0);
    /// Requests without a name.
    pub(super) const UNNAMED: Self = Self(1);

    /// What pages are accounted to.
    pub(crate) fn account(self) -> u32 {
        self.0
    }

    /// The account of this number.
    pub(super) fn at(account: usize) -> Self {
        Self(account as u32)
    }

    /// Whether any log can have so many.
    pub(super) fn is_possible(self) -> bool {
        self.index() < MAX_NAMES + NOBODY
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names and their places.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Box<str>>")]
pub(super) struct NameIndex {
    #[serde(skip)]
    ids: HashMap<Box<str>, AccountId>,
    names: Vec<Box<str>>,
}

heap_bytes!(NameIndex { ids, names });

impl NameIndex {
    /// The place of a name, a new one where it was never seen and there is room.
    pub(super) fn id_of(&mut self, name: Option<&str>) -> AccountId {
        let Some(name) = name else { return AccountId::UNNAMED };
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        if self.names.len() >= MAX_NAMES {
            return AccountId::LATER;
        }
        self.names.push(name.into());
        let id = AccountId((self.names.len() + NOBODY - 1) as u32);
        self.ids.insert(name.into(), id);
        id
    }

    /// The name at a place; none of the two that are nobody's.
    pub(super) fn name(&self, id: AccountId) -> Option<&str> {
        self.names.get(id.index().checked_sub(NOBODY)?).map(Box::as_ref)
    }

    /// Places taken, with the two that are nobody's.
    pub(super) fn len(&self) -> usize {
        self.names.len() + NOBODY
    }

    /// Whether these, read back from a snapshot, are as many different names as are distinguished.
    pub(super) fn are_sound(&self) -> bool {
        self.names.len() <= MAX_NAMES && self.ids.len() == self.names.len()
    }
}

impl From<Vec<Box<str>>> for NameIndex {
    fn from(names: Vec<Box<str>>) -> Self {
        let ids =
            names.iter().enumerate().map(|(at, name)| (name.clone(), AccountId::at(at + NOBODY))).collect();
        Self { ids, names }
    }
}
