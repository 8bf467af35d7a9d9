//! `store` of one test: in memory, empty at the start, its values ending by the test's own clock.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use starloom_effects::{Scope, Services, ServicesOptions, perform};
use starloom_engine::{Effect, EffectError, Json, StoreOperation};

/// Nanoseconds since the Unix epoch.
type Moment = i128;

#[derive(Default)]
pub struct TestStore {
    /// Only its store is used. Most tests need none.
    services: OnceLock<Services>,
    /// When values end, by source and key.
    ends: Mutex<HashMap<(String, String), Moment>>,
}

impl TestStore {
    pub fn run(&self, operation: &StoreOperation, scope: &Scope, now: Moment) -> Result<Json, EffectError> {
        let services = self.services.get_or_init(|| Services::new(ServicesOptions::default()));
        let perform = |operation| perform(&Scope { services, ..*scope }, Effect::Store(operation));
        let source = &scope.grants.source;
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let over: Vec<String> = ends
            .iter()
            .filter(|((of, _), end)| of == source && **end <= now)
            .map(|((_, key), _)| key.clone())
            .collect();
        for key in over {
            ends.remove(&(source.clone(), key.clone()));
            perform(StoreOperation::Delete { key })?;
        }
        let at = |key: &str| (source.clone(), key.to_owned());
        match operation {
            StoreOperation::Set { key, value, ttl } => {
                let end = end(*ttl, now);
                // A `ttl` that makes no sense goes on, to be refused as always.
                let ttl = ttl.filter(|_| end.is_none());
                let answer = perform(StoreOperation::Set { key: key.clone(), value: value.clone(), ttl })?;
                match end {
                    Some(end) => ends.insert(at(key), end),
                    None => ends.remove(&at(key)),
                };
                Ok(answer)
            }
            StoreOperation::Increment { key, by, ttl } => {
                let end = end(*ttl, now);
                let ttl = ttl.filter(|_| end.is_none());
                let is_new = perform(StoreOperation::Get { key: key.clone() })?.is_null();
                let answer = perform(StoreOperation::Increment { key: key.clone(), by: *by, ttl })?;
                // It counts from the first increment.
                if let Some(end) = end.filter(|_| is_new) {
                    ends.insert(at(key), end);
                }
                Ok(answer)
            }
            StoreOperation::Delete { key } => {
                ends.remove(&at(key));
                perform(operation.clone())
            }
            StoreOperation::Get { .. }
            | StoreOperation::Keys { .. }
            | StoreOperation::CompareAndSet { .. } => perform(operation.clone()),
        }
    }
}

fn end(ttl: Option<f64>, now: Moment) -> Option<Moment> {
    // The cast saturates.
    ttl.filter(|ttl| *ttl > 0.0).map(|ttl| now.saturating_add((ttl * 1e9) as Moment))
}
