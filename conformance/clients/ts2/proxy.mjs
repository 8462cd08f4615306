// The TypeScript client 2.x against three boards behind one proxy, in both eras.
//
// Used as `node proxy.mjs PROXY URL OUT`; prints `ok` and `FAIL` lines as the other clients do. Each board has a file
// `instance.txt` with its number. Checks: stateless requests are distributed and their sealed state is
// valid on every instance; a session stays on its instance; an event arrives before the call ends; a client that
// disconnects is detected by the instance.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { contents, said } from "../results.mjs";
import { Inbox, Session, holds, same, within } from "../harness.mjs";

const [proxy, url, out] = process.argv.slice(2);
const MODES = { modern: { pin: "2026-07-28" }, legacy: "legacy" };
const INSTANCES = 3;
/** Default number of workers of an instance. */
const WORKERS = 4;

async function connect(mode) {
  const client = new Client(
    { name: "tinymcp-proxy", version: "1" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: MODES[mode] } },
  );
  const peer = { client, updates: new Inbox(), asked: 0 };
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => peer.updates.push(params.uri));
  client.setRequestHandler("elicitation/create", () => {
    peer.asked += 1;
    return { action: "accept", content: { sure: true } };
  });
  peer.transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(peer.transport);
  peer.call = (name, args, options) => client.callTool({ name, arguments: args }, options);
  peer.write = async (pin, value) => said(await peer.call("gpio_write", { pin, value }), `pin ${pin} is now ${value}`);
  peer.instance = async () => {
    const uri = "file:///instance.txt";
    return contents(await client.readResource({ uri }, { cacheMode: "refresh" }), uri);
  };
  peer.leave = async () => {
    await peer.transport.terminateSession();
    await client.close();
  };
  return peer;
}

async function repeat(times, body) {
  const results = [];
  for (let i = 0; i < times; i += 1) results.push(await body(i));
  return results;
}

async function both(session, mode, peer) {
  await session.check("connect", () => {
    same(peer.client.getServerVersion()?.name, "board", "serverInfo.name");
    same(peer.client.getNegotiatedProtocolVersion(), mode === "modern" ? "2026-07-28" : "2025-11-25", "revision");
  });
  await session.check("ask", async () => {
    await repeat(2 * INSTANCES, async () => said(await peer.call("erase_pins"), "all pins are 0"));
    same(peer.asked, 2 * INSTANCES, "number of questions");
  });
  await session.check("events", async () => {
    let started;
    const first = new Promise((resolve) => (started = resolve));
    const abort = new AbortController();
    // The call takes a hundred seconds: an event that arrives within sixty was not delayed until the end.
    const slow = peer.call("blink", { pin: 1, times: 100, intervalMs: 1000 }, { onprogress: started, signal: abort.signal });
    slow.catch(() => {});
    await within(first, "the first progress");
    abort.abort("seen enough");
  });
  await session.check("leave", async () => {
    const abort = new AbortController();
    // A session has the workers of one instance. There the call is given up by a message, which must not overtake the
    // call, so all have to run; in the other era by closing the stream, be the call on its way, waiting or running.
    const count = mode === "modern" ? INSTANCES * WORKERS : WORKERS;
    const calls = Array.from({ length: count }, () => {
      let started;
      const first = new Promise((resolve) => (started = resolve));
      const options = { onprogress: started, signal: abort.signal };
      peer.call("blink", { pin: 2, times: 100, intervalMs: 1000 }, options).catch(() => {});
      return first;
    });
    await within(mode === "modern" ? Promise.race(calls) : Promise.all(calls), "the first progress");
    abort.abort("no longer wanted");
    const next = repeat(INSTANCES, async () => {
      said(await peer.call("blink", { pin: 3, times: 1, intervalMs: 20 }), "pin 3 blinked 1 times");
    });
    await within(next, "calls after those that were given up");
  });
}

async function modern(session) {
  const peer = await connect("modern");
  await both(session, "modern", peer);
  await session.check("spread", async () => {
    const seen = await repeat(4 * INSTANCES, peer.instance);
    same(new Set(seen).size, INSTANCES, `instances that answered: ${seen.join(" ")}`);
  });
  await session.check("listen", async () => {
    const subscription = await peer.client.listen({ resourceSubscriptions: ["gpio://pin/20"] });
    // An instance tells of its own changes only, so the write has to come by.
    const update = peer.updates.next("the update of pin 20");
    await repeat(2 * INSTANCES, (i) => peer.write(20, i % 2));
    same(await update, "gpio://pin/20", "update");
    await subscription.close();
  });
  await peer.leave();
}

async function legacy(session) {
  const peer = await connect("legacy");
  await both(session, "legacy", peer);
  await session.check("sticky", async () => {
    const seen = await repeat(4 * INSTANCES, peer.instance);
    same(new Set(seen).size, 1, `instances that answered one session: ${seen.join(" ")}`);
  });
  await session.check("spread", async () => {
    const seen = await repeat(2 * INSTANCES, async () => {
      const other = await connect("legacy");
      const seen = await other.instance();
      await other.leave();
      return seen;
    });
    same(new Set(seen).size, INSTANCES, `instances that answered sessions: ${seen.join(" ")}`);
  });
  await session.check("updates", async () => {
    await peer.client.subscribeResource({ uri: "gpio://pin/20" });
    await peer.write(20, 1);
    same(await peer.updates.next("the update of pin 20"), "gpio://pin/20", "update");
  });
  await session.check("end", async () => {
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-session-id": peer.transport.sessionId,
      "mcp-protocol-version": "2025-11-25",
    };
    await peer.leave();
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
    const { status } = await fetch(url, { method: "POST", headers, body });
    same(status, 404, "status of a call in the session that was ended");
  });
  await session.check("foreign", async () => {
    // Not there, or another name: nothing of it may reach an instance.
    const { status } = await fetch(new URL("/other", url));
    holds(status === 404, `status ${status} of another path`);
  });
}

for (const [mode, body] of Object.entries({ modern, legacy })) {
  const session = new Session(`${proxy}/${mode}`, out);
  await session.run(() => body(session));
}
// A connection that would not close must not keep the process.
process.exit(0);
