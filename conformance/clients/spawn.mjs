// Starts the server for every JavaScript client through the logging proxy, which writes the wire log.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { within } from "./harness.mjs";

const tap = (transport) => fileURLToPath(new URL(`tap_${transport}.py`, import.meta.url));

/** The command that runs `server` behind the tap of stdio with its logs in `folder`, as the SDKs take it. */
export function tapped(folder, server) {
  return { command: "python3", args: ["-I", "-S", tap("stdio"), folder, ...server] };
}

/** Runs `server` behind the tap of HTTP. Returns its URL, and `end`, which ends it. */
export async function served(folder, server) {
  const args = ["-I", "-S", tap("http"), folder, ...server];
  const child = spawn("python3", args, { stdio: ["pipe", "pipe", "inherit"] });
  const first = new Promise((resolve, reject) => {
    createInterface(child.stdout).once("line", resolve).once("close", () => reject(new Error("the server does not listen")));
  });
  const url = await within(first, "the server's URL");
  return { url, end: () => child.stdin.end() };
}
