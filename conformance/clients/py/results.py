"""Results of any server, as the SDK returns them."""

from mcp import MCPError

from harness import same

# Revision of each era.
PROTOCOL = {"legacy": "2025-11-25", "modern": "2026-07-28"}
# Error code for an unknown URI.
NOT_FOUND = {"legacy": -32002, "modern": -32602}


def text(result):
    same([block.type for block in result.content], ["text"], "content blocks")
    return result.content[0].text


def said(result, expected):
    same(result.is_error, False, f"isError of {result.content!r}")
    same(text(result), expected, "text")


def refused(result, *parts):
    same(result.is_error, True, f"isError of {result!r}")
    for part in parts:
        assert part in text(result), f"{part} is not named in: {text(result)}"


async def fails(call, code, message=None):
    try:
        result = await call
    except MCPError as error:
        same(error.code, code, f"code of {error}")
        if message is not None:
            same(error.message, message, "message")
        return error
    raise AssertionError(f"expected error {code}, got {result!r}")


def contents(result, uri):
    same([str(content.uri) for content in result.contents], [uri], "uris")
    return result.contents[0].text
