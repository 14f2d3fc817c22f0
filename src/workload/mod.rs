//! Synthetic agentic traffic from a seed.
