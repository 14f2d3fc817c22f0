//! Trace files of every known shape, read as a stream of requests.
