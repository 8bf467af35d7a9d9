//! Performs effects.
