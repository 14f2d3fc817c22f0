//! Bytes to typed events and estimates and back: Avro, JSON, dead letters.
