//! What holds for the repository as a whole: layers, dependencies, features.

#[path = "../support/mod.rs"]
mod support;

mod architecture;
mod cycles;
mod dependencies;
mod features;
mod names;
mod pinned;
mod places;
