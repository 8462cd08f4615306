"""Checks of `tinymcp serve`, under the same names as in `serve.mjs`.

The server is `serve_copy.py`: its definition files are in the folder of the session, where checks read and change
them. `board.py` describes the order of callbacks.
"""

import json
import os
import re

import anyio
import mcp_types as types
from mcp import MCPError

from harness import PATIENCE, Inbox, in_time, same
from results import NOT_FOUND, PROTOCOL, contents, fails, refused, said, text

# SHA-256 of `hello`.
DIGEST = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
# Calls that are cancelled together.
CANCELLED = 4
# A call that takes longer than any wait.
SLOW = ("steps", {"count": 100, "delay": 1})


class Definition:
    """The folder of the definition, its files, and what they define."""

    def __init__(self, session):
        self.folder = session.folder / "definition"

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8")

    def entries(self, member):
        """Entries of a member in all files: their name or URI, and their definition."""
        files = [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]
        return {name: entry for file in files for name, entry in file.get(member, {}).items()}

    def add_tool(self, name, tool):
        """Adds a tool to a file that the server watches; the other tools keep their text."""
        entry = f"{json.dumps(name)}: {json.dumps(tool)}"
        text = self.read("fixture.json").replace('"tools": {', f'"tools": {{\n{entry},', 1)
        (self.folder / "fixture.json").write_text(text, encoding="utf-8")


def process(message):
    """The process of the program of `steps`, by its first message."""
    found = re.fullmatch(r"process (\d+)", message or "")
    assert found, f"the first message is {message!r}"
    return int(found[1])


async def ended(message):
    """Waits for the end of the program that sent this message first."""
    pid = process(message)
    with anyio.move_on_after(PATIENCE):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            await anyio.sleep(0.02)
    raise AssertionError(f"process {pid} of a call still runs after {PATIENCE} s")


async def check_peer(session, peer):
    """Every check of one connected peer, except closing."""
    client, definition = peer.client, Definition(session)

    async def write(state, value):
        said(await peer.call("write", {"state": state, "text": value}), "")

    async def read(uri):
        return await client.read_resource(uri, cache_mode="refresh")

    async def reads(state, value):
        same(contents(await read(f"state://{state}"), f"state://{state}"), value, f"state {state}")

    async def tools():
        return (await client.list_tools(cache_mode="refresh")).tools

    async def connect():
        name, protocol, capabilities = await peer.about()
        same(name, "examples", "serverInfo.name")
        same(protocol, PROTOCOL[peer.era], "protocol revision")
        for kind in ["tools", "resources", "prompts"]:
            same(capabilities[kind].get("listChanged"), True, f"{kind}.listChanged")
        same(capabilities["resources"].get("subscribe"), True, "resources.subscribe")
        if peer.era == "legacy":
            await client.send_ping()

    async def tools_list():
        same([tool.name for tool in await tools()], list(definition.entries("tools")), "tools")

    async def tools_schemas():
        listed = {tool.name: tool for tool in await tools()}
        for name, tool in listed.items():
            same(tool.input_schema.get("type"), "object", f"type of {name}'s inputSchema")
        schema = listed["log"].input_schema
        revision = {"type": "string", "minLength": 1, "maxLength": 200, "default": "HEAD"}
        count = {"type": "integer", "minimum": 1, "maximum": 500, "default": 20}
        expected = {
            "revision": {**revision, "description": "commit, branch or tag"},
            "count": {**count, "description": "number of commits"},
        }
        same(schema["properties"], expected, "arguments of log")
        same(schema.get("required", []), [], "required arguments of log")
        schema = listed["sort"].input_schema
        same(schema["properties"]["order"]["enum"], ["text", "number", "version"], "choices of sort.order")
        same(schema["required"], ["text"], "required arguments of sort")
        written = definition.entries("tools")
        same(listed["grep"].input_schema, written["grep"]["input"], "inputSchema of grep")
        same(listed["point"].output_schema, written["point"]["outputSchema"], "outputSchema of point")
        same(listed["log"].annotations.read_only_hint, True, "readOnlyHint of log")
        same(listed["erase"].annotations.destructive_hint, True, "destructiveHint of erase")

    async def resources_list():
        listed = {str(found.uri): found.mime_type for found in (await client.list_resources()).resources}
        below = {f"manual://{name}" for name in ["start.md", "inner/more.txt", "pixel.png"]}
        same(set(listed), set(definition.entries("resources")) - {"manual://"} | below, "resources")
        same(listed["manual://start.md"], "text/markdown", "type of manual://start.md")
        same(listed["manual://pixel.png"], "image/png", "type of manual://pixel.png")

    async def templates_list():
        listed = (await client.list_resource_templates()).resource_templates
        expected = [*definition.entries("resourceTemplates"), "output://{tool}/{number}"]
        same(sorted(template.uri_template for template in listed), sorted(expected), "resource templates")

    async def prompts_list():
        prompts = (await client.list_prompts()).prompts
        found = [(p.name, [(a.name, bool(a.required)) for a in p.arguments]) for p in prompts]
        expected = [("greeting", [("name", True), ("note", False)]), ("review", [("revision", True)])]
        same(found, expected, "prompts")

    async def call_text():
        said(await peer.call("sha256", {"text": "hello"}), f"{DIGEST}  -\n")
        said(await peer.call("jq", {"filter": ".a | add", "document": '{"a": [1, 2]}'}), "3\n")
        said(await peer.call("sort", {"text": "b\na\n10\n9\n"}), "10\n9\na\nb\n")
        said(await peer.call("sort", {"text": "10\n9\n", "order": "number"}), "9\n10\n")
        log = text(await peer.call("log"))
        commit = r"[0-9a-f]{7,} \d{4}-\d\d-\d\d tester: Add the definition\n"
        assert re.fullmatch(commit, log), f"the log: {log}"
        said(await peer.call("file", {"path": "greeting.md"}), definition.read("greeting.md"))
        found = await peer.call("grep", {"text": "{name}", "paths": ["greeting.md"]})
        said(found, "greeting.md:1:Greet {name}.\n")
        # One argument of the program, whatever it has.
        said(await peer.call("grep", {"text": "$(id) `id` \"'; id"}), "")

    async def call_structured():
        result = await peer.call("point", {"x": 4})
        same(result.is_error, False, f"isError of {result.content!r}")
        same(result.structured_content, {"x": 4, "y": 0}, "structuredContent")
        same(json.loads(text(result)), {"x": 4, "y": 0}, "text")

    async def call_worker():
        one = (await peer.call("words", {"text": "one"})).structured_content
        three = (await peer.call("words", {"text": "one two\nthree"})).structured_content
        same([one["words"], three["words"]], [1, 3], "words")
        same(three["process"], one["process"], "process of the second call")

    async def call_media():
        blocks = (await peer.call("picture")).content
        found = [(block.type, block.mime_type, block.data) for block in blocks]
        same(found, [("image", "image/png", definition.read("pixel.txt").strip())], "content")

    async def call_link():
        everything = "".join(f"{n}\n" for n in range(1, 1001))
        shown, note, link = (await peer.call("numbers", {"to": 1000})).content
        same(shown.text, everything[:100], "the beginning")
        same(note.text, f"[cut: {len(everything) - 100} more bytes]", "the note")
        same(link.type, "resource_link", "type of the last block")
        same(contents(await read(str(link.uri)), str(link.uri)), everything[100:], "the rest")

    async def call_bad_argument():
        refused(await peer.call("point", {"x": 10}), "/x")
        refused(await peer.call("log", {"count": "many"}), "/count")
        refused(await peer.call("sort", {"text": "a", "order": "random"}), "/order")
        refused(await peer.call("sha256", {"text": "a", "more": 1}), "more")
        refused(await peer.call("sha256", {}), "text")

    async def call_is_error():
        failed = await peer.call("jq", {"filter": ".a", "document": '"text"'})
        refused(failed, "status 5", "Cannot index string")
        refused(await peer.call("show", {"revision": "--help"}), "status 128", "--help")

    async def unknown_tool():
        await fails(peer.call("no_such_tool", {}), -32602, "Unknown tool: no_such_tool")

    async def progress():
        inbox = Inbox()

        async def progressed(progress, total, message):
            inbox.push((progress, total, message))

        result = await peer.call("steps", {"count": 3, "delay": 0.1}, progress_callback=progressed)
        said(result, "3 steps\n")
        first = await inbox.next("the first message")
        same(first, (1, None, f"process {process(first[2])}"), "first message")
        for number, message in enumerate(["step 1 of 3", "step 2 of 3", "step 3 of 3", "3 steps"], 2):
            same(await inbox.next(message), (number, None, message), "progress")

    async def under_way(group, arguments):
        """Starts a call of `steps`, waits for its first message; returns that and an inbox for its outcome."""
        messages, outcome = Inbox(), Inbox()

        async def progressed(_progress, _total, message):
            messages.push(message)

        async def run():
            try:
                outcome.push(await peer.call("steps", arguments, progress_callback=progressed))
            except MCPError as error:
                outcome.push(error)

        group.start_soon(run)
        return await messages.next("the first message"), outcome

    async def parallel():
        async def body(seconds):
            async with anyio.create_task_group() as group:
                _, outcome = await under_way(group, {"count": 20, "delay": 0.05 * seconds})
                said(await peer.call("count", {"text": "one two\n"}), "      1       2       8\n")
                same(outcome.receiver.statistics().current_buffer_used, 0, "slow results before the quick one")
                said(await outcome.next("the slow result"), "20 steps\n")

        await in_time(1, body)

    async def cancel():
        async with anyio.create_task_group() as group:
            calls = [await under_way(group, {"count": 100, "delay": 1}) for _ in range(CANCELLED)]
            group.cancel_scope.cancel()
        same(len({message for message, _ in calls}), CANCELLED, "number of programs")
        for message, outcome in calls:
            same(outcome.receiver.statistics().current_buffer_used, 0, "results of a cancelled call")
            await ended(message)
        said(await peer.call("steps", {"count": 1}), "1 steps\n")

    def erase(answer, judge, expected, left):
        async def body():
            await write("c", "full")
            peer.asked.clear()
            peer.answer = answer
            judge(await peer.call("erase", {"state": "c"}), expected)
            same([asked.message for asked in peer.asked], ["Erase state c?"], "questions")
            form = peer.asked[0].requested_schema
            same((form["type"], form["properties"]), ("object", {}), "the form")
            await reads("c", left)

        return body

    async def read_resource():
        await write("c", "zwölf \U0001f600\n")
        await reads("c", "zwölf \U0001f600\n")
        start = await read("manual://start.md")
        same(contents(start, "manual://start.md"), definition.read("manual/start.md"), "start.md")
        same(start.contents[0].mime_type, "text/markdown", "type of start.md")
        uri = "manual://inner/more.txt"
        same(contents(await read(uri), uri), "deeper\n", uri)
        pixel = (await read("manual://pixel.png")).contents[0].blob
        same(pixel, definition.read("pixel.txt").strip(), "pixel.png")
        load = contents(await read("status://load"), "status://load")
        assert re.match(r"[\d.]+ [\d.]+ [\d.]+ ", load), f"status://load is {load}"

    async def read_template():
        same(contents(await read("day://monday"), "day://monday"), "rain\n", "day://monday")

    async def read_missing():
        for uri in ["state://nothing", "day://friday", "day://..%2Fdays%2Fmonday", "manual://nothing"]:
            await fails(read(uri), NOT_FOUND[peer.era])

    async def greets(arguments, expected):
        messages = (await client.get_prompt("greeting", arguments)).messages
        same([(message.role, message.content.text) for message in messages], [("user", expected)], "messages")

    async def prompt_get():
        await greets({"name": "{name} & Co"}, "Greet {name} & Co.\n\n")
        await greets({"name": "Ada", "note": "Be short."}, "Greet Ada.\nBe short.\n")
        review = (await client.get_prompt("review", {"revision": "HEAD~1"})).messages[0].content.text
        assert review.startswith("Review commit HEAD~1 of"), review

    async def prompt_missing_argument():
        await fails(client.get_prompt("greeting", {"note": "no name"}), -32602)

    # Changes of one second are announced in the order of the definition: first a, then b.
    async def watch():
        async with peer.watch("state://a", "state://b"):
            await write("c", "first")
            await write("a", "first")
            same(await peer.updates.next("the update of a"), "state://a", "first update")
            await reads("a", "first")
            await write("b", "first")
            same(await peer.updates.next("the update of b"), "state://b", "second update")

    async def unwatch():
        async with peer.watch("state://a"):
            pass
        async with peer.watch("state://b"):
            await write("a", "second")
            await write("b", "second")
            same(await peer.updates.next("the update of b"), "state://b", "the only update")

    async def list_changed():
        async with peer.tool_changes():
            definition.add_tool("extra", {"description": "A new tool", "run": ["echo", "extra"]})
            await peer.changes.next("the change of the list")
            same({tool.name for tool in await tools()}, set(definition.entries("tools")), "tools")
            said(await peer.call("extra"), "extra\n")

    accept, decline = types.ElicitResult(action="accept", content={}), types.ElicitResult(action="decline")
    elicit_accept = erase(accept, said, "", "")
    elicit_decline = erase(decline, refused, "the user declined", "full")
    elicit_cancel = erase(types.ElicitResult(action="cancel"), refused, "the user declined", "full")
    await session.check_all("serve", locals())


async def check_bare_peer(session, peer):
    """Checks the error for a client that never declared elicitation."""

    async def elicit_incapable():
        said(await peer.call("write", {"state": "c", "text": "full"}), "")
        refused(await peer.call("erase", {"state": "c"}), "lacks elicitation")
        left = await peer.client.read_resource("state://c", cache_mode="refresh")
        same(contents(left, "state://c"), "full", "state c")

    await session.check("elicit-incapable", elicit_incapable)
