//! Arguments to settings, output for people.
