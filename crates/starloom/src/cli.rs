//! The command line: one file per command, one line in [`Command`] each.

mod call;
mod check;
mod config;
mod docs;
mod error;
mod list;
mod serve;
mod sources;
mod status;
mod test;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit;
pub use error::CliError;
pub use list::source_list;

/// Scripts as MCP tools: save a file, and the running client has the tool.
#[derive(Parser)]
#[command(name = "starloom", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 fine · 1 tests, checks or the called tool failed · 2 wrong usage · \
3 configuration or script does not load · 70 a bug of ours")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Test(test::TestArgs),
    Check(check::CheckArgs),
    Call(call::CallArgs),
    List(list::ListArgs),
    Status(status::StatusArgs),
    Config(config::ConfigArgs),
    #[command(hide = true)]
    Docs(docs::DocsArgs),
}

pub fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(with_aliases(std::env::args().collect())) {
        Ok(cli) => cli,
        Err(error) => {
            let is_error = error.use_stderr();
            let _ = error.print();
            return exit::code(if is_error { exit::USAGE } else { exit::OK });
        }
    };
    crate::logging::init(match cli.command {
        Command::Serve(_) => "info",
        // What goes wrong is what it prints.
        Command::Call(_) => "error",
        _ => "warn",
    });
    let outcome = match cli.command {
        Command::Serve(args) => serve::cmd_serve(args),
        Command::Test(args) => test::cmd_test(args),
        Command::Check(args) => check::cmd_check(args),
        Command::Call(args) => call::cmd_call(args),
        Command::List(args) => list::cmd_list(args),
        Command::Status(args) => status::cmd_status(args),
        Command::Config(args) => config::cmd_config(args),
        Command::Docs(args) => docs::cmd_docs(args),
    };
    match outcome {
        Ok(code) => exit::code(code),
        Err(error) => {
            error.print();
            exit::code(error.code())
        }
    }
}

/// The spellings of starlark-mcp: flags without a command, `-v`, `-t`.
fn with_aliases(mut args: Vec<String>) -> Vec<String> {
    let first = args.get(1).map(String::as_str).unwrap_or("");
    if first == "-v" {
        args[1] = "--version".to_owned();
        return args;
    }
    let is_flag = first.starts_with('-') && !matches!(first, "-h" | "--help" | "-V" | "--version");
    if !is_flag {
        return args;
    }
    let tests = args.iter().any(|arg| arg == "-t" || arg == "--test");
    if tests {
        args.retain(|arg| arg != "-t" && arg != "--test");
        // Sequential, as it always was.
        args.splice(1..1, ["test".to_owned(), "--jobs".to_owned(), "1".to_owned()]);
    } else {
        args.insert(1, "serve".to_owned());
    }
    args
}

fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn old_spellings_become_commands() {
        let check = |args: &str, expected: &str| {
            let args = args.split(' ').map(str::to_owned).collect();
            assert_eq!(with_aliases(args).join(" "), expected);
        };
        check("starloom -e dir --http -p 3000", "starloom serve -e dir --http -p 3000");
        check("starloom -t -e dir", "starloom test --jobs 1 -e dir");
        check("starloom -v", "starloom --version");
        check("starloom --help", "starloom --help");
        check("starloom serve x", "starloom serve x");
    }
}
