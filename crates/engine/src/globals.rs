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

pub(crate) fn build(vocabulary: Vocabulary) -> Globals {
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
    modules::register(&mut builder, vocabulary);
    builder.build()
}
