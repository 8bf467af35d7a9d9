//! Names of result columns.

/// A second `id` becomes `id_2`, or the first such name that is still free.
pub(crate) fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let mut distinct: Vec<String> = Vec::with_capacity(names.len());
    for name in &names {
        let is_taken = |candidate: &str| distinct.iter().any(|known| known == candidate);
        if !is_taken(name) {
            distinct.push((*name).to_owned());
            continue;
        }
        let free = (2..)
            .map(|number: u32| format!("{name}_{number}"))
            .find(|candidate| !is_taken(candidate) && !names.contains(&candidate.as_str()));
        distinct.push(free.unwrap_or_default());
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::distinct;

    #[test]
    fn names_are_made_distinct() {
        for (names, expected) in [
            (vec!["a", "b"], vec!["a", "b"]),
            (vec!["a", "a", "a"], vec!["a", "a_2", "a_3"]),
            (vec!["a", "a", "a_2"], vec!["a", "a_3", "a_2"]),
        ] {
            assert_eq!(distinct(names.into_iter()), expected);
        }
    }
}
