//! The tenants that a log names, up to a limit.

use super::MAX_TENANTS;
use std::collections::HashMap;

/// A tenant by its place in order of appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub(super) u32);

impl TenantId {
    /// Those who came after as many tenants as are told apart.
    pub(super) const LATER: Self = Self(0);
    /// Requests without a tenant.
    pub(super) const UNNAMED: Self = Self(1);

    /// What pages are accounted to.
    pub(crate) fn account(self) -> u32 {
        self.0
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names and their places.
#[derive(Debug, Default)]
pub(super) struct Names {
    ids: HashMap<Box<str>, TenantId>,
    names: Vec<Box<str>>,
}

impl Names {
    /// The place of a name, a new one where it was never seen and there is room.
    pub(super) fn id_of(&mut self, name: Option<&str>) -> TenantId {
        let Some(name) = name else { return TenantId::UNNAMED };
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        if self.names.len() >= MAX_TENANTS {
            return TenantId::LATER;
        }
        self.names.push(name.into());
        let id = TenantId(self.names.len() as u32 + 1);
        self.ids.insert(name.into(), id);
        id
    }

    /// The name at a place; none of the two that are nobody's.
    pub(super) fn name(&self, id: TenantId) -> Option<&str> {
        self.names.get(id.index().checked_sub(2)?).map(Box::as_ref)
    }

    /// Places taken, with the two that are nobody's.
    pub(super) fn len(&self) -> usize {
        self.names.len() + 2
    }
}
