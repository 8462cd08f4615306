"""Checks of the promises of `board_server` over one connected peer, under the same names as in `board.mjs`.

The SDK runs the callback of each notification in a separate task, so a callback may run after the response that
followed the notification on the wire. Checks therefore wait for each callback. To show that no message was sent, a
check causes a later message, which must be the next one that arrives.
"""

import json
import os

import anyio
import mcp_types as types
from mcp import MCPError

from harness import PATIENCE, Inbox, in_time, same
from results import NOT_FOUND, PROTOCOL, contents, fails, refused, said, text

# Name and logger of the server; a proxy in front of it replaces them.
NAME, LOGGER = os.environ.get("BOARD_NAME", "board"), os.environ.get("BOARD_LOGGER", "gpio")
TOOLS = ["system_status", "gpio_read", "gpio_write", "blink", "erase_pins", "file_write"]
STATUS = {
    "cpuTemperatureCelsius": (int, float),
    "memoryTotalKb": int,
    "memoryAvailableKb": int,
    "diskFreeKb": int,
    "uptimeSeconds": (int, float),
}
# Default number of workers of the server.
WORKERS = 4
# Milliseconds of a step of a call that is cancelled. It has a hundred, which take longer than the next call may.
STEP = 720
# A call that takes longer than any wait.
SLOW = ("blink", {"pin": 1, "times": 100, "intervalMs": 1000})


def status_object(status):
    # Left out on a machine without a sensor.
    optional = {"cpuTemperatureCelsius"}
    same(set(status) | optional, set(STATUS), "members of the status")
    for name, kinds in STATUS.items():
        if name in optional and name not in status:
            continue
        fits = isinstance(status[name], kinds) and not isinstance(status[name], bool)
        assert fits, f"{name} is {status[name]!r}"


def diagnosis(result, *parts):
    same([message.role for message in result.messages], ["user"], "roles")
    for part in parts:
        assert part in result.messages[0].content.text, f"{part} is not in: {result.messages[0].content!r}"


async def check_peer(session, peer):
    """Every check of one connected peer, except closing."""
    client = peer.client

    async def write(pin, value):
        said(await peer.call("gpio_write", {"pin": pin, "value": value}), f"pin {pin} is now {value}")

    async def reads(pin, value):
        said(await peer.call("gpio_read", {"pin": pin}), str(value))

    async def connect():
        name, protocol, capabilities = await peer.about()
        same(name, NAME, "serverInfo.name")
        same(protocol, PROTOCOL[peer.era], "protocol revision")
        for kind in ["tools", "resources", "prompts", "completions", "logging"]:
            assert kind in capabilities, f"capability {kind} is missing in {capabilities}"
        same(capabilities["resources"].get("subscribe"), True, "resources.subscribe")
        if peer.era == "legacy":
            await client.send_ping()

    async def tools_list():
        listed = await client.list_tools()
        same([tool.name for tool in listed.tools], TOOLS, "tools")
        same(listed.next_cursor, None, "nextCursor")

    async def tools_schemas():
        tools = {tool.name: tool for tool in (await client.list_tools(cache_mode="refresh")).tools}
        schema = {name: tool.input_schema for name, tool in tools.items()}
        for name, found in schema.items():
            same(found.get("type"), "object", f"type of {name}'s inputSchema")

        def field(tool, name, *members):
            found = schema[tool]["properties"][name]
            return {member: found.get(member) for member in ["type", *members]}

        pin = {"type": "integer", "minimum": 0, "maximum": 27}
        same(field("gpio_read", "pin", "minimum", "maximum"), pin, "gpio_read.pin")
        same(field("gpio_write", "pin", "minimum", "maximum"), pin, "gpio_write.pin")
        value = {"type": "integer", "minimum": 0, "maximum": 1}
        same(field("gpio_write", "value", "minimum", "maximum"), value, "gpio_write.value")
        same(field("blink", "pin"), {"type": "integer"}, "blink.pin")
        bounds = ["minimum", "maximum", "default"]
        times = {"type": "integer", "minimum": 1, "maximum": 100, "default": 3}
        same(field("blink", "times", *bounds), times, "blink.times")
        interval = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
        same(field("blink", "intervalMs", *bounds), interval, "blink.intervalMs")
        same(field("file_write", "path"), {"type": "string"}, "file_write.path")
        same(field("file_write", "text"), {"type": "string"}, "file_write.text")
        required = {name: sorted(found.get("required", [])) for name, found in schema.items()}
        expected = {
            "system_status": [],
            "gpio_read": ["pin"],
            "gpio_write": ["pin", "value"],
            "blink": ["pin"],
            "erase_pins": [],
            "file_write": ["path", "text"],
        }
        same(required, expected, "required arguments")
        output = tools["system_status"].output_schema
        same(set((output or {}).get("properties", {})), set(STATUS), "properties of the outputSchema")

    async def resources_list():
        listed = {str(found.uri): found.mime_type for found in (await client.list_resources()).resources}
        same(sorted(listed), ["board://status", "file:///readme.txt"], "resources")
        same(listed["board://status"], "application/json", "type of board://status")

    async def templates_list():
        listed = (await client.list_resource_templates()).resource_templates
        found = sorted((template.uri_template, template.name) for template in listed)
        same(found, [("file:///{+path}", "file"), ("gpio://pin/{pin}", "pin")], "resource templates")

    async def prompts_list():
        prompts = (await client.list_prompts()).prompts
        same([prompt.name for prompt in prompts], ["diagnose"], "prompts")
        found = [(argument.name, bool(argument.required)) for argument in prompts[0].arguments]
        same(found, [("symptom", True), ("component", False)], "arguments of diagnose")

    async def call_text():
        await write(4, 1)
        result = await peer.call("gpio_read", {"pin": 4})
        said(result, "1")
        same(result.structured_content, {"pin": 4, "value": 1}, "structuredContent")
        await reads(5, 0)

    async def call_structured():
        result = await peer.call("system_status")
        same(result.is_error, False, "isError")
        status_object(result.structured_content)
        assert text(result), "the text is empty"

    async def call_bad_argument():
        refused(await peer.call("gpio_write", {"pin": 99, "value": 1}), "/pin")
        refused(await peer.call("gpio_read", {"pin": "4"}), "/pin")
        refused(await peer.call("gpio_write", {"pin": 4, "value": 2}), "/value")

    async def call_is_error():
        refused(await peer.call("file_write", {"path": "../outside.txt", "text": "no"}))
        refused(await peer.call("file_write", {"path": "/outside.txt", "text": "no"}))

    async def unknown_tool():
        await fails(peer.call("no_such_tool", {}), -32602, "Unknown tool: no_such_tool")

    async def blink(arguments, **options):
        """A call of `blink` with its progress, as (result, inbox)."""
        inbox = Inbox()

        async def progressed(progress, total, message):
            inbox.push((progress, total, message))

        return await peer.call("blink", arguments, progress_callback=progressed, **options), inbox

    async def progress():
        result, inbox = await blink({"pin": 5, "times": 3, "intervalMs": 50})
        said(result, "pin 5 blinked 3 times")
        for step in [1, 2, 3]:
            same(await inbox.next(f"progress {step}"), (step, 3, f"blink {step} of 3"), "progress")

    async def defaults():
        result, inbox = await blink({"pin": 6})
        said(result, "pin 6 blinked 3 times")
        for step in [1, 2, 3]:
            same((await inbox.next(f"progress {step}"))[:2], (step, 3), "progress")

    async def under_way(group, arguments):
        """Starts a call of `blink` and waits for its first progress; returns an inbox for its outcome."""
        first, outcome = anyio.Event(), Inbox()

        async def progressed(*_):
            first.set()

        async def run():
            try:
                outcome.push(await peer.call("blink", arguments, progress_callback=progressed))
            except MCPError as error:
                outcome.push(error)

        group.start_soon(run)
        with anyio.fail_after(PATIENCE):
            await first.wait()
        return outcome

    async def parallel():
        async def body(seconds):
            async with anyio.create_task_group() as group:
                outcome = await under_way(group, {"pin": 7, "times": 20, "intervalMs": 50 * seconds})
                await reads(8, 0)
                same(outcome.receiver.statistics().current_buffer_used, 0, "slow answers before the quick one")
                said(await outcome.next("the slow answer"), "pin 7 blinked 20 times")

        await in_time(1, body)

    async def cancel():
        async with anyio.create_task_group() as group:
            # As many as the server has workers, and longer than the next call may take: only cancelled work makes room.
            outcomes = [
                await under_way(group, {"pin": pin, "times": 100, "intervalMs": STEP}) for pin in range(WORKERS)
            ]
            group.cancel_scope.cancel()
        for outcome in outcomes:
            same(outcome.receiver.statistics().current_buffer_used, 0, "answers of a cancelled call")
        # Longer than two steps of the cancelled calls, which the wire log would show.
        with anyio.move_on_after(PATIENCE) as limit:
            said(await peer.call("blink", {"pin": 10, "times": 8, "intervalMs": STEP // 3}), "pin 10 blinked 8 times")
        assert not limit.cancelled_caught, f"the next call: nothing within {PATIENCE} s"

    def erase(answer, expected, left):
        async def body():
            await write(11, 1)
            await write(12, 1)
            peer.asked.clear()
            peer.keys.clear()
            peer.answer = answer
            said(await peer.call("erase_pins"), expected)
            same(len(peer.asked), 1, "number of questions")
            same(peer.asked[0].message, "Set every pin to 0?", "the question")
            form = peer.asked[0].requested_schema
            same(form["type"], "object", "type of the form")
            fields = [(name, field["type"]) for name, field in form["properties"].items()]
            same(fields, [("sure", "boolean")], "fields of the form")
            if peer.era == "modern":
                same(peer.keys, ["confirm"], "key of the question")
            await reads(11, left)
            await reads(12, left)

        return body

    async def logged(pin):
        """The log messages up to the one about this pin; earlier calls may have left some."""
        seen = []
        while not seen or seen[-1][2] != f"blinking pin {pin}":
            seen.append(await peer.logs.next(f"the message about pin {pin}"))
        return seen

    async def log():
        for pin, level in [(13, "info"), (17, "debug")]:
            options = await peer.logging(level)
            result, _ = await blink({"pin": pin, "times": 1, "intervalMs": 20}, **options)
            said(result, f"pin {pin} blinked 1 times")
            same((await logged(pin))[-1], ("info", LOGGER, f"blinking pin {pin}"), "log message")

    async def log_floor():
        for pin, level in [(14, "error"), (16, "info")]:
            options = await peer.logging(level)
            await blink({"pin": pin, "times": 1, "intervalMs": 20}, **options)
        about = [data for _, _, data in await logged(16)]
        assert "blinking pin 14" not in about, f"a message below the asked level: {about}"

    async def read_resource():
        uri = "file:///readme.txt"
        same(contents(await client.read_resource(uri), uri), "tinymcp board\n", "readme.txt")
        status = await client.read_resource("board://status")
        status_object(json.loads(contents(status, "board://status")))
        same(status.contents[0].mime_type, "application/json", "mimeType")

    async def read_template():
        uri = "gpio://pin/15"
        for value in [1, 0]:
            await write(15, value)
            same(contents(await client.read_resource(uri, cache_mode="refresh"), uri), str(value), uri)
        note = "line one\nzwei – zwölf \U0001f600\n"
        same((await peer.call("file_write", {"path": "note.txt", "text": note})).is_error, False, "isError")
        uri = "file:///note.txt"
        same(contents(await client.read_resource(uri), uri), note, uri)

    async def read_missing():
        for uri in ["file:///nothing.txt", "gpio://pin/99"]:
            await fails(client.read_resource(uri), NOT_FOUND[peer.era])

    async def prompt_get():
        both = {"symptom": "no boot at 40 °C", "component": "memory"}
        diagnosis(await client.get_prompt("diagnose", both), *both.values())
        diagnosis(await client.get_prompt("diagnose", {"symptom": "hot"}), "hot")

    async def prompt_missing_argument():
        await fails(client.get_prompt("diagnose", {"component": "cpu"}), -32602)

    async def offers(ref, name, value):
        return (await client.complete(ref, {"name": name, "value": value})).completion.values

    async def complete_prompt():
        ref = types.PromptReference(name="diagnose")
        same(sorted(await offers(ref, "component", "")), ["cpu", "disk", "gpio", "memory"], "offers")
        same(await offers(ref, "component", "d"), ["disk"], "offers for d")
        same(await offers(ref, "component", "x"), [], "offers for x")

    async def complete_template():
        ref = types.ResourceTemplateReference(uri="gpio://pin/{pin}")
        twos = ["2", *(str(pin) for pin in range(20, 28))]
        same(sorted(await offers(ref, "pin", "2"), key=int), twos, "offers for 2")
        same(await offers(ref, "pin", "13"), ["13"], "offers for 13")
        same(await offers(ref, "pin", "9"), ["9"], "offers for 9")

    # Updates keep their order, so the update of a later write shows that an earlier write gave none.
    async def watch():
        async with peer.watch("gpio://pin/20", "gpio://pin/21"):
            await write(22, 1)
            await write(20, 1)
            same(await peer.updates.next("the update of pin 20"), "gpio://pin/20", "first update")
            fresh = await client.read_resource("gpio://pin/20", cache_mode="refresh")
            same(contents(fresh, "gpio://pin/20"), "1", "pin 20 after its update")
            await write(21, 1)
            same(await peer.updates.next("the update of pin 21"), "gpio://pin/21", "second update")

    async def unwatch():
        async with peer.watch("gpio://pin/20"):
            pass
        async with peer.watch("gpio://pin/21"):
            await write(20, 0)
            await write(21, 0)
            same(await peer.updates.next("the update of pin 21"), "gpio://pin/21", "the only update")

    accept = lambda sure: types.ElicitResult(action="accept", content={"sure": sure})  # noqa: E731
    elicit_accept = erase(accept(True), "all pins are 0", 0)
    elicit_unsure = erase(accept(False), "nothing was changed", 1)
    elicit_decline = erase(types.ElicitResult(action="decline"), "nothing was changed", 1)
    elicit_cancel = erase(types.ElicitResult(action="cancel"), "nothing was changed", 1)
    await session.check_all("board", locals())


async def ended(_message):
    """No process of a call outlives the server."""


async def check_bare_peer(session, peer):
    """Checks the error for a client that never declared elicitation."""

    async def elicit_incapable():
        said(await peer.call("gpio_write", {"pin": 3, "value": 1}), "pin 3 is now 1")
        try:
            outcome = await peer.call("erase_pins")
        except MCPError as error:
            outcome = error
        if peer.era == "modern":
            same(getattr(outcome, "code", None), -32021, f"code of {outcome!r}")
            assert "elicitation" in outcome.data["requiredCapabilities"], f"data of the error: {outcome.data}"
        else:
            assert isinstance(outcome, MCPError) or outcome.is_error, f"expected an error, got {outcome!r}"
        said(await peer.call("gpio_read", {"pin": 3}), "1")

    await session.check("elicit-incapable", elicit_incapable)
