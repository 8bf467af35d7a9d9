//! A look at a text before it is parsed.
//!
//! The parser and the compiler recurse: text that nests deeply enough ends the whole process with a
//! stack overflow, which nothing can catch. So depth is measured first, without recursion.

use crate::error::{ErrorKind, ScriptError};

/// Open brackets, indentation levels, and operators in one unbroken chain.
const MAX_BRACKETS: usize = 150;
const MAX_INDENTS: usize = 100;
const MAX_CHAIN: usize = 1_000;
const MAX_ELIFS: usize = 500;
const MAX_SOURCE_BYTES: usize = 8 << 20;

pub(crate) fn check_depth(file: &str, source: &str) -> Result<(), ScriptError> {
    let too_deep =
        |line: usize, what: String| Err(ScriptError::new(ErrorKind::Syntax, what).at(file, source, line, 1));
    if source.len() > MAX_SOURCE_BYTES {
        return too_deep(1, format!("the file is larger than {} MB", MAX_SOURCE_BYTES >> 20));
    }
    let bytes = source.as_bytes();
    let mut line = 1;
    let mut i = 0;
    // For each open bracket, the length of the operator chain it interrupted.
    let mut chains = vec![0usize];
    let mut indents = vec![0usize];
    let mut elifs = 0;
    let mut at_line_start = true;
    while i < bytes.len() {
        if at_line_start && chains.len() == 1 {
            let start = i;
            while i < bytes.len() && (bytes[i] == b' ' || bytes[i] == b'\t') {
                i += 1;
            }
            let blank = matches!(bytes.get(i), None | Some(b'\n' | b'\r' | b'#'));
            if !blank {
                let width = i - start;
                while indents.last().is_some_and(|top| *top > width) {
                    indents.pop();
                }
                if indents.last().is_some_and(|top| *top < width) {
                    indents.push(width);
                }
                if indents.len() > MAX_INDENTS {
                    return too_deep(line, format!("blocks nested deeper than {MAX_INDENTS}"));
                }
                elifs = if source[i..].starts_with("elif") {
                    elifs + 1
                } else if indents.len() == 1 || source[i..].starts_with("if ") {
                    0
                } else {
                    elifs
                };
                if elifs > MAX_ELIFS {
                    return too_deep(line, format!("more than {MAX_ELIFS} `elif` in a row"));
                }
                chains[0] = 0;
            }
            at_line_start = false;
            continue;
        }
        at_line_start = false;
        match bytes[i] {
            b'\n' => {
                line += 1;
                at_line_start = true;
            }
            b'#' => {
                while i < bytes.len() && bytes[i] != b'\n' {
                    i += 1;
                }
                continue;
            }
            quote @ (b'"' | b'\'') => {
                let triple = bytes[i..].starts_with(&[quote; 3]);
                i += if triple { 3 } else { 1 };
                while i < bytes.len() {
                    match bytes[i] {
                        b'\\' => {
                            if bytes.get(i + 1) == Some(&b'\n') {
                                line += 1;
                            }
                            i += 1;
                        }
                        b'\n' if !triple => break,
                        b'\n' => line += 1,
                        b if b == quote && !triple => break,
                        b if b == quote && bytes[i..].starts_with(&[quote; 3]) => {
                            i += 2;
                            break;
                        }
                        _ => {}
                    }
                    i += 1;
                }
                // A newline that ended an unclosed text belongs to the scan, not to the text.
                if bytes.get(i) == Some(&b'\n') {
                    continue;
                }
            }
            b'(' | b'[' | b'{' => {
                // `f(…)(…)(…)` nests without nesting brackets.
                *chains.last_mut().unwrap_or(&mut 0) += 1;
                chains.push(0);
                if chains.len() > MAX_BRACKETS {
                    return too_deep(line, format!("brackets nested deeper than {MAX_BRACKETS}"));
                }
            }
            b')' | b']' | b'}' if chains.len() > 1 => {
                chains.pop();
            }
            b',' | b';' => chains.iter_mut().last().into_iter().for_each(|chain| *chain = 0),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'|' | b'&' | b'^' | b'~' | b'<' | b'>' | b'=' | b'.'
            | b':' => {
                chains.iter_mut().last().into_iter().for_each(|chain| *chain += 1);
            }
            b if b.is_ascii_alphabetic() || b == b'_' => {
                let start = i;
                while i < bytes.len() && (bytes[i].is_ascii_alphanumeric() || bytes[i] == b'_') {
                    i += 1;
                }
                if matches!(&source[start..i], "not" | "and" | "or" | "in" | "if" | "else" | "lambda" | "for")
                {
                    chains.iter_mut().last().into_iter().for_each(|chain| *chain += 1);
                }
                if chains.last().is_some_and(|chain| *chain > MAX_CHAIN) {
                    return too_deep(
                        line,
                        format!("an expression with more than {MAX_CHAIN} operators in a row"),
                    );
                }
                continue;
            }
            _ => {}
        }
        if chains.last().is_some_and(|chain| *chain > MAX_CHAIN) {
            return too_deep(line, format!("an expression with more than {MAX_CHAIN} operators in a row"));
        }
        i += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_depth;

    fn check(source: &str, expected: Option<&str>) {
        let found = check_depth("x.star", source).err().map(|error| error.one_line());
        assert_eq!(found.as_deref(), expected, "for {:.60}", source);
    }

    #[test]
    fn ordinary_text_passes() {
        check("", None);
        check("x = [(1, 2), {'a': [3]}]  # ((((\n", None);
        check("s = '''((((((\n((((('''\nt = \"(((\"\nu = r'\\'\n", None);
        check(&format!("x = [{}]", "1, -2, a.b(3),\n".repeat(20_000)), None);
        check(&"if x:\n    y = 1\nelif z:\n    y = 2\n".repeat(600), None);
        check(&"def f():\n    return 1 + 2\n\n".repeat(5_000), None);
    }

    #[test]
    fn deep_text_is_refused_where_it_gets_deep() {
        check(&"[".repeat(100_000), Some("x.star:1:1: brackets nested deeper than 150"));
        check(
            &format!("x = 1\ny = {}1", "-".repeat(5000)),
            Some("x.star:2:1: an expression with more than 1000 operators in a row"),
        );
        check(
            &format!("x = {}1", "not ".repeat(5000)),
            Some("x.star:1:1: an expression with more than 1000 operators in a row"),
        );
        check(
            &format!("x = f{}", "()".repeat(5000)),
            Some("x.star:1:1: an expression with more than 1000 operators in a row"),
        );
        let mut nested = String::new();
        for depth in 0..200 {
            nested.push_str(&" ".repeat(depth));
            nested.push_str("if x:\n");
        }
        check(&nested, Some("x.star:101:1: blocks nested deeper than 100"));
        let chain = format!("if x:\n    y = 0\n{}", "elif x:\n    y = 1\n".repeat(2000));
        assert!(check_depth("x.star", &chain).is_err());
    }
}
