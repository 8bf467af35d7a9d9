//! The names every script finds, assembled once.

use starlark::environment::{Globals, GlobalsBuilder, LibraryExtension};

use crate::{builtins, guard, modules, values};

/// Which words a file may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vocabulary {
    /// Extensions and their helpers.
    Server,
    /// The same, and `testing`.
    Test,
}

/// Most of the time goes into the docs of types and functions, which the interpreter reads at once; so the
/// language's own names and ours are made side by side. A start should not wait for its reference manual.
pub(crate) fn build(vocabulary: Vocabulary) -> Globals {
    std::thread::scope(|scope| {
        let ours =
            scope.spawn(|| GlobalsBuilder::new().with(|builder| register_ours(builder, vocabulary)).build());
        let mut builder = of_the_language();
        // Ours come last: they replace some of the language's with ones that know the limits.
        match ours.join() {
            Ok(ours) => adopt(&mut builder, &ours),
            // Whatever went wrong over there goes wrong here as well, or not at all.
            Err(_) => register_ours(&mut builder, vocabulary),
        }
        builder.build()
    })
}

fn of_the_language() -> GlobalsBuilder {
    GlobalsBuilder::extended_by(&[
        LibraryExtension::StructType,
        LibraryExtension::RecordType,
        LibraryExtension::EnumType,
        LibraryExtension::NamespaceType,
        LibraryExtension::Map,
        LibraryExtension::Filter,
        LibraryExtension::Partial,
        LibraryExtension::Debug,
        LibraryExtension::Typing,
        LibraryExtension::SetType,
    ])
}

fn register_ours(builder: &mut GlobalsBuilder, vocabulary: Vocabulary) {
    guard::register_guards(builder);
    guard::register_range(builder);
    builtins::register(builder);
    values::register(builder);
    modules::register(builder, vocabulary);
}

/// Gives `builder` all names of `globals`, which stay alive with it.
pub(crate) fn adopt(builder: &mut GlobalsBuilder, globals: &Globals) {
    builder.frozen_heap().add_reference(globals.heap());
    for (name, value) in globals.iter() {
        builder.set(name, value);
    }
}
