//! `starloom config`

use clap::Args;

use super::CliError;
use crate::config::DEFAULT_CONFIG;
use crate::exit;

/// Show the settings there are
#[derive(Args)]
pub struct ConfigArgs {
    /// Print every setting with its default and what it does
    #[arg(long)]
    default: bool,
}

pub fn cmd_config(args: ConfigArgs) -> Result<u8, CliError> {
    if !args.default {
        return Err(
            CliError::usage("say what to show").with_hint(Some("run `starloom config --default`".to_owned()))
        );
    }
    print!("{DEFAULT_CONFIG}");
    Ok(exit::OK)
}
