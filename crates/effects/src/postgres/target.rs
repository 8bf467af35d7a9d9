//! Connection strings.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use starloom_engine::EffectError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::tls::Trust;

/// Options of libpq that this client does not know. Only these are named in errors: what stands in
/// the place of an option may be a piece of a password.
const UNSUPPORTED: [&str; 12] = [
    "fallback_application_name",
    "gssencmode",
    "gsslib",
    "krbsrvname",
    "passfile",
    "replication",
    "requirepeer",
    "service",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslpassword",
];

#[derive(Debug, thiserror::Error)]
pub(super) enum TargetError {
    #[error("it is neither a postgres:// URL nor a list of key=value pairs")]
    Form,
    #[error("the option `{0}` is not supported")]
    Unsupported(&'static str),
    #[error("`sslmode` is disable, prefer, require, verify-ca or verify-full")]
    SslMode,
    #[error("the value of `{0}` is not valid")]
    Value(&'static str),
    #[error("it names no host")]
    NoHost,
    #[error("it has {hosts} hosts and {others} {what}")]
    Counts { hosts: usize, others: usize, what: &'static str },
}

impl From<TargetError> for EffectError {
    fn from(error: TargetError) -> EffectError {
        EffectError::Failed(format!("PostgreSQL operation failed (invalid connection string): {error}"))
    }
}

/// What a connection string says.
#[derive(Clone)]
pub(super) struct Target {
    /// Everything but the hosts.
    pub(super) config: Config,
    pub(super) hosts: Vec<TargetHost>,
    pub(super) trust: Trust,
    /// `host/database`: all of it that may be shown.
    pub(super) label: String,
}

#[derive(Debug, Clone)]
pub(super) struct TargetHost {
    /// The name for certificates, or the folder of a Unix socket.
    pub(super) name: String,
    /// Where to connect to instead of asking DNS.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
}

impl TargetHost {
    pub(super) fn is_socket(&self) -> bool {
        self.name.starts_with('/')
    }
}

impl Target {
    pub(super) fn parse(connection: &str) -> Result<Target, TargetError> {
        let given = Given::split(connection.trim())?;
        let trust = trust(given.ssl_mode.as_deref(), given.ssl_root_cert)?;
        let parsed = Config::from_str(&given.rest).map_err(|_| explain(&given.names))?;
        let hosts = hosts(&parsed)?;
        let mut config = without_hosts(&parsed);
        config.ssl_mode(match given.ssl_mode.as_deref() {
            Some("disable") => SslMode::Disable,
            None | Some("prefer" | "allow") => SslMode::Prefer,
            Some(_) => SslMode::Require,
        });
        if parsed.get_application_name().is_none() {
            config.application_name("starloom");
        }
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        let database = parsed.get_dbname().or(parsed.get_user()).unwrap_or("");
        let label = format!("{}/{database}", names.join(","));
        Ok(Target { config, hosts, trust, label })
    }
}

fn trust(mode: Option<&str>, root_cert: Option<String>) -> Result<Trust, TargetError> {
    // The word for what is the default here.
    let roots = root_cert.filter(|path| path != "system").map(PathBuf::from);
    match (mode, roots) {
        (None | Some("disable" | "allow" | "prefer"), _) | (Some("require"), None) => Ok(Trust::Anyone),
        // As libpq: whoever gives a root certificate wants it to be used.
        (Some("require" | "verify-ca"), roots) => Ok(Trust::Chain { roots }),
        (Some("verify-full"), roots) => Ok(Trust::Full { roots }),
        (Some(_), _) => Err(TargetError::SslMode),
    }
}

/// Which option is to blame, as far as that can be said without showing what may be secret.
fn explain(names: &[String]) -> TargetError {
    let is_given = |option: &&&str| names.iter().any(|name| name == **option);
    if let Some(option) = UNSUPPORTED.iter().find(is_given) {
        return TargetError::Unsupported(option);
    }
    const CHECKED: [&str; 6] =
        ["port", "hostaddr", "connect_timeout", "target_session_attrs", "channel_binding", "keepalives"];
    match CHECKED.iter().find(is_given) {
        Some(option) => TargetError::Value(option),
        None => TargetError::Form,
    }
}

fn hosts(config: &Config) -> Result<Vec<TargetHost>, TargetError> {
    let (names, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = names.len().max(addresses.len());
    if count == 0 {
        return Err(TargetError::NoHost);
    }
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        return Err(TargetError::Counts { hosts: names.len(), others: addresses.len(), what: "addresses" });
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(TargetError::Counts { hosts: count, others: ports.len(), what: "ports" });
    }
    let host = |index: usize| {
        let address = addresses.get(index).copied();
        let name = match (names.get(index), address) {
            (Some(Host::Tcp(name)), _) => name.clone(),
            (Some(Host::Unix(folder)), _) => folder.to_string_lossy().into_owned(),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        };
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        TargetHost { name, address, port }
    };
    let hosts: Vec<TargetHost> = (0..count).map(host).collect();
    if hosts.iter().any(|host| host.name.is_empty()) {
        return Err(TargetError::NoHost);
    }
    Ok(hosts)
}

/// There is no way to take hosts out of a [`Config`].
fn without_hosts(parsed: &Config) -> Config {
    let mut config = Config::new();
    if let Some(user) = parsed.get_user() {
        config.user(user);
    }
    if let Some(password) = parsed.get_password() {
        config.password(password);
    }
    if let Some(database) = parsed.get_dbname() {
        config.dbname(database);
    }
    if let Some(options) = parsed.get_options() {
        config.options(options);
    }
    if let Some(name) = parsed.get_application_name() {
        config.application_name(name);
    }
    if let Some(timeout) = parsed.get_tcp_user_timeout() {
        config.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = parsed.get_keepalives_interval() {
        config.keepalives_interval(interval);
    }
    if let Some(retries) = parsed.get_keepalives_retries() {
        config.keepalives_retries(retries);
    }
    config
        .ssl_negotiation(parsed.get_ssl_negotiation())
        .keepalives(parsed.get_keepalives())
        .keepalives_idle(parsed.get_keepalives_idle())
        .target_session_attrs(parsed.get_target_session_attrs())
        .channel_binding(parsed.get_channel_binding())
        .load_balance_hosts(parsed.get_load_balance_hosts());
    config
}

/// The string with the options taken out that [`Config`] does not know in full.
struct Given {
    rest: String,
    ssl_mode: Option<String>,
    ssl_root_cert: Option<String>,
    /// All options there are.
    names: Vec<String>,
}

impl Given {
    fn split(connection: &str) -> Result<Given, TargetError> {
        let scheme =
            ["postgres://", "postgresql://"].into_iter().find(|scheme| connection.starts_with(scheme));
        let mut given = Given { rest: String::new(), ssl_mode: None, ssl_root_cert: None, names: Vec::new() };
        match scheme {
            Some(scheme) => given.split_url(connection, scheme.len()),
            None => given.split_pairs(connection)?,
        }
        Ok(given)
    }

    fn split_url(&mut self, url: &str, scheme: usize) {
        // A password may hold a `?`, so the query starts after the host does.
        let host = url[scheme..].find('@').map_or(scheme, |at| scheme + at + 1);
        let Some(question) = url[host..].find('?').map(|at| host + at) else {
            self.rest = url.to_owned();
            return;
        };
        let mut kept = Vec::new();
        for pair in url[question + 1..].split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !self.keep(name, &percent_decode(value)) {
                kept.push(pair);
            }
        }
        self.rest = url[..question].to_owned();
        if !kept.is_empty() {
            self.rest = format!("{}?{}", self.rest, kept.join("&"));
        }
    }

    fn split_pairs(&mut self, text: &str) -> Result<(), TargetError> {
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=').ok_or(TargetError::Form)?;
            let name = name.trim_end();
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(TargetError::Form);
            }
            let (value, after) = value(after.trim_start())?;
            if !self.keep(name, &value) {
                let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
                self.rest.push_str(&format!("{name}='{quoted}' "));
            }
            rest = after.trim_start();
        }
        Ok(())
    }

    /// Whether the option is one of those kept here.
    fn keep(&mut self, name: &str, value: &str) -> bool {
        self.names.push(name.to_owned());
        match name {
            "sslmode" => self.ssl_mode = Some(value.to_owned()),
            "sslrootcert" => self.ssl_root_cert = Some(value.to_owned()),
            _ => return false,
        }
        true
    }
}

/// One value of `key=value`, quoted or not, and what follows it.
fn value(text: &str) -> Result<(String, &str), TargetError> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(quoted));
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.push(characters.next().ok_or(TargetError::Form)?.1),
            '\'' if quoted => return Ok((value, &text[at + 1..])),
            space if !quoted && space.is_whitespace() => return Ok((value, &text[at..])),
            other => value.push(other),
        }
    }
    if quoted { Err(TargetError::Form) } else { Ok((value, "")) }
}

fn percent_decode(text: &str) -> String {
    // The parser of form data also knows `+`, which stands for itself here.
    let text = text.replace('+', "%2B");
    url::form_urlencoded::parse(format!("v={text}").as_bytes()).map(|(_, value)| value.into_owned()).collect()
}
