"""The server of conformance/peers/server.py without the session protocol: it rejects `initialize`.

Run as `python modern.py` (stdio) or `python modern.py PORT` (Streamable HTTP on loopback).
"""

import runpy
import sys
from pathlib import Path

import mcp.server.mcpserver as mcpserver
import mcp_types as types
from mcp import MCPError

VERSION = "2026-07-28"


async def stateless(ctx, call_next):
    if ctx.method == "initialize":
        data = {"supported": [VERSION], "requested": (ctx.params or {}).get("protocolVersion")}
        raise MCPError(types.UNSUPPORTED_PROTOCOL_VERSION, "this server has no sessions", data)
    return await call_next(ctx)


class Modern(mcpserver.MCPServer):
    def __init__(self, *args, **options):
        super().__init__(*args, middleware=[stateless], **options)


mcpserver.MCPServer = Modern
runpy.run_path(str(Path(__file__).parent.parent / "peers" / "server.py"), run_name="__main__")
