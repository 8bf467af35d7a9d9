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

/// Most of the time goes into the docs of the builtins, which the interpreter reads at once; so the
/// modules are made beside the rest. A start should not wait for its reference manual.
pub(crate) fn build(vocabulary: Vocabulary) -> Globals {
    std::thread::scope(|scope| {
        let modules = scope
            .spawn(|| GlobalsBuilder::new().with(|builder| modules::register(builder, vocabulary)).build());
        let mut builder = builtins();
        match modules.join() {
            Ok(modules) => adopt(&mut builder, &modules),
            // Whatever went wrong over there goes wrong here as well, or not at all.
            Err(_) => modules::register(&mut builder, vocabulary),
        }
        builder.build()
    })
}

fn builtins() -> GlobalsBuilder {
    let mut builder = GlobalsBuilder::extended_by(&[
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
    ]);
    guard::register_guards(&mut builder);
    guard::register_range(&mut builder);
    builtins::register(&mut builder);
    values::register(&mut builder);
    builder
}

/// Gives `builder` all names of `globals`, which stay alive with it.
pub(crate) fn adopt(builder: &mut GlobalsBuilder, globals: &Globals) {
    builder.frozen_heap().add_reference(globals.heap());
    for (name, value) in globals.iter() {
        builder.set(name, value);
    }
}
