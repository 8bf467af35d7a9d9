//! The runner for tool authors.
