"""Sandboxed tools: real programs inside and outside their grants.

Used as `python3 sandbox.py [--long] [--seed N] FOLDER`. Each tool runs on a granted folder, where it must work, and on an
equal folder that is not granted, where it must fail and change nothing. The network is offered by listeners of this
program. Programs that are not installed are named and left out.
"""

import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from served import Definition, arguments

# `{folder}` is the argument of the call.
FILES = {
    "cat": ["cat", "{folder}/file"],
    "head": ["head", "-c", "1", "{folder}/file"],
    "grep": ["grep", "content", "{folder}/file"],
    "ls": ["ls", "{folder}"],
    "find": ["find", "{folder}/inner"],
    "cp": ["cp", "{folder}/file", "{folder}/new"],
    "dd": ["dd", "if={folder}/file", "of={folder}/new"],
    "ln": ["ln", "{folder}/file", "{folder}/new"],
    "ln -s": ["ln", "-s", "file", "{folder}/new"],
    "mv": ["mv", "{folder}/file", "{folder}/inner/file"],
    "rm": ["rm", "{folder}/file"],
    "rmdir": ["rmdir", "{folder}/inner"],
    "mkdir": ["mkdir", "{folder}/new"],
    "mkfifo": ["mkfifo", "{folder}/new"],
    "touch": ["touch", "{folder}/new"],
    "truncate": ["truncate", "-s", "0", "{folder}/file"],
    "tee": ["tee", "{folder}/new"],
    "sed -i": ["sed", "-i", "s/content/changed/", "{folder}/file"],
    "sort -o": ["sort", "-o", "{folder}/file", "{folder}/file"],
    "tar": ["tar", "-cf", "{folder}/new", "-C", "{folder}", "file"],
    "gzip": ["gzip", "{folder}/file"],
    "sh": ["sh", "-c", 'echo more >> "$1"', "sh", "{folder}/file"],
    "/proc/self/root": ["sh", "-c", 'cat "/proc/self/root$1"', "sh", "{folder}/file"],
    "exec": ["sh", "-c", '"$1"', "sh", "{folder}/program"],
    "python3": ["python3", "-c", "import sys; open(sys.argv[1], 'a').write('x')", "{folder}/file"],
    "perl": ["perl", "-e", "unlink($ARGV[0]) or die", "{folder}/file"],
}
NETWORK = {
    "TCP connect": "socket.create_connection(('127.0.0.1', {tcp}))",
    "TCP bind": "socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(('127.0.0.1', {tcp}))",
    "UDP send": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))",
}


def fill(folder):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "inner").mkdir(parents=True)
    (folder / "file").write_text("content\n", encoding="ascii")
    shutil.copy("/bin/true", folder / "program")


def contents(folder):
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


def installed(program):
    """A program of the system: those of other folders need other grants."""
    return shutil.which(program, path="/usr/bin:/bin")


def tool(run, sandbox):
    return {"description": "A program", "input": {"folder": "string"}, "run": run, "sandbox": sandbox}


def main():
    options = arguments(__doc__)
    folder = tempfile.TemporaryDirectory(prefix="tinymcp-sandbox-")
    inside, outside = Path(folder.name) / "inside", Path(folder.name) / "outside"
    fill(inside)
    tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    ports = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}

    grants = {"read": ["system", "/proc"], "write": [str(inside)]}
    names, definitions = {}, {}
    for number, (name, run) in enumerate(FILES.items()):
        if program := installed(run[0]):
            names[name] = f"file{number}"
            definitions[f"file{number}"] = tool([program, *run[1:]], grants)
        else:
            print(f"sandbox    left out: {run[0]} is not installed")
    for number, script in enumerate(NETWORK.values()):
        run = [installed("python3") or "python3", "-c", "import socket\n" + script.format(**ports).replace("{", "{{").replace("}", "}}")]
        for net in (True, False):
            definition = tool(run, {"read": ["system"], "net": net})
            del definition["input"]
            definitions[f"net{number}{net}"] = definition
    definition = Definition(definitions, sandbox="required")
    check = subprocess.run([*definition.command(options.programs), "--check"], capture_output=True, text=True)
    if "not restricted" in check.stdout + check.stderr:
        print(f"sandbox    left out, this kernel cannot: {(check.stdout + check.stderr).splitlines()[0]}")
        return

    server = definition.serve(options.programs)

    def call(name, given):
        server.write([server.request("tools/call", {"name": name, "arguments": given})])
        while True:
            for message in server.messages():
                if "method" not in message:
                    server.ids.settle(message)
                    assert "result" in message, message
                    return message["result"]

    for name, tool_name in names.items():
        fill(outside)
        before = contents(outside)
        refused = call(tool_name, {"folder": str(outside)})
        assert refused.get("isError"), f"{name} outside its grants: {refused}"
        assert contents(outside) == before, f"{name} changed files outside its grants"
        fill(inside)
        allowed = call(tool_name, {"folder": str(inside)})
        assert not allowed.get("isError"), f"{name} inside its grants: {allowed}"
    for number, name in enumerate(NETWORK):
        refused, allowed = call(f"net{number}False", {}), call(f"net{number}True", {})
        assert refused.get("isError"), f"{name} without a grant: {refused}"
        assert not allowed.get("isError"), f"{name} with a grant: {allowed}"
    server.end()
    print(f"sandbox    {len(names)} uses of files and {len(NETWORK)} of the network: refused outside, work inside")


main()
