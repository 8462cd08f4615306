// The TypeScript SDK posts a body beyond the server's limit: the call fails with an error, and the client goes on.
//
// Used as `node oversized.mjs URL`. Prints `ok NAME` or `FAIL NAME: …`.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

// The server's limit is 4 MiB.
const text = "x".repeat(6 << 20);

async function run(url) {
  const client = new Client({ name: "oversized", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  for (let round = 0; round < 2; round++) {
    const outcome = await client
      .callTool({ name: "file_write", arguments: { path: "big.txt", text } }, undefined, { timeout: 60_000 })
      .then(() => "the call succeeded", (error) => String(error));
    if (!outcome.includes("4194304 bytes")) throw new Error(`the error does not name the limit: ${outcome}`);
    const { isError } = await client.callTool({ name: "gpio_read", arguments: { pin: 4 } });
    if (isError) throw new Error("the next call failed");
  }
  await client.close();
}

try {
  await run(process.argv[2]);
  console.log("ok ts1 oversized");
} catch (error) {
  console.log(`FAIL ts1 oversized: ${error}`);
  process.exitCode = 1;
}
