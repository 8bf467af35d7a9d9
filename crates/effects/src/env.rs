//! Variables: those of `--env` and the config first, then the process's own.

use starloom_engine::{EffectError, Json, JsonObject};

use crate::Grants;

pub(crate) fn get(grants: &Grants, name: &str) -> Result<Json, EffectError> {
    grants.check_env(name)?;
    let value = match grants.env.get(name) {
        Some(value) => Some(value.clone()),
        // Not UTF-8 counts as unset.
        None => std::env::var(name).ok(),
    };
    Ok(value.map_or(Json::Null, Json::from))
}

/// What the script may see. Nothing is said of the rest.
pub(crate) fn all(grants: &Grants) -> Json {
    let process = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let given = grants.env.iter().map(|(name, value)| (name.clone(), value.clone()));
    let mut visible: Vec<(String, String)> =
        process.chain(given).filter(|(name, _)| grants.check_env(name).is_ok()).collect();
    // Stable, so of two values for a name the given one stays the later one and wins below.
    visible.sort_by(|a, b| a.0.cmp(&b.0));
    Json::Object(JsonObject::from_iter(visible.into_iter().map(|(name, value)| (name, Json::from(value)))))
}
