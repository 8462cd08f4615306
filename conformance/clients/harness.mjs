// Runs named checks against one session and prints one line for each.
//
// It handles results, timeouts and the wire log. The checks of a server are in `board.mjs` and `serve.mjs`; a
// client is driven by `*/client.mjs`. A failing check also prints the lines of the wire log from its run,
// indented, so that a report never needs a second run.

import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Milliseconds until an event that must happen; longer than anything takes on a busy machine. */
export const PATIENCE = 60_000;
/** Default timeout of one check, in milliseconds, so that its report names the event. */
const CHECK_TIMEOUT = 3 * PATIENCE;
/** Timeout of a whole session, in milliseconds. */
const SESSION_TIMEOUT = 10 * PATIENCE;
/** Longest run of wire lines shown for one failure, and longest line. */
const EXCERPT_LINES = 40;
const EXCERPT_WIDTH = 2000;

/** Rejects with a message naming `what` when `promise` is not settled within `timeout` milliseconds. */
export function within(promise, what, timeout = PATIENCE) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing within ${timeout} ms`)), timeout);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Queue of received items, which are awaited one by one in order of arrival. */
export class Inbox {
  #held = [];
  #wake = [];

  push(thing) {
    this.#held.push(thing);
    for (const wake of this.#wake.splice(0)) wake();
  }

  /** The items that were not taken yet, in order. */
  drain() {
    return this.#held.splice(0);
  }

  /** The next item, or a rejection after `timeout` milliseconds. */
  async next(what, timeout = PATIENCE) {
    const deadline = Date.now() + timeout;
    while (this.#held.length === 0) {
      const woken = new Promise((resolve) => this.#wake.push(resolve));
      await within(woken, what, Math.max(1, deadline - Date.now()));
    }
    return this.#held.shift();
  }
}

/** Repeats a check that compares durations with ten times the duration: other programs may have used the processors. */
export async function inTime(milliseconds, body) {
  return body(milliseconds).catch(() => body(10 * milliseconds));
}

/** Compares as JSON, ignoring the order of members. */
export function same(actual, expected, what) {
  const a = JSON.stringify(sorted(actual));
  const b = JSON.stringify(sorted(expected));
  if (a !== b) throw new Error(`${what}: expected ${b}, got ${a}`);
}

export function holds(condition, what) {
  if (!condition) throw new Error(what);
}

function sorted(value) {
  // OK to recurse: the values compared are a few levels deep and come from this machine's own server.
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  const names = Object.keys(value).filter((name) => value[name] !== undefined);
  return Object.fromEntries(names.sort().map((name) => [name, sorted(value[name])]));
}

/** One session of one client: its name (`ts1/legacy`), its folder of wire logs and its results. */
export class Session {
  constructor(name, out) {
    this.name = name;
    this.folder = join(out, name.replace("/", "-"));
    mkdirSync(this.folder, { recursive: true });
  }

  /** Runs `body` as check `name`; never throws. */
  async check(name, body, timeout = CHECK_TIMEOUT) {
    const before = this.#lines();
    try {
      await within(Promise.resolve().then(body), "the check", timeout);
      console.log(`ok ${this.name}/${name}`);
      return true;
    } catch (error) {
      console.log(`FAIL ${this.name}/${name}: ${String(error?.message ?? error).split("\n").join(" | ")}`);
      const during = Object.entries(this.#lines()).flatMap(([log, lines]) => lines.slice(before[log]?.length ?? 0));
      for (const line of during.slice(-EXCERPT_LINES)) {
        console.log(`    ${line.slice(0, EXCERPT_WIDTH)}`);
      }
      return false;
    }
  }

  /** Runs a whole session; an error outside a check, such as a failed connect, is a separate failure. */
  async run(body, timeout = SESSION_TIMEOUT) {
    await this.check("session", body, timeout);
  }

  /** The lines of each wire log of this session so far. */
  #lines() {
    const logs = readdirSync(this.folder).filter((name) => name.startsWith("wire-"));
    const read = (name) => readFileSync(join(this.folder, name), "utf8").split("\n").slice(0, -1);
    return Object.fromEntries(logs.map((name) => [name, read(name)]));
  }
}
