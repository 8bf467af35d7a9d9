//! The configuration as written: every setting may be absent.

use super::node::{ConfigError, Node};

#[derive(Debug, Default)]
pub struct RawConfig {
    pub paths: Option<Vec<String>>,
    pub tools: Option<Vec<String>>,
    pub exclude: Option<Vec<String>>,
    pub env: Option<Vec<(String, String)>>,
    pub capabilities: Option<String>,
    pub on_conflict: Option<String>,
    pub watch: Option<bool>,
    pub debug_errors: Option<bool>,
    pub instructions: Option<String>,
    pub page_size: Option<f64>,
    pub limits: RawLimits,
    pub http: RawHttp,
    pub store_path: Option<String>,
}

#[derive(Debug, Default)]
pub struct RawLimits {
    pub timeout: Option<f64>,
    pub heap_mb: Option<f64>,
    pub frames: Option<f64>,
    pub ticks: Option<f64>,
    pub load_timeout: Option<f64>,
    pub concurrent_calls: Option<f64>,
    pub queued_calls: Option<f64>,
    pub grace: Option<f64>,
}

#[derive(Debug, Default)]
pub struct RawHttp {
    pub address: Option<String>,
    pub allowed_hosts: Option<Vec<String>>,
    pub allowed_origins: Option<Vec<String>>,
    pub max_body_mb: Option<f64>,
}

fn one_of(node: &Node, choices: &[&str]) -> Result<String, ConfigError> {
    let text = node.string()?;
    if choices.contains(&text.as_str()) {
        return Ok(text);
    }
    Err(node.error(format!("must be one of {}, not `{text}`", choices.join(", "))))
}

impl RawConfig {
    pub fn from_node(node: &Node) -> Result<RawConfig, ConfigError> {
        let mut fields = node.map()?;
        let raw = RawConfig {
            paths: fields.get("paths").map(Node::strings).transpose()?,
            tools: fields.get("tools").map(Node::strings).transpose()?,
            exclude: fields.get("exclude").map(Node::strings).transpose()?,
            env: fields.get("env").map(env).transpose()?,
            capabilities: fields
                .get("capabilities")
                .map(|node| one_of(node, &["declared", "strict"]))
                .transpose()?,
            on_conflict: fields
                .get("onConflict")
                .map(|node| one_of(node, &["error", "prefix"]))
                .transpose()?,
            watch: fields.get("watch").map(Node::bool).transpose()?,
            debug_errors: fields.get("debugErrors").map(Node::bool).transpose()?,
            instructions: fields.get("instructions").map(Node::string).transpose()?,
            page_size: fields.get("pageSize").map(Node::number).transpose()?,
            limits: fields.get("limits").map(limits).transpose()?.unwrap_or_default(),
            http: fields.get("http").map(http).transpose()?.unwrap_or_default(),
            store_path: fields.get("store").map(store).transpose()?.flatten(),
        };
        fields.finish()?;
        Ok(raw)
    }
}

fn env(node: &Node) -> Result<Vec<(String, String)>, ConfigError> {
    node.map()?.entries().iter().map(|(name, value)| Ok((name.clone(), value.string()?))).collect()
}

fn limits(node: &Node) -> Result<RawLimits, ConfigError> {
    let mut fields = node.map()?;
    let raw = RawLimits {
        timeout: fields.get("timeout").map(Node::number).transpose()?,
        heap_mb: fields.get("heapMB").map(Node::number).transpose()?,
        frames: fields.get("frames").map(Node::number).transpose()?,
        ticks: fields.get("ticks").map(Node::number).transpose()?,
        load_timeout: fields.get("loadTimeout").map(Node::number).transpose()?,
        concurrent_calls: fields.get("concurrentCalls").map(Node::number).transpose()?,
        queued_calls: fields.get("queuedCalls").map(Node::number).transpose()?,
        grace: fields.get("grace").map(Node::number).transpose()?,
    };
    fields.finish()?;
    Ok(raw)
}

fn http(node: &Node) -> Result<RawHttp, ConfigError> {
    let mut fields = node.map()?;
    let raw = RawHttp {
        address: fields.get("address").map(Node::string).transpose()?,
        allowed_hosts: fields.get("allowedHosts").map(Node::strings).transpose()?,
        allowed_origins: fields.get("allowedOrigins").map(Node::strings).transpose()?,
        max_body_mb: fields.get("maxBodyMB").map(Node::number).transpose()?,
    };
    fields.finish()?;
    Ok(raw)
}

fn store(node: &Node) -> Result<Option<String>, ConfigError> {
    let mut fields = node.map()?;
    let path = fields.get("path").map(Node::string).transpose()?;
    fields.finish()?;
    Ok(path)
}
