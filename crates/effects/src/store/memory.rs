//! A store that ends with the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use super::{Entry, StoreError, Table, now};

#[derive(Default)]
pub(crate) struct MemoryStore {
    sources: Mutex<HashMap<String, BTreeMap<String, Entry>>>,
}

impl MemoryStore {
    pub(super) fn transact<T>(
        &self,
        source: &str,
        work: impl FnOnce(&mut dyn Table) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = match sources.get_mut(source) {
            Some(entries) => entries,
            None => sources.entry(source.to_owned()).or_default(),
        };
        work(&mut MemoryTable(entries))
    }
}

struct MemoryTable<'a>(&'a mut BTreeMap<String, Entry>);

fn is_alive(entry: &Entry) -> bool {
    entry.expires.is_none_or(|expires| expires > now())
}

impl Table for MemoryTable<'_> {
    fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        Ok(self.0.get(key).filter(|entry| is_alive(entry)).cloned())
    }

    fn put(&mut self, key: &str, entry: Entry) -> Result<(), StoreError> {
        // A new key is when the table grows, so then what has expired is cleared away.
        if !self.0.contains_key(key) && self.0.len().is_power_of_two() {
            self.0.retain(|_, entry| is_alive(entry));
        }
        self.0.insert(key.to_owned(), entry);
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<bool, StoreError> {
        Ok(self.0.remove(key).is_some_and(|entry| is_alive(&entry)))
    }

    fn keys(&self, prefix: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let keys = self
            .0
            .range(prefix.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(_, entry)| is_alive(entry))
            .map(|(key, _)| key.clone())
            .take(limit);
        Ok(keys.collect())
    }
}
