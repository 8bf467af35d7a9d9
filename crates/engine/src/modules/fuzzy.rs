//! `fuzzy`: finds what someone meant among many texts.

use fuzzy_matcher::FuzzyMatcher;
use fuzzy_matcher::skim::SkimMatcherV2;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::dict::DictRef;
use starlark::values::list::AllocList;
use starlark::values::none::NoneOr;
use starloom_builtins_macro::builtins;

use crate::context::Rounds;
use crate::convert::alloc_dict;

/// The matcher compares each letter of the query with each letter of the text.
const MAX_COMPARISONS: usize = 200_000_000;

/// Which fields of a dict are searched.
enum Fields {
    All,
    Named(Vec<String>),
}

struct Search<'v, 'a> {
    function: &'static str,
    query: &'a str,
    items: Value<'v>,
    key: NoneOr<Value<'v>>,
    keys: NoneOr<Value<'v>>,
    limit: NoneOr<Value<'v>>,
}

/// The items that match, best first, each with its score.
fn search<'v>(search: Search<'v, '_>, eval: &Evaluator<'v, '_, '_>) -> anyhow::Result<Vec<(i64, Value<'v>)>> {
    let function = search.function;
    let fields = fields(&search, eval)?;
    let limit = match search.limit.into_option() {
        None => usize::MAX,
        Some(limit) => match limit.unpack_i32() {
            Some(limit) if limit > 0 => limit as usize,
            Some(_) => usize::MAX,
            None => anyhow::bail!("fuzzy.{function}: limit must be an integer"),
        },
    };
    let items = search.items.iterate(eval.heap()).map_err(|_| {
        anyhow::anyhow!("fuzzy.{function}: items must be iterable: got {}", search.items.get_type())
    })?;
    let matcher = SkimMatcherV2::default();
    let query_len = search.query.chars().count();
    let mut rounds = Rounds::default();
    let mut found: Vec<(i64, Value)> = Vec::new();
    for item in items {
        let joined;
        let text = match item.unpack_str() {
            Some(text) => text,
            None => match searched_text(item, &fields) {
                Some(text) => {
                    joined = text;
                    joined.as_str()
                }
                None => continue,
            },
        };
        let comparisons = query_len.saturating_mul(text.len());
        anyhow::ensure!(
            comparisons <= MAX_COMPARISONS,
            "fuzzy.{function}: a query of {query_len} characters is too long for a text of {}",
            text.len()
        );
        rounds.tick_by(1 + comparisons / 1000)?;
        if let Some(score) = matcher.fuzzy_match(text, search.query) {
            found.push((score, item));
        }
    }
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.truncate(limit);
    Ok(found)
}

fn fields<'v>(search: &Search<'v, '_>, eval: &Evaluator<'v, '_, '_>) -> anyhow::Result<Fields> {
    let function = search.function;
    match (search.key.into_option(), search.keys.into_option()) {
        (Some(_), Some(_)) => {
            anyhow::bail!("fuzzy.{function}: cannot specify both 'key' and 'keys' parameters")
        }
        (Some(key), None) => match key.unpack_str() {
            Some(key) => Ok(Fields::Named(vec![key.to_owned()])),
            None => anyhow::bail!("fuzzy.{function}: key must be a string"),
        },
        (None, Some(keys)) => {
            let problem = || anyhow::anyhow!("fuzzy.{function}: keys must be a list of strings");
            let mut names = Vec::new();
            for key in keys.iterate(eval.heap()).map_err(|_| problem())? {
                names.push(key.unpack_str().ok_or_else(problem)?.to_owned());
            }
            Ok(if names.is_empty() { Fields::All } else { Fields::Named(names) })
        }
        (None, None) => Ok(Fields::All),
    }
}

/// The texts of a dict's fields, joined; `None` for anything but a dict.
fn searched_text(item: Value, fields: &Fields) -> Option<String> {
    let dict = DictRef::from_value(item)?;
    let texts: Vec<&str> = match fields {
        Fields::All => dict.values().filter_map(|value| value.unpack_str()).collect(),
        Fields::Named(names) => {
            names.iter().filter_map(|name| dict.get_str(name).and_then(|value| value.unpack_str())).collect()
        }
    };
    Some(texts.join(" "))
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The items that match a query, best first. Letters must occur in order, not side by side.
    ///
    /// Upper case in the query makes it case-sensitive. Items that are neither strings nor dicts are
    /// left out.
    ///
    /// Args:
    ///     query: what to look for
    ///     items: list of strings or of dicts
    ///     key: the field of a dict to search
    ///     keys: list of fields to search; without `key` and `keys`, all that are strings
    ///     limit: how many to return at most; `None` or 0 for all
    fn search<'v>(
        query: &str,
        items: Value<'v>,
        #[starlark(default = NoneOr::None)] key: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] keys: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] limit: NoneOr<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let found = self::search(Search { function: "search", query, items, key, keys, limit }, eval)?;
        Ok(eval.heap().alloc(AllocList(found.into_iter().map(|(_, item)| item))))
    }

    /// As `fuzzy.search`, but each item comes as `{"item", "score"}`.
    ///
    /// Args:
    ///     query: what to look for
    ///     items: list of strings or of dicts
    ///     key: the field of a dict to search
    ///     keys: list of fields to search; without `key` and `keys`, all that are strings
    ///     limit: how many to return at most; `None` or 0 for all
    fn search_with_scores<'v>(
        query: &str,
        items: Value<'v>,
        #[starlark(default = NoneOr::None)] key: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] keys: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] limit: NoneOr<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let function = "search_with_scores";
        let found = self::search(Search { function, query, items, key, keys, limit }, eval)?;
        let heap = eval.heap();
        let scored = found
            .into_iter()
            .map(|(score, item)| alloc_dict(heap, [("item", item), ("score", heap.alloc(score))]));
        Ok(heap.alloc(AllocList(scored)))
    }
}
