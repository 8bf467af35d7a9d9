//! One test binary for the engine: language cases as files, the rest as tables.

// A `ScriptError` ends a test; its size does not matter.
#![allow(clippy::result_large_err)]

mod hostile;
mod language;
mod modules;
mod support;

#[global_allocator]
static ALLOCATOR: starloom_engine::memory::CountingAllocator = starloom_engine::memory::CountingAllocator;
