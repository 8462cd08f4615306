"""Checks of a server behind `tinymcp proxy`; under the same names as in `bridge.mjs`."""

import json
import os
from pathlib import Path

import anyio
import mcp_types as types
from mcp import MCPError

from harness import PATIENCE, same
from results import PROTOCOL

SERVERS = Path(__file__).resolve().parents[2] / "bridge" / "servers.json"
SERVER = json.loads(SERVERS.read_text())[os.environ["BRIDGE_SERVER"]]
# How the transport HTTP+SSE is tested: with lists and calls only.
FEW = "BRIDGE_FEW" in os.environ
MODES = os.environ["BRIDGE_MODES"].split(",") if "BRIDGE_MODES" in os.environ else None


async def sampled(_, params):
    content = types.TextContent(type="text", text=f"blue, {params.max_tokens} tokens")
    return types.CreateMessageResult(role="assistant", model="toy", content=content)


async def roots(_):
    return types.ListRootsResult(roots=[types.Root(uri="file:///bridge", name="bridge")])


CALLBACKS = {"sampling_callback": sampled, "list_roots_callback": roots}


async def check_peer(session, peer):
    client = peer.client

    async def calls(entry, **options):
        """A call whose text has the text of the entry."""
        result = await peer.call(entry["name"], entry["arguments"], **options)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        same(result.is_error, False, f"isError of {text}")
        assert entry.get("text", "") in text, f"{entry['text']} is not in: {text}"

    async def connect():
        name, protocol, capabilities = await peer.about()
        same(protocol, PROTOCOL[peer.era], "protocol revision")
        assert name, "the server has no name"
        for kind in ["tools", "resources", "prompts", "completions", "logging"]:
            assert kind in capabilities, f"capability {kind} is missing in {capabilities}"

    async def listed():
        # The first list may be that before the server is connected, if it starts slowly.
        while not (await client.list_prompts(cache_mode="refresh")).prompts:
            await anyio.sleep(0.1)
        tools = [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]
        for name in SERVER["tools"]:
            assert name in tools, f"no tool {name} in {tools}"
        uris = [str(resource.uri) for resource in (await client.list_resources(cache_mode="refresh")).resources]
        assert SERVER["resource"] in uris, f"no {SERVER['resource']} in {uris}"
        listed = (await client.list_resource_templates(cache_mode="refresh")).resource_templates
        templates = [template.uri_template for template in listed]
        assert SERVER["template"] in templates, f"no {SERVER['template']} in {templates}"
        same(sorted(prompt.name for prompt in (await client.list_prompts()).prompts), SERVER["prompts"], "prompts")

    async def call():
        await calls(SERVER["call"])
        result = await peer.call(SERVER["error"]["name"], SERVER["error"]["arguments"])
        same(result.is_error, True, f"isError of {result!r}")

    async def read():
        entry = SERVER["read"]
        contents = (await client.read_resource(entry["uri"])).contents
        same([str(content.uri) for content in contents], [entry["uri"]], "uris")
        assert entry["text"] in contents[0].text, contents[0].text

    async def prompt():
        entry = SERVER["prompt"]
        messages = (await client.get_prompt(entry["name"], entry["arguments"])).messages
        assert entry["text"] in messages[0].content.text, f"{messages!r}"

    async def complete():
        entry = SERVER["complete"]
        ref = types.PromptReference(type="ref/prompt", name=entry["prompt"])
        found = await client.complete(ref, {"name": entry["argument"], "value": entry["value"]})
        same(sorted(found.completion.values), entry["values"], "values")

    async def progress():
        entry, seen = SERVER["progress"], []

        async def progressed(step, _total, _message):
            seen.append(step)

        await calls(entry, progress_callback=progressed)
        # Callbacks run in tasks of their own, which may be later than the result.
        with anyio.move_on_after(PATIENCE):
            while len(seen) < entry["steps"]:
                await anyio.sleep(0.01)
        same(sorted(seen), list(range(1, entry["steps"] + 1)), "progress")

    async def cancel():
        entry, started = SERVER["cancel"], anyio.Event()

        async def progressed(_step, _total, _message):
            started.set()

        async with anyio.create_task_group() as group:

            async def run():
                result = await peer.call(entry["name"], entry["arguments"], progress_callback=progressed)
                raise AssertionError(f"a result of the cancelled call: {result!r}")

            group.start_soon(run)
            with anyio.fail_after(PATIENCE):
                await started.wait()
            group.cancel_scope.cancel()
        await calls(entry["next"])

    async def elicitation():
        peer.answer = types.ElicitResult(action="accept", content=SERVER["elicitation"]["content"])
        peer.asked.clear()
        await calls(SERVER["elicitation"])
        same(len(peer.asked), 1, "number of questions")

    async def elicitation_declined():
        peer.answer = types.ElicitResult(action="decline")
        peer.asked.clear()
        entry = SERVER["elicitation"]
        # The server decides whether that is an error.
        try:
            outcome = str((await peer.call(entry["name"], entry["arguments"])).content)
        except MCPError as error:
            outcome = str(error)
        assert entry["text"] not in outcome, outcome
        same(len(peer.asked), 1, "number of questions")

    async def sampling():
        await calls(SERVER["sampling"])

    async def roots():
        await calls(SERVER["roots"])

    async def subscription():
        entry = SERVER["subscription"]
        async with peer.watch(entry["uri"]):
            await calls(entry["change"])
            same(await peer.updates.next("the update"), entry["uri"], "update")
            if end := entry.get("end"):
                await calls(end)

    async def log():
        entry = SERVER["log"]
        options = await peer.logging("debug")
        # A server of the session protocol does not name the call of a message, and the message may arrive after the call.
        late, here = anyio.current_time() + PATIENCE, False
        while not here:
            await calls(entry["change"], **options)
            try:
                while entry["data"] not in json.dumps((await peer.logs.next("the log message", 1))[2]):
                    pass
                here = True
            except AssertionError:
                if anyio.current_time() > late:
                    raise
            if end := entry.get("end"):
                await calls(end)

    checks = {"connect": connect, "list": listed, "call": call}
    if not FEW:
        checks |= {
            "read": read,
            "prompt": prompt,
            "complete": complete,
            "progress": progress,
            "cancel": cancel,
            "elicitation": elicitation,
            "elicitation-declined": elicitation_declined,
            "sampling": sampling,
            "roots": roots,
            "subscription": subscription,
            "log": log,
        }
    for name, body in checks.items():
        await session.check(name, body)


async def check_bare_peer(session, peer):
    """A session whose client declares nothing."""

    async def incapable():
        entry = SERVER["error"] if FEW else SERVER["elicitation"]
        try:
            refused = (await peer.call(entry["name"], entry["arguments"])).is_error
        except MCPError:
            refused = True
        same(refused, True, "whether the call failed")
        result = await peer.call(SERVER["call"]["name"], SERVER["call"]["arguments"])
        assert SERVER["call"]["text"] in result.content[0].text, f"{result!r}"

    await session.check("incapable", incapable)
