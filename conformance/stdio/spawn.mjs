// How every JavaScript client spawns the server: through the tap, which writes the wire log.

import { fileURLToPath } from "node:url";

const TAP = fileURLToPath(new URL("tap.py", import.meta.url));

/** The command that runs `server` behind the tap with its logs in `folder`, as the SDKs take it. */
export function tapped(folder, server) {
  return { command: "python3", args: ["-I", "-S", TAP, folder, ...server] };
}
