//! A connection at work for one call: it can be interrupted, and leaves the files it may not open alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::ffi::SQLITE_ATTACH;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use starloom_engine::Stop;
use tokio_util::sync::CancellationToken;

use super::connections::Lent;
use crate::grants::Denied;
use crate::scope::is_stopped;
use crate::{Grants, Scope};

/// How long to wait for a lock another connection holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// SQLite's own steps between two tries. The last bounds how late a cancellation is seen.
const BUSY_DELAYS: [u64; 6] = [1, 2, 5, 10, 15, 20];

/// Virtual machine steps between two looks at the clock: some ten microseconds.
const STEPS: i32 = 1000;

/// Pragmas that only tell something although they take an argument.
const TELLING_PRAGMAS: [&str; 7] = [
    "foreign_key_check",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_xinfo",
];

pub(crate) struct Guarded {
    lent: Lent,
    watch: Arc<Watch>,
}

#[derive(Default)]
struct Watch {
    /// The statement changed the connection itself, which must then not serve another call.
    changed: AtomicBool,
    refused: Mutex<Option<Denied>>,
}

impl Guarded {
    pub(crate) fn new(mut lent: Lent, scope: &Scope) -> rusqlite::Result<Guarded> {
        let watch = Arc::new(Watch::default());
        interruptible(&mut lent.connection, scope.stop, scope.cancelled)?;
        let (looking, grants) = (Arc::clone(&watch), scope.grants.clone());
        lent.connection
            .authorizer(Some(move |context: AuthContext<'_>| looking.look_at(context, &grants)))?;
        Ok(Guarded { lent, watch })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.lent.connection
    }

    /// The connection, what it was refused, and whether it is as good as new.
    pub(crate) fn release(mut self) -> (Lent, Option<Denied>, bool) {
        let clean = !self.watch.changed.load(Ordering::Relaxed) && self.lent.connection.is_autocommit();
        let released = self
            .lent
            .connection
            .authorizer(None::<fn(AuthContext<'_>) -> Authorization>)
            .and_then(|()| released(&mut self.lent.connection));
        let refused = self.watch.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        (self.lent, refused, clean && released.is_ok())
    }
}

impl Watch {
    fn look_at(&self, context: AuthContext<'_>, grants: &Grants) -> Authorization {
        match context.action {
            AuthAction::Attach { filename } => return self.attach(Some(filename), grants),
            // A name that is computed only when the statement runs.
            AuthAction::Unknown { code: SQLITE_ATTACH, .. } => return self.attach(None, grants),
            AuthAction::Pragma { pragma_name, pragma_value: Some(_) }
                if !TELLING_PRAGMAS.contains(&pragma_name.to_ascii_lowercase().as_str()) =>
            {
                // It would let SQLite write its temporary files elsewhere.
                if grants.restricts_paths() && pragma_name.eq_ignore_ascii_case("temp_store_directory") {
                    return Authorization::Deny;
                }
                self.changed.store(true, Ordering::Relaxed);
            }
            AuthAction::Detach { .. }
            | AuthAction::CreateTempIndex { .. }
            | AuthAction::CreateTempTable { .. }
            | AuthAction::CreateTempTrigger { .. }
            | AuthAction::CreateTempView { .. }
            | AuthAction::Transaction { .. }
            | AuthAction::Savepoint { .. } => self.changed.store(true, Ordering::Relaxed),
            _ => {}
        }
        Authorization::Allow
    }

    /// `ATTACH`, and `VACUUM INTO`, which attaches under the hood, open files of their own.
    fn attach(&self, filename: Option<&str>, grants: &Grants) -> Authorization {
        self.changed.store(true, Ordering::Relaxed);
        if !grants.restricts_paths() {
            return Authorization::Allow;
        }
        let denied = match filename {
            Some("" | ":memory:") => return Authorization::Allow,
            // SQLite reads these as URIs, which can name any file.
            Some(uri) if uri.starts_with("file:") => Some(not_a_path(uri)),
            Some(path) => grants.check_path(path).err(),
            None => Some(not_a_path("ATTACH")),
        };
        match denied {
            None => Authorization::Allow,
            Some(denied) => {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(denied);
                Authorization::Deny
            }
        }
    }
}

fn not_a_path(text: &str) -> Denied {
    let reason = "with allowed_paths a file to attach has to be written as a plain path".to_owned();
    Denied::Unresolved { path: text.to_owned(), reason }
}

/// Makes long statements and waits for locks end when the call has to.
pub(crate) fn interruptible(
    connection: &mut Connection,
    stop: &Stop,
    cancelled: &CancellationToken,
) -> rusqlite::Result<()> {
    let (progress_stop, progress_cancelled) = (stop.clone(), cancelled.clone());
    connection.progress_handler(STEPS, Some(move || is_stopped(&progress_stop, &progress_cancelled)))?;
    let (busy_stop, busy_cancelled) = (stop.clone(), cancelled.clone());
    let mut waiting_since = Instant::now();
    connection.busy_handler(Some(move |tries: i32| {
        if tries == 0 {
            waiting_since = Instant::now();
        }
        if is_stopped(&busy_stop, &busy_cancelled) || waiting_since.elapsed() > BUSY_TIMEOUT {
            return false;
        }
        let step = usize::try_from(tries).unwrap_or(0).min(BUSY_DELAYS.len() - 1);
        std::thread::sleep(Duration::from_millis(BUSY_DELAYS[step]));
        true
    }))
}

/// Takes back what [`interruptible`] set: it belongs to a call that is over.
pub(crate) fn released(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.progress_handler(0, None::<fn() -> bool>)?;
    connection.busy_handler(None::<fn(i32) -> bool>)
}
