//! Records on topics and in files: events, estimates, containers, frozen fixtures.

mod confluent;
mod container;
mod estimate;
mod fixtures;
