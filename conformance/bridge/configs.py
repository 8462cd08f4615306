"""`tinymcp proxy` starts five real servers from a file of VS Code, of Claude Code and of mcp-proxy, as it is.

Used as `python3 configs.py TINYMCP`; `../bridge.sh` installs the packages. The files are those in `configs`. Each is run
in a folder below `../peers`, so that `npx -y PACKAGE` finds the installed package without a network, with a `.npmrc` that
forbids one. `uvx` is a program of this folder that runs the installed program of that name. All servers must be
connected, offer tools and answer a call, and the proxy must not report a fault.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONFORMANCE = HERE.parent
sys.path.insert(0, str(CONFORMANCE / "slopes"))

from peers import MODERN, Link, Stdio, request  # noqa: E402
from pairs import EVERYTHING, listening  # noqa: E402

PEERS = CONFORMANCE / "peers"
# Seconds until all servers are connected.
PATIENCE = 120
# A call of each server, and a part of its result.
CALLS = {
    "everything__echo": ({"message": "hello"}, "Echo: hello"),
    "filesystem__list_allowed_directories": ({}, "Allowed directories"),
    "memory__read_graph": ({}, "entities"),
    "git__git_status": ({"repo_path": "{folder}"}, "Repository status"),
    "time__get_current_time": ({"timezone": "UTC"}, "UTC"),
}


# Reports of the proxy about members that it does not use, and about servers.
FAULT = re.compile(r"unknown|ignored|is down|: down|cannot|invalid|error", re.IGNORECASE)


class Http:
    """As Stdio, over HTTP; the proxy prints its address."""

    def __init__(self, command, errors):
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        end, port = time.monotonic() + PATIENCE, None
        while port is None:
            if time.monotonic() > end or self.child.poll() is not None:
                self.child.terminate()
                raise AssertionError(errors.read_text())
            lines = [line for line in errors.read_text().splitlines() if "serving http://" in line]
            port = int(lines[0].split("/mcp")[0].rsplit(":", 1)[1]) if lines else None
            time.sleep(0.05)
        self.link, self.id = Link(port), 0

    def request(self, method, params):
        self.id += 1
        return request(self.id, method, params, MODERN)

    def exchange(self, messages):
        self.link.post(messages[0], MODERN)
        return [(None, message) for message in self.link.answer()[2] if "method" not in message]

    def end(self):
        self.child.terminate()
        assert self.child.wait(PATIENCE) == 0


def prepare(name, target):
    """The folder of a host with its file at this place."""
    folder = PEERS / "out" / f"config-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / target).parent.mkdir(parents=True)
    shutil.copy(HERE / "configs" / f"{name}.json", folder / target)
    home = folder / "home"
    home.mkdir()
    (home / ".npmrc").write_text("offline=true\n")
    (folder / ".env").write_text("# variables of the git server\nGIT_OPTIONAL_LOCKS=0\n")
    uvx = home / "bin" / "uvx"
    uvx.parent.mkdir()
    uvx.write_text(f'#!/bin/sh\nprogram=$1\nshift\nexec "{HERE}/.venv/bin/$program" "$@"\n')
    uvx.chmod(0o755)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    os.chdir(folder)
    return folder, {
        "HOME": str(home),
        "PATH": f"{uvx.parent}:{os.environ['PATH']}",
        "TINYMCP_INPUT_MEMORY_FILE": str(folder / "memory.json"),
    }


def check(name, target, options, over, upstream):
    """Runs the proxy with the file of a host."""
    folder, env = prepare(name, target)
    server = None
    if upstream:
        with open(folder / "server.log", "wb") as log:
            server, port = listening([*EVERYTHING, upstream], log)
        env["EVERYTHING_PORT"] = str(port)
    errors = folder / "errors"
    errors.touch()
    command = ["env", *(f"{key}={value}" for key, value in env.items()), "sh", "-c", f'exec "$@" 2>"{errors}"', "sh"]
    command += [TINYMCP, "proxy", *options]
    proxy = Stdio(command) if over == "stdio" else Http(command, errors)
    try:
        end = time.monotonic() + PATIENCE
        while True:
            tools = [tool["name"] for tool in proxy.exchange([proxy.request("tools/list", {})])[0][1]["result"]["tools"]]
            if set(CALLS) <= set(tools):
                break
            assert time.monotonic() < end, f"{name}: only {tools}\n{errors.read_text()}"
            time.sleep(0.1)
        for tool, (arguments, part) in CALLS.items():
            arguments = {key: value.format(folder=folder) for key, value in arguments.items()}
            ((_, answer),) = proxy.exchange([proxy.request("tools/call", {"name": tool, "arguments": arguments})])
            assert part in json.dumps(answer["result"]), f"{name}: {tool}: {answer}"
        proxy.end()
    finally:
        if proxy.child.poll() is None:
            proxy.child.kill()
        if server:
            server.terminate()
            server.wait()
    faults = [line for line in errors.read_text().splitlines() if line.startswith("tinymcp: ") and FAULT.search(line)]
    assert not faults, f"{name}: {faults}"
    print(f"ok {name}: {len(tools)} tools of 5 servers", flush=True)


TINYMCP = str(Path(sys.argv[1]).resolve())
check("vscode", ".vscode/mcp.json", [], "stdio", "streamableHttp")
check("claude-code", ".mcp.json", [], "stdio", "sse")
check("mcp-proxy", "servers.json", ["--named-server-config", "servers.json", "--port", "0"], "http", None)
