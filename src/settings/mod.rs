//! Configuration: types, defaults, validation.
