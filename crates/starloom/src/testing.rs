//! The test runner for tool authors: `*_test.star` files, each `test_*` function on its own.
//!
//! The runner emits events and prints nothing; reporters make text of them. Each test gets a [`World`]
//! of its own: the mocks, clock, variables, store and log that stand in for the real ones, for the test
//! and for every tool it calls.

mod capture;
mod clock;
mod event;
mod host;
mod mocks;
mod report;
mod runner;
mod sources;
mod store;
mod watch;
mod world;

pub use event::{Event, Failure, LogLine, Outcome, TestReport, Totals};
pub use report::{Format, Reporter, reporter};
pub use runner::{Filter, Options, Run, Runner};
pub use watch::watch;
pub use world::World;
