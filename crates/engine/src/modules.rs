//! The builtin modules: one file each, one line here.

mod data;
mod env;
mod exec;
mod json;
mod time;

use starlark::environment::GlobalsBuilder;

use crate::globals::Vocabulary;

pub(crate) fn register(builder: &mut GlobalsBuilder, vocabulary: Vocabulary) {
    builder.namespace("data", data::register);
    builder.namespace("env", env::register);
    builder.namespace("exec", exec::register);
    builder.namespace("json", json::register);
    builder.namespace("time", time::register);
    let _ = vocabulary;
}
