//! The repository's own commands: `cargo xtask test`, `cargo xtask docs`, `cargo xtask bench`.

mod bench;
mod docs;
mod install;
mod postgres;
mod process;
mod test;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
The repository's own commands.

usage: cargo xtask test [--fast] [-- ARGS]
           Set up what is missing, then check the format, lint, and run every test.
           --fast leaves out format and lint; ARGS go to `cargo test`, and then
           only the tests they select are run.
       cargo xtask docs
           Write the generated pages in docs/reference again.
       cargo xtask bench [--only NAME,...] [--quick]
           Measure against the peers and write bench/RESULTS.md.
           --only and --quick print the table and leave the file as it is.

exit codes: 0 fine, 1 a step failed or a budget was missed, 2 wrong usage";

const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["test", ref rest @ ..] => test::Options::parse(rest).map(|options| test::run(&options)),
        ["docs"] => Ok(docs::run()),
        ["bench", ref rest @ ..] => bench::Options::parse(rest).map(|options| bench::run(&options)),
        ["help" | "-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [] => Err("a command is needed".to_owned()),
        [command, ..] => Err(format!("`{command}` with these arguments is not a command")),
    };
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("\nxtask failed: {error:#}");
            ExitCode::from(EXIT_FAILED)
        }
        Err(message) => {
            eprintln!("xtask: {message}\n\n{USAGE}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}
