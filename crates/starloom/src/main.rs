//! The `starloom` binary.

use std::process::ExitCode;

/// Counts what each evaluation allocates, so that a call can be held to its memory limit.
#[global_allocator]
static ALLOCATOR: starloom_engine::memory::CountingAllocator = starloom_engine::memory::CountingAllocator;

fn main() -> ExitCode {
    starloom::cli::main()
}
