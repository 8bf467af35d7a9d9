//! The exit codes, in one place.

use std::process::ExitCode;

/// All is well.
pub const OK: u8 = 0;
/// Tests or checks failed, or the called tool did.
pub const FAILED: u8 = 1;
/// The command line makes no sense.
pub const USAGE: u8 = 2;
/// The configuration or a script does not load.
pub const LOAD: u8 = 3;
/// A bug of ours.
pub const BUG: u8 = 70;

pub fn code(code: u8) -> ExitCode {
    ExitCode::from(code)
}
