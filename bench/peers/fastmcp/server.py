"""The peer of the benchmarks: FastMCP with one hard-coded tool, over stdio."""

from fastmcp import FastMCP

server = FastMCP("fastmcp-echo")


@server.tool
def echo(message: str) -> str:
    """Echo a message"""
    return message


server.run(transport="stdio", show_banner=False)
