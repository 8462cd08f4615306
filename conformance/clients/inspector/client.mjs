// The Inspector's command line against the board: one process, one connection and one request per run.
//
// Used as `node client.mjs stdio|http OUT SERVER ARGS…`; the wire logs go to folders under OUT. What the command line
// cannot do is tried all the same, so that `../unable.txt` is proved right or wrong on every run. Each run
// starts a new server, so nothing can be written in one run and read in the next.

import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  TOOLS, contents, diagnosis, promptList, refused, resourceList, said, statusObject, templateList, text, toolSchemas,
} from "../board.mjs";
import { Session, holds, same, within } from "../harness.mjs";
import { served, tapped } from "../spawn.mjs";

const [over, out, ...server] = process.argv.slice(2);
const CLI = fileURLToPath(new URL("node_modules/.bin/mcp-inspector", import.meta.url));
/** Longest single run, and longest check of a few runs, in milliseconds; a run starts two programs. */
const RUN_TIMEOUT = 20_000;
const CHECK_TIMEOUT = 45_000;
/** A session is some thirty runs, each of which starts two programs; in milliseconds. */
const SESSION_TIMEOUT = 180_000;
/** Exit code of a call whose result is an error. */
const TOOL_ERROR = 5;
const PROTOCOL = { legacy: "2025-11-25", modern: "2026-07-28" };

async function start(session, era, ...args) {
  const link = over === "http" && (await served(session.folder, server));
  const { command, args: rest } = link ? { command: link.url, args: [] } : tapped(session.folder, server);
  const target = link ? ["--transport", "http", command] : ["--", command, ...rest];
  const child = spawn(
    process.execPath,
    [CLI, "--cli", "--format", "json", "--protocol-era", era, ...args, ...target],
    // It keeps its settings and secrets under HOME; ours is the folder of this session.
    { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, HOME: session.folder } },
  );
  const run = { child, stdout: "", stderr: "" };
  child.stdout.on("data", (chunk) => (run.stdout += chunk));
  child.stderr.on("data", (chunk) => (run.stderr += chunk));
  run.ended = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (link) link.end();
      resolve(signal ?? code);
    });
  });
  return run;
}

/** One run to its end: exit code, the result or the error it printed, and all it printed. */
async function run(session, era, ...args) {
  const started = await start(session, era, ...args);
  const code = await within(started.ended, RUN_TIMEOUT, "the command").finally(() => started.child.kill("SIGKILL"));
  const last = (stream) => stream.trim().split("\n").at(-1);
  const parsed = (line) => (line?.startsWith("{") ? JSON.parse(line) : {});
  return {
    code,
    shown: started.stdout + started.stderr,
    result: parsed(last(started.stdout)).result,
    error: parsed(last(started.stderr)).error,
  };
}

/** All lines of all wire logs of the session. */
function wire(session) {
  const logs = readdirSync(session.folder).filter((name) => name.startsWith("wire-"));
  return logs.flatMap((name) => readFileSync(join(session.folder, name), "utf8").split("\n").slice(0, -1));
}

/** Waits until the wire has `count` lines that `fits` accepts. */
async function seen(session, fits, count, what, timeout) {
  const deadline = Date.now() + timeout;
  while (wire(session).filter(fits).length < count) {
    if (Date.now() > deadline) throw new Error(`${what}: not within ${timeout} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function checkEra(session, era) {
  const check = (name, body) => session.check(name, body, CHECK_TIMEOUT);
  /** A run that must go well. */
  const result = async (...args) => {
    const { code, result, shown } = await run(session, era, "--method", ...args);
    same(code, 0, `exit code with ${shown}`);
    return result;
  };
  /** A run whose request must come back as an error. */
  const error = async (...args) => {
    const { code, error, shown } = await run(session, era, "--method", ...args);
    same(code, 1, `exit code with ${shown}`);
    holds(error?.message, `no error is shown: ${shown}`);
    return error.message;
  };
  const tool = (name, args) => ["tools/call", "--tool-name", name, ...(args ? ["--tool-args-json", JSON.stringify(args)] : [])];
  const call = (name, args) => result(...tool(name, args));
  const refusal = async (name, args, ...parts) => {
    const { code, result, shown } = await run(session, era, "--method", ...tool(name, args));
    same(code, TOOL_ERROR, `exit code with ${shown}`);
    refused(result, ...parts);
  };

  await check("connect", async () => {
    const { serverInfo, protocolVersion, capabilities } = await result("initialize");
    same(serverInfo.name, "board", "serverInfo.name");
    same(protocolVersion, PROTOCOL[era], "protocol revision");
    for (const kind of ["tools", "resources", "prompts", "completions", "logging"]) {
      holds(capabilities[kind], `capability ${kind} is missing in ${JSON.stringify(capabilities)}`);
    }
    same(capabilities.resources.subscribe, true, "resources.subscribe");
  });
  let tools;
  await check("tools-list", async () => {
    ({ tools } = await result("tools/list"));
    same(tools.map(({ name }) => name), TOOLS, "tools");
  });
  await check("tools-schemas", () => toolSchemas(tools));
  await check("resources-list", async () => resourceList((await result("resources/list")).resources));
  await check("templates-list", async () => templateList((await result("resources/templates/list")).resourceTemplates));
  await check("prompts-list", async () => promptList((await result("prompts/list")).prompts));

  await check("call-text", async () => {
    said(await call("gpio_write", { pin: 4, value: 1 }), "pin 4 is now 1");
    const read = await call("gpio_read", { pin: 4 });
    said(read, "0");
    same(read.structuredContent, { pin: 4, value: 0 }, "structuredContent");
  });
  await check("call-structured", async () => {
    const status = await call("system_status");
    statusObject(status.structuredContent);
    holds(text(status) !== "", "the text is empty");
  });
  await check("call-bad-argument", async () => {
    await refusal("gpio_write", { pin: 99, value: 1 }, "/pin");
    await refusal("gpio_write", { pin: 4, value: 2 }, "/value");
  });
  await check("call-is-error", () => refusal("file_write", { path: "../outside.txt", text: "no" }));
  await check("unknown-tool", async () => {
    const { shown } = await run(session, era, "--method", ...tool("no_such_tool", {}));
    holds(shown.includes("Unknown tool: no_such_tool"), `not the server's words: ${shown}`);
  });

  await check("progress", async () => {
    const { shown } = await run(session, era, "--method", ...tool("blink", { pin: 5, intervalMs: 20 }), "--tool-metadata", "progressToken=p");
    holds(shown.includes("pin 5 blinked 3 times"), `the result is not shown: ${shown}`);
    holds(shown.includes("blink 1 of 3"), `no progress is shown: ${shown}`);
  });
  await check("defaults", async () => said(await call("blink", { pin: 6 }), "pin 6 blinked 3 times"));
  await check("parallel", async () => {
    const blink = tool("blink", { pin: 7, times: 5, intervalMs: 100 });
    const summary = await result(...blink, "--load", "--load-concurrency", "4", "--load-requests", "8");
    same(summary.ok, 8, `calls that went well in ${JSON.stringify(summary)}`);
    // One after the other they need 8 × 5 × 100 ms.
    holds(summary.elapsedMs < 3000, `eight calls took almost as long as one by one: ${JSON.stringify(summary)}`);
  });
  await check("cancel", async () => {
    await interrupted(session, era, RUN_TIMEOUT);
    const cancels = wire(session).filter((line) => line.includes('"notifications/cancelled"'));
    holds(cancels.length > 0, "an interrupted command sent no notifications/cancelled");
  });

  // What is known to be impossible is tried once for all the checks that need it.
  const asking = await run(session, era, "--method", ...tool("erase_pins"));
  for (const name of ["elicit-accept", "elicit-unsure", "elicit-decline", "elicit-cancel"]) {
    await check(name, () => {
      const { shown } = asking;
      holds(shown.includes("all pins are 0") || shown.includes("nothing was changed"), `nobody was asked: ${shown}`);
    });
  }
  const logging = await run(session, era, "--method", ...tool("blink", { pin: 13, times: 1 }), "--log-level", "info");
  for (const name of ["log", "log-floor"]) {
    await check(name, () => {
      const { shown } = logging;
      holds(shown.includes("blinking pin 13"), `no log message is shown: ${shown}`);
    });
  }

  await check("read-resource", async () => {
    const readme = await result("resources/read", "--uri", "file:///readme.txt");
    same(contents(readme, "file:///readme.txt"), "tinymcp board\n", "readme.txt");
    const status = await result("resources/read", "--uri", "board://status");
    statusObject(JSON.parse(contents(status, "board://status")));
    same(status.contents[0].mimeType, "application/json", "mimeType");
  });
  await check("read-template", async () => {
    const pin = await result("resources/read", "--uri", "gpio://pin/15");
    same(contents(pin, "gpio://pin/15"), "0", "gpio://pin/15");
  });
  await check("read-missing", () => error("resources/read", "--uri", "file:///nothing.txt"));

  await check("prompt-get", async () => {
    const args = ["--prompt-args", "symptom=hot and loud", "component=memory"];
    diagnosis(await result("prompts/get", "--prompt-name", "diagnose", ...args), "hot and loud", "memory");
    const alone = await result("prompts/get", "--prompt-name", "diagnose", "--prompt-args", "symptom=cold");
    diagnosis(alone, "cold");
  });
  await check("prompt-missing-argument", () => error("prompts/get", "--prompt-name", "diagnose", "--prompt-args", "component=cpu"));
  for (const name of ["complete-prompt", "complete-template"]) {
    await check(name, () => result("completion/complete"));
  }
  for (const name of ["watch", "unwatch"]) {
    await check(name, () => result("resources/subscribe", "--uri", "gpio://pin/20"));
  }

  await check("close", async () => {
    const started = await start(session, era, "--method", "tools/list");
    same(await within(started.ended, RUN_TIMEOUT, "the command"), 0, "exit code");
  });
  await check("elicit-incapable", () => {
    const { code, shown } = asking;
    holds(code === TOOL_ERROR || code === 1, `expected an error, got exit code ${code} with ${shown}`);
    holds(!shown.includes("all pins are 0"), `the pins were erased: ${shown}`);
  });
  await check("close-busy", async () => {
    const before = wire(session).filter((line) => line.includes(" ! exit")).length;
    const servers = await interrupted(session, era, 8000);
    const after = before + servers;
    await seen(session, (line) => line.includes(" ! exit"), after, "the end of the server whose client was interrupted", 6000);
  });
}

/** Interrupts a command in the middle of a call and waits for its end; returns how many servers it had started. */
async function interrupted(session, era, timeout) {
  const steps = (line) => line.includes(" > ") && line.includes('"blink"');
  const logs = () => readdirSync(session.folder).filter((name) => name.startsWith("wire-")).length;
  const [before, calls] = [logs(), wire(session).filter(steps).length];
  const args = JSON.stringify({ pin: 1, times: 100, intervalMs: 1000 });
  const started = await start(session, era, "--method", "tools/call", "--tool-name", "blink", "--tool-args-json", args);
  try {
    await seen(session, steps, calls + 1, "the call", RUN_TIMEOUT);
    started.child.kill("SIGINT");
    await within(started.ended, timeout, "the interrupted command");
  } finally {
    started.child.kill("SIGKILL");
  }
  return logs() - before;
}

for (const era of Object.keys(PROTOCOL)) {
  const session = new Session(`inspector/${era}`, out);
  await session.run(() => checkEra(session, era), SESSION_TIMEOUT);
}
// A connection that would not close must not keep the process.
process.exit(0);
