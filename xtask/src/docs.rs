//! `cargo xtask docs`: the pages in docs/reference that are made from the program itself.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::{process, workspace};

const PAGES: [&str; 3] = ["cli", "builtins", "config"];

pub fn run() -> Result<()> {
    process::run(&mut workspace::cargo(["build", "--package", "starloom"]))?;
    let starloom = workspace::target_dir()?.join("debug/starloom");
    let folder = workspace::root().join("docs/reference");
    fs::create_dir_all(&folder)?;
    for page in PAGES {
        let text = process::capture(workspace::command(&starloom).args(["docs", page]))?;
        ensure!(!text.trim().is_empty(), "`starloom docs {page}` printed nothing");
        let file = folder.join(format!("{page}.md"));
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("wrote docs/reference/{page}.md");
    }
    Ok(())
}
