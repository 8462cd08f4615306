// Checks of the Inspector's command line against the board. Each run starts a new server, so nothing can be written in
// one run and read in the next.

import { NAME, TOOLS, diagnosis, promptList, resourceList, statusObject, templateList, toolSchemas } from "../board.mjs";
import { PATIENCE, holds, inTime, same } from "../harness.mjs";
import { PROTOCOL, contents, said, text } from "../results.mjs";
import { TOOL_ERROR, tool } from "./command.mjs";

/** Longest check of a few runs, in milliseconds. */
const CHECK_TIMEOUT = 5 * PATIENCE;
/** A call that takes longer than any wait. */
const SLOW = ["blink", { pin: 1, times: 100, intervalMs: 1000 }];

/** Every check of one era. */
export async function checkEra(session, command) {
  const { era } = command;
  const check = (name, body) => session.check(name, body, CHECK_TIMEOUT);

  await check("connect", async () => {
    const { serverInfo, protocolVersion, capabilities } = await command.result("initialize");
    same(serverInfo.name, NAME, "serverInfo.name");
    same(protocolVersion, PROTOCOL[era], "protocol revision");
    for (const kind of ["tools", "resources", "prompts", "completions", "logging"]) {
      holds(capabilities[kind], `capability ${kind} is missing in ${JSON.stringify(capabilities)}`);
    }
    same(capabilities.resources.subscribe, true, "resources.subscribe");
  });
  let tools;
  await check("tools-list", async () => {
    ({ tools } = await command.result("tools/list"));
    same(tools.map(({ name }) => name), TOOLS, "tools");
  });
  await check("tools-schemas", () => toolSchemas(tools));
  await check("resources-list", async () => resourceList((await command.result("resources/list")).resources));
  await check("templates-list", async () => templateList((await command.result("resources/templates/list")).resourceTemplates));
  await check("prompts-list", async () => promptList((await command.result("prompts/list")).prompts));

  await check("call-text", async () => {
    said(await command.call("gpio_write", { pin: 4, value: 1 }), "pin 4 is now 1");
    const read = await command.call("gpio_read", { pin: 4 });
    said(read, "0");
    same(read.structuredContent, { pin: 4, value: 0 }, "structuredContent");
  });
  await check("call-structured", async () => {
    const status = await command.call("system_status");
    statusObject(status.structuredContent);
    holds(text(status) !== "", "the text is empty");
  });
  await check("call-bad-argument", async () => {
    await command.refusal("gpio_write", { pin: 99, value: 1 }, "/pin");
    await command.refusal("gpio_write", { pin: 4, value: 2 }, "/value");
  });
  await check("call-is-error", () => command.refusal("file_write", { path: "../outside.txt", text: "no" }));
  await check("unknown-tool", async () => {
    const { shown } = await command.run(...tool("no_such_tool", {}));
    holds(shown.includes("Unknown tool: no_such_tool"), `not the server's words: ${shown}`);
  });

  await check("progress", async () => {
    const { shown } = await command.run(...tool("blink", { pin: 5, intervalMs: 20 }), "--tool-metadata", "progressToken=p");
    holds(shown.includes("pin 5 blinked 3 times"), `the result is not shown: ${shown}`);
    holds(shown.includes("blink 1 of 3"), `no progress is shown: ${shown}`);
  });
  await check("defaults", async () => said(await command.call("blink", { pin: 6 }), "pin 6 blinked 3 times"));
  await check("parallel", async () => {
    await inTime(100, async (intervalMs) => {
      const blink = tool("blink", { pin: 7, times: 5, intervalMs });
      const summary = await command.result(...blink, "--load", "--load-concurrency", "4", "--load-requests", "8");
      same(summary.ok, 8, `calls that went well in ${JSON.stringify(summary)}`);
      // One after the other they need 8 × 5 intervals.
      holds(summary.elapsedMs < 30 * intervalMs, `eight calls took almost as long as one by one: ${JSON.stringify(summary)}`);
    });
  });
  await check("cancel", async () => {
    await command.interrupted(...SLOW);
    await command.cancelled();
  });

  // Features that the client lacks are tried once for all checks that need them.
  const asking = await command.run(...tool("erase_pins"));
  for (const name of ["elicit-accept", "elicit-unsure", "elicit-decline", "elicit-cancel"]) {
    await check(name, () => {
      const { shown } = asking;
      holds(shown.includes("all pins are 0") || shown.includes("nothing was changed"), `nobody was asked: ${shown}`);
    });
  }
  const logging = await command.run(...tool("blink", { pin: 13, times: 1 }), "--log-level", "info");
  for (const name of ["log", "log-floor"]) {
    await check(name, () => {
      const { shown } = logging;
      holds(shown.includes("blinking pin 13"), `no log message is shown: ${shown}`);
    });
  }

  await check("read-resource", async () => {
    const readme = await command.result("resources/read", "--uri", "file:///readme.txt");
    same(contents(readme, "file:///readme.txt"), "tinymcp board\n", "readme.txt");
    const status = await command.result("resources/read", "--uri", "board://status");
    statusObject(JSON.parse(contents(status, "board://status")));
    same(status.contents[0].mimeType, "application/json", "mimeType");
  });
  await check("read-template", async () => {
    const pin = await command.result("resources/read", "--uri", "gpio://pin/15");
    same(contents(pin, "gpio://pin/15"), "0", "gpio://pin/15");
  });
  await check("read-missing", () => command.error("resources/read", "--uri", "file:///nothing.txt"));

  await check("prompt-get", async () => {
    const args = ["--prompt-args", "symptom=hot and loud", "component=memory"];
    diagnosis(await command.result("prompts/get", "--prompt-name", "diagnose", ...args), "hot and loud", "memory");
    const alone = await command.result("prompts/get", "--prompt-name", "diagnose", "--prompt-args", "symptom=cold");
    diagnosis(alone, "cold");
  });
  await check("prompt-missing-argument", () => command.error("prompts/get", "--prompt-name", "diagnose", "--prompt-args", "component=cpu"));
  for (const name of ["complete-prompt", "complete-template"]) {
    await check(name, () => command.result("completion/complete"));
  }
  for (const name of ["watch", "unwatch"]) {
    await check(name, () => command.result("resources/subscribe", "--uri", "gpio://pin/20"));
  }

  await check("close", async () => {
    same((await command.run("tools/list")).code, 0, "exit code");
  });
  await check("elicit-incapable", () => {
    const { code, shown } = asking;
    holds(code === TOOL_ERROR || code === 1, `expected an error, got exit code ${code} with ${shown}`);
    holds(!shown.includes("all pins are 0"), `the pins were erased: ${shown}`);
  });
  await check("close-busy", () => command.ended(...SLOW));
}
