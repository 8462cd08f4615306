// The TypeScript client 2.x against a server, in each of its negotiation modes.
//
// Used as `node client.mjs stdio|http OUT board|serve SERVER ARGS…`; the wire logs go to folders under OUT.
// In its modes `auto` and pinned this SDK first sends `server/discover` to a temporary copy of a stdio server, so
// those sessions leave two wire logs per connection.

import { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Inbox, PATIENCE, Session } from "../harness.mjs";
import { inSession } from "../session.mjs";
import { served, tapped } from "../spawn.mjs";

const [over, out, tested, ...server] = process.argv.slice(2);
const { answers, checkBarePeer, checkPeer } = await import(`../${tested}.mjs`);
const MODES = { modern: { pin: "2026-07-28" }, auto: "auto", legacy: "legacy" };

async function connect(session, mode, capabilities) {
  const client = new Client(
    { name: "tinymcp-ts2", version: "1" },
    { capabilities, versionNegotiation: { mode: MODES[mode], probe: { timeoutMs: PATIENCE } } },
  );
  const peer = {
    // On a busy machine several lines are read at once, and this SDK drops progress that is followed by its
    // result in the same turn; `wire.py` checks that every step was sent.
    losesProgress: true,
    logs: new Inbox(),
    updates: new Inbox(),
    changes: new Inbox(),
    asked: [],
    answer: undefined,
    about: () => ({
      name: client.getServerVersion()?.name,
      protocol: client.getNegotiatedProtocolVersion(),
      capabilities: client.getServerCapabilities(),
    }),
    // The SDK would serve a second list or read from its cache, but the wire is tested.
    tools: async () => (await client.listTools(undefined, { cacheMode: "refresh" })).tools,
    resources: async () => (await client.listResources(undefined, { cacheMode: "refresh" })).resources,
    templates: async () => (await client.listResourceTemplates(undefined, { cacheMode: "refresh" })).resourceTemplates,
    prompts: async () => (await client.listPrompts(undefined, { cacheMode: "refresh" })).prompts,
    read: (uri) => client.readResource({ uri }, { cacheMode: "refresh" }),
    call: (name, args, { meta, ...options } = {}) =>
      client.callTool({ name, arguments: args, ...(meta && { _meta: meta }) }, options),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    complete: async (ref, argument) => (await client.complete({ ref, argument })).completion.values,
    close: async () => {
      await transport.terminateSession?.();
      await client.close();
      if (link) link.end();
    },
  };
  client.setNotificationHandler("notifications/message", ({ params }) => peer.logs.push(params));
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => peer.updates.push(params.uri));
  client.setNotificationHandler("notifications/tools/list_changed", () => peer.changes.push("tools"));
  if (capabilities.elicitation) {
    client.setRequestHandler("elicitation/create", ({ params }) => {
      peer.asked.push(params);
      return peer.answer;
    });
  }
  if (capabilities.sampling) client.setRequestHandler("sampling/createMessage", ({ params }) => answers.sampled(params));
  if (capabilities.roots) client.setRequestHandler("roots/list", () => answers.roots());
  const link = over === "http" && (await served(session.folder, server));
  const transport = link
    ? new StreamableHTTPClientTransport(new URL(link.url))
    : new StdioClientTransport(tapped(session.folder, server));
  await client.connect(transport);
  peer.era = client.getProtocolEra();
  Object.assign(peer, peer.era === "modern" ? modern(client) : legacy(client));
  const expected = mode === "legacy" ? "legacy" : "modern";
  if (peer.era !== expected) throw new Error(`mode ${mode} came out as ${peer.era}`);
  return peer;
}

function modern(client) {
  const listen = async (uris) => {
    const subscription = await client.listen({ resourceSubscriptions: uris });
    const honoured = [...(subscription.honoredFilter.resourceSubscriptions ?? [])].sort();
    if (JSON.stringify(honoured) !== JSON.stringify([...uris].sort())) {
      throw new Error(`listen acknowledged ${JSON.stringify(subscription.honoredFilter)} for ${uris}`);
    }
    return subscription;
  };
  return {
    logging: async (level) => ({ meta: { [LOG_LEVEL_META_KEY]: level } }),
    watch: async (uris) => {
      let subscription = await listen(uris);
      return {
        only: async (kept) => {
          await subscription.close();
          subscription = await listen(kept);
        },
        close: () => subscription.close(),
      };
    },
    toolChanges: async () => {
      const subscription = await client.listen({ toolsListChanged: true });
      if (!subscription.honoredFilter.toolsListChanged) {
        throw new Error(`listen acknowledged ${JSON.stringify(subscription.honoredFilter)} for changes of tools`);
      }
      return subscription;
    },
  };
}

function legacy(client) {
  return {
    // The SDK converts the code -32002 to its own error with code -32602; `wire.py` checks the real code.
    notFound: -32602,
    ...inSession(client),
  };
}

for (const mode of answers?.modes ?? Object.keys(MODES)) {
  const session = new Session(`ts2/${mode}`, out);
  await session.run(async () => {
    await checkPeer(session, await connect(session, mode, { elicitation: { form: {} }, ...answers?.capabilities }));
    await checkBarePeer(session, await connect(session, mode, {}));
  });
}
// A connection that would not close must not keep the process.
process.exit(0);
