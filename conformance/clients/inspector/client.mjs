// The Inspector's command line against a server: one process, one connection and one request per run.
//
// Used as `node client.mjs stdio|http OUT board|serve SERVER ARGS…`; the wire logs go to folders under OUT. What the
// command line cannot do is tried as well, so that every run verifies `../unable.txt`.

import { PATIENCE, Session } from "../harness.mjs";
import { PROTOCOL } from "../results.mjs";
import { Command } from "./command.mjs";

const [over, out, tested, ...server] = process.argv.slice(2);
const { checkEra } = await import(`./${tested}.mjs`);
/** A session is some thirty runs, each of which starts two programs; in milliseconds. */
const SESSION_TIMEOUT = 30 * PATIENCE;

await Promise.all(Object.keys(PROTOCOL).map(async (era) => {
  const session = new Session(`inspector/${era}`, out);
  await session.run(() => checkEra(session, new Command(session, era, over, server)), SESSION_TIMEOUT);
}));
// A connection that would not close must not keep the process.
process.exit(0);
