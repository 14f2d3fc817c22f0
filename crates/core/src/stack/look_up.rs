//! What a request would find, told without touching anything.

use super::ids::Place;
use super::walk::SlotRun;
use super::{Access, Stack};
use crate::request::outcome::Outcome;

impl Stack {
    /// What [`Stack::access`] would find of a request among the pages held. Its own memory for walks is used; pages and
    /// their order stay. Pages forgotten beyond the tracked bound are left out.
    pub fn look_up(&mut self, access: &Access<'_>, outcome: &mut Outcome) {
        outcome.clear();
        match self.only_page(access) {
            Some(segment) => {
                let slot_run = SlotRun { slot: self.tree.owner(segment), pages: 1 };
                self.path.clear();
                self.path.push(Place { segment, pages: 1 });
                self.look_at(slot_run, 0, access, outcome);
            }
            None => {
                self.walk(access);
                self.look_at_path(access, outcome);
            }
        }
    }

    fn look_at_path(&mut self, access: &Access<'_>, outcome: &mut Outcome) {
        let mut above = 0;
        for at in 0..self.slot_runs.len() {
            let slot_run = self.slot_runs[at];
            self.look_at(slot_run, above, access, outcome);
            above += slot_run.pages as usize;
        }
    }

    fn look_at(&mut self, slot_run: SlotRun, above: usize, access: &Access<'_>, outcome: &mut Outcome) {
        if let Some(flight) = self.flight.take() {
            self.report_run(&flight, slot_run, above, access, outcome);
            self.flight = Some(flight);
            return;
        }
        // Nothing is taken, so the newer slots still hold the pages above.
        let found = self.slots.take(slot_run.slot, 0);
        self.write_run(slot_run, found, above, access.lookup(), outcome);
    }
}
