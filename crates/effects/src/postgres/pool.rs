//! Connections, kept for the next call.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use deadpool::managed::{self, Metrics, Object, PoolError, RecycleError, RecycleResult};
use starloom_engine::Json;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::PostgresError;
use super::statement::{After, Limits, Statement};
use super::target::{Target, TargetHost};
use crate::Scope;
use crate::hosts::HostPermit;
use crate::resolve::Resolver;
use crate::tls::{self, Trust};

const MAX_POOLS: usize = 32;
const MAX_CONNECTIONS: usize = 8;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIME: Duration = Duration::from_secs(60);

/// How long a connection may take to end after its statement was cancelled.
const ENDING_TIMEOUT: Duration = Duration::from_secs(10);
const CANCEL_AGAIN: Duration = Duration::from_millis(100);

pub(super) type Pool = managed::Pool<Manager>;

/// A pool per connection string and what its hosts were permitted, the last used one at the end.
#[derive(Default)]
pub(crate) struct Pools {
    pools: Mutex<Vec<(Key, Pool)>>,
}

#[derive(PartialEq, Eq)]
struct Key {
    connection: String,
    permits: Vec<HostPermit>,
}

impl Pools {
    pub(super) fn get(&self, scope: &Scope, connection: &str, target: Target) -> Result<Pool, PostgresError> {
        let permits = target
            .hosts
            .iter()
            .map(|host| check(scope, host))
            .collect::<Result<Vec<HostPermit>, PostgresError>>()?;
        if let Trust::Chain { roots: Some(path) } | Trust::Full { roots: Some(path) } = &target.trust {
            check_roots(scope, path)?;
        }
        let key = Key { connection: connection.to_owned(), permits };
        let mut unused = Vec::new();
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, pool) in pools.iter() {
            unused.extend(pool.retain(|_, metrics| metrics.last_used() < IDLE_TIME).removed);
        }
        let pool = match pools.iter().position(|(known, _)| *known == key) {
            Some(index) => pools.remove(index).1,
            None => Manager::new(scope, target, &key.permits)?.into_pool()?,
        };
        pools.push((key, pool.clone()));
        if pools.len() > MAX_POOLS {
            // Calls under way keep it until they are done.
            pools.remove(0);
        }
        Ok(pool)
    }
}

fn check(scope: &Scope, host: &TargetHost) -> Result<HostPermit, PostgresError> {
    if let Some(address) = host.address {
        scope.grants.check_host(&address.to_string(), host.port)?;
    }
    Ok(scope.grants.check_host(&host.name, host.port)?)
}

fn check_roots(scope: &Scope, path: &Path) -> Result<(), PostgresError> {
    if scope.grants.restricts_paths() {
        scope.grants.check_path(&path.to_string_lossy())?;
    }
    Ok(())
}

/// Runs a statement on a connection of the pool.
pub(super) async fn run(
    pool: &Pool,
    runtime: &Handle,
    statement: &Statement,
    limits: &Limits,
) -> Result<Json, PostgresError> {
    loop {
        let connection = pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error,
            other => PostgresError::Connect(other.to_string()),
        })?;
        let is_used = Object::metrics(&connection).recycle_count > 0;
        let mut lease = Lease { connection: Some(connection), runtime: runtime.clone() };
        let Some(client) = lease.client() else {
            continue;
        };
        let done = statement.run(client, limits).await;
        match done.after {
            After::Clean => lease.give_back(),
            After::Spent => lease.discard(),
            After::Busy => drop(lease),
        }
        match done.answer {
            // It died while it lay in the pool, say because the server was restarted. Nothing was done yet.
            Err(PostgresError::Lost { .. }) if is_used => {}
            answer => return answer,
        }
    }
}

/// A connection in use. Dropped while its statement runs, it has the server end the statement.
struct Lease {
    connection: Option<Object<Manager>>,
    runtime: Handle,
}

impl Lease {
    fn client(&self) -> Option<&Client> {
        self.connection.as_ref().map(|connection| &connection.client)
    }

    fn give_back(&mut self) {
        drop(self.connection.take());
    }

    fn discard(&mut self) {
        drop(self.connection.take().map(Object::take));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.runtime.spawn(Object::take(connection).end());
        }
    }
}

pub(super) struct Connection {
    client: Client,
    /// Moves the bytes. Ends by itself when the client is gone and nothing is under way.
    task: JoinHandle<()>,
    tls: MakeRustlsConnect,
}

impl Connection {
    /// Has the server end the statement, and closes the connection.
    ///
    /// Said again and again: a word that arrives before the statement itself is not heard.
    async fn end(mut self) {
        let token = self.client.cancel_token();
        // Without its client the task ends as soon as the statement has.
        drop(self.client);
        let ending = async {
            loop {
                if let Err(error) = token.cancel_query(self.tls.clone()).await {
                    tracing::debug!(%error, "a statement could not be cancelled");
                }
                if tokio::time::timeout(CANCEL_AGAIN, &mut self.task).await.is_ok() {
                    return;
                }
            }
        };
        if tokio::time::timeout(ENDING_TIMEOUT, ending).await.is_err() {
            self.task.abort();
        }
    }
}

pub(super) struct Manager {
    config: Config,
    hosts: Vec<(TargetHost, HostPermit)>,
    tls: MakeRustlsConnect,
    resolver: Resolver,
}

impl Manager {
    fn new(scope: &Scope, target: Target, permits: &[HostPermit]) -> Result<Manager, PostgresError> {
        let services = scope.services;
        let tls = MakeRustlsConnect::new(tls::config(&target.trust, &services.roots)?);
        let mut config = target.config;
        config.connect_timeout(CONNECT_TIMEOUT);
        Ok(Manager {
            config,
            hosts: target.hosts.into_iter().zip(permits.iter().copied()).collect(),
            tls,
            resolver: Resolver::new(services.options.resolve.clone()),
        })
    }

    fn into_pool(self) -> Result<Pool, PostgresError> {
        Pool::builder(self)
            .max_size(MAX_CONNECTIONS)
            .build()
            .map_err(|error| PostgresError::Connect(error.to_string()))
    }

    /// The ways to reach one host, each as a configuration of its own.
    async fn ways(&self, host: &TargetHost, permit: HostPermit) -> Result<Vec<Config>, PostgresError> {
        let mut config = self.config.clone();
        config.host(&host.name).port(host.port);
        if host.is_socket() {
            return Ok(vec![config]);
        }
        let addresses = match host.address {
            Some(address) => vec![address],
            None => self.resolver.lookup(&host.name, permit).await?,
        };
        let way = |address| {
            let mut config = config.clone();
            config.hostaddr(address);
            config
        };
        Ok(addresses.into_iter().map(way).collect())
    }

    async fn connect(&self, config: &Config) -> Result<Connection, PostgresError> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, config.connect(self.tls.clone()));
        let (client, connection) = match connecting.await {
            Ok(connected) => connected.map_err(|error| PostgresError::connect(&error))?,
            Err(_) => {
                let seconds = CONNECT_TIMEOUT.as_secs();
                return Err(PostgresError::Connect(format!("no answer within {seconds} s")));
            }
        };
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a PostgreSQL connection ended");
            }
        });
        Ok(Connection { client, task, tls: self.tls.clone() })
    }
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = PostgresError;

    /// Tries hosts and addresses in order; the last failure is the one told.
    async fn create(&self) -> Result<Connection, PostgresError> {
        let mut failure = PostgresError::Connect("there is no host".to_owned());
        for (host, permit) in &self.hosts {
            let ways = match self.ways(host, *permit).await {
                Ok(ways) => ways,
                Err(error) => {
                    failure = error;
                    continue;
                }
            };
            for way in ways {
                match self.connect(&way).await {
                    Ok(connection) => return Ok(connection),
                    Err(error) => failure = error,
                }
            }
        }
        Err(failure)
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<PostgresError> {
        if connection.client.is_closed() {
            return Err(RecycleError::message("closed"));
        }
        Ok(())
    }
}
