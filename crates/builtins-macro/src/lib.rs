//! `#[builtins]`: `#[starlark_module]` without the wait.
//!
//! The interpreter takes the docs of every native function apart while the globals are built, which is most of
//! a server's start. With this attribute the docs stay where they are written, above the function, but go into a
//! table `DOCS` beside it, from which the reference is made when somebody asks for it.

use proc_macro::TokenStream;
use quote::quote;
use syn::{Attribute, Expr, ExprLit, Item, ItemFn, Lit, Meta, Stmt, parse_macro_input};

#[proc_macro_attribute]
pub fn builtins(_arguments: TokenStream, input: TokenStream) -> TokenStream {
    let mut module = parse_macro_input!(input as ItemFn);
    let mut docs = Vec::new();
    for statement in &mut module.block.stmts {
        let (name, attributes) = match statement {
            Stmt::Item(Item::Fn(function)) => (&function.sig.ident, &mut function.attrs),
            Stmt::Item(Item::Const(constant)) => (&constant.ident, &mut constant.attrs),
            _ => continue,
        };
        // `r#enum` is `enum` to whoever reads about it.
        let name = name.to_string().trim_start_matches("r#").to_owned();
        let text = take_docs(attributes);
        docs.push(quote! { (#name, #text) });
    }
    quote! {
        #[starlark::starlark_module]
        #module

        /// The docs of what is registered above, by name.
        pub(crate) const DOCS: &[(&str, &str)] = &[#(#docs),*];
    }
    .into()
}

/// Removes the doc comments and returns their text.
fn take_docs(attributes: &mut Vec<Attribute>) -> String {
    let mut text = String::new();
    attributes.retain(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return true };
        let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &pair.value else { return true };
        if !pair.path.is_ident("doc") {
            return true;
        }
        text.push_str(&line.value());
        text.push('\n');
        false
    });
    text
}
