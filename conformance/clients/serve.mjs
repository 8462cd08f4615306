// Checks of `tinymcp serve` that run over any TypeScript client; `board.mjs` describes the peer.
//
// The server is `serve_copy.py`: its definition files are in the folder of the session, where checks read and change
// them. The same checks exist in Python (`py/serve.py`); a name means the same check in both.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PATIENCE, holds, inTime, same, within } from "./harness.mjs";
import { NOT_FOUND, PROTOCOL, contents, fails, refused, said, text } from "./results.mjs";

/** SHA-256 of `hello`. */
const DIGEST = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
/** Calls that are cancelled together. */
const CANCELLED = 4;

/** The folder of the definition, its files, and what they define. */
export class Definition {
  constructor(session) {
    this.folder = join(session.folder, "definition");
  }

  path(name) {
    return join(this.folder, name);
  }

  /** Entries of a member in all files: their name or URI, and their definition. */
  entries(member) {
    const files = readdirSync(this.folder).filter((name) => name.endsWith(".json")).sort();
    return files.flatMap((name) => Object.entries(JSON.parse(readFileSync(this.path(name), "utf8"))[member] ?? {}));
  }

  names(member) {
    return this.entries(member).map(([name]) => name);
  }

  /** Adds a tool to a file that the server watches; the other tools keep their text. */
  addTool(name, tool) {
    const path = this.path("fixture.json");
    const entry = `${JSON.stringify(name)}: ${JSON.stringify(tool)}`;
    writeFileSync(path, readFileSync(path, "utf8").replace('"tools": {', `"tools": {\n${entry},`));
  }
}

export function toolSchemas(tools, definition) {
  const tool = Object.fromEntries(tools.map((tool) => [tool.name, tool]));
  const properties = (name) => tool[name].inputSchema.properties;
  for (const { name, inputSchema } of tools) same(inputSchema.type, "object", `type of ${name}'s inputSchema`);
  same(properties("log"), {
    revision: { type: "string", minLength: 1, maxLength: 200, default: "HEAD", description: "commit, branch or tag" },
    count: { type: "integer", minimum: 1, maximum: 500, default: 20, description: "number of commits" },
  }, "arguments of log");
  same(tool.log.inputSchema.required ?? [], [], "required arguments of log");
  same(properties("sort").order.enum, ["text", "number", "version"], "choices of sort.order");
  same(tool.sort.inputSchema.required, ["text"], "required arguments of sort");
  const written = Object.fromEntries(definition.entries("tools"));
  same(tool.grep.inputSchema, written.grep.input, "inputSchema of grep");
  same(tool.point.outputSchema, written.point.outputSchema, "outputSchema of point");
  same(tool.log.annotations.readOnlyHint, true, "readOnlyHint of log");
  same(tool.erase.annotations.destructiveHint, true, "destructiveHint of erase");
}

export function resourceList(resources, definition) {
  const expected = definition.names("resources").filter((uri) => uri !== "manual://");
  const below = ["start.md", "inner/more.txt", "pixel.png"].map((name) => `manual://${name}`);
  same(resources.map(({ uri }) => uri).sort(), [...expected, ...below].sort(), "resources");
  const types = Object.fromEntries(resources.map(({ uri, mimeType }) => [uri, mimeType]));
  same(types["manual://start.md"], "text/markdown", "type of manual://start.md");
  same(types["manual://pixel.png"], "image/png", "type of manual://pixel.png");
}

export function templateList(templates, definition) {
  const expected = [...definition.names("resourceTemplates"), "output://{tool}/{number}"];
  same(templates.map(({ uriTemplate }) => uriTemplate).sort(), expected.sort(), "resource templates");
}

export function promptList(prompts) {
  const found = prompts.map(({ name, arguments: args }) => [name, args.map(({ name, required }) => [name, required ?? false])]);
  same(found, [["greeting", [["name", true], ["note", false]]], ["review", [["revision", true]]]], "prompts");
}

/** Result of `point` at (4, 0). */
export function pointResult(result) {
  same(result.isError ?? false, false, `isError of ${JSON.stringify(result.content)}`);
  same(result.structuredContent, { x: 4, y: 0 }, "structuredContent");
  same(JSON.parse(text(result)), { x: 4, y: 0 }, "text");
}

export function pictureResult(result, definition) {
  same(result.content, [{ type: "image", mimeType: "image/png", data: pixel(definition) }], "content");
}

/** The image as base64. */
const pixel = (definition) => readFileSync(definition.path("pixel.txt"), "utf8").trim();

/** Reads the rest of `numbers` up to 1000 by its link. */
export async function numbersResult(result, read) {
  const all = Array.from({ length: 1000 }, (_, i) => `${i + 1}\n`).join("");
  const [shown, note, link] = result.content;
  same(shown, { type: "text", text: all.slice(0, 100) }, "the beginning");
  same(note.text, `[cut: ${all.length - 100} more bytes]`, "the note");
  same(link.type, "resource_link", "type of the last block");
  same(contents(await read(link.uri), link.uri), all.slice(100), "the rest");
}

export function greeting(result, ...lines) {
  same(result.messages, [{ role: "user", content: { type: "text", text: lines.join("\n") + "\n" } }], "messages");
}

/** Waits for the end of a process. */
export async function gone(pid) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    if (Date.now() > deadline) throw new Error(`process ${pid} of a call still runs after ${PATIENCE} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Starts a call of `steps`; `first` is the process of its program, `ended` its result. */
function steps(peer, args, options) {
  let started;
  const first = new Promise((resolve) => (started = resolve));
  const onprogress = ({ message }) => started(Number(message.match(/^process (\d+)$/)?.[1]));
  const ended = peer.call("steps", args, { onprogress, ...options });
  // It may fail before it is awaited; the caller awaits it.
  ended.catch(() => {});
  return { first: within(first, "the first progress"), ended };
}

/** Every check of one connected peer; `session` prints the results. */
export async function checkPeer(session, peer) {
  const check = (name, body) => session.check(name, body);
  const definition = new Definition(session);
  const write = async (state, text) => said(await peer.call("write", { state, text }), "");
  const reads = async (state, text) => same(contents(await peer.read(`state://${state}`), `state://${state}`), text, `state ${state}`);

  await check("connect", async () => {
    const { name, protocol, capabilities } = peer.about();
    same(name, "examples", "serverInfo.name");
    same(protocol, PROTOCOL[peer.era], "protocol revision");
    for (const kind of ["tools", "resources", "prompts"]) {
      same(capabilities[kind]?.listChanged, true, `${kind}.listChanged in ${JSON.stringify(capabilities)}`);
    }
    same(capabilities.resources.subscribe, true, "resources.subscribe");
    if (peer.ping) await peer.ping();
  });

  await check("tools-list", async () => same((await peer.tools()).map(({ name }) => name), definition.names("tools"), "tools"));
  await check("tools-schemas", async () => toolSchemas(await peer.tools(), definition));
  await check("resources-list", async () => resourceList(await peer.resources(), definition));
  await check("templates-list", async () => templateList(await peer.templates(), definition));
  await check("prompts-list", async () => promptList(await peer.prompts()));

  await check("call-text", async () => {
    said(await peer.call("sha256", { text: "hello" }), `${DIGEST}  -\n`);
    said(await peer.call("jq", { filter: ".a | add", document: '{"a": [1, 2]}' }), "3\n");
    said(await peer.call("sort", { text: "b\na\n10\n9\n" }), "10\n9\na\nb\n");
    said(await peer.call("sort", { text: "10\n9\n", order: "number" }), "9\n10\n");
    const log = await peer.call("log");
    holds(/^[0-9a-f]{7,} \d{4}-\d\d-\d\d tester: Add the definition\n$/.test(text(log)), `the log: ${text(log)}`);
    const greeting = readFileSync(definition.path("greeting.md"), "utf8");
    said(await peer.call("file", { path: "greeting.md" }), greeting);
    said(await peer.call("grep", { text: "{name}", paths: ["greeting.md"] }), "greeting.md:1:Greet {name}.\n");
    // One argument of the program, whatever it has.
    said(await peer.call("grep", { text: "$(id) `id` \"'; id" }), "");
  });
  await check("call-structured", async () => pointResult(await peer.call("point", { x: 4 })));
  await check("call-worker", async () => {
    const one = (await peer.call("words", { text: "one" })).structuredContent;
    const three = (await peer.call("words", { text: "one two\nthree" })).structuredContent;
    same([one.words, three.words], [1, 3], "words");
    same(three.process, one.process, "process of the second call");
  });
  await check("call-media", async () => pictureResult(await peer.call("picture"), definition));
  await check("call-link", async () => numbersResult(await peer.call("numbers", { to: 1000 }), peer.read));
  await check("call-bad-argument", async () => {
    refused(await peer.call("point", { x: 10 }), "/x");
    refused(await peer.call("log", { count: "many" }), "/count");
    refused(await peer.call("sort", { text: "a", order: "random" }), "/order");
    refused(await peer.call("sha256", { text: "a", more: 1 }), "more");
    refused(await peer.call("sha256", {}), "text");
  });
  await check("call-is-error", async () => {
    refused(await peer.call("jq", { filter: ".a", document: '"text"' }), "status 5", "Cannot index string");
    refused(await peer.call("show", { revision: "--help" }), "status 128", "--help");
  });
  await check("unknown-tool", () => fails(peer.call("no_such_tool", {}), -32602, "Unknown tool: no_such_tool"));

  await check("progress", async () => {
    const seen = [];
    const onprogress = ({ progress, total, message }) => seen.push([progress, total, message]);
    said(await peer.call("steps", { count: 3, delay: 0.1 }, { onprogress }), "3 steps\n");
    holds(/^process \d+$/.test(seen[0]?.[2]), `the first message is ${JSON.stringify(seen[0])}`);
    const messages = [seen[0][2], "step 1 of 3", "step 2 of 3", "step 3 of 3", "3 steps"];
    const expected = messages.map((message, i) => [i + 1, undefined, message]);
    same(seen, peer.losesProgress ? expected.slice(0, seen.length) : expected, "progress");
  });
  await check("parallel", async () => {
    await inTime(1000, async (milliseconds) => {
      const order = [];
      const slow = steps(peer, { count: 20, delay: milliseconds / 20_000 });
      const ended = slow.ended.finally(() => order.push("slow"));
      // It may fail before it is awaited; the await below reports that.
      ended.catch(() => {});
      await slow.first;
      said(await peer.call("count", { text: "one two\n" }), "      1       2       8\n");
      order.push("quick");
      said(await ended, "20 steps\n");
      same(order, ["quick", "slow"], "order of the results");
    });
  });
  await check("cancel", async () => {
    const abort = new AbortController();
    const calls = Array.from({ length: CANCELLED }, () => steps(peer, { count: 100, delay: 1 }, { signal: abort.signal }));
    // All of them run before they are cancelled: over HTTP, a cancellation may overtake its call.
    const programs = await Promise.all(calls.map(({ first }) => first));
    same(new Set(programs).size, CANCELLED, `processes ${programs}`);
    abort.abort("no longer wanted");
    const outcomes = calls.map(({ ended }) => ended.then((result) => `a result: ${JSON.stringify(result)}`, () => "rejected"));
    same(await within(Promise.all(outcomes), "the cancelled calls"), calls.map(() => "rejected"), "outcomes");
    for (const program of programs) await gone(program);
    said(await peer.call("steps", { count: 1 }), "1 steps\n");
  });

  const erase = (name, answer, result, left) => check(name, async () => {
    await write("c", "full");
    peer.asked.length = 0;
    peer.answer = answer;
    result(await peer.call("erase", { state: "c" }));
    same(peer.asked.map(({ message }) => message), ["Erase state c?"], "questions");
    const { type, properties } = peer.asked[0].requestedSchema;
    same([type, properties], ["object", {}], "the form");
    await reads("c", left);
  });
  await erase("elicit-accept", { action: "accept", content: {} }, (result) => said(result, ""), "");
  await erase("elicit-decline", { action: "decline" }, (result) => refused(result, "the user declined"), "full");
  await erase("elicit-cancel", { action: "cancel" }, (result) => refused(result, "the user declined"), "full");

  await check("read-resource", async () => {
    await write("c", "zwölf \u{1f600}\n");
    await reads("c", "zwölf \u{1f600}\n");
    const start = await peer.read("manual://start.md");
    same(contents(start, "manual://start.md"), readFileSync(definition.path("manual/start.md"), "utf8"), "start.md");
    same(start.contents[0].mimeType, "text/markdown", "type of start.md");
    same(contents(await peer.read("manual://inner/more.txt"), "manual://inner/more.txt"), "deeper\n", "more.txt");
    same((await peer.read("manual://pixel.png")).contents[0].blob, pixel(definition), "pixel.png");
    const load = contents(await peer.read("status://load"), "status://load");
    holds(/^[\d.]+ [\d.]+ [\d.]+ /.test(load), `status://load is ${load}`);
  });
  await check("read-template", async () => same(contents(await peer.read("day://monday"), "day://monday"), "rain\n", "monday"));
  await check("read-missing", async () => {
    const code = peer.notFound ?? NOT_FOUND[peer.era];
    for (const uri of ["state://nothing", "day://friday", "day://..%2Fdays%2Fmonday", "manual://nothing"]) {
      await fails(peer.read(uri), code);
    }
  });

  await check("prompt-get", async () => {
    greeting(await peer.prompt("greeting", { name: "{name} & Co" }), "Greet {name} & Co.", "");
    greeting(await peer.prompt("greeting", { name: "Ada", note: "Be short." }), "Greet Ada.", "Be short.");
    const { messages } = await peer.prompt("review", { revision: "HEAD~1" });
    holds(messages[0].content.text.startsWith("Review commit HEAD~1 of"), JSON.stringify(messages));
  });
  await check("prompt-missing-argument", () => fails(peer.prompt("greeting", { note: "no name" }), -32602));

  // Changes of one second are announced in the order of the definition: first a, then b.
  await check("watch", async () => {
    const watch = await peer.watch(["state://a", "state://b"]);
    await write("c", "first");
    await write("a", "first");
    same(await peer.updates.next("the update of a"), "state://a", "first update");
    await reads("a", "first");
    await write("b", "first");
    same(await peer.updates.next("the update of b"), "state://b", "second update");
    await watch.close();
  });
  await check("unwatch", async () => {
    peer.updates.drain();
    const watch = await peer.watch(["state://a", "state://b"]);
    await watch.only(["state://b"]);
    await write("a", "second");
    await write("b", "second");
    same(await peer.updates.next("the update of b"), "state://b", "the only update");
    await watch.close();
  });
  await check("list-changed", async () => {
    const changes = await peer.toolChanges();
    definition.addTool("extra", { description: "A new tool", run: ["echo", "extra"] });
    await peer.changes.next("the change of the list");
    same((await peer.tools()).map(({ name }) => name).sort(), definition.names("tools").sort(), "tools");
    said(await peer.call("extra"), "extra\n");
    await changes.close();
  });

  await check("close", async () => within(peer.close(), "close"));
}

/** Two checks that need a session of their own, whose client never declared elicitation. */
export async function checkBarePeer(session, peer) {
  await session.check("elicit-incapable", async () => {
    said(await peer.call("write", { state: "c", text: "full" }), "");
    refused(await peer.call("erase", { state: "c" }), "lacks elicitation");
    same(contents(await peer.read("state://c"), "state://c"), "full", "state c");
  });
  await session.check("close-busy", async () => {
    const { first, ended } = steps(peer, { count: 100, delay: 1 });
    const outcome = ended.then((result) => (result.isError ? "an error" : text(result)), () => "an error");
    const program = await first;
    // The client waits two seconds before it sends SIGTERM. `wire.py` checks when the server exits.
    await within(peer.close(), "close");
    same(await within(outcome, "the call that was under way"), "an error", "outcome of that call");
    await gone(program);
  });
}
