"""Real clients of both protocols use real servers of both protocols through `tinymcp proxy`, over every transport.

Used as `python3 pairs.py [--long] [--only SERVER/TRANSPORT[/CLIENT]] TINYMCP`; `../bridge.sh` installs the packages.
The clients of `../clients` run the checks of `bridge.mjs` and `py/bridge.py` against a proxy for each session: over
stdio, or over HTTP. The proxy connects to its server over stdio, Streamable HTTP or HTTP+SSE. The servers are npm's
server-everything, which speaks the session protocol only, and `modern.py`, a server of the Python SDK that speaks the
stateless one only.

Prints `ok NAME` or `FAIL NAME: …` per check, ends with `N passed, N failed`. `unable.txt` lists expected failures.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONFORMANCE = HERE.parent
sys.path.insert(0, str(CONFORMANCE))

from ports import reserve, wait_for  # noqa: E402

CLIENTS = CONFORMANCE / "clients"
OUT = HERE / "out"
PYTHON = CLIENTS / "py/.venv/bin/python"
EVERYTHING = ["node", str(CONFORMANCE / "peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js")]
MODERN = [str(PYTHON), str(HERE / "modern.py")]

# Modes of each client; the short form has one client of each protocol, and both SDKs.
LONG = {"ts1": ["legacy"], "ts2": ["modern", "auto", "legacy"], "py": ["modern", "auto", "legacy"]}
SHORT = {"ts1": ["legacy"], "ts2": ["modern"]}
FEW = ["connect", "list", "call", "close", "incapable", "session"]
ALL = [*FEW, "read", "prompt", "complete", "progress", "cancel", "elicitation", "elicitation-declined", "sampling"]
ALL += ["roots", "subscription", "log"]
# Command, path of the endpoint over HTTP, type of the entry in the configuration.
SERVERS = {
    "everything/stdio": (EVERYTHING, None, None),
    "everything/http": ([*EVERYTHING, "streamableHttp"], "/mcp", "http"),
    "everything/sse": ([*EVERYTHING, "sse"], "/sse", "sse"),
    "modern/stdio": (MODERN, None, None),
    "modern/http": (MODERN, "/mcp", "http"),
}
RESULT = re.compile(r"(ok|FAIL) ([a-z0-9]+/[a-z]+)/([a-z-]+)(?:: (.*))?")
# Seconds of one client.
PATIENCE = 1900
# Clients that run at the same time; they mostly wait.
TOGETHER = 3


def listening(command, log):
    """Starts a server over HTTP; returns it and its port, which it gets in both ways that servers use."""
    port = reserve()
    env = {**os.environ, "PORT": str(port), "NODE_OPTIONS": f"--require {CONFORMANCE}/suite/loopback.cjs"}
    server = subprocess.Popen([*command, str(port)], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for(port, server)
    return server, port


def run(tinymcp, server, client, over, modes):
    """Runs a client; returns the lines that it printed."""
    command, path, kind = SERVERS[server]
    out = OUT / server.replace("/", "-") / f"{client}-{over}"
    out.mkdir(parents=True)
    upstream = None
    with open(out / "server.log", "wb") as log:
        if path:
            upstream, port = listening(command, log)
            entry = {"type": kind, "url": f"http://127.0.0.1:{port}{path}"}
        else:
            entry = {"command": command[0], "args": command[1:]}
        (out / "mcp.json").write_text(json.dumps({"mcpServers": {"peer": entry}}))
        env = {**os.environ, "BRIDGE_SERVER": server.split("/")[0]}
        if client != "ts1":
            env["BRIDGE_MODES"] = ",".join(modes)
        if kind == "sse":
            env["BRIDGE_FEW"] = "1"
        program = [PYTHON, CLIENTS / "py/client.py"] if client == "py" else ["node", CLIENTS / client / "client.mjs"]
        proxy = [tinymcp, "proxy", "--prefix", "none", "--config", out / "mcp.json"]
        try:
            done = subprocess.run(
                [*program, over, out, "bridge", *proxy], env=env, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            return done.stdout.splitlines()
        except subprocess.TimeoutExpired as late:
            return [*(late.stdout or b"").decode().splitlines(), f"{client} did not end within {PATIENCE} s"]
        finally:
            if upstream:
                upstream.terminate()
                upstream.wait()


class Verdict:
    def __init__(self):
        lines = (HERE / "unable.txt").read_text().splitlines()
        self.unable = [[part.strip() for part in line.split("|")] for line in lines if line and line[0] != "#"]
        self.used, self.passed, self.failed = set(), 0, 0

    def settle(self, name, message):
        """Prints one check; `message` is that of a failure."""
        row = next((n for n, (pattern, *_) in enumerate(self.unable) if fnmatch.fnmatchcase(name, pattern)), None)
        if row is not None:
            _, words, reason = self.unable[row]
            self.used.add(row)
            if message is not None and words in message:
                self.passed += 1
                print(f"ok {name} (cannot be carried: {reason})")
                return True
            if message is None and reason.startswith("sometimes"):
                self.passed += 1
                print(f"ok {name}")
                return True
            message = f"unable.txt expects {words!r}, got {message or 'success'}"
        if message is None:
            self.passed += 1
            print(f"ok {name}")
        else:
            self.failed += 1
            print(f"FAIL {name}: {message}")
        return message is None

    def judge(self, server, client, over, modes, lines):
        checks = FEW if server.endswith("/sse") else ALL
        waiting, shown = {(f"{client}/{mode}", check) for mode in modes for check in checks}, True
        for line in lines:
            found = RESULT.fullmatch(line)
            if not found:
                # The excerpt of an expected failure says nothing.
                if shown or not line.startswith("    "):
                    print(line)
                continue
            verdict, session, check, message = found.groups()
            name = f"{session} over {over} to {server.replace('/', ' over ')}: {check}"
            if (session, check) not in waiting:
                message = f"reported twice, or not expected; {message}"
            waiting.discard((session, check))
            shown = not self.settle(name, message)
        for session, check in sorted(waiting):
            self.settle(f"{session} over {over} to {server.replace('/', ' over ')}: {check}", "never reported")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="", help="SERVER/TRANSPORT, or SERVER/TRANSPORT/CLIENT")
    parser.add_argument("tinymcp")
    options = parser.parse_args()
    tinymcp = str(Path(options.tinymcp).resolve())
    shutil.rmtree(OUT, ignore_errors=True)
    clients, verdict = LONG if options.long else SHORT, Verdict()
    jobs = [
        (server, client, over, modes)
        for server in SERVERS
        for client, modes in clients.items()
        for over in ("stdio", "http")
        if f"{server}/{client}/".startswith(options.only + "/" if options.only else "")
    ]
    if not jobs:
        parser.error(f"no server, transport and client {options.only}")
    with ThreadPoolExecutor(TOGETHER) as pool:
        for job, lines in zip(jobs, pool.map(lambda job: run(tinymcp, *job), jobs)):
            verdict.judge(*job, lines)
            sys.stdout.flush()
    if options.long and not options.only:
        for n in sorted(set(range(len(verdict.unable))) - verdict.used):
            verdict.failed += 1
            print(f"FAIL unable.txt: {verdict.unable[n][0]} fits no check")
    print(f"{verdict.passed} passed, {verdict.failed} failed")
    sys.exit(1 if verdict.failed or not verdict.passed else 0)


if __name__ == "__main__":
    main()
