// The TypeScript SDK 1.x against a server: one era, the handshake.
//
// Used as `node client.mjs stdio|http OUT board|serve SERVER ARGS…`; the wire
// logs go to folders under OUT.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { Inbox, Session } from "../harness.mjs";
import { inSession } from "../session.mjs";
import { served, tapped } from "../spawn.mjs";

const [over, out, tested, ...server] = process.argv.slice(2);
const { answers, checkBarePeer, checkPeer } = await import(`../${tested}.mjs`);

async function connect(session, capabilities) {
  const client = new Client({ name: "tinymcp-ts1", version: "1" }, { capabilities });
  const peer = {
    era: "legacy",
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
      protocol: transport.seen,
      capabilities: client.getServerCapabilities(),
    }),
    tools: async () => (await client.listTools()).tools,
    resources: async () => (await client.listResources()).resources,
    templates: async () => (await client.listResourceTemplates()).resourceTemplates,
    prompts: async () => (await client.listPrompts()).prompts,
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    read: (uri) => client.readResource({ uri }),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    complete: async (ref, argument) => (await client.complete({ ref, argument })).completion.values,
    ...inSession(client),
    close: async () => {
      await transport.terminateSession?.();
      await client.close();
      if (link) link.end();
    },
  };
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => peer.logs.push(params));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => peer.updates.push(params.uri));
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => peer.changes.push("tools"));
  if (capabilities.elicitation) {
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      peer.asked.push(params);
      return peer.answer;
    });
  }
  if (capabilities.sampling) client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => answers.sampled(params));
  if (capabilities.roots) client.setRequestHandler(ListRootsRequestSchema, () => answers.roots());
  const link = over === "http" && (await served(session.folder, server));
  const transport = link
    ? new StreamableHTTPClientTransport(new URL(link.url))
    : new StdioClientTransport(tapped(session.folder, server));
  // The client tells its transport the negotiated revision and keeps no copy of it.
  const tell = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => {
    transport.seen = version;
    tell?.(version);
  };
  await client.connect(transport);
  return peer;
}

const session = new Session("ts1/legacy", out);
await session.run(async () => {
  await checkPeer(session, await connect(session, { elicitation: {}, ...answers?.capabilities }));
  await checkBarePeer(session, await connect(session, {}));
});
// A connection that would not close must not keep the process.
process.exit(0);
