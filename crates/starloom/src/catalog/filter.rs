//! `--tools` and `--exclude`: which tools of the catalog are served.

use globset::{GlobBuilder, GlobMatcher};

/// Patterns over tool names in which case, `-` and `_` do not matter.
#[derive(Debug, Clone, Default)]
pub struct ToolFilter {
    /// Empty: everything.
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    written: String,
    matcher: GlobMatcher,
}

#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum FilterError {
    #[error("`{pattern}` is not a pattern of tool names: {problem}")]
    Pattern { pattern: String, problem: String },
    #[error("no tool matches `{pattern}`")]
    Unknown { pattern: String, nearest: Option<String> },
}

/// `listIssues`, `list-issues` and `list_issues` are one name to a person.
fn fold(name: &str) -> String {
    name.chars().filter(|c| *c != '-' && *c != '_').flat_map(char::to_lowercase).collect()
}

impl ToolFilter {
    pub fn new(include: &[String], exclude: &[String]) -> Result<ToolFilter, FilterError> {
        let patterns = |texts: &[String]| -> Result<Vec<Pattern>, FilterError> {
            let names = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
            names.filter(|name| !name.is_empty()).map(pattern).collect()
        };
        Ok(ToolFilter { include: patterns(include)?, exclude: patterns(exclude)? })
    }

    pub fn admits(&self, name: &str) -> bool {
        let name = fold(name);
        let matches = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matcher.is_match(&name));
        (self.include.is_empty() || matches(&self.include)) && !matches(&self.exclude)
    }

    /// A pattern that matches nothing is a mistake; it must not pass for "serve nothing".
    pub fn check<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Result<(), FilterError> {
        for pattern in self.include.iter().chain(&self.exclude) {
            if !names.clone().any(|name| pattern.matcher.is_match(fold(name))) {
                let nearest = starloom_engine::nearest(&pattern.written, names.clone()).map(str::to_owned);
                return Err(FilterError::Unknown { pattern: pattern.written.clone(), nearest });
            }
        }
        Ok(())
    }
}

fn pattern(written: &str) -> Result<Pattern, FilterError> {
    GlobBuilder::new(&fold(written))
        .build()
        .map(|glob| Pattern { written: written.to_owned(), matcher: glob.compile_matcher() })
        .map_err(|error| FilterError::Pattern {
            pattern: written.to_owned(),
            problem: error.kind().to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(include: &[&str], exclude: &[&str], expected: &[&str]) {
        let own = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        let filter = ToolFilter::new(&own(include), &own(exclude)).expect("patterns");
        let names = ["list_issues", "create_issue", "getForecast"];
        let admitted: Vec<&str> = names.into_iter().filter(|name| filter.admits(name)).collect();
        assert_eq!(admitted, expected, "{include:?} without {exclude:?}");
    }

    #[test]
    fn patterns_admit_by_name_whatever_its_spelling() {
        check(&[], &[], &["list_issues", "create_issue", "getForecast"]);
        check(&["listIssues"], &[], &["list_issues"]);
        check(&["get-forecast,CREATE_ISSUE"], &[], &["create_issue", "getForecast"]);
        check(&["*issue*"], &["create*"], &["list_issues"]);
    }

    #[test]
    fn an_unknown_name_is_an_error_with_the_nearest() {
        let filter = ToolFilter::new(&["list_isues".to_owned()], &[]).expect("patterns");
        assert_eq!(
            filter.check(["list_issues"].into_iter()),
            Err(FilterError::Unknown {
                pattern: "list_isues".to_owned(),
                nearest: Some("list_issues".to_owned())
            })
        );
    }
}
