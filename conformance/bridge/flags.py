"""Command lines of supergateway 4, of mcp-proxy 0.13 and of the manual, run by `tinymcp proxy` with real servers.

Used as `python3 flags.py TINYMCP`; `../bridge.sh` installs the packages. The command lines of both programs are those
of their manuals, with another server if that one needs a network. The servers are npm's server-everything and
server-filesystem, and mcp-server-time of PyPI. `npx` and `uvx` are programs that start the installed servers at once:
`configs.py` has those of npm.

Prints `ok NAME` or `FAIL NAME: …` per check, ends with `N passed, N failed`.
"""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONFORMANCE = HERE.parent
sys.path[:0] = [str(CONFORMANCE), str(CONFORMANCE / "slopes")]

from peers import LEGACY, MODERN, Link, Stdio, notification, opening, request  # noqa: E402
from ports import reserve  # noqa: E402
from pairs import EVERYTHING, listening  # noqa: E402

OUT = CONFORMANCE / "peers" / "out" / "flags"
# Seconds until a proxy serves, until a process ends or a line is printed.
PATIENCE = 60
NPX_EVERYTHING = "npx -y @modelcontextprotocol/server-everything"
NPX_FILES = "npx -y @modelcontextprotocol/server-filesystem"
TOKEN = "some-access-token"
ECHO = {"message": "hello"}
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def until(what, condition):
    """Waits for a value that is true."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"timed out waiting for {what() if callable(what) else what}"
        time.sleep(0.02)
    return value


class Place:
    """A folder for one check, where `npx -y PACKAGE` and `uvx PROGRAM` are programs that start the installed server."""

    def __init__(self, name):
        self.folder = OUT / name
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "my-folder").mkdir(parents=True)
        home = self.folder / "home"
        uvx = home / "bin" / "uvx"
        uvx.parent.mkdir(parents=True)
        uvx.write_text(f'#!/bin/sh\nprogram=$1\nshift\nexec "{HERE}/.venv/bin/$program" "$@"\n')
        npx = home / "bin" / "npx"
        modules = CONFORMANCE / "peers/node_modules"
        npx.write_text(f'#!/bin/sh\nprogram=$2\nshift 2\nexec node "{modules}/$program/dist/index.js" "$@"\n')
        for program in (uvx, npx):
            program.chmod(0o755)
        self.env = {"HOME": str(home), "PATH": f"{uvx.parent}:{os.environ['PATH']}"}
        self.runs, self.began = 0, []

    def write(self, name, content):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        content = content if isinstance(content, str) else json.dumps({"mcpServers": content})
        # Replaced, so that a watcher never reads half a file.
        (self.folder / f"{name}.new").write_text(content)
        os.replace(self.folder / f"{name}.new", file)
        return file

    def run(self, *args, env=None):
        """Serves over HTTP."""
        return Run(self, args, env)

    def stdio(self, *args, env=None, capabilities=None):
        """Serves over standard input and output."""
        self.runs += 1
        errors = self.folder / f"errors-{self.runs}"
        command = ["env", "-C", str(self.folder), *(f"{k}={v}" for k, v in {**self.env, **(env or {})}.items())]
        command += ["sh", "-c", f'exec "$@" 2>"{errors}"', "sh", TINYMCP, "proxy", *map(str, args)]
        link = Stdio(command, capabilities=capabilities)
        link.errors = errors
        self.began.append(link.child)
        return link

    def refused(self, *args, env=None):
        """The error of a command line that is not valid."""
        child = subprocess.Popen(
            [TINYMCP, "proxy", *map(str, args)], cwd=self.folder, env={**os.environ, **self.env, **(env or {})},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.began.append(child)
        # The input stays open: its end would end a proxy that started, with another status.
        assert child.wait(PATIENCE) == 2, f"{args}: status {child.returncode}: {child.stderr.read()}"
        written, error = child.communicate()
        assert not written, f"{args}: {written}"
        return error

    def end(self):
        for child in self.began:
            if child.poll() is None:
                child.terminate()
        for child in self.began:
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()


class Run:
    def __init__(self, place, args, env=None):
        place.runs += 1
        self.args, self.errors = args, place.folder / f"errors-{place.runs}"
        with open(self.errors, "wb") as errors:
            self.child = subprocess.Popen(
                [TINYMCP, "proxy", *map(str, args)], cwd=place.folder, env={**os.environ, **place.env, **(env or {})},
                stdin=subprocess.DEVNULL, stderr=errors,
            )
        place.began.append(self.child)

    def text(self):
        return self.errors.read_text()

    def reported(self, part):
        """Waits for a line of standard error with this part."""

        def find():
            assert self.child.poll() is None, f"{self.args} ended: {self.text()}"
            return next((line for line in self.text().splitlines() if part in line), None)

        return until(lambda: f"{part!r} of {self.args}: {self.text()}", find)

    def port(self):
        return int(self.reported("serving http://").split("http://")[1].split("/")[0].rsplit(":", 1)[1])

    def end(self):
        self.child.terminate()
        assert self.child.wait(PATIENCE) == 0


def ask(port, method, params, path="/mcp", session=None, era=MODERN, extra=()):
    """The result of one request."""
    link = Link(port)
    try:
        return ask_over(link, method, params, path, session, era, extra)
    finally:
        link.close()


def ask_over(link, method, params, path="/mcp", session=None, era=MODERN, extra=()):
    send = link.send
    link.send = lambda verb, fields, body=b"": send(verb, fields, body, path=path)
    link.post(request(1, method, params, era), era, session, extra)
    status, fields, messages = link.answer()
    assert messages and "result" in messages[-1], f"{method} {params}: {status} {fields} {messages}"
    return messages[-1]["result"]


def call(port, tool, arguments, path="/mcp", session=None, era=MODERN, extra=()):
    result = ask(port, "tools/call", {"name": tool, "arguments": arguments}, path, session, era, extra)
    return result["content"][0]["text"]


def tools(port, path="/mcp", *expected):
    """The names of the tools; waits for those that are expected, of servers that start late."""
    listed = lambda: {tool["name"] for tool in ask(port, "tools/list", {}, path)["tools"]}  # noqa: E731
    return until(f"the tools {expected}", lambda: (names := listed()) and set(expected) <= names and names)


def open_session(port, path="/mcp", extra=()):
    link = Link(port)
    send = link.send
    link.send = lambda verb, fields, body=b"": send(verb, fields, body, path=path)
    link.post(opening(1, {}), LEGACY, None, extra)
    _, fields, messages = link.answer()
    link.close()
    assert messages and "result" in messages[0], messages
    return fields["mcp-session-id"]


def get(port, path, method="GET", fields=(), host="localhost"):
    """Status, fields and text of a response."""
    link = Link(port)
    link.send(method, [*fields, ("Connection", "close")], path=path, host=host)
    status, answered = link.head()
    text = link.take(int(answered.get("content-length", 0))).decode()
    link.close()
    return status, answered, text


def calls_sent(port, fields=()):
    """Numbers of calls that were sent to each server."""
    return {server["name"]: server["calls"] for server in json.loads(get(port, "/status", fields=fields)[2])["servers"]}


def stdio_call(link, tool, arguments):
    ((_, message),) = link.exchange([link.request("tools/call", {"name": tool, "arguments": arguments})])
    assert "result" in message, message
    return message["result"]["content"][0]["text"]


def stdio_tools(link):

    def listed():
        ((_, message),) = link.exchange([link.request("tools/list", {})])
        return {tool["name"] for tool in message["result"]["tools"]}

    return until("a list of tools", listed)


def children(pid):
    """Processes that this one started, and those that these started."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except FileNotFoundError:
            pass  # This thread has ended.
    return found + [deeper for child in found for deeper in children(child)]


def everything(**more):
    return {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"], **more}


def words(text, **values):
    """A command line of a manual as its words."""
    return [word.format(**values) for word in shlex.split(text)]


# Command lines of supergateway.


@check
def supergateway_serves_a_program_over_http(place):
    port = reserve()
    run = place.run(*words(
        '--stdio "npx -y @modelcontextprotocol/server-filesystem ./my-folder" --outputTransport streamableHttp '
        "--port {port}", port=port,
    ))
    assert run.port() == port
    assert "my-folder" in call(port, "list_allowed_directories", {})
    session = open_session(port)
    assert "my-folder" in call(port, "list_allowed_directories", {}, session=session, era=LEGACY)
    run.end()


@check
def supergateway_stateful_has_a_process_for_each_session(place):
    run = place.run(*words(
        '--stdio "npx -y @modelcontextprotocol/server-filesystem ./my-folder" --outputTransport streamableHttp '
        "--stateful --sessionTimeout 5000 --port 0"
    ))
    port = run.port()
    shared = len(children(run.child.pid))
    sessions = [open_session(port) for _ in range(2)]
    for session in sessions:
        assert "my-folder" in call(port, "list_allowed_directories", {}, session=session, era=LEGACY)
    assert len(children(run.child.pid)) == 3 * shared
    # The sessions end after five seconds without a request.
    until("the end of the processes", lambda: len(children(run.child.pid)) == shared)
    link = Link(port)
    link.post(request(1, "tools/list", {}, LEGACY), LEGACY, sessions[0])
    assert link.answer()[0] == 404
    run.end()


@check
def supergateway_options_of_http(place):
    run = place.run(*words(
        f'--stdio "{NPX_EVERYTHING}" --port 0 --streamableHttpPath /tools --logLevel none --protocolVersion 2024-11-05 '
        '--healthEndpoint /healthz --healthEndpoint /readyz --cors "http://example.com"'
    ))
    port = run.port()
    assert call(port, "echo", ECHO, "/tools") == "Echo: hello"
    for path in ("/healthz", "/readyz"):
        assert get(port, path)[::2] == (200, "ok\n"), path
    asking = [("Origin", "http://example.com"), ("Access-Control-Request-Method", "POST")]
    status, fields, _ = get(port, "/tools", "OPTIONS", asking)
    assert status == 204 and fields["access-control-allow-origin"] == "http://example.com", (status, fields)
    status, _, _ = get(port, "/tools", "OPTIONS", [("Origin", "http://other.com"), *asking[1:]])
    assert status == 403, status
    for part in ("--logLevel has no effect", "--protocolVersion has no effect", "HTTP+SSE is not served"):
        run.reported(part)
    run.end()


@check
def supergateway_several_values_of_one_option(place):
    run = place.run(*words(f'--stdio "{NPX_EVERYTHING}" --port 0 --healthEndpoint /healthz /readyz --stateful'))
    port = run.port()
    for path in ("/healthz", "/readyz"):
        assert get(port, path)[0] == 200, path
    run.end()


@check
def supergateway_of_a_url(place):
    with Recorder() as recorder:
        args = words(
            '--streamableHttp "{url}" --oauth2Bearer "some-access-token" --header "X-My-Header: another-header-value"',
            url=recorder.url,
        )
        link = place.stdio(*args)
        fields = until("a request", lambda: recorder.requests and recorder.requests[0])
        assert fields["authorization"] == f"Bearer {TOKEN}" and fields["x-my-header"] == "another-header-value"
        link.child.stdin.close()
    for kind, option, path in (("streamableHttp", "--streamableHttp", "/mcp"), ("sse", "--sse", "/sse")):
        with open(place.folder / f"{kind}.log", "wb") as log:
            server, port = listening([*EVERYTHING, kind], log)
        place.began.append(server)
        link = place.stdio(option, f"http://127.0.0.1:{port}{path}")
        assert stdio_call(link, "echo", ECHO) == "Echo: hello", kind
        link.end()


@check
def supergateway_options_without_a_counterpart_are_errors(place):
    sse = place.refused(*words(
        '--stdio "npx -y @modelcontextprotocol/server-filesystem ./my-folder" --port 8000 '
        "--baseUrl http://localhost:8000 --ssePath /sse --messagePath /message"
    ))
    assert "--outputTransport streamableHttp" in sse, sse
    for line, part in [
        (f'--stdio "{NPX_FILES} ." --port 8000 --outputTransport ws --messagePath /message', "streamableHttp"),
        (f'--stdio "{NPX_FILES} ." --cors', "--allow-origin"),
        (f'--stdio "{NPX_FILES} ." --cors "/example\\.com$/"', "--allow-origin"),
        (f'--stdio "cd my-folder && {NPX_FILES} ."', "sh -c"),
        (f'--stdio "{NPX_FILES} $HOME"', "sh -c"),
        (f'--stdio "{NPX_FILES} ." --oauth2Bearer {TOKEN}', "--token-file"),
    ]:
        error = place.refused(*words(line))
        assert part in error, f"{line}: {error}"


# Command lines of mcp-proxy.


@check
def mcp_proxy_serves_a_program_over_http(place):
    for line in (
        "--port={port} uvx mcp-server-time",
        "--host=0.0.0.0 --port={port} node {everything}",
        "--sse-host=0.0.0.0 --sse-port={port} node {everything}",
        "--port={port} -- uvx mcp-server-time --local-timezone=Europe/Berlin",
        "--pass-environment --port={port} --sse-host 0.0.0.0 node {everything}",
        "--stateless --debug --log-level DEBUG --port={port} node {everything}",
    ):
        port = reserve()
        run = place.run(*words(line, port=port, everything=EVERYTHING[1]))
        assert run.port() == port
        if "uvx" in line:
            assert "UTC" in call(port, "get_current_time", {"timezone": "UTC"}), line
        else:
            assert call(port, "echo", ECHO) == "Echo: hello", line
            # Both programs serve this path, too.
            assert call(port, "echo", ECHO, "/mcp/") == "Echo: hello", line
        run.end()


@check
def mcp_proxy_variables_and_folder(place):
    line = f"{NPX_EVERYTHING} --port 0 -e KEY VALUE -e ANOTHER_KEY ANOTHER_VALUE"
    # `-y` is of the program, which mcp-proxy does not know either without `--`.
    assert "put -- before" in place.refused(*words(line))
    line = f"--port 0 -e KEY VALUE -e ANOTHER_KEY ANOTHER_VALUE -- {NPX_EVERYTHING}"
    run = place.run(*words(line), env={"HIDDEN": "hidden"})
    seen = json.loads(call(run.port(), "get-env", {}))
    assert seen["KEY"] == "VALUE" and seen["ANOTHER_KEY"] == "ANOTHER_VALUE", seen
    run.end()
    run = place.run(*words("--port 0 --cwd my-folder -- " + f"{NPX_FILES} ."))
    assert "my-folder" in call(run.port(), "list_allowed_directories", {})
    run.end()


@check
def mcp_proxy_named_servers(place):
    run = place.run(*words(
        "--port=0 --named-server time 'uvx mcp-server-time' --named-server files '" + NPX_FILES + " my-folder'"
    ))
    port = run.port()
    run.reported("each server alone: /servers/NAME/mcp")
    assert "UTC" in call(port, "get_current_time", {"timezone": "UTC"}, "/servers/time/mcp")
    assert "my-folder" in call(port, "list_allowed_directories", {}, "/servers/files/mcp")
    assert "my-folder" in call(port, "files__list_allowed_directories", {})
    run.end()
    place.write("servers.json", {
        "time": {
            "disabled": False, "timeout": 60, "command": "uvx", "args": ["mcp-server-time"], "transportType": "stdio",
        },
        "everything": {
            "timeout": 60, "command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"],
            "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "<YOUR_TOKEN>"}, "transportType": "stdio",
        },
        "off": {"enabled": False, "command": "uvx", "args": ["mcp-server-fetch"]},
    })
    run = place.run(*words("--port=0 --named-server-config ./servers.json"))
    port = run.port()
    assert "UTC" in call(port, "get_current_time", {"timezone": "UTC"}, "/servers/time/mcp")
    assert "<YOUR_TOKEN>" in call(port, "get-env", {}, "/servers/everything/mcp")
    assert not [name for name in tools(port) if name.startswith("off")]
    run.end()


@check
def mcp_proxy_of_a_url(place):
    with Recorder() as recorder:
        for args, env, expected in [
            (["--headers", "Authorization", "Bearer YOUR_TOKEN"], {}, "Bearer YOUR_TOKEN"),
            (["--transport", "streamablehttp"], {"API_ACCESS_TOKEN": TOKEN}, f"Bearer {TOKEN}"),
            (["--headers", "Authorization", "other"], {"API_ACCESS_TOKEN": TOKEN}, f"Bearer {TOKEN}"),
            ([], {"API_ACCESS_TOKEN": ""}, None),
        ]:
            recorder.requests.clear()
            link = place.stdio(*args, recorder.url, env=env)
            fields = until("a request", lambda: recorder.requests and recorder.requests[0])
            assert fields.get("authorization") == expected, fields
            link.child.stdin.close()
    with open(place.folder / "sse.log", "wb") as log:
        server, port = listening([*EVERYTHING, "sse"], log)
    place.began.append(server)
    link = place.stdio(f"http://localhost:{port}/sse")
    assert stdio_call(link, "echo", ECHO) == "Echo: hello"
    link.end()


@check
def mcp_proxy_options_without_a_counterpart_are_errors(place):
    for line, part in [
        ("--port=8080 --allow-origin=https://a --expose-header Custom-Header uvx mcp-server-time", "--expose-header"),
        ("--port=8080 --allow-origin='*' --expose-header Custom-Header uvx mcp-server-time", "name each origin"),
        ("--no-verify-ssl https://server.local/sse", "http:"),
        ("--verify-ssl=roots.pem https://server.local/sse", "--cacert"),
        ("--transport streamablehttp --username user --password pass https://server.local/mcp", "--header"),
        ("--digest https://server.local/mcp", "use a bearer token"),
        ("--client-id CLIENT_ID --client-secret S --token-url https://a/token http://localhost:8080/sse", "login"),
        ("uvx mcp-server-time", "--port"),
        ("--port=8080 --named-server a 'uvx mcp-server-time' uvx mcp-server-time", "--named-server"),
    ]:
        error = place.refused(*words(line))
        assert part in error, f"{line}: {error}"


# Options of the manual.


@check
def prefixes_and_names(place):
    allow = ["--allow", "get-*", "--allow", "echo", "--deny", "*-env", "--rename", "echo=say"]
    link = place.stdio("--prefix", "all_", *allow, "--", "node", EVERYTHING[1])
    offered = stdio_tools(link)
    assert "all_say" in offered and "all_get-sum" in offered, offered
    assert not [name for name in offered if name.endswith(("-env", "_echo")) or not name.startswith("all_")], offered
    assert stdio_call(link, "all_say", ECHO) == "Echo: hello"
    for hidden in ("all_echo", "all_get-env", "echo", "get-env"):
        ((_, message),) = link.exchange([link.request("tools/call", {"name": hidden, "arguments": ECHO})])
        assert "error" in message and "KEY" not in json.dumps(message), message
    link.end()
    link = place.stdio("--prefix", "none", "--deny", "no-such-*", "--", "node", EVERYTHING[1])
    assert "echo" in stdio_tools(link)
    until("a report of the pattern", lambda: 'no tool fits "no-such-*"' in link.errors.read_text())
    link.end()


@check
def several_servers_without_prefix(place):
    files = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "my-folder"]}
    place.write("mcp.json", {"everything": everything(), "files": files})
    run = place.run("--config", "mcp.json", "--prefix", "none", "--http", "127.0.0.1:0")
    port = run.port()
    assert {"echo", "list_allowed_directories"} <= tools(port, "/mcp", "echo", "list_allowed_directories")
    assert call(port, "echo", ECHO) == "Echo: hello"
    assert "my-folder" in call(port, "list_allowed_directories", {})
    run.end()
    place.write("mcp.json", {"first": everything(), "second": everything()})
    for over in (["--http", "127.0.0.1:0"], []):
        error = place.refused("--config", "mcp.json", "--prefix", "none", *over)
        assert '"first"' in error and '"second"' in error and "omit --prefix none" in error, error
    # The clash is solved in the file.
    filters = {"tools": {"rename": {"echo": "echo-2"}, "allow": ["echo"]}}
    place.write("mcp.json", {"first": everything(), "second": everything(**filters, prefix="")})
    run = place.run("--config", "mcp.json", "--http", "127.0.0.1:0")
    tools(run.port(), "/mcp", "echo-2", "first__echo")
    run.end()


@check
def filters_of_other_programs(place):
    place.write("mcp.json", {
        "allow": everything(options={"toolFilter": {"mode": "allow", "list": ["echo", "get-sum"]}}),
        "block": everything(options={"toolFilter": {"mode": "block", "list": ["get-env"]}, "logEnabled": True}),
        "mcpo": everything(disabledTools=["get-env", "echo"]),
        "broken": everything(toolFilter={"mode": "deny", "list": ["get-env"]}),
    })
    run = place.run("--config", "mcp.json", "--http", "127.0.0.1:0")
    port = run.port()
    assert tools(port, "/servers/allow/mcp") == {"echo", "get-sum"}
    block, mcpo = tools(port, "/servers/block/mcp"), tools(port, "/servers/mcpo/mcp")
    assert "echo" in block and "get-env" not in block and block - mcpo == {"echo"}, block - mcpo
    offered = tools(port, "/mcp", "allow__echo", "block__echo", "mcpo__get-sum")
    assert "allow__echo" in offered and "mcpo__echo" not in offered and not [n for n in offered if "broken" in n]
    run.reported('"options.logEnabled" is unknown')
    run.reported("`toolFilter.mode` must be `allow` or `block`")
    run.end()


@check
def env_file_and_timeout(place):
    place.write(".env", "# secrets\nexport FROM_FILE='of the file'\nBOTH=file\n")
    place.write("mcp.json", {"a": everything(envFile="${workspaceFolder}/.env", env={"BOTH": "env"}, timeout=1)})
    run = place.run("--config", "mcp.json", "--http", "127.0.0.1:0", env={"OF_THE_PROXY": "1"})
    port = run.port()
    seen = json.loads(call(port, "get-env", {}, "/servers/a/mcp"))
    assert (seen["FROM_FILE"], seen["BOTH"]) == ("of the file", "env") and "OF_THE_PROXY" not in seen, seen
    link = Link(port)
    slow = {"name": "a__trigger-long-running-operation", "arguments": {"duration": 600, "steps": 1}}
    link.post(request(1, "tools/call", slow, MODERN), MODERN)
    answer = link.answer()[2][-1]
    assert answer["result"]["isError"] and "deadline" in json.dumps(answer), answer
    run.reported("server's timeout")
    run.end()


@check
def a_configuration_is_discovered_in_order(place):
    only = {"tools": {"allow": ["echo"]}}
    files = {
        "named.json": "variable", ".mcp.json": "folder", ".vscode/mcp.json": "vscode",
        "home/.config/tinymcp/mcp.json": "user",
    }
    for name, key in files.items():
        place.write(name, {key: everything(**only)})
    for name, key in files.items():
        env = {"TINYMCP_CONFIG": str(place.folder / name)} if key == "variable" else {"TINYMCP_CONFIG": ""}
        link = place.stdio(env=env)
        assert stdio_tools(link) == {f"{key}__echo"}, (name, link.errors.read_text())
        assert f"using the servers of {'' if key in ('folder', 'vscode') else '/'}" in link.errors.read_text()
        link.end()
        called = subprocess.run(
            [TINYMCP, "call", "--server", key, "echo", "message=hello"], cwd=place.folder, text=True, timeout=PATIENCE,
            env={**os.environ, **place.env, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert "Echo: hello" in called.stdout, called
        (place.folder / name).unlink()
    assert "no configuration file was found" in place.refused(env={"TINYMCP_CONFIG": ""})
    assert "named.json" in place.refused(env={"TINYMCP_CONFIG": str(place.folder / "named.json")})


@check
def a_unix_socket(place):
    path = place.folder / "mcp.sock"
    for _ in range(2):
        run = place.run("--http", f"unix:{path}", "--health", "/healthz", "--", "node", EVERYTHING[1])
        run.reported("serving /mcp on the Unix socket")
        mode = path.stat().st_mode & 0o777
        assert mode & 0o007 == 0, f"{mode:o}"
        link = UnixLink(path)
        assert ask_over(link, "tools/call", {"name": "echo", "arguments": ECHO})["content"][0]["text"] == "Echo: hello"
        assert "in use" in place.refused("--http", f"unix:{path}", "--", "node", EVERYTHING[1])
        link = UnixLink(path)
        assert ask_over(link, "tools/call", {"name": "echo", "arguments": ECHO})["content"][0]["text"] == "Echo: hello"
        # The socket of a killed proxy does not prevent the next one.
        run.child.kill()
        run.child.wait()


@check
def reloads_keep_calls_in_flight(place):
    keep, gone, new = everything(), everything(env={"A": "1"}), everything(env={"A": "2"})
    for way in ("watch", "signal"):
        place.write("mcp.json", {"keep": keep, "gone": gone, "changed": gone})
        options = ["--status", "/status", *(["--watch"] if way == "watch" else [])]
        run = place.run("--config", "mcp.json", "--http", "127.0.0.1:0", *options)
        port = run.port()
        slow = {"duration": 2, "steps": 2}
        with ThreadPoolExecutor(16) as pool:
            calls = [
                pool.submit(call, port, f"{key}__trigger-long-running-operation", slow, era=era, session=session)
                for key in ("keep", "gone", "changed")
                for era, session in ((MODERN, None), (LEGACY, open_session(port)))
            ]
            until("the calls", lambda: set(calls_sent(port).values()) == {2})
            stop, failures, answered = threading.Event(), [], [0]

            def repeat():
                while not stop.is_set():
                    for key in ("keep", "changed"):
                        try:
                            call(port, f"{key}__echo", ECHO)
                            answered[0] += 1
                        except Exception as error:  # noqa: BLE001
                            failures.append(f"{key}: {error}")
                    time.sleep(0.01)

            repeating = [pool.submit(repeat) for _ in range(2)]
            try:
                place.write("mcp.json", {"keep": keep, "changed": new, "new": new})
                if way == "signal":
                    run.child.send_signal(signal.SIGHUP)
                run.reported("reloaded: ")
                until("the new server", lambda: "new__echo" in tools(port))
                for pending in calls:
                    assert "completed" in pending.result(), pending.result()
            finally:
                stop.set()
            for thread in repeating:
                thread.result()
        assert not failures and answered[0] > 20, (way, answered, failures[:3])
        assert json.loads(call(port, "changed__get-env", {}))["A"] == "2"
        assert not [name for name in tools(port) if name.startswith("gone__")]
        until("the end of /servers/gone/mcp", lambda: status_of(port, "/servers/gone/mcp") == 404)
        run.reported("new: serving /servers/new/mcp")
        assert call(port, "echo", ECHO, "/servers/new/mcp") == "Echo: hello"
        run.end()


def status_of(port, path):
    link = Link(port)
    send = link.send
    link.send = lambda verb, fields, body=b"": send(verb, fields, body, path=path)
    link.post(request(1, "tools/list", {}, MODERN), MODERN)
    status = link.answer()[0]
    link.close()
    return status


@check
def a_signal_without_a_file(place):
    link = place.stdio("--", "node", EVERYTHING[1])
    assert stdio_call(link, "echo", ECHO) == "Echo: hello"
    link.child.send_signal(signal.SIGHUP)
    until("a report", lambda: "there is no file to reload" in link.errors.read_text())
    assert stdio_call(link, "echo", ECHO) == "Echo: hello"
    link.end()


@check
def removed_tokens_end_their_sessions(place):
    tokens = place.write("tokens", f"{TOKEN}-of-alice alice\n{TOKEN}-of-bob bob\n")
    tokens.chmod(0o600)
    run = place.run("--http", "127.0.0.1:0", "--token-file", "tokens", "--watch", "--", "node", EVERYTHING[1])
    port = run.port()
    alice, bob = [("Authorization", f"Bearer {TOKEN}-of-alice")], [("Authorization", f"Bearer {TOKEN}-of-bob")]
    hers, his = open_session(port, extra=alice), open_session(port, extra=bob)
    tokens = place.write("tokens", f"{TOKEN}-of-bob bob\n")
    tokens.chmod(0o600)
    run.child.send_signal(signal.SIGHUP)
    run.reported("reloaded")
    link = Link(port)

    def status(session, extra):
        link.post(request(1, "tools/list", {}, LEGACY), LEGACY, session, extra)
        return link.answer()[0]

    assert status(his, bob) == 200 and status(hers, alice) == 401
    tokens = place.write("tokens", f"{TOKEN}-of-alice alice\n{TOKEN}-of-bob bob\n")
    tokens.chmod(0o600)
    run.child.send_signal(signal.SIGHUP)
    until("the token", lambda: status(hers, alice) != 401)
    assert status(hers, alice) == 404 and status(his, bob) == 200
    run.end()


@check
def pages_at_other_addresses(place):
    monitor = reserve()
    pages = ["--health", "/healthz", "--status", "/status", "--metrics", "/metrics"]
    own = [*pages, "--monitor", f"127.0.0.1:{monitor}"]
    place.write("mcp.json", {"everything": everything(), "down": {"command": "/no/such/program"}})
    tokens = place.write("tokens", f"{TOKEN} x\n")
    tokens.chmod(0o600)
    stdio = place.stdio("--config", "mcp.json", *own)
    assert stdio_call(stdio, "everything__echo", ECHO) == "Echo: hello"
    pages_of(monitor)
    stdio.end()
    run = place.run("--config", "mcp.json", "--http", "127.0.0.1:0", "--token-file", "tokens", *own)
    port = run.port()
    bearer = [("Authorization", f"Bearer {TOKEN}")]
    assert call(port, "everything__echo", ECHO, extra=bearer) == "Echo: hello"
    pages_of(monitor)
    for page in ("/healthz", "/status", "/metrics"):
        assert get(port, page, fields=bearer)[0] == 404, page
    run.end()
    run = place.run("--config", "mcp.json", "--http", "127.0.0.1:0", "--token-file", "tokens", *pages)
    port = run.port()
    assert get(port, "/healthz", host="10.0.0.1:8080")[::2] == (200, "ok\n")
    assert get(port, "/status")[0] == 401 and get(port, "/metrics")[0] == 401
    assert get(port, "/status", fields=bearer, host="evil.example")[0] == 403
    assert call(port, "everything__echo", ECHO, extra=bearer) == "Echo: hello"
    pages_of(port, bearer)
    run.end()


def pages_of(port, fields=()):
    assert get(port, "/healthz")[::2] == (200, "ok\n")
    status, kind, text = get(port, "/status", fields=fields)
    servers = {server["name"]: server for server in json.loads(text)["servers"]}
    assert status == 200 and kind["content-type"].startswith("application/json")
    assert servers["everything"]["state"] == "running" and servers["everything"]["calls"] == 1, servers
    assert servers["down"]["state"] == "down" and "/no/such/program" in servers["down"]["lastError"], servers
    status, kind, text = get(port, "/metrics", fields=fields)
    assert status == 200 and kind["content-type"].startswith("text/plain"), kind
    lines = text.splitlines()
    for line in (
        'tinymcp_server_up{server="everything"} 1', 'tinymcp_server_up{server="down"} 0',
        'tinymcp_server_calls_total{server="everything"} 1', 'tinymcp_server_restarts_total{server="everything"} 0',
    ):
        assert line in lines, text


@check
def logs_mask_credentials_and_have_every_rejection(place):
    secrets = {"SERVICE_PIN": "pin-9a8b7c6d5e", "OTHER": "first line of it\nsecond line of it"}
    place.write(".env", "OF_FILE=value-of-the-file\n")
    place.write("mcp.json", {"everything": everything(env=secrets, envFile=".env")})
    tokens = place.write("tokens", f"{TOKEN} alice\n")
    tokens.chmod(0o600)
    run = place.run(
        "--config", "mcp.json", "--http", "127.0.0.1:0", "--token-file", "tokens", "--log", "frames.jsonl",
        "--access-log", "access.jsonl", "--status", "/status", env={"TINYMCP_SESSIONS": "1"},
    )
    port = run.port()
    bearer = [("Authorization", f"Bearer {TOKEN}")]
    assert secrets["SERVICE_PIN"] in call(port, "everything__get-env", {}, extra=bearer)
    call(port, "everything__echo", {"message": "hello", "apiKey": "key-of-a-user"}, extra=bearer)
    # Too large a body, too large a head, no token, another host, no room for a session.
    link = Link(port)
    fields = [*bearer, ("Content-Type", "application/json"), ("Content-Length", "999999999")]
    link.raw("\r\n".join(["POST /mcp HTTP/1.1", "Host: localhost", *map(": ".join, fields), "", ""]).encode())
    assert (head := link.head())[0] == 413, head
    link.fresh()
    link.send("GET", [("X-Long", "x" * 200_000)])
    assert link.head()[0] == 431
    assert get(port, "/mcp")[0] == 401
    assert get(port, "/mcp", host="evil.example", fields=bearer)[0] == 403
    busy = open_session(port, extra=bearer)
    slow = {"name": "everything__trigger-long-running-operation", "arguments": {"duration": 600, "steps": 1}}
    link.fresh()
    link.post(request(7, "tools/call", slow, LEGACY), LEGACY, busy, bearer)
    until("the call", lambda: calls_sent(port, bearer) == {"everything": 3})
    other = Link(port)
    other.post(opening(1, {}), LEGACY, None, bearer)
    assert other.answer()[0] == 503
    other.post(notification("notifications/cancelled", {"requestId": 7}), LEGACY, busy, bearer)
    assert other.answer()[0] == 202
    run.end()
    lines = [json.loads(line) for line in (place.folder / "access.jsonl").read_text().splitlines()]
    outcomes = {line["outcome"] for line in lines}
    expected = {"ok", *(f"rejected {status}" for status in (413, 431, 401, 403, 503))}
    assert expected <= outcomes, (expected - outcomes, lines)
    called = next(line for line in lines if line.get("name") == "everything__get-env")
    assert called["server"] == "everything" and called["principal"] == "alice" and called["bytes"] > 100, called
    frames = (place.folder / "frames.jsonl").read_text()
    for secret in ("pin-9a8b7c6d5e", "second line of it", "value-of-the-file", "key-of-a-user", TOKEN):
        assert secret not in frames, secret
    sides = {json.loads(line).get("side") for line in frames.splitlines()}
    assert sides == {"client", "server"} and "[masked]" in frames, sides


@check
def errors_come_before_servers_start(place):
    mark = place.folder / "started"
    server = ["--", "sh", "-c", f"touch {mark}; exec node {EVERYTHING[1]}"]
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        address = f"127.0.0.1:{used.getsockname()[1]}"
        for options in (
            ["--http", address], ["--http", "nonsense"], ["--http", "127.0.0.1:0", "--health", "healthz"],
            ["--http", "127.0.0.1:0", "--token-file", "missing"],
            ["--http", "127.0.0.1:0", "--allow-origin", "nonsense"],
            ["--health", "/h", "--monitor", address], ["--log", "/no/such/folder/log"], ["--prefix", "a b"],
            ["--rename", "a=b", "--rename", "a=c"], ["--http", "127.0.0.1:0", "--health", "/mcp"], ["--allow", ""],
        ):
            error = place.refused(*options, *server)
            assert error.startswith("tinymcp: ") and not mark.exists(), f"{options}: {error}"


@check
def a_file_of_every_dialect(place):
    place.write("mcp.json", """{
      // keys that are paths of the own endpoints
      "mcpServers": {
        ".": {"command": "npx"}, "..": {"command": "npx"},
        "github.com/owner/server": {"command": "npx"},
        "both": {"command": "npx", "url": "http://x"},
        "input": {"command": "npx", "env": {"A": "${input:my-token}"}},
        "unset": {"command": "${NO_SUCH_VARIABLE}"},
        "off": {"command": "npx", "disabled": true}, "off2": {"command": "npx", "enabled": false},
        "odd": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"], "comand": 1,},
        "default": {"command": "${NO_SUCH_VARIABLE:-npx}", "cwd": "my-folder",
                    "args": ["-y", "@modelcontextprotocol/server-filesystem", "${workspaceFolder}/my-folder"]},
      },
      "inputs": [], "mcpProxy": {"options": {"authTokens": ["a"]}}, "servers": {"other": {"command": "npx"}},
    }""")
    run = place.run("--config", "mcp.json", "--http", "127.0.0.1:0")
    port = run.port()
    for part in (
        'server key "."', 'server key ".."', 'server key "github.com/owner/server"', 'server "both": has both',
        "TINYMCP_INPUT_MY_TOKEN", "NO_SUCH_VARIABLE is not set", 'the member "comand" is unknown',
        'beside the servers, unknown and ignored: "mcpProxy", "servers"',
    ):
        run.reported(part)
    offered = tools(port, "/mcp", "odd__echo", "default__read_file")
    assert {name.split("__")[0] for name in offered} == {"odd", "default"}, offered
    assert "my-folder" in call(port, "list_allowed_directories", {}, "/servers/default/mcp")
    run.end()


@check
def changed_roots_reach_the_server(place):
    link = place.stdio("--", *NPX_FILES.split(), "my-folder", capabilities={"roots": {"listChanged": True}})
    roots = [place.folder / "my-folder"]

    def heard(message):
        if message["method"] == "roots/list":
            listed = [{"uri": f"file://{root}", "name": root.name} for root in roots]
            link.write([{"jsonrpc": "2.0", "id": message["id"], "result": {"roots": listed}}])

    def allowed():
        asked = link.request("tools/call", {"name": "list_allowed_directories", "arguments": {}})
        ((_, answer),) = link.exchange([asked], heard)
        return answer["result"]["content"][0]["text"]

    until("the first roots", lambda: "my-folder" in allowed())
    other = place.folder / "other"
    other.mkdir()
    roots[:] = [other]
    link.write([{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}])
    until("the new roots", lambda: str(other) in allowed())
    link.end()


class UnixLink(Link):
    def __init__(self, path):
        self.path = str(path)
        super().__init__(0)

    def fresh(self):
        self.close()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(self.path)
        self.data, self.used = b"", time.monotonic()


class Recorder:
    """A server that rejects every request, and keeps its fields."""

    def __enter__(self):
        requests = self.requests = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                requests.append({name.lower(): value for name, value in self.headers.items()})
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_error(404)

            do_GET = do_POST

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/mcp"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def run(function):
    place = Place(function.__name__)
    began = time.monotonic()
    try:
        function(place)
        message = None
    except Exception as error:  # noqa: BLE001
        message = f"{traceback.extract_tb(error.__traceback__)[-1].lineno}: {type(error).__name__}: {error}"
        if os.environ.get("TRACE"):
            traceback.print_exc()
    finally:
        place.end()
    name = function.__name__.replace("_", "-")
    print(f"ok {name} ({time.monotonic() - began:.1f} s)" if message is None else f"FAIL {name}: {message}", flush=True)
    return message is None


TINYMCP = str(Path(sys.argv[1]).resolve())
chosen = [function for function in CHECKS if len(sys.argv) < 3 or sys.argv[2] in function.__name__]
with ThreadPoolExecutor(4) as pool:
    passed = list(pool.map(run, chosen))
print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
sys.exit(0 if all(passed) else 1)
