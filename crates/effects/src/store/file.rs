//! A store in a SQLite file, which several processes may share.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

use super::{Entry, StoreError, Table, now};
use crate::Scope;
use crate::sqlite::connections::{Access, Connections, Database, Lent};
use crate::sqlite::guard::{interruptible, released};

const CREATE_TIMEOUT: Duration = Duration::from_secs(5);
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// The form of the table below. A file with another one is not touched.
const VERSION: i64 = 1;

const CREATE: &str = "CREATE TABLE IF NOT EXISTS store (
    source TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    expires INTEGER,
    PRIMARY KEY (source, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS store_expires ON store (expires) WHERE expires IS NOT NULL;
PRAGMA user_version = 1;";

pub(crate) struct FileStore {
    path: PathBuf,
    connections: Connections,
    /// When expired values were last cleared away.
    swept: Mutex<Option<Instant>>,
}

impl FileStore {
    pub(super) fn new(path: PathBuf) -> FileStore {
        FileStore { path, connections: Connections::default(), swept: Mutex::new(None) }
    }

    /// Runs `work` in a transaction of its own. Those that only read do not wait for anyone.
    pub(super) fn transact<T>(
        &self,
        scope: &Scope,
        access: Access,
        work: impl FnOnce(&mut dyn Table) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let database = Database::File { path: self.path.clone(), restricted: false };
        self.prepare_file()?;
        // Always able to write: a store is set up by whoever comes first.
        let mut lent = self.connections.take(&database, Access::Write).map_err(|error| self.failed(error))?;
        interruptible(&mut lent.connection, scope.stop, scope.cancelled)
            .map_err(|error| self.failed(error))?;
        let outcome = self
            .set_up(scope, &lent.connection)
            .and_then(|()| self.work(&mut lent, access, &scope.grants.source, work));
        // After a failure of the file itself a fresh connection is the better start.
        let usable = !matches!(outcome, Err(StoreError::File { .. }));
        if usable && released(&mut lent.connection).is_ok() {
            self.connections.give_back(&database, Access::Write, lent);
        }
        outcome
    }

    fn work<T>(
        &self,
        lent: &mut Lent,
        access: Access,
        source: &str,
        work: impl FnOnce(&mut dyn Table) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let behavior = match access {
            Access::Read => TransactionBehavior::Deferred,
            Access::Write => TransactionBehavior::Immediate,
        };
        let transaction =
            lent.connection.transaction_with_behavior(behavior).map_err(|error| self.failed(error))?;
        if access == Access::Write && self.is_time_to_sweep() {
            transaction
                .execute("DELETE FROM store WHERE expires <= ?1", [now()])
                .map_err(|error| self.failed(error))?;
        }
        let answer = work(&mut FileTable { store: self, connection: &transaction, source })?;
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(answer)
    }

    /// The file may hold secrets, so nobody else may read it from its first moment on.
    fn prepare_file(&self) -> Result<(), StoreError> {
        if self.path.exists() {
            return Ok(());
        }
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|error| self.failed(error))?;
        }
        // Never opened here if it exists: to close it would take away the locks SQLite has on it.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Asked each time: the file may have been replaced, and the answer is cheap.
    fn set_up(&self, scope: &Scope, connection: &Connection) -> Result<(), StoreError> {
        let failed = |error: rusqlite::Error| self.failed(error);
        let version: i64 =
            connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
        match version {
            VERSION => {}
            0 => self.create(scope, connection)?,
            other => {
                return Err(self.failed(format!("it has version {other}, and this program knows {VERSION}")));
            }
        }
        // Safe with a write-ahead log: a power cut may take the last changes, never the file.
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(failed)
    }

    fn create(&self, scope: &Scope, connection: &Connection) -> Result<(), StoreError> {
        let started = Instant::now();
        loop {
            let created = connection
                .pragma_update(None, "journal_mode", "WAL")
                .and_then(|()| connection.execute_batch(&format!("BEGIN IMMEDIATE; {CREATE} COMMIT;")));
            match created {
                Ok(()) => return Ok(()),
                // Whoever changes the journal's mode does not wait for others who do so too.
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && !scope.is_stopped()
                        && started.elapsed() < CREATE_TIMEOUT =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn is_time_to_sweep(&self) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let due = swept.is_none_or(|swept| swept.elapsed() > SWEEP_EVERY);
        if due {
            *swept = Some(Instant::now());
        }
        due
    }

    fn failed(&self, reason: impl ToString) -> StoreError {
        StoreError::File { path: self.path.clone(), reason: reason.to_string() }
    }
}

struct FileTable<'a> {
    store: &'a FileStore,
    connection: &'a Connection,
    source: &'a str,
}

impl Table for FileTable<'_> {
    fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.connection
            .prepare_cached(
                "SELECT value, expires FROM store WHERE source = ?1 AND key = ?2
                 AND (expires IS NULL OR expires > ?3)",
            )
            .and_then(|mut statement| {
                let entry = |row: &rusqlite::Row| Ok(Entry { value: row.get(0)?, expires: row.get(1)? });
                statement.query_row(params![self.source, key, now()], entry).optional()
            })
            .map_err(|error| self.store.failed(error))
    }

    fn put(&mut self, key: &str, entry: Entry) -> Result<(), StoreError> {
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO store (source, key, value, expires) VALUES (?1, ?2, ?3, ?4)",
            )
            .and_then(|mut statement| {
                statement.execute(params![self.source, key, entry.value, entry.expires])
            })
            .map(drop)
            .map_err(|error| self.store.failed(error))
    }

    fn delete(&mut self, key: &str) -> Result<bool, StoreError> {
        let was_there = self.get(key)?.is_some();
        self.connection
            .prepare_cached("DELETE FROM store WHERE source = ?1 AND key = ?2")
            .and_then(|mut statement| statement.execute(params![self.source, key]))
            .map_err(|error| self.store.failed(error))?;
        Ok(was_there)
    }

    fn keys(&self, prefix: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.connection
            .prepare_cached(
                "SELECT key FROM store WHERE source = ?1 AND key >= ?2 AND substr(key, 1, length(?2)) = ?2
                 AND (expires IS NULL OR expires > ?3) ORDER BY key LIMIT ?4",
            )
            .and_then(|mut statement| {
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                let rows =
                    statement.query_map(params![self.source, prefix, now(), limit], |row| row.get(0))?;
                rows.collect()
            })
            .map_err(|error| self.store.failed(error))
    }
}
