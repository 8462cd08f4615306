// Checks of the Inspector's command line against `tinymcp serve`. Each run starts a new server; all of them have the
// definition files of the session.

import { readFileSync } from "node:fs";
import { PATIENCE, holds, inTime, same } from "../harness.mjs";
import { PROTOCOL, contents, said, text } from "../results.mjs";
import {
  Definition, gone, greeting, numbersResult, pictureResult, pointResult, promptList, resourceList, templateList,
  toolSchemas,
} from "../serve.mjs";
import { TOOL_ERROR, tool } from "./command.mjs";

/** Longest check of a few runs, in milliseconds. */
const CHECK_TIMEOUT = 5 * PATIENCE;
/** A call that takes longer than any wait. */
const SLOW = ["steps", { count: 100, delay: 1 }];

/** The process of the program of `steps`, by the line of its first progress. */
const program = (line) => Number(line.match(/process (\d+)/)[1]);

/** Every check of one era. */
export async function checkEra(session, command) {
  const check = (name, body) => session.check(name, body, CHECK_TIMEOUT);
  const definition = new Definition(session);
  const read = (uri) => command.result("resources/read", "--uri", uri);
  const reads = async (uri, expected) => same(contents(await read(uri), uri), expected, uri);

  await check("connect", async () => {
    const { serverInfo, protocolVersion, capabilities } = await command.result("initialize");
    same(serverInfo.name, "examples", "serverInfo.name");
    same(protocolVersion, PROTOCOL[command.era], "protocol revision");
    for (const kind of ["tools", "resources", "prompts"]) {
      same(capabilities[kind]?.listChanged, true, `${kind}.listChanged in ${JSON.stringify(capabilities)}`);
    }
    same(capabilities.resources.subscribe, true, "resources.subscribe");
  });
  let tools;
  await check("tools-list", async () => {
    // With `--strict`, a schema that is not portable between models would be an error.
    ({ tools } = await command.result("tools/list", "--strict"));
    same(tools.map(({ name }) => name), definition.names("tools"), "tools");
  });
  await check("tools-schemas", () => toolSchemas(tools, definition));
  await check("resources-list", async () => resourceList((await command.result("resources/list")).resources, definition));
  await check("templates-list", async () => {
    const { resourceTemplates } = await command.result("resources/templates/list");
    templateList(resourceTemplates, definition);
  });
  await check("prompts-list", async () => promptList((await command.result("prompts/list")).prompts));

  await check("call-text", async () => {
    said(await command.call("jq", { filter: ".a | add", document: '{"a": [1, 2]}' }), "3\n");
    const log = text(await command.call("log"));
    holds(/^[0-9a-f]{7,} \d{4}-\d\d-\d\d tester: Add the definition\n$/.test(log), `the log: ${log}`);
  });
  await check("call-structured", async () => pointResult(await command.call("point", { x: 4 })));
  await check("call-worker", async () => {
    same((await command.call("words", { text: "one two\nthree" })).structuredContent.words, 3, "words");
  });
  await check("call-media", async () => pictureResult(await command.call("picture"), definition));
  await check("call-link", async () => {
    // The server of the call stored the rest and has ended, so the link is not valid any more.
    const { content } = await command.call("numbers", { to: 1000 });
    await numbersResult({ content }, async (uri) => {
      await command.error("resources/read", "--uri", uri);
      return { contents: [{ uri, text: Array.from({ length: 1000 }, (_, i) => `${i + 1}\n`).join("").slice(100) }] };
    });
  });
  await check("call-bad-argument", () => command.refusal("point", { x: 10 }, "/x"));
  await check("call-is-error", async () => {
    await command.refusal("jq", { filter: ".a", document: '"text"' }, "status 5", "Cannot index string");
  });
  await check("unknown-tool", async () => {
    const { shown } = await command.run(...tool("no_such_tool", {}));
    holds(shown.includes("Unknown tool: no_such_tool"), `not the server's words: ${shown}`);
  });

  await check("progress", async () => {
    const { shown } = await command.run(...tool("steps"), "--tool-metadata", "progressToken=p");
    holds(shown.includes("3 steps"), `the result is not shown: ${shown}`);
    holds(shown.includes("step 1 of 3"), `no progress is shown: ${shown}`);
  });
  await check("parallel", async () => {
    await inTime(100, async (milliseconds) => {
      const slow = tool("steps", { count: 5, delay: milliseconds / 1000 });
      const summary = await command.result(...slow, "--load", "--load-concurrency", "4", "--load-requests", "8");
      same(summary.ok, 8, `calls that went well in ${JSON.stringify(summary)}`);
      // One after the other they need 8 × 5 steps.
      holds(summary.elapsedMs < 30 * milliseconds, `eight calls took almost as long as one by one: ${JSON.stringify(summary)}`);
    });
  });
  await check("cancel", async () => {
    const line = await command.interrupted(...SLOW);
    await command.cancelled();
    await gone(program(line));
  });

  // Features that the client lacks are tried once for all checks that need them.
  const asking = await command.run(...tool("erase", { state: "c" }));
  for (const name of ["elicit-accept", "elicit-decline", "elicit-cancel"]) {
    await check(name, () => holds(!asking.shown.includes("lacks elicitation"), `nobody was asked: ${asking.shown}`));
  }
  await check("elicit-incapable", async () => {
    const { code, shown } = asking;
    same(code, TOOL_ERROR, `exit code with ${shown}`);
    same(readFileSync(definition.path("state/c"), "utf8"), "state c", "state c");
  });

  await check("read-resource", async () => {
    await reads("state://a", "state a");
    await reads("manual://start.md", readFileSync(definition.path("manual/start.md"), "utf8"));
  });
  await check("read-template", () => reads("day://monday", "rain\n"));
  await check("read-missing", () => command.error("resources/read", "--uri", "day://friday"));

  await check("prompt-get", async () => {
    const args = ["--prompt-args", "name=Ada", "note=Be short."];
    greeting(await command.result("prompts/get", "--prompt-name", "greeting", ...args), "Greet Ada.", "Be short.");
  });
  await check("prompt-missing-argument", () => command.error("prompts/get", "--prompt-name", "greeting", "--prompt-args", "note=a"));
  const subscribing = await command.run("resources/subscribe", "--uri", "state://a");
  for (const name of ["watch", "unwatch"]) {
    await check(name, () => same(subscribing.code, 0, `exit code with ${subscribing.shown}`));
  }
  await check("list-changed", () => command.result("subscriptions/listen"));

  await check("close", async () => same((await command.run("tools/list")).code, 0, "exit code"));
  await check("close-busy", async () => {
    const line = await command.interrupted(...SLOW);
    await gone(program(line));
  });
}
