//! `starloom test`

use clap::Args;

use super::CliError;

/// Run the tests of tool authors
#[derive(Args)]
pub struct TestArgs {
    #[arg(long)]
    jobs: Option<usize>,
}

pub fn cmd_test(args: TestArgs) -> Result<u8, CliError> {
    let _ = args.jobs;
    Err(CliError::bug("not here yet"))
}
