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
    register: fn(&mut GlobalsBuilder),
}

const fn module(name: &'static str, summary: &'static str, register: fn(&mut GlobalsBuilder)) -> Module {
    Module { name, summary, register }
}

pub(crate) const MODULES: [Module; 18] = [
    module("base64", "Bytes as text.", base64::register),
    module("crypto", "Digests and message authentication codes.", crypto::register),
    module("csv", "Tables as text.", csv::register),
    module("data", "Files that lie beside the script.", data::register),
    module("env", "Variables of the process, as far as `allowed_env` lets them through.", env::register),
    module("exec", "Other programs, as far as `allowed_exec` names them.", exec::register),
    module("fuzzy", "Finds what someone meant among many texts.", fuzzy::register),
    module("http", "Requests to other servers, as far as `allowed_hosts` names them.", http::register),
    module("json", "JSON both ways, with exact numbers.", json::register),
    module("math", "Numbers beyond the operators.", math::register),
    module(
        "postgres",
        "Postgres databases, as far as `allowed_hosts` names their servers.",
        postgres::register,
    ),
    module("random", "Numbers and bytes nobody can guess.", random::register),
    module(
        "re",
        "Regular expressions without back-tracking, so that no pattern takes forever.",
        re::register,
    ),
    module("sqlite", "SQLite databases, as far as `allowed_paths` names their files.", sqlite::register),
    module("store", "Values that outlive a call, shared by the calls of one source.", store::register),
    module("time", "The clock, and dates as text.", time::register),
    module("url", "Addresses taken apart and put together.", url::register),
    module("yaml", "YAML 1.2 both ways, with exact integers.", yaml::register),
];

/// Only for tests.
pub(crate) const TEST_MODULES: [Module; 1] = [module(
    "testing",
    "Assertions, and what the test runner can do for a test. Only in `*_test.star` files.",
    testing::register,
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
