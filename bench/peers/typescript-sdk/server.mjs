// The peer of the benchmarks: the TypeScript SDK with one hard-coded tool, over stdio.

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "typescript-sdk-echo", version: "1.0.0" });

server.registerTool(
  "echo",
  { description: "Echo a message", inputSchema: { message: z.string().describe("What to say") } },
  async ({ message }) => ({ content: [{ type: "text", text: message }] }),
);

await server.connect(new StdioServerTransport());
