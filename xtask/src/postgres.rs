//! A PostgreSQL server for the tests: private port, temporary directory, loopback only,
//! TLS and passwords on. It ends with this process, however this process ends.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, bail};

use crate::{install, process, workspace};

const USER: &str = "starloom";
const START_LIMIT: Duration = Duration::from_secs(60);
const PORT_ATTEMPTS: usize = 3;
const PREFIX: &str = "starloom-postgres-";

pub struct Postgres {
    server: Child,
    directory: ScratchDirectory,
    url: String,
}

impl Postgres {
    pub fn start() -> Result<Postgres> {
        let programs = install::find_or_install_postgres()?;
        let openssl = install::find_or_install_program("openssl", &["openssl"])?;
        let account = Account::for_the_server()?;
        let directory = ScratchDirectory::create(account.as_ref())?;
        let password = random_password()?;
        make_certificate(&openssl, &directory, account.as_ref())?;
        initialise(&programs, &directory, account.as_ref(), &password)?;
        for attempt in 1.. {
            let port = free_port()?;
            match start_server(&programs, &directory, account.as_ref(), port) {
                Ok(server) => {
                    let url = format!("postgres://{USER}:{password}@127.0.0.1:{port}/postgres");
                    return Ok(Postgres { server, directory, url });
                }
                // Another process may have taken the port since we looked.
                Err(error) if attempt == PORT_ATTEMPTS => return Err(error),
                Err(_) => process::fail_if_stopped()?,
            }
        }
        unreachable!("the loop ends at the last attempt")
    }

    /// With user, password and database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server's self-signed certificate, to be trusted by a client that verifies.
    pub fn certificate(&self) -> PathBuf {
        self.directory.certificate()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // PostgreSQL's "fast" shutdown, then its "immediate" one.
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            process::send_signal(&self.server, signal);
            if process::ends_within(&mut self.server, Duration::from_secs(5)) {
                return;
            }
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn make_certificate(openssl: &Path, directory: &ScratchDirectory, account: Option<&Account>) -> Result<()> {
    // Not a certificate authority: verifiers such as webpki refuse one as a server's own certificate.
    const SETTINGS: &str = "\
[req]
prompt = no
distinguished_name = name
x509_extensions = extensions
[name]
CN = localhost
[extensions]
basicConstraints = critical, CA:FALSE
subjectAltName = DNS:localhost, IP:127.0.0.1
";
    let settings = directory.path.join("openssl.cnf");
    fs::write(&settings, SETTINGS)?;
    let mut request = workspace::command(openssl);
    request.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "30",
    ]);
    request.arg("-config").arg(&settings);
    request.arg("-keyout").arg(directory.key()).arg("-out").arg(directory.certificate());
    process::capture(&mut request).context("cannot make a certificate for PostgreSQL")?;
    fs::set_permissions(directory.key(), fs::Permissions::from_mode(0o600))?;
    for file in [directory.key(), directory.certificate()] {
        give_to(account, &file)?;
    }
    Ok(())
}

fn initialise(
    programs: &Path,
    directory: &ScratchDirectory,
    account: Option<&Account>,
    password: &str,
) -> Result<()> {
    let password_file = directory.path.join("password");
    fs::write(&password_file, password)?;
    give_to(account, &password_file)?;
    let mut initdb = command_as(account, &programs.join("initdb"), directory);
    initdb.arg("--pgdata").arg(directory.data()).arg("--pwfile").arg(&password_file);
    initdb.args(["--username", USER, "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"]);
    process::capture(&mut initdb).context("cannot set up PostgreSQL's database")?;
    fs::remove_file(&password_file)?;

    let settings = format!(
        "\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
ssl = on
ssl_cert_file = '{certificate}'
ssl_key_file = '{key}'
max_connections = 200
fsync = off
synchronous_commit = off
full_page_writes = off
",
        certificate = directory.certificate().display(),
        key = directory.key().display(),
    );
    let file = directory.data().join("postgresql.auto.conf");
    fs::write(&file, settings)?;
    give_to(account, &file)
}

fn start_server(
    programs: &Path,
    directory: &ScratchDirectory,
    account: Option<&Account>,
    port: u16,
) -> Result<Child> {
    let log = directory.path.join("log");
    let mut command = command_as(account, &programs.join("postgres"), directory);
    command.arg("-D").arg(directory.data()).arg("-p").arg(port.to_string());
    command
        .stdin(Stdio::null())
        .stdout(fs::File::create(&log)?)
        .stderr(fs::File::options().append(true).open(&log)?);
    // A group of its own: an interrupt from the terminal stops the tests first, and then us the server.
    command.process_group(0);
    process::end_with_us(&mut command, libc::SIGINT);
    let mut server = command.spawn().context("cannot start PostgreSQL")?;

    let started = wait_until_ready(&mut server, directory);
    if started.is_err() {
        let _ = server.kill();
        let _ = server.wait();
    }
    let printed = || fs::read_to_string(&log).unwrap_or_default();
    started.with_context(|| format!("PostgreSQL did not start; it said:\n{}", printed().trim_end()))?;
    Ok(server)
}

fn wait_until_ready(server: &mut Child, directory: &ScratchDirectory) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    while Instant::now() < deadline {
        process::fail_if_stopped()?;
        if let Some(status) = server.try_wait()? {
            bail!("it ended at once: {status}");
        }
        // The server writes its state into the eighth line, as `pg_ctl` knows too.
        let state = fs::read_to_string(directory.data().join("postmaster.pid")).unwrap_or_default();
        if state.lines().nth(7).is_some_and(|line| line.trim() == "ready") {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    bail!("it was not ready after {} s", START_LIMIT.as_secs())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn random_password() -> Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Who the server runs as when we are root: PostgreSQL refuses to be run by root.
struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// None when we are not root, and can run it ourselves.
    fn for_the_server() -> Result<Option<Account>> {
        if !install::is_root() {
            return Ok(None);
        }
        let account = Account::by_name("postgres").or_else(|| Account::by_name("nobody"));
        let account =
            account.context("neither the user `postgres` nor `nobody` is there to run PostgreSQL")?;
        Ok(Some(account))
    }

    fn by_name(name: &str) -> Option<Account> {
        let name = CString::new(name).ok()?;
        // SAFETY: the result, when not null, is valid until the next such call; we copy at once,
        // and only the main thread asks.
        let entry = unsafe { libc::getpwnam(name.as_ptr()).as_ref() }?;
        Some(Account { uid: entry.pw_uid, gid: entry.pw_gid })
    }
}

fn command_as(account: Option<&Account>, program: &Path, directory: &ScratchDirectory) -> Command {
    let mut command = workspace::command(program);
    // The account may not be allowed to look into the repository.
    command.current_dir(&directory.path);
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
    command
}

fn give_to(account: Option<&Account>, path: &Path) -> Result<()> {
    match account {
        Some(account) => chown(path, Some(account.uid), Some(account.gid))
            .with_context(|| format!("cannot give {} to PostgreSQL's account", path.display())),
        None => Ok(()),
    }
}

/// Removed when dropped. Its name has our process id, so that what a killed run
/// left behind is found and removed by the next one.
struct ScratchDirectory {
    path: PathBuf,
}

impl ScratchDirectory {
    fn create(account: Option<&Account>) -> Result<ScratchDirectory> {
        // The account must be able to reach it; root's own `TMPDIR` may be closed to others.
        let parent = if account.is_some() { PathBuf::from("/tmp") } else { env::temp_dir() };
        remove_leftovers(&parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        let created = DirBuilder::new().mode(0o700).create(&path);
        created.with_context(|| format!("cannot create {}", path.display()))?;
        let directory = ScratchDirectory { path };
        give_to(account, &directory.path)?;
        Ok(directory)
    }

    fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    fn certificate(&self) -> PathBuf {
        self.path.join("server.crt")
    }

    fn key(&self) -> PathBuf {
        self.path.join("server.key")
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Somebody else's, perhaps: then it stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[test]
fn passwords_need_no_escaping_in_a_url() {
    let password = random_password().unwrap();
    assert!(password.len() == 32 && password.chars().all(|c| c.is_ascii_hexdigit()), "{password}");
}
