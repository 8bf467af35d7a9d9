//! The peer of the benchmarks: rmcp with one hard-coded tool and nothing else.
//! Without arguments it serves stdio; `--http PORT` serves stateless JSON at `/mcp` on loopback.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService, stdio_pipes};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve_stdio().await,
        ["--http", port] => serve_http(port.parse()?).await,
        _ => Err("usage: rmcp-echo [--http PORT]".into()),
    }
}

async fn serve_stdio() -> Result<(), Failure> {
    Echo::new().serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}

async fn serve_http(port: u16) -> Result<(), Failure> {
    let echo = Echo::new();
    let config =
        StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let service = StreamableHttpService::new(
        move || Ok(echo.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

#[derive(Clone)]
struct Echo {
    tool: Tool,
}

impl Echo {
    fn new() -> Echo {
        let schema = json!({
            "type": "object",
            "properties": {"message": {"type": "string", "description": "What to say"}},
            "required": ["message"],
        });
        let Value::Object(schema) = schema else { unreachable!("the literal above is an object") };
        Echo { tool: Tool::new("echo", "Echo a message", Arc::<Map<String, Value>>::new(schema)) }
    }
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![self.tool.clone()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != "echo" {
            return Err(ErrorData::invalid_params(format!("unknown tool `{}`", request.name), None));
        }
        let message = request.arguments.as_ref().and_then(|arguments| arguments.get("message"));
        let Some(message) = message.and_then(Value::as_str) else {
            return Err(ErrorData::invalid_params("`message` must be a string", None));
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(message)]).into())
    }
}
