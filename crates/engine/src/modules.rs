//! The builtin modules: one file each, one line here.

mod arguments;
mod base64;
mod crypto;
mod csv;
mod data;
mod env;
mod exec;
mod fuzzy;
mod http;
mod json;
mod math;
mod postgres;
mod random;
mod re;
mod sql;
mod sqlite;
mod store;
mod testing;
mod time;
mod url;
mod yaml;

use starlark::environment::GlobalsBuilder;

use crate::globals::Vocabulary;

/// A module as the reference presents it.
pub(crate) struct Module {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// By the name of each function.
    pub(crate) docs: &'static [(&'static str, &'static str)],
    register: fn(&mut GlobalsBuilder),
}

macro_rules! module {
    ($name:ident, $summary:literal) => {
        Module { name: stringify!($name), summary: $summary, docs: $name::DOCS, register: $name::register }
    };
}

pub(crate) const MODULES: [Module; 18] = [
    module!(base64, "Bytes as text."),
    module!(crypto, "Digests and message authentication codes."),
    module!(csv, "Tables as text."),
    module!(data, "Files that lie beside the script."),
    module!(env, "Variables of the process, as far as `allowed_env` lets them through."),
    module!(exec, "Other programs, as far as `allowed_exec` names them."),
    module!(fuzzy, "Finds what someone meant among many texts."),
    module!(http, "Requests to other servers, as far as `allowed_hosts` names them."),
    module!(json, "JSON both ways, with exact numbers."),
    module!(math, "Numbers beyond the operators."),
    module!(postgres, "Postgres databases, as far as `allowed_hosts` names their servers."),
    module!(random, "Numbers and bytes nobody can guess."),
    module!(re, "Regular expressions without back-tracking, so that no pattern takes forever."),
    module!(sqlite, "SQLite databases, as far as `allowed_paths` names their files."),
    module!(store, "Values that outlive a call, shared by the calls of one source."),
    module!(time, "The clock, and dates as text."),
    module!(url, "Addresses taken apart and put together."),
    module!(yaml, "YAML 1.2 both ways, with exact integers."),
];

/// Only for tests.
pub(crate) const TEST_MODULES: [Module; 1] = [module!(
    testing,
    "Assertions, and what the test runner can do for a test. Only in `*_test.star` files."
)];

pub(crate) fn register(builder: &mut GlobalsBuilder, vocabulary: Vocabulary) {
    let for_tests: &[Module] = match vocabulary {
        Vocabulary::Server => &[],
        Vocabulary::Test => &TEST_MODULES,
    };
    for module in MODULES.iter().chain(for_tests) {
        builder.namespace(module.name, module.register);
    }
}
