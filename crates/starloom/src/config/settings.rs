//! The configuration as meant: built once, passed about.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use starloom_effects::{CapabilityMode, Services, ServicesOptions};
use starloom_engine::{Engine, Limits, ScriptError};

use super::DEFAULT_CONFIG;
use super::node::{ConfigError, Node};
use super::raw::{RawConfig, RawHttp};
use crate::catalog::{FilterError, OnConflict, ToolFilter};
use crate::extensions::{DiskFiles, ScriptFile};
use crate::host::LoadHost;

/// What the command line says; it beats the file.
#[derive(Debug, Default, Clone)]
pub struct ConfigFlags {
    pub config: Option<PathBuf>,
    pub paths: Vec<PathBuf>,
    pub tools: Vec<String>,
    pub exclude: Vec<String>,
    /// `K=V`, or several separated by commas.
    pub env: Vec<String>,
    pub on_conflict: Option<OnConflict>,
    pub capabilities: Option<CapabilityMode>,
    pub debug_errors: bool,
    pub no_watch: bool,
    /// `Some(None)`: `--http` without an address.
    pub http: Option<Option<String>>,
    pub port: Option<u16>,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub paths: Vec<PathBuf>,
    pub filter: ToolFilter,
    pub env: BTreeMap<String, String>,
    pub on_conflict: OnConflict,
    pub capabilities: CapabilityMode,
    pub watch: bool,
    pub debug_errors: bool,
    pub instructions: Option<String>,
    pub page_size: usize,
    pub limits: Limits,
    pub load_limits: Limits,
    pub concurrent_calls: usize,
    pub queued_calls: usize,
    pub grace: Duration,
    pub http: Option<HttpSettings>,
    /// `None` keeps the store in memory.
    pub store: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub struct HttpSettings {
    pub address: SocketAddr,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub max_body: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{}", .0.render().trim_end())]
    Script(Box<ScriptError>),
    #[error("cannot read `{}`: {problem}", path.display())]
    Read { path: PathBuf, problem: String },
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error("`--env {0}` must be NAME=VALUE")]
    Env(String),
    #[error("`{0}` is not an address to listen on")]
    Address(String),
    #[error("`{0}` can be reached from other machines, and nothing there checks who is calling")]
    Exposed(SocketAddr),
    #[error(
        "there is nothing to serve: no path given, and no ./starloom.yaml, ./extensions or ./llm/mcp here"
    )]
    NothingToServe,
}

impl SettingsError {
    pub fn hint(&self) -> Option<String> {
        match self {
            SettingsError::Config(error) => error.hint.clone(),
            SettingsError::Exposed(_) => {
                Some("listen on 127.0.0.1, or name the host clients use in `http.allowedHosts`".to_owned())
            }
            SettingsError::Address(_) => {
                Some("write it as 127.0.0.1:3000, localhost:3000 or :3000".to_owned())
            }
            SettingsError::NothingToServe => Some("run `starloom serve PATH`".to_owned()),
            _ => None,
        }
    }
}

impl Settings {
    pub fn resolve(flags: &ConfigFlags, runtime: &tokio::runtime::Handle) -> Result<Settings, SettingsError> {
        let flag_env = parse_env(&flags.env)?;
        let config_path = flags.config.clone().or_else(|| {
            Some(PathBuf::from("starloom.yaml")).filter(|path| flags.paths.is_empty() && path.is_file())
        });
        let defaults = RawConfig::from_node(&Node::from_yaml("defaults", DEFAULT_CONFIG)?)?;
        let raw = match &config_path {
            Some(path) => read_config(path, &flag_env, runtime)?,
            None => RawConfig::default(),
        };

        let paths = resolve_paths(flags, &raw, config_path.as_deref())?;
        let tools =
            if flags.tools.is_empty() { raw.tools.clone().unwrap_or_default() } else { flags.tools.clone() };
        let exclude = if flags.exclude.is_empty() {
            raw.exclude.clone().unwrap_or_default()
        } else {
            flags.exclude.clone()
        };
        let mut env: BTreeMap<String, String> = raw.env.clone().unwrap_or_default().into_iter().collect();
        env.extend(flag_env);

        let number = |written: Option<f64>, default: Option<f64>| written.or(default).unwrap_or_default();
        let seconds =
            |written, default| Duration::try_from_secs_f64(number(written, default)).unwrap_or_default();
        let (file, base) = (&raw.limits, &defaults.limits);
        let limits = Limits {
            wall_clock: seconds(file.timeout, base.timeout),
            heap_bytes: (number(file.heap_mb, base.heap_mb) as usize).max(1) << 20,
            frames: (number(file.frames, base.frames) as usize).max(1),
            ticks: Some(number(file.ticks, base.ticks) as u64).filter(|ticks| *ticks > 0),
        };
        let load_limits =
            Limits { wall_clock: seconds(file.load_timeout, base.load_timeout), ..limits.clone() };
        let on_conflict = flags.on_conflict.unwrap_or(match raw.on_conflict.as_deref() {
            Some("prefix") => OnConflict::Prefix,
            _ => OnConflict::Error,
        });
        let capabilities = flags.capabilities.unwrap_or(match raw.capabilities.as_deref() {
            Some("strict") => CapabilityMode::Strict,
            _ => CapabilityMode::Declared,
        });
        let http = resolve_http(flags, &raw.http, &defaults.http)?;
        let store = match raw.store_path.filter(|path| !path.is_empty()) {
            Some(path) => Some(beside(config_path.as_deref(), Path::new(&path))),
            None => default_store(),
        };
        Ok(Settings {
            paths,
            filter: ToolFilter::new(&tools, &exclude)?,
            env,
            on_conflict,
            capabilities,
            watch: !flags.no_watch && raw.watch.or(defaults.watch).unwrap_or(true),
            debug_errors: flags.debug_errors || raw.debug_errors.unwrap_or(false),
            instructions: raw.instructions.filter(|text| !text.is_empty()),
            page_size: (number(raw.page_size, defaults.page_size) as usize).max(1),
            limits,
            load_limits,
            concurrent_calls: (number(file.concurrent_calls, base.concurrent_calls) as usize).max(1),
            queued_calls: number(file.queued_calls, base.queued_calls) as usize,
            grace: seconds(file.grace, base.grace),
            http,
            store,
        })
    }
}

/// `K=V` per flag, or `K=V,K2=V2`: a comma separates only where a name and `=` follow.
fn parse_env(flags: &[String]) -> Result<BTreeMap<String, String>, SettingsError> {
    let mut env = BTreeMap::new();
    for flag in flags {
        let mut last: Option<String> = None;
        for part in flag.split(',') {
            match (part.split_once('='), &last) {
                (Some((name, value)), _) if is_variable(name) => {
                    env.insert(name.to_owned(), value.to_owned());
                    last = Some(name.to_owned());
                }
                // A comma inside a value.
                (_, Some(name)) => {
                    if let Some(value) = env.get_mut(name) {
                        value.push(',');
                        value.push_str(part);
                    }
                }
                _ => return Err(SettingsError::Env(flag.clone())),
            }
        }
    }
    Ok(env)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn read_config(
    path: &Path,
    env: &BTreeMap<String, String>,
    runtime: &tokio::runtime::Handle,
) -> Result<RawConfig, SettingsError> {
    let name = path.display().to_string();
    let node = if path.extension().is_some_and(|extension| extension == "star") {
        Node::from_json(&name, "", &evaluate_config(path, env, runtime)?)
    } else {
        let text = std::fs::read_to_string(path)
            .map_err(|error| SettingsError::Read { path: path.to_owned(), problem: error.to_string() })?;
        Node::from_yaml(&name, &text)?
    };
    let lookup = |name: &str| env.get(name).cloned().or_else(|| std::env::var(name).ok());
    Ok(RawConfig::from_node(&node.expand(&lookup)?)?)
}

/// A `.star` file that exports `config = {...}`, with the command line's `--env` in place.
fn evaluate_config(
    path: &Path,
    env: &BTreeMap<String, String>,
    runtime: &tokio::runtime::Handle,
) -> Result<serde_json::Value, SettingsError> {
    let root = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let relative = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = ScriptFile { path: path.to_owned(), root: root.to_owned(), relative };
    let limits = Limits::for_loading();
    let services = Services::new(ServicesOptions::default());
    let grants = starloom_effects::Grants {
        source: "config".to_owned(),
        root: root.to_owned(),
        capabilities: starloom_engine::declare::Capabilities::default(),
        mode: CapabilityMode::Declared,
        env: std::sync::Arc::new(env.clone()),
        phase: starloom_effects::Phase::Loading,
    };
    let host = LoadHost::new(&services, runtime, grants, &limits);
    let value = Engine::new()
        .load_value(&DiskFiles::new(&file), &file.relative, "config", &host, &limits)
        .map_err(|error| SettingsError::Script(Box::new(error)))?;
    value.ok_or_else(|| {
        SettingsError::Config(ConfigError {
            file: path.display().to_string(),
            line: 0,
            message: "a configuration in Starlark must define `config = {...}`".to_owned(),
            hint: None,
        })
    })
}

/// Paths in a file are relative to it.
fn beside(config: Option<&Path>, path: &Path) -> PathBuf {
    match config.and_then(Path::parent).filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => parent.join(path),
        None => path.to_owned(),
    }
}

fn resolve_paths(
    flags: &ConfigFlags,
    raw: &RawConfig,
    config: Option<&Path>,
) -> Result<Vec<PathBuf>, SettingsError> {
    if !flags.paths.is_empty() {
        return Ok(flags.paths.clone());
    }
    if let Some(paths) = raw.paths.as_ref().filter(|paths| !paths.is_empty()) {
        return Ok(paths.iter().map(|path| beside(config, Path::new(path))).collect());
    }
    for default in ["extensions", "llm/mcp"] {
        let path = beside(config, Path::new(default));
        if path.is_dir() {
            return Ok(vec![path]);
        }
    }
    // A configuration without anything to serve is one that is being written.
    if config.is_some() { Ok(Vec::new()) } else { Err(SettingsError::NothingToServe) }
}

fn resolve_http(
    flags: &ConfigFlags,
    raw: &RawHttp,
    defaults: &RawHttp,
) -> Result<Option<HttpSettings>, SettingsError> {
    let Some(address) = &flags.http else { return Ok(None) };
    let text = address.clone().or(raw.address.clone()).or(defaults.address.clone()).unwrap_or_default();
    let mut address = parse_address(&text)?;
    if let Some(port) = flags.port {
        address.set_port(port);
    }
    let allowed_hosts = raw.allowed_hosts.clone().unwrap_or_default();
    if !address.ip().is_loopback() && allowed_hosts.is_empty() {
        return Err(SettingsError::Exposed(address));
    }
    let max_body_mb = raw.max_body_mb.or(defaults.max_body_mb).unwrap_or(16.0);
    Ok(Some(HttpSettings {
        address,
        allowed_hosts,
        allowed_origins: raw.allowed_origins.clone().unwrap_or_default(),
        max_body: (max_body_mb * 1_048_576.0) as usize,
    }))
}

fn parse_address(text: &str) -> Result<SocketAddr, SettingsError> {
    let text = text.trim();
    let full = match text {
        port if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => {
            format!("127.0.0.1:{port}")
        }
        port if port.starts_with(':') => format!("127.0.0.1{port}"),
        host if host.starts_with("localhost") => host.replacen("localhost", "127.0.0.1", 1),
        other => other.to_owned(),
    };
    full.parse::<SocketAddr>()
        .or_else(|_| full.parse::<std::net::IpAddr>().map(|ip| SocketAddr::new(ip, 3000)))
        .map_err(|_| SettingsError::Address(text.to_owned()))
}

/// One store per working folder, so that two projects with an extension of one name do not share.
fn default_store() -> Option<PathBuf> {
    use sha2::{Digest, Sha256};
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".local/state")))?;
    let folder = std::env::current_dir().ok()?;
    let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Some(state.join("starloom").join(name).join("store.sqlite"))
}
