// Checks of `board_server` that run over any TypeScript client.
//
// A client passes a `peer`, a thin wrapper of its SDK:
//   era            "legacy" or "modern"
//   about()        {name, protocol, capabilities} as the SDK reports them
//   tools() resources() templates() prompts()   the complete lists
//   call(name, args, options)   options: onprogress, signal, and what `logging` returned
//   logging(level)  requests log messages from `level` on, as the era defines; returns call options
//   read(uri) prompt(name, args) complete(ref, argument)
//   watch(uris)    returns {only(uris), close()}; updates arrive in `updates`
//   toolChanges()  returns {close()}; until then, an item arrives in `changes` for each changed list of tools
//   notFound       the code of an unknown URI, if the SDK reports another code than the wire has
//   losesProgress  true if the SDK drops progress that it reads together with the result
//   logs, updates, changes  queues of log messages {level, logger, data}, of resource URIs, of changes
//   asked          the elicitation requests so far; `answer` is what the client's handler returns
//   close()
// The same checks exist in Python (`py/board.py`); a name means the same check in both.

import { holds, inTime, same, within } from "./harness.mjs";
import { NOT_FOUND, PROTOCOL, contents, fails, refused, said, text } from "./results.mjs";

/** Name and logger of the server; a proxy in front of it replaces them. */
export const { BOARD_NAME: NAME = "board", BOARD_LOGGER: LOGGER = "gpio" } = process.env;
export const TOOLS = ["system_status", "gpio_read", "gpio_write", "blink", "erase_pins", "file_write"];
const STATUS = {
  // Left out on a machine without a sensor.
  cpuTemperatureCelsius: (v) => v === undefined || typeof v === "number",
  memoryTotalKb: Number.isInteger,
  memoryAvailableKb: Number.isInteger,
  diskFreeKb: Number.isInteger,
  uptimeSeconds: (v) => typeof v === "number",
};
/** Default number of workers of the server. */
const WORKERS = 4;
/** Milliseconds of a step of a call that is cancelled. It has a hundred, which take longer than the next call may. */
const STEP = 720;
export function statusObject(status) {
  const unknown = Object.keys(status).filter((name) => !(name in STATUS));
  same(unknown, [], "undeclared members of the status");
  for (const [name, fits] of Object.entries(STATUS)) holds(fits(status[name]), `${name} is ${JSON.stringify(status[name])}`);
}

export function toolSchemas(tools) {
  const schema = Object.fromEntries(tools.map((tool) => [tool.name, tool.inputSchema]));
  for (const [name, { type }] of Object.entries(schema)) same(type, "object", `type of ${name}'s inputSchema`);
  const property = (tool, name) => {
    const found = schema[tool].properties?.[name];
    holds(found, `${tool} has no property ${name}`);
    const { type, minimum, maximum, default: preset } = found;
    return { type, minimum, maximum, default: preset };
  };
  const pin = { type: "integer", minimum: 0, maximum: 27 };
  same(property("gpio_read", "pin"), pin, "gpio_read.pin");
  same(property("gpio_write", "pin"), pin, "gpio_write.pin");
  same(property("gpio_write", "value"), { type: "integer", minimum: 0, maximum: 1 }, "gpio_write.value");
  same(property("blink", "pin").type, "integer", "type of blink.pin");
  same(property("blink", "times"), { type: "integer", minimum: 1, maximum: 100, default: 3 }, "blink.times");
  same(property("blink", "intervalMs"), { type: "integer", minimum: 1, maximum: 1000, default: 100 }, "blink.intervalMs");
  same(property("file_write", "path").type, "string", "type of file_write.path");
  same(property("file_write", "text").type, "string", "type of file_write.text");
  const required = Object.fromEntries(Object.entries(schema).map(([name, s]) => [name, [...(s.required ?? [])].sort()]));
  same(required, {
    system_status: [], gpio_read: ["pin"], gpio_write: ["pin", "value"], blink: ["pin"],
    erase_pins: [], file_write: ["path", "text"],
  }, "required arguments");
  const output = tools.find((tool) => tool.name === "system_status").outputSchema;
  holds(output, "system_status has no outputSchema");
  same(Object.keys(output.properties ?? {}).sort(), Object.keys(STATUS).sort(), "properties of the outputSchema");
}

export function resourceList(resources) {
  const types = Object.fromEntries(resources.map((resource) => [resource.uri, resource.mimeType]));
  same(Object.keys(types).sort(), ["board://status", "file:///readme.txt"], "resources");
  same(types["board://status"], "application/json", "type of board://status");
}

export function templateList(templates) {
  const names = templates.map(({ uriTemplate, name }) => [uriTemplate, name]).sort();
  same(names, [["file:///{+path}", "file"], ["gpio://pin/{pin}", "pin"]], "resource templates");
}

export function promptList(prompts) {
  same(prompts.map((prompt) => prompt.name), ["diagnose"], "prompts");
  const args = prompts[0].arguments.map((argument) => [argument.name, argument.required ?? false]);
  same(args, [["symptom", true], ["component", false]], "arguments of diagnose");
}

export function diagnosis(result, ...parts) {
  same(result.messages.map((message) => message.role), ["user"], "roles");
  const { type, text } = result.messages[0].content;
  same(type, "text", "type of the message");
  for (const part of parts) holds(text.includes(part), `${part} is not in: ${text}`);
}

/** Every check of one connected peer; `session` prints the results. */
export async function checkPeer(session, peer) {
  const check = (name, body) => session.check(name, body);
  const write = async (pin, value) => said(await peer.call("gpio_write", { pin, value }), `pin ${pin} is now ${value}`);
  const reads = async (pin, value) => said(await peer.call("gpio_read", { pin }), String(value));

  await check("connect", async () => {
    const { name, protocol, capabilities } = peer.about();
    same(name, NAME, "serverInfo.name");
    same(protocol, PROTOCOL[peer.era], "protocol revision");
    for (const kind of ["tools", "resources", "prompts", "completions", "logging"]) {
      holds(capabilities[kind], `capability ${kind} is missing in ${JSON.stringify(capabilities)}`);
    }
    same(capabilities.resources.subscribe, true, "resources.subscribe");
    if (peer.ping) await peer.ping();
  });

  await check("tools-list", async () => same((await peer.tools()).map((tool) => tool.name), TOOLS, "tools"));
  await check("tools-schemas", async () => toolSchemas(await peer.tools()));
  await check("resources-list", async () => resourceList(await peer.resources()));
  await check("templates-list", async () => templateList(await peer.templates()));
  await check("prompts-list", async () => promptList(await peer.prompts()));

  await check("call-text", async () => {
    await write(4, 1);
    const result = await peer.call("gpio_read", { pin: 4 });
    said(result, "1");
    same(result.structuredContent, { pin: 4, value: 1 }, "structuredContent");
    await reads(5, 0);
  });
  await check("call-structured", async () => {
    const result = await peer.call("system_status");
    same(result.isError ?? false, false, "isError");
    statusObject(result.structuredContent);
    holds(text(result) !== "", "the text is empty");
  });
  await check("call-bad-argument", async () => {
    refused(await peer.call("gpio_write", { pin: 99, value: 1 }), "/pin");
    refused(await peer.call("gpio_read", { pin: "4" }), "/pin");
    refused(await peer.call("gpio_write", { pin: 4, value: 2 }), "/value");
  });
  await check("call-is-error", async () => {
    refused(await peer.call("file_write", { path: "../outside.txt", text: "no" }));
    refused(await peer.call("file_write", { path: "/outside.txt", text: "no" }));
  });
  await check("unknown-tool", () => fails(peer.call("no_such_tool", {}), -32602, "Unknown tool: no_such_tool"));

  await check("progress", async () => {
    const seen = [];
    const onprogress = ({ progress, total, message }) => seen.push([progress, total, message]);
    const result = await peer.call("blink", { pin: 5, times: 3, intervalMs: 100 }, { onprogress });
    said(result, "pin 5 blinked 3 times");
    const steps = [1, 2, 3].map((i) => [i, 3, `blink ${i} of 3`]);
    holds(seen.length > 0, "no progress at all");
    same(seen, peer.losesProgress ? steps.slice(0, seen.length) : steps, "progress");
  });
  await check("defaults", async () => {
    const seen = [];
    const result = await peer.call("blink", { pin: 6 }, { onprogress: ({ total }) => seen.push(total) });
    said(result, "pin 6 blinked 3 times");
    holds(seen.length > 0, "no progress at all");
    same(seen, peer.losesProgress ? seen.map(() => 3) : [3, 3, 3], "totals");
  });
  await check("parallel", async () => {
    await inTime(1000, async (milliseconds) => {
      const order = [];
      let started;
      const first = new Promise((resolve) => (started = resolve));
      const args = { pin: 7, times: 20, intervalMs: milliseconds / 20 };
      const slow = peer.call("blink", args, { onprogress: started });
      const ended = slow.then((result) => { order.push("slow"); return result; });
      // It may fail before it is awaited; the await below reports that.
      ended.catch(() => {});
      await within(Promise.race([first, ended]), "the first progress");
      await reads(8, 0);
      order.push("quick");
      said(await ended, "pin 7 blinked 20 times");
      same(order, ["quick", "slow"], "order of the answers");
    });
  });
  await check("cancel", async () => {
    const abort = new AbortController();
    // As many as the server has workers, and longer than the next call may take: only cancelled work makes room for it.
    // All of them have to run before they are cancelled, because over HTTP a cancellation may overtake its call.
    const running = [];
    const calls = Array.from({ length: WORKERS }, async (_, i) => {
      let started;
      running.push(new Promise((resolve) => (started = resolve)));
      const options = { onprogress: started, signal: abort.signal };
      const call = peer.call("blink", { pin: i, times: 100, intervalMs: STEP }, options);
      return call.then((result) => `a result: ${JSON.stringify(result)}`, () => "rejected");
    });
    await within(Promise.all(running), "the first progress of each call");
    abort.abort("no longer wanted");
    const outcomes = await within(Promise.all(calls), "the cancelled calls");
    same(outcomes, calls.map(() => "rejected"), "outcomes of the cancelled calls");
    // Longer than two steps of the cancelled calls, which the wire log would show.
    const next = peer.call("blink", { pin: 10, times: 8, intervalMs: STEP / 3 });
    said(await within(next, "the next call"), "pin 10 blinked 8 times");
  });

  const erase = async (answer, expected, left) => {
    await write(11, 1);
    await write(12, 1);
    peer.asked.length = 0;
    peer.answer = answer;
    said(await peer.call("erase_pins"), expected);
    same(peer.asked.length, 1, "number of questions");
    const { message, requestedSchema } = peer.asked[0];
    same(message, "Set every pin to 0?", "the question");
    same(requestedSchema.type, "object", "type of the form");
    const fields = Object.entries(requestedSchema.properties).map(([name, field]) => [name, field.type]);
    same(fields, [["sure", "boolean"]], "fields of the form");
    await reads(11, left);
    await reads(12, left);
  };
  await check("elicit-accept", () => erase({ action: "accept", content: { sure: true } }, "all pins are 0", 0));
  await check("elicit-unsure", () => erase({ action: "accept", content: { sure: false } }, "nothing was changed", 1));
  await check("elicit-decline", () => erase({ action: "decline" }, "nothing was changed", 1));
  await check("elicit-cancel", () => erase({ action: "cancel" }, "nothing was changed", 1));

  // Log messages are sent before the response of their call, so no wait after the response is needed.
  const blinkLogs = async (pin, options) => {
    peer.logs.drain();
    said(await peer.call("blink", { pin, times: 1, intervalMs: 20 }, options), `pin ${pin} blinked 1 times`);
    return peer.logs.drain().map(({ level, logger, data }) => ({ level, logger, data }));
  };
  await check("log", async () => {
    const expected = { level: "info", logger: LOGGER, data: "blinking pin 13" };
    same(await blinkLogs(13, await peer.logging("info")), [expected], "log messages at info");
    same(await blinkLogs(13, await peer.logging("debug")), [expected], "log messages at debug");
  });
  await check("log-floor", async () => same(await blinkLogs(14, await peer.logging("error")), [], "log messages at error"));

  await check("read-resource", async () => {
    same(contents(await peer.read("file:///readme.txt"), "file:///readme.txt"), "tinymcp board\n", "readme.txt");
    const status = await peer.read("board://status");
    statusObject(JSON.parse(contents(status, "board://status")));
    same(status.contents[0].mimeType, "application/json", "mimeType");
  });
  await check("read-template", async () => {
    await write(15, 1);
    same(contents(await peer.read("gpio://pin/15"), "gpio://pin/15"), "1", "gpio://pin/15");
    await write(15, 0);
    same(contents(await peer.read("gpio://pin/15"), "gpio://pin/15"), "0", "gpio://pin/15");
    const note = "line one\nzwei – zwölf \u{1f600}\n";
    same((await peer.call("file_write", { path: "note.txt", text: note })).isError ?? false, false, "isError of file_write");
    same(contents(await peer.read("file:///note.txt"), "file:///note.txt"), note, "note.txt");
  });
  await check("read-missing", async () => {
    const code = peer.notFound ?? NOT_FOUND[peer.era];
    await fails(peer.read("file:///nothing.txt"), code);
    await fails(peer.read("gpio://pin/99"), code);
  });

  await check("prompt-get", async () => {
    const both = await peer.prompt("diagnose", { symptom: "no boot at 40 °C", component: "memory" });
    diagnosis(both, "no boot at 40 °C", "memory");
    diagnosis(await peer.prompt("diagnose", { symptom: "hot" }), "hot");
  });
  await check("prompt-missing-argument", () => fails(peer.prompt("diagnose", { component: "cpu" }), -32602));
  await check("complete-prompt", async () => {
    const offered = (value) => peer.complete({ type: "ref/prompt", name: "diagnose" }, { name: "component", value });
    same([...(await offered(""))].sort(), ["cpu", "disk", "gpio", "memory"], "offers for the empty prefix");
    same(await offered("d"), ["disk"], "offers for d");
    same(await offered("x"), [], "offers for x");
  });
  await check("complete-template", async () => {
    const offered = async (value) => {
      const ref = { type: "ref/resource", uri: "gpio://pin/{pin}" };
      return [...(await peer.complete(ref, { name: "pin", value }))].sort((a, b) => a - b);
    };
    same(await offered("2"), ["2", "20", "21", "22", "23", "24", "25", "26", "27"], "offers for 2");
    same(await offered("13"), ["13"], "offers for 13");
    same(await offered("9"), ["9"], "offers for 9");
  });

  // Updates keep their order, so the update of a later write shows that an earlier write gave none.
  await check("watch", async () => {
    const watch = await peer.watch(["gpio://pin/20", "gpio://pin/21"]);
    await write(22, 1);
    await write(20, 1);
    same(await peer.updates.next("the update of pin 20"), "gpio://pin/20", "first update");
    same(contents(await peer.read("gpio://pin/20"), "gpio://pin/20"), "1", "pin 20 after its update");
    await write(21, 1);
    same(await peer.updates.next("the update of pin 21"), "gpio://pin/21", "second update");
    await watch.close();
  });
  await check("unwatch", async () => {
    peer.updates.drain();
    const watch = await peer.watch(["gpio://pin/20", "gpio://pin/21"]);
    await watch.only(["gpio://pin/21"]);
    await write(20, 0);
    await write(21, 0);
    same(await peer.updates.next("the update of pin 21"), "gpio://pin/21", "the only update");
    await watch.close();
  });

  await check("close", async () => within(peer.close(), "close"));
}

/** Two checks that need a session of their own, whose client never declared elicitation. */
export async function checkBarePeer(session, peer) {
  await session.check("elicit-incapable", async () => {
    said(await peer.call("gpio_write", { pin: 3, value: 1 }), "pin 3 is now 1");
    const outcome = await peer.call("erase_pins").catch((error) => error);
    if (peer.era === "modern") {
      same(outcome.code, -32021, `code of ${JSON.stringify(outcome)}`);
      holds(outcome.data?.requiredCapabilities?.elicitation, `data of the error: ${JSON.stringify(outcome.data)}`);
    } else {
      holds(outcome.isError === true || outcome.code < 0, `expected an error, got ${JSON.stringify(outcome)}`);
    }
    said(await peer.call("gpio_read", { pin: 3 }), "1");
  });
  await session.check("close-busy", async () => {
    let started;
    const first = new Promise((resolve) => (started = resolve));
    const call = peer.call("blink", { pin: 1, times: 100, intervalMs: 1000 }, { onprogress: started });
    // The server may still send an error because it ends, but not a result of the call.
    const outcome = call.then((result) => (result.isError ? "an error" : text(result)), () => "an error");
    await within(first, "the first progress");
    // The client waits two seconds before it sends SIGTERM. `wire.py` checks when the server exits.
    await within(peer.close(), "close");
    same(await within(outcome, "the call that was under way"), "an error", "outcome of that call");
  });
}
