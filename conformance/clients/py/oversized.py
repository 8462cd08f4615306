"""The Python SDK posts a body beyond the server's limit: the call fails with an error, and the client goes on.

Used as `python oversized.py URL`; both eras. Prints `ok NAME` or `FAIL NAME: …`.
"""

import logging
import sys

import anyio
from mcp import Client, MCPError

# The server's limit is 4 MiB.
TEXT = "x" * (6 << 20)


async def run(mode, url):
    async with Client(url, mode=mode, read_timeout_seconds=60) as client:
        for _ in range(2):
            try:
                result = await client.call_tool("file_write", {"path": "big.txt", "text": TEXT})
                raise AssertionError(f"the call succeeded: {result.content[0].text[:80]}")
            except MCPError as error:
                # This SDK does not show the text of an error without an id.
                assert str(error) == "Server returned an error response", f"not the server's answer: {error}"
            result = await client.call_tool("gpio_read", {"pin": 4})
            assert not result.is_error, result


failed = 0
logging.disable(logging.CRITICAL)
for mode in ("2026-07-28", "legacy"):
    try:
        anyio.run(run, mode, sys.argv[1])
        print(f"ok py {mode} oversized")
    except BaseException as error:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        print(f"FAIL py {mode} oversized: {error!r}")
        failed = 1
sys.exit(failed)
