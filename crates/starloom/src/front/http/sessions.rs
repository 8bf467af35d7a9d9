//! The sessions of legacy clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::front::Peer;

/// Clients seldom say goodbye: a session nobody used for this long has ended.
const IDLE: Duration = Duration::from_secs(3600);
const MAX_SESSIONS: usize = 20_000;

pub struct Session {
    pub peer: Peer,
    pub ended: CancellationToken,
    last_used: Mutex<Instant>,
}

impl Session {
    pub fn new(peer: Peer) -> Session {
        Session { peer, ended: CancellationToken::new(), last_used: Mutex::new(Instant::now()) }
    }

    pub fn touch(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle(&self) -> Duration {
        self.last_used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn end(&self) {
        self.ended.cancel();
        self.peer.cancel_all();
    }
}

#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

impl Sessions {
    fn table(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The new session's key, or `None` when there are too many.
    pub fn add(&self, session: Arc<Session>) -> Option<String> {
        let mut table = self.table();
        if table.len() >= MAX_SESSIONS {
            table.retain(|_, session| {
                session.idle() < IDLE || {
                    session.end();
                    false
                }
            });
            if table.len() >= MAX_SESSIONS {
                return None;
            }
        }
        let key = uuid::Uuid::new_v4().to_string();
        table.insert(key.clone(), session);
        Some(key)
    }

    pub fn get(&self, key: &str) -> Option<Arc<Session>> {
        let mut table = self.table();
        let session = table.get(key)?.clone();
        if session.idle() >= IDLE {
            table.remove(key);
            session.end();
            return None;
        }
        session.touch();
        Some(session)
    }

    pub fn end(&self, key: &str) -> bool {
        match self.table().remove(key) {
            Some(session) => {
                session.end();
                true
            }
            None => false,
        }
    }

    pub fn count(&self) -> usize {
        self.table().len()
    }
}
