// Runs the Inspector's command line: one process, one connection and one request per run.

import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PATIENCE, holds, same, within } from "../harness.mjs";
import { refused } from "../results.mjs";
import { served, tapped } from "../spawn.mjs";

const CLI = fileURLToPath(new URL("node_modules/.bin/mcp-inspector", import.meta.url));
/** Exit code of a call whose result is an error. */
export const TOOL_ERROR = 5;

/** Arguments of a call. */
export const tool = (name, args) => [
  "tools/call", "--tool-name", name, ...(args ? ["--tool-args-json", JSON.stringify(args)] : []),
];

/** Runs of one session in one era against `server`, over `transport`. */
export class Command {
  constructor(session, era, transport, server) {
    Object.assign(this, { session, era, transport, server });
  }

  /** Starts a run of these arguments. */
  async start(...args) {
    const { folder } = this.session;
    const link = this.transport === "http" && (await served(folder, this.server));
    const { command, args: rest } = link ? { command: link.url, args: [] } : tapped(folder, this.server);
    const target = link ? ["--transport", "http", command] : ["--", command, ...rest];
    const child = spawn(
      process.execPath,
      [CLI, "--cli", "--format", "json", "--protocol-era", this.era, ...args, ...target],
      // The command line stores its settings and secrets under HOME, which is the folder of this session.
      { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, HOME: folder } },
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

  /** Runs a method to its end: exit code, the printed result or error, and the whole output. */
  async run(...args) {
    const started = await this.start("--method", ...args);
    const code = await within(started.ended, "the command").finally(() => started.child.kill("SIGKILL"));
    const last = (stream) => stream.trim().split("\n").at(-1);
    const parsed = (line) => (line?.startsWith("{") ? JSON.parse(line) : {});
    return {
      code,
      shown: started.stdout + started.stderr,
      result: parsed(last(started.stdout)).result,
      error: parsed(last(started.stderr)).error,
    };
  }

  /** The result of a run that must succeed. */
  async result(...args) {
    const { code, result, shown } = await this.run(...args);
    same(code, 0, `exit code with ${shown}`);
    return result;
  }

  /** The message of a run whose request must get an error. */
  async error(...args) {
    const { code, error, shown } = await this.run(...args);
    same(code, 1, `exit code with ${shown}`);
    holds(error?.message, `no error is shown: ${shown}`);
    return error.message;
  }

  call(name, args) {
    return this.result(...tool(name, args));
  }

  /** A call whose result must be an error that names each of `parts`. */
  async refusal(name, args, ...parts) {
    const { code, result, shown } = await this.run(...tool(name, args));
    same(code, TOOL_ERROR, `exit code with ${shown}`);
    refused(result, ...parts);
  }

  #logs() {
    return readdirSync(this.session.folder).filter((name) => name.startsWith("wire-"));
  }

  /** All lines of all wire logs of the session. */
  wire() {
    return this.#logs().flatMap((name) => readFileSync(join(this.session.folder, name), "utf8").split("\n").slice(0, -1));
  }

  /** Waits until the wire has `count` lines that `fits` accepts. */
  async seen(fits, count, what) {
    const deadline = Date.now() + PATIENCE;
    while (this.wire().filter(fits).length < count) {
      if (Date.now() > deadline) throw new Error(`${what}: not within ${PATIENCE} ms`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Interrupts a call after its first progress and waits for the end of the command. Returns that progress. */
  async interrupted(name, args) {
    const progress = (line) => line.includes(" < ") && line.includes('"notifications/progress"');
    const before = this.wire().filter(progress);
    const started = await this.start("--method", ...tool(name, args), "--tool-metadata", "progressToken=p");
    try {
      await this.seen(progress, before.length + 1, "the first progress");
      started.child.kill("SIGINT");
      await within(started.ended, "the interrupted command");
    } finally {
      started.child.kill("SIGKILL");
    }
    return this.wire().filter(progress).find((line) => !before.includes(line));
  }

  /** As `interrupted`; also waits for the end of all servers. */
  async ended(name, args) {
    await this.interrupted(name, args);
    await this.#allEnded();
  }

  /** Waits for the end of all servers, which is the last line of each log. */
  #allEnded() {
    return this.seen((line) => line.includes(" ! exit"), this.#logs().length, "the end of every server");
  }

  /** Checks that a call was cancelled: by a notification, or over HTTP in the modern era by the end of its connection. */
  async cancelled() {
    await this.#allEnded();
    const notified = (line) => line.includes(" > ") && line.includes('"notifications/cancelled"');
    const left = (line) => this.era === "modern" && line.includes(" ! hung up on ");
    holds(this.wire().some((line) => notified(line) || left(line)), "an interrupted command sent no notifications/cancelled");
  }
}
