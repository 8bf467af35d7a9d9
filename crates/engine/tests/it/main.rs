//! One test binary for the engine: language cases as files, the rest as tables.

mod hostile;
mod language;
mod modules;
mod support;

#[global_allocator]
static ALLOCATOR: starloom_engine::memory::CountingAllocator = starloom_engine::memory::CountingAllocator;
