"""The Python SDK 2.x against a server: pinned to the modern era, negotiating, and with the handshake.

Used as `python client.py stdio|http OUT board|serve SERVER ARGS…`; the wire logs go to folders under OUT.
"""

import importlib
import logging
import subprocess
import sys
import warnings
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import mcp_types as types
from harness import PATIENCE, Inbox, Session, same
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from results import PROTOCOL, text

TAPS = Path(__file__).resolve().parent.parent
META = "io.modelcontextprotocol/"
MODES = {"modern": "2026-07-28", "auto": "auto", "legacy": "legacy"}
# Seconds.
SESSION_TIMEOUT = 10 * PATIENCE
OVER = sys.argv[1]
# The checks of the server.
TESTED = importlib.import_module(sys.argv[3])


def tap(transport, session, server):
    """The command that runs `server` behind the tap of a transport."""
    return ["python3", "-I", "-S", str(TAPS / f"tap_{transport}.py"), str(session.folder), *server]


class Served:
    """A server behind the tap of HTTP."""

    def __init__(self, session, server):
        command = tap("http", session, server)
        self.tap = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.tap.stdout.readline().strip()
        assert self.url, "the server does not listen"

    def end(self):
        """Ends the server."""
        self.tap.stdin.close()


class Peer:
    """One client, its callbacks and what they received."""

    def __init__(self, session, mode, server, elicitation=True):
        self.mode = mode
        self.era = "legacy" if mode == "legacy" else "modern"
        self.logs, self.updates, self.changes = Inbox(), Inbox(), Inbox()
        self.asked, self.keys, self.answer = [], [], None
        self.served = Served(session, server) if OVER == "http" else None
        command, *args = tap("stdio", session, server)
        self.client = Client(
            self.served.url if self.served else StdioServerParameters(command=command, args=args),
            mode=MODES[mode],
            read_timeout_seconds=PATIENCE,
            elicitation_callback=self._elicit if elicitation else None,
            logging_callback=self._log,
            message_handler=self._message,
            **(getattr(TESTED, "CALLBACKS", {}) if elicitation else {}),
        )

    def end(self):
        if self.served:
            self.served.end()

    async def _elicit(self, context, params):
        self.asked.append(params)
        self.keys.append(context.request_id)
        return self.answer

    async def _log(self, params):
        self.logs.push((params.level, params.logger, params.data))

    async def _message(self, message):
        # On a modern connection `watch` sends the subscription.
        if self.era == "legacy" and isinstance(message, types.ResourceUpdatedNotification):
            self.updates.push(str(message.params.uri))
        if self.era == "legacy" and isinstance(message, types.ToolListChangedNotification):
            self.changes.push("tools")

    async def about(self):
        """Name, revision and capabilities. A pinned client did not request them yet, so it does here."""
        client = self.client
        if self.mode != "modern":
            return client.server_info.name, client.protocol_version, dump(client.server_capabilities)
        found = await client.session.send_discover(MODES["modern"])
        assert MODES["modern"] in found["supportedVersions"], f"supportedVersions: {found['supportedVersions']}"
        return found["_meta"][META + "serverInfo"]["name"], client.protocol_version, found["capabilities"]

    async def call(self, name, arguments=None, **options):
        return await self.client.call_tool(name, arguments, **options)

    async def logging(self, level):
        """Requests log messages from `level` on; returns the options for the calls that need them."""
        if self.era == "modern":
            return {"meta": {META + "logLevel": level}}
        await self.client.set_logging_level(level)
        return {}

    @asynccontextmanager
    async def watch(self, *uris):
        """Updates of `uris` go to `updates` until the end of the block."""
        if self.era == "legacy":
            for uri in uris:
                await self.client.subscribe_resource(uri)
            yield
            for uri in uris:
                await self.client.unsubscribe_resource(uri)
            return
        async with self.client.listen(resource_subscriptions=uris) as subscription:
            same(sorted(subscription.honored.resource_subscriptions or []), sorted(uris), "acknowledged")
            async with anyio.create_task_group() as group:
                group.start_soon(self._follow, subscription)
                yield
                group.cancel_scope.cancel()

    @asynccontextmanager
    async def tool_changes(self):
        """Changes of the list of tools go to `changes` until the end of the block."""
        if self.era == "legacy":
            yield
            return
        async with self.client.listen(tools_list_changed=True) as subscription:
            assert subscription.honored.tools_list_changed, f"acknowledged: {subscription.honored!r}"
            async with anyio.create_task_group() as group:
                group.start_soon(self._follow, subscription)
                yield
                group.cancel_scope.cancel()

    async def _follow(self, subscription):
        async for event in subscription:
            if isinstance(event, ToolsListChanged):
                self.changes.push("tools")
            else:
                assert isinstance(event, ResourceUpdated), f"an event that was not asked for: {event!r}"
                self.updates.push(str(event.uri))


def dump(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class Closing:
    """Time to close the client. Its scopes forbid a timeout around it, but its own waits are bounded."""

    def begin(self):
        self.start = anyio.current_time()

    def end(self):
        self.took = anyio.current_time() - self.start

    async def check(self):
        # `wire.py` checks when the server exits.
        assert self.took < PATIENCE, f"closing took {self.took:.1f} s"


async def talk(session, mode, server):
    """The session's first connection: every check, then the client closes it."""
    peer = Peer(session, mode, server)
    closing = Closing()
    async with peer.client:
        same(peer.client.protocol_version, PROTOCOL[peer.era], f"revision of mode {mode}")
        await TESTED.check_peer(session, peer)
        closing.begin()
    closing.end()
    peer.end()
    await session.check("close", closing.check)


async def leave_early(session, mode, server):
    """The second connection, without elicitation, closed while a call is in flight."""
    peer = Peer(session, mode, server, elicitation=False)
    if not hasattr(TESTED, "SLOW"):
        async with peer.client:
            await TESTED.check_bare_peer(session, peer)
        return peer.end()
    closing, started, outcome, messages = Closing(), anyio.Event(), Inbox(), []

    async def progressed(_progress, _total, message):
        messages.append(message)
        started.set()

    async def slow():
        try:
            tool, arguments = TESTED.SLOW
            result = await peer.call(tool, arguments, progress_callback=progressed)
            # The server may still send an error because it ends, but not a result of the call.
            outcome.push("an error" if result.is_error else text(result))
        except MCPError:
            outcome.push("an error")

    async def close_busy():
        same(await outcome.next("the call that was under way"), "an error", "outcome of that call")
        await closing.check()
        await TESTED.ended(messages[0])

    async with anyio.create_task_group() as group:
        async with peer.client:
            await TESTED.check_bare_peer(session, peer)
            group.start_soon(slow)
            with anyio.fail_after(PATIENCE):
                await started.wait()
            closing.begin()
        closing.end()
        peer.end()
        await session.check("close-busy", close_busy)


async def run(session, mode, server):
    async def whole():
        await talk(session, mode, server)
        await leave_early(session, mode, server)

    await session.check("session", whole, timeout=SESSION_TIMEOUT)


async def main():
    out, _, *server = sys.argv[2:]
    for mode in getattr(TESTED, "MODES", None) or MODES:
        await run(Session(f"py/{mode}", out), mode, server)


# The deprecated methods are tested on purpose, and this program reports failing checks.
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
anyio.run(main)
