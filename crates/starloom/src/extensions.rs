//! `.star` files as sources: found, loaded, watched.

mod discover;
mod load;
mod watch;

pub use discover::{DiscoverError, ScriptFile, discover, discover_helpers, discover_tests, is_test_file};
pub use load::{DiskFiles, EVALUATION_STACK, LoadedFile, Loader, absolute};
pub use watch::{Changed, FileWatcher, Loading, Reloader, StartError, next_changes};
