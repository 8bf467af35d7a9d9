//! Open databases, kept for the next call.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use super::values;
use crate::Grants;
use crate::grants::Denied;

const MAX_IDLE_PER_FILE: usize = 4;
const MAX_IDLE: usize = 64;
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The largest text or blob SQLite may make or read: its own limit of 1 GB is more than a call may use.
const MAX_VALUE_BYTES: i32 = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("the path is empty")]
    NoPath,
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{0}")]
    Denied(#[from] Denied),
    #[error("{}", values::reason(.0))]
    Sqlite(#[from] rusqlite::Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Read,
    Write,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Database {
    /// Fresh each time.
    Memory,
    File {
        path: PathBuf,
        restricted: bool,
    },
}

impl Database {
    pub(crate) fn locate(grants: &Grants, path: &str) -> Result<Database, OpenError> {
        match path {
            ":memory:" => Ok(Database::Memory),
            "" => Err(OpenError::NoPath),
            path => {
                Ok(Database::File { path: grants.check_path(path)?, restricted: grants.restricts_paths() })
            }
        }
    }
}

/// Which file it was when it was opened: a path may come to mean another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &Path) -> Option<FileId> {
        fs::metadata(path).ok().map(|metadata| FileId { device: metadata.dev(), inode: metadata.ino() })
    }
}

struct Idle {
    connection: Connection,
    file: FileId,
    since: Instant,
}

type Key = (PathBuf, Access, bool);

#[derive(Default)]
pub(crate) struct Connections {
    idle: Mutex<HashMap<Key, Vec<Idle>>>,
}

/// A connection, and the file it was opened on if it is one to keep.
pub(crate) struct Lent {
    pub(crate) connection: Connection,
    file: Option<FileId>,
}

impl Connections {
    pub(crate) fn take(&self, database: &Database, access: Access) -> Result<Lent, OpenError> {
        let Database::File { path, restricted } = database else {
            return Ok(Lent { connection: open_memory()?, file: None });
        };
        let file = FileId::of(path);
        let key = (path.clone(), access, *restricted);
        let mut stale = Vec::new();
        let kept = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            sweep(&mut idle, &mut stale);
            let mut kept = None;
            if let Some(connections) = idle.get_mut(&key) {
                stale.extend(connections.extract_if(.., |idle| Some(idle.file) != file));
                kept = connections.pop();
            }
            kept
        };
        // Outside the lock: closing a database may write.
        drop(stale);
        match kept {
            Some(idle) => Ok(Lent { connection: idle.connection, file: Some(idle.file) }),
            None => {
                let connection = open(path, access, *restricted)?;
                Ok(Lent { connection, file: FileId::of(path) })
            }
        }
    }

    pub(crate) fn give_back(&self, database: &Database, access: Access, lent: Lent) {
        let (Database::File { path, restricted }, Some(file)) = (database, lent.file) else {
            return;
        };
        let mut stale = Vec::new();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        sweep(&mut idle, &mut stale);
        let total: usize = idle.values().map(Vec::len).sum();
        let connections = idle.entry((path.clone(), access, *restricted)).or_default();
        if total < MAX_IDLE && connections.len() < MAX_IDLE_PER_FILE {
            connections.push(Idle { connection: lent.connection, file, since: Instant::now() });
        }
        drop(idle);
        drop(stale);
    }
}

fn sweep(idle: &mut HashMap<Key, Vec<Idle>>, stale: &mut Vec<Idle>) {
    for connections in idle.values_mut() {
        stale.extend(connections.extract_if(.., |idle| idle.since.elapsed() > IDLE_TIME));
    }
    idle.retain(|_, connections| !connections.is_empty());
}

fn open_memory() -> Result<Connection, OpenError> {
    let connection = Connection::open_in_memory()?;
    limit(&connection)?;
    Ok(connection)
}

fn open(path: &Path, access: Access, restricted: bool) -> Result<Connection, OpenError> {
    let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | match access {
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
    if restricted {
        // The path is canonical. A link that stands in it now was put there after the check.
        flags |= OpenFlags::SQLITE_OPEN_NOFOLLOW;
    }
    // To open a pipe waits for its other end, and nothing could interrupt that.
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(OpenError::NotAFile(path.to_owned()));
    }
    let connection = Connection::open_with_flags(path, flags)?;
    limit(&connection)?;
    Ok(connection)
}

fn limit(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES).map(drop)
}
