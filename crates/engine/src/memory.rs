//! Counts the bytes each thread has allocated, so that a call can be held to its memory limit.
//!
//! The interpreter's own heap limit does not see dict and string storage. A binary that installs
//! [`CountingAllocator`] as its global allocator bounds all of it; without it the count stays zero and
//! only the interpreter's limit applies.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATED: Cell<i64> = const { Cell::new(0) };
}

/// Bytes allocated minus bytes freed by this thread. May be negative where a thread frees what
/// another allocated, so only differences mean something.
pub fn allocated_by_this_thread() -> i64 {
    ALLOCATED.try_with(Cell::get).unwrap_or(0)
}

/// The system allocator, with a per-thread count.
pub struct CountingAllocator;

fn count(bytes: i64) {
    // `try_with`: allocations go on while a thread's locals are being destroyed.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get().wrapping_add(bytes)));
}

// SAFETY: every method passes its arguments unchanged to `System`, which upholds the contract.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as i64 - layout.size() as i64);
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
