"""Fidelity of arguments: hostile values through templates to a program that prints its arguments as JSON.

Used as `python3 argv.py [--long] [--seed N] FOLDER`. Each call has a random object of arguments. The expected
arguments are computed here, from the rules of the documentation, not from the templates: a string is inserted as it
is, any other value as the JSON text that was sent. Many calls are in flight at once over one stdio session.
"""

import json
import random
import time

from served import Definition, arguments

SHORT, LONG = 5_000, 1_000_000
IN_FLIGHT = 32
# One of so many objects has a string of 100 kB.
LARGE = 400
# The system's limit for one argument with its final NUL byte: 32 pages of 4 KiB.
MAX_ARGUMENT = 131_072

PIECES = [
    "'", '"', "\\", "`", "$()", "$(id)", "`id`", "$HOME", "${IFS}", ";", "|", "&", "&&", ">", "<", "*", "?", "[a-z]", "~", "!", "#",
    "\n", "\r\n", "\t", " ", "\x01", "\x1b[31m", "\x7f", "-", "--", "-rf", "--bed", "=", "/", "../", "; rm -rf /", "%s%n", "%00",
    "{", "}", "{{", "}}", "{a}", "{?a}", "{list...}", "{x}", "null", "\u00e9", "e\u0301", "\u202e", "\ufeff", "\ufffd", "\uffff",
    "\U0001f600", "\U0010ffff", "\u2028", "a", "word",
]  # fmt: skip
NUMBERS = ["0", "-0", "1", "-1", "12345678901234567890", "0.5", "-0.0", "1e5", "1E+2", "2.50", "1e-7", "1e400"]


def tool(properties, required, run):
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"description": "Prints its arguments", "input": schema, "run": run, "outputLimit": 4 << 20, "timeout": 60}


STRING, ANY = {"type": "string"}, {}
LIST = {"type": "array"}


class Values:
    """Random values, as pairs of the text that is inserted and the JSON that is sent."""

    def __init__(self, random):
        self.random = random

    def character(self):
        plane = self.random.randrange(17)
        while True:
            code = (plane << 16) + self.random.randrange(1 << 16)
            # Surrogates are not characters; a NUL byte is an error, see `refused`.
            if code and not 0xD800 <= code < 0xE000:
                return chr(code)

    def plain(self):
        if self.random.randrange(LARGE) == 0:
            piece = "".join(self.random.choices(PIECES, k=20)) or "x"
            text = piece * (100_000 // len(piece.encode()))
            return text if self.random.random() < 0.5 else "x" * 100_000
        return "".join(
            self.character() if self.random.random() < 0.3 else self.random.choice(PIECES)
            for _ in range(self.random.randrange(9))
        )

    def quoted(self, text):
        return json.dumps(text, ensure_ascii=self.random.random() < 0.5)

    def string(self):
        text = self.plain()
        return text, self.quoted(text)

    def any(self, depth=0):
        kind = self.random.randrange(7 if depth < 3 else 5)
        if kind < 2:
            return self.string()
        if kind == 2:
            text = self.random.choice(NUMBERS)
            number = float(text)
            # Integers that are exact have their plain form.
            plain = number.is_integer() and abs(number) < 2**53
            return (str(int(number)) if plain else text), text
        elif kind == 3:
            text = self.random.choice(["true", "false"])
        elif kind == 4:
            text = "null"
        else:
            comma, colon = self.random.choice([(",", ":"), (", ", ": "), (" ,\t", " : ")])
            items = [self.any(depth + 1)[1] for _ in range(self.random.randrange(4))]
            if kind == 5:
                text = "[" + comma.join(items) + "]"
            else:
                # Names differ by their number.
                text = "{" + comma.join(f"{self.quoted(f'{n}{self.plain()[:50]}')}{colon}{v}" for n, v in enumerate(items)) + "}"
        return text, text

    def list(self):
        items = [self.any() for _ in range(self.random.randrange(5))]
        return [inserted for inserted, _ in items], "[" + ",".join(sent for _, sent in items) + "]"

    def maybe(self, value):
        return value() if self.random.random() < 0.6 else None


def tools(program):
    """Name, definition, values of a call, and its expected arguments."""
    return {
        "plain": (
            tool({"a": STRING, "b": STRING}, ["a", "b"], [program, "{a}", "--", "{b}"]),
            lambda v: {"a": v.string(), "b": v.string()},
            lambda a, b: [a, "--", b],
        ),
        "around": (
            tool({"a": STRING, "b": ANY}, ["a", "b"], [program, "--a={a}", "pre{b}mid{a}post{b}", "{{{a}}}", "{{a}}", "}}{{", ""]),
            lambda v: {"a": v.string(), "b": v.any()},
            lambda a, b: [f"--a={a}", f"pre{b}mid{a}post{b}", "{" + a + "}", "{a}", "}{", ""],
        ),
        "optional": (
            tool({"a": ANY, "b": ANY, "c": STRING}, ["c"], [program, "{?a}", "--b={?b}", "{?a}{?b}", "-c", "{c}", "$({?a})"]),
            lambda v: {"a": v.maybe(v.any), "b": v.maybe(v.any), "c": v.string()},
            lambda c, a=None, b=None: [
                *([] if a is None else [a]),
                *([] if b is None else [f"--b={b}"]),
                *([] if a is None or b is None else [a + b]),
                "-c",
                c,
                *([] if a is None else [f"$({a})"]),
            ],
        ),
        "spread": (
            tool({"list": LIST, "more": LIST}, ["list"], [program, "{list...}", "--", "--tag={more...}!", "{list}"]),
            # The whole list is also one argument, in the JSON that was sent.
            lambda v: {"list": v.list(), "more": v.maybe(v.list)},
            None,
        ),
        "any": (
            tool({"value": ANY}, ["value"], [program, "{value}"]),
            lambda v: {"value": v.any()},
            lambda value: [value],
        ),
    }


def spread(values):
    items, sent = values["list"]
    more = values["more"][0] if values["more"] else []
    return [*items, "--", *(f"--tag={item}!" for item in more), sent]


class Calls:
    """Calls of one session, with what each must return."""

    def __init__(self, server, seed):
        self.server, self.values = server, Values(random.Random(seed))
        self.largest = 0

    def send(self, name, sent, expected):
        members = ",".join(f"{json.dumps(key)}:{text}" for key, text in sent.items())
        id = self.server.ids.next(expected)
        params = f'{{"name":"{name}","arguments":{{{members}}}}}'
        self.server.write([f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}\n'.encode()])

    def random(self, name, definition):
        _, make, expand = definition
        while True:
            values = {key: value for key, value in make(self.values).items() if value is not None}
            if expand:
                expected = expand(**{key: inserted for key, (inserted, _) in values.items()})
            else:
                expected = spread({"more": None, **values})
            # One argument over the limit is an error, see `refused`.
            if all(len(argument.encode()) < MAX_ARGUMENT for argument in expected):
                break
        self.largest = max(self.largest, *(len(argument.encode()) for argument in expected), 0)
        self.send(name, {key: sent for key, (_, sent) in values.items()}, expected)

    def settle(self, in_flight):
        """Reads results until at most so many calls are in flight."""
        while len(self.server.ids.open) > in_flight:
            for message in self.server.messages():
                if "method" not in message:
                    check(message, self.server.ids.settle(message))


def check(message, expected):
    result = message.get("result", message)
    assert not result.get("isError") and "content" in result, f"{str(message)[:500]}\nexpected {str(expected)[:500]}"
    text = result["content"][0]["text"]
    got = json.loads(text)
    assert got == expected, f"got      {str(got)[:1000]}\nexpected {str(expected)[:1000]}"


def refused(server):
    """Values that no program can receive are errors of the tool that name the cause."""
    string = lambda text: json.dumps(text)  # noqa: E731
    many = "[" + ",".join(['"' + "x" * 100_000 + '"'] * 40) + "]"
    cases = [
        ("plain", {"a": string("a\0b"), "b": '""'}, "NUL"),
        ("any", {"value": '"\\u0000"'}, "NUL"),
        ("spread", {"list": '["a","\\u0000"]'}, "NUL"),
        ("plain", {"a": string("x" * MAX_ARGUMENT), "b": '""'}, "bytes"),
        ("any", {"value": "[" + string("x" * MAX_ARGUMENT) + "]"}, "bytes"),
        ("spread", {"list": many}, "bytes"),
    ]
    calls = Calls(server, 0)
    for name, sent, word in cases:
        calls.send(name, sent, word)
        (message,) = [m for m in server.messages() if "method" not in m]
        server.ids.settle(message)
        result = message.get("result", {})
        assert result.get("isError") and word in result["content"][0]["text"], f"{name}: {str(message)[:500]}"
    # The longest value that the system takes.
    longest = "x" * (MAX_ARGUMENT - 1)
    calls.send("any", {"value": string(longest)}, [longest])
    calls.settle(0)
    return len(cases)


def main():
    options = arguments(__doc__)
    program = str((options.programs / "examples/argv").resolve())
    offered = tools(program)
    definition = Definition({name: entry[0] for name, entry in offered.items()})
    server = definition.serve(options.programs)
    calls = Calls(server, options.seed)
    count, began = LONG if options.long else SHORT, time.monotonic()
    names = list(offered)
    for n in range(count):
        name = names[n % len(names)]
        calls.random(name, offered[name])
        calls.settle(IN_FLIGHT - 1)
    calls.settle(0)
    seconds = time.monotonic() - began
    errors = refused(server)
    server.end()
    print(f"argv       {count} calls, byte-identical; largest argument {calls.largest} bytes; {seconds:.0f} s")
    print(f"argv       {errors} values that no program can receive: tool errors")


main()
