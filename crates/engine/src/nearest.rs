//! "Did you mean": the known name closest to a mistyped one.

/// The candidate nearest to `name`, if any is near enough to be worth suggesting.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = fold(name);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name)
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &fold(candidate)), candidate))
        // A third of the letters may differ: `strng` finds `string`, `x` does not find `y`.
        .filter(|(distance, candidate)| *distance * 3 <= name.chars().count().max(candidate.chars().count()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Case, `-` and `_` never make two names different to a person.
fn fold(name: &str) -> String {
    name.chars().filter(|c| *c != '-' && *c != '_').flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn suggests_only_what_is_near() {
        let names = ["string", "integer", "boolean", "list_issues"];
        assert_eq!(nearest("strng", names), Some("string"));
        assert_eq!(nearest("listIssues", names), Some("list_issues"));
        assert_eq!(nearest("bool", names), None);
        assert_eq!(nearest("quux", names), None);
    }
}
