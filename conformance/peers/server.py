"""A server of the Python SDK with one of everything: `conformance/fixtures/peer_client` checks it.

Run as `python server.py` (stdio) or `python server.py PORT` (Streamable HTTP on loopback). It sends its requests to
the client through resolvers, which work in both eras.
"""

import sys
from typing import Annotated

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from pydantic import BaseModel

server = MCPServer("python-peer", version="1.0.0", instructions="Try everything.", log_level="ERROR")
# Set when the last `wait` was cancelled.
stopped = anyio.Event()


class Zone(BaseModel):
    zone: str
    count: int = 3


def ask_zone() -> Elicit[Zone]:
    return Elicit("Which zone?", Zone)


def ask_model() -> Sample:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say a colour"))
    return Sample([message], max_tokens=10, system_prompt="Be short.")


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
def fail() -> str:
    """Never works."""
    raise ValueError("out of order")


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Counts, and reports progress."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
        # Some clients drop progress that arrives together with the result.
        await anyio.sleep(0.02)
    return f"counted to {steps}"


@server.tool()
async def wait(ctx: Context) -> str:
    """Reports progress once, then waits until it is cancelled."""
    global stopped
    stopped = anyio.Event()
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    finally:
        stopped.set()


@server.tool()
async def stopped_waiting() -> bool:
    """Returns whether `wait` was cancelled, after at most a minute."""
    with anyio.move_on_after(60):
        await stopped.wait()
    return stopped.is_set()


@server.tool()
def zone(answer: Annotated[Zone, Resolve(ask_zone)]) -> str:
    """Asks the user."""
    return f"{answer.zone} {answer.count}"


@server.tool()
def colour(answer: Annotated[types.CreateMessageResult, Resolve(ask_model)]) -> str:
    """Asks the model."""
    return f"{answer.model} says {answer.content.text}"


@server.tool()
def roots(answer: Annotated[types.ListRootsResult, Resolve(ask_roots)]) -> str:
    """Asks where it may work."""
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def log(ctx: Context) -> str:
    """Sends a log entry."""
    await ctx.info("something was done")
    return "logged"


@server.tool()
async def touch(ctx: Context) -> str:
    """Changes the status."""
    await ctx.notify_resource_updated("board://status")
    return "touched"


@server.resource("board://status", mime_type="text/plain")
def status() -> str:
    """State of the board."""
    return "well"


@server.resource("note://{name}")
def note(name: str) -> str:
    """A note by name."""
    return f"about {name}"


@server.resource("board://picture", mime_type="image/png")
def picture() -> bytes:
    """Some bytes."""
    return bytes([0, 1, 254, 255])


@server.prompt()
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Greet {name}"


@server.completion()
async def complete(ref, argument, context):
    """Names for the prompt and for the notes."""
    names = [name for name in ("anna", "anton", "berta") if name.startswith(argument.value)]
    return types.Completion(values=names, total=len(names), has_more=False)


if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run()
