// Checks of a server behind `tinymcp proxy` that run over any TypeScript client; `board.mjs` describes the peer.
//
// BRIDGE_SERVER names the server: a member of `../bridge/servers.json`, which has the requests and what their results
// contain. BRIDGE_MODES are the modes of the client, by default all. The same checks exist in Python (`py/bridge.py`).

import { readFileSync } from "node:fs";
import { PATIENCE, holds, same, within } from "./harness.mjs";
import { PROTOCOL, text } from "./results.mjs";

const SERVER = JSON.parse(readFileSync(new URL("../bridge/servers.json", import.meta.url), "utf8"))[process.env.BRIDGE_SERVER];
/** How the transport HTTP+SSE is tested: with lists and calls only. */
const FEW = process.env.BRIDGE_FEW !== undefined;

/** What the clients declare and answer besides forms. */
export const answers = {
  capabilities: { sampling: {}, roots: {} },
  modes: process.env.BRIDGE_MODES?.split(","),
  sampled: ({ maxTokens }) => ({
    role: "assistant",
    model: "toy",
    content: { type: "text", text: `blue, ${maxTokens} tokens` },
  }),
  roots: () => ({ roots: [{ uri: "file:///bridge", name: "bridge" }] }),
};

export async function checkPeer(session, peer) {
  const check = (name, body) => session.check(name, body);
  /** All text of a result, of which this must be a part. */
  const calls = async ({ name, arguments: args, text: part }, options) => {
    const result = await peer.call(name, args, options);
    const all = result.content.map((block) => block.text ?? "").join("\n");
    same(result.isError ?? false, false, `isError of ${all}`);
    if (part) holds(all.includes(part), `${part} is not in: ${all}`);
  };

  await check("connect", async () => {
    const { name, protocol, capabilities } = peer.about();
    same(protocol, PROTOCOL[peer.era], "protocol revision");
    holds(name, "the server has no name");
    for (const kind of ["tools", "resources", "prompts", "completions", "logging"]) {
      holds(capabilities[kind], `capability ${kind} is missing in ${JSON.stringify(capabilities)}`);
    }
  });
  await check("list", async () => {
    // The first list may be that before the server is connected, if it starts slowly.
    while ((await peer.prompts()).length === 0) await new Promise((resolve) => setTimeout(resolve, 100));
    const tools = (await peer.tools()).map(({ name }) => name);
    for (const name of SERVER.tools) holds(tools.includes(name), `no tool ${name} in ${tools}`);
    const uris = (await peer.resources()).map(({ uri }) => uri);
    holds(uris.includes(SERVER.resource), `no ${SERVER.resource} in ${uris}`);
    const templates = (await peer.templates()).map(({ uriTemplate }) => uriTemplate);
    holds(templates.includes(SERVER.template), `no ${SERVER.template} in ${templates}`);
    same((await peer.prompts()).map(({ name }) => name).sort(), SERVER.prompts, "prompts");
  });
  await check("call", async () => {
    await calls(SERVER.call);
    const result = await peer.call(SERVER.error.name, SERVER.error.arguments);
    same(result.isError, true, `isError of ${JSON.stringify(result)}`);
  });
  if (FEW) return check("close", async () => within(peer.close(), "close"));

  await check("read", async () => {
    const { contents } = await peer.read(SERVER.read.uri);
    same(contents.map(({ uri }) => uri), [SERVER.read.uri], "uris");
    holds(contents[0].text.includes(SERVER.read.text), contents[0].text);
  });
  await check("prompt", async () => {
    const { messages } = await peer.prompt(SERVER.prompt.name, SERVER.prompt.arguments);
    holds(messages[0].content.text.includes(SERVER.prompt.text), JSON.stringify(messages));
  });
  await check("complete", async () => {
    const { prompt, argument, value, values } = SERVER.complete;
    same([...(await peer.complete({ type: "ref/prompt", name: prompt }, { name: argument, value }))].sort(), values, "values");
  });
  await check("progress", async () => {
    const seen = [];
    // The SDK 2 repeats a step when the server's request for roots arrives during the call.
    const onprogress = ({ progress }) => seen.at(-1) === progress || seen.push(progress);
    await calls(SERVER.progress, { onprogress });
    const steps = Array.from({ length: SERVER.progress.steps }, (_, i) => i + 1);
    holds(seen.length > 0, "no progress at all");
    same(seen, peer.losesProgress ? steps.slice(0, seen.length) : steps, "progress");
  });
  await check("cancel", async () => {
    const { name, arguments: args, next } = SERVER.cancel;
    const abort = new AbortController();
    let started;
    const first = new Promise((resolve) => (started = resolve));
    const call = peer.call(name, args, { onprogress: started, signal: abort.signal });
    const outcome = call.then((result) => `a result: ${JSON.stringify(result)}`, () => "rejected");
    await within(Promise.race([first, outcome]), "the first progress");
    abort.abort("no longer wanted");
    same(await within(outcome, "the cancelled call"), "rejected", "outcome");
    await calls(next);
  });
  await check("elicitation", async () => {
    peer.answer = { action: "accept", content: SERVER.elicitation.content };
    peer.asked.length = 0;
    await calls(SERVER.elicitation);
    same(peer.asked.length, 1, "number of questions");
  });
  await check("elicitation-declined", async () => {
    peer.answer = { action: "decline" };
    peer.asked.length = 0;
    const { name, arguments: args } = SERVER.elicitation;
    // The server decides whether that is an error.
    const outcome = await peer.call(name, args).then(JSON.stringify, String);
    holds(!outcome.includes(SERVER.elicitation.text), outcome);
    same(peer.asked.length, 1, "number of questions");
  });
  await check("sampling", () => calls(SERVER.sampling));
  await check("roots", () => calls(SERVER.roots));
  await check("subscription", async () => {
    const { uri, change, end } = SERVER.subscription;
    peer.updates.drain();
    const watch = await peer.watch([uri]);
    await calls(change);
    same(await peer.updates.next(`the update of ${uri}`), uri, "update");
    if (end) await calls(end);
    await watch.close();
  });
  await check("log", async () => {
    const options = await peer.logging("debug");
    peer.logs.drain();
    const arrives = async () => {
      for (;;) {
        const { data } = await peer.logs.next("the log message", 1000);
        if (JSON.stringify(data).includes(SERVER.log.data)) return true;
      }
    };
    // A server of the session protocol does not name the call of a message, and the message may arrive after the call.
    const end = Date.now() + PATIENCE;
    for (let here = false; !here; ) {
      await calls(SERVER.log.change, options);
      here = await arrives().catch((late) => (Date.now() < end ? false : Promise.reject(late)));
      if (SERVER.log.end) await calls(SERVER.log.end);
    }
  });
  await check("close", async () => within(peer.close(), "close"));
}

/** A session whose client declares nothing. */
export async function checkBarePeer(session, peer) {
  const { name, arguments: args } = FEW ? SERVER.error : SERVER.elicitation;
  await session.check("incapable", async () => {
    const outcome = await peer.call(name, args).catch((error) => ({ isError: true, error }));
    same(outcome.isError ?? false, true, `isError of ${JSON.stringify(outcome)}`);
    const result = await peer.call(SERVER.call.name, SERVER.call.arguments);
    holds(text(result).includes(SERVER.call.text), JSON.stringify(result));
  });
  await peer.close();
}
