"""Examples of `tinymcp serve`: every tool, resource and prompt of examples/serve, with the real programs.

Used as `python3 examples.py [--long] [--seed N] FOLDER`. The result of a call must be what the program prints outside
of the server, also where it fails: without the hardware of a board, the result is the program's own error. Names of
programs, arguments and expected results are in the table of each example; an entry of an example that no table has is
an error. The tools of each example are also linted with all rules.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from served import arguments

from peers import LEGACY, Stdio

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "serve"
# Variables of the server that its programs get, of those that matter here.
INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TERM", "TMPDIR")
# Calls of a tool whose output changes, until one of them is equal to the output outside.
ATTEMPTS = 10
# Programs that the script does not install. Without them, the calls must fail.
OPTIONAL = {"systemctl", "journalctl"}
GPIO = Path("/dev/gpiochip0")
COMMIT = {"GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z"}
GIT = ["git", "-c", "user.name=tester", "-c", "user.email=tester@example.org"]


class Case:
    """A call, the command that does the same, and a function that reduces both outputs to what must be equal."""

    def __init__(self, tool, given, command, stdin="", env=None, shape=None, answer=None):
        self.tool, self.given, self.command, self.stdin, self.env = tool, given, command, stdin, env or {}
        self.shape, self.answer = shape or (lambda text: text), answer


def text_cases():
    prices = '{"items": [{"price": 1}, {"price": 2.5}]}'
    lines = "b\nä\nB\n10\n9\n-1\n1.10\n1.9\n"
    cases = []
    for filter, document in [
        (".items | map(.price) | add", prices),
        (".items[]", prices),
        ("-1", "null"),
        ("--arg", "null"),
        (".items", "[1]"),
        (".", "{"),
        (".items |", prices),
        (". + \"'$(id)`id`\"", '"é\\n"'),
    ]:
        cases.append(Case("jq", {"filter": filter, "document": document}, ["jq", f"({filter})"], document))
    for text in ("", "one two\nthree\n", "é \U0001f600"):
        cases.append(Case("count", {"text": text}, ["wc"], text))
        cases.append(Case("sha256", {"text": text}, ["sha256sum"], text))
    for order, options in {"text": [], "number": ["-n"], "version": ["-V"]}.items():
        env = {"LC_ALL": "C.UTF-8"}
        cases.append(Case("sort", {"text": lines, "order": order}, ["sort", *options], lines, env))
    cases.append(Case("sort", {"text": lines}, ["sort"], lines, env))
    return cases


def git_cases():
    log = ["git", "log", "--format=%h %as %an: %s"]
    show = ["git", "show", "--stat", "--patch", "--end-of-options"]
    grep = ["git", "grep", "-n", "-F", "-e"]
    return [
        Case("status", {}, ["git", "status", "--short", "--branch"]),
        Case("log", {}, [*log, "HEAD"]),
        Case("log", {"revision": "topic", "count": 1}, [*log, "-1", "topic"]),
        Case("log", {"revision": "--output=new"}, [*log, "--end-of-options", "--output=new", "--"]),
        Case("show", {}, [*show, "HEAD"]),
        Case("show", {"revision": "topic"}, [*show, "topic"]),
        Case("show", {"revision": "missing"}, [*show, "missing", "--"]),
        Case("show", {"revision": "--output=new"}, [*show, "--output=new", "--"]),
        Case("grep", {"text": "line"}, [*grep, "line"]),
        Case("grep", {"text": "-e"}, [*grep, "-e"]),
        Case("grep", {"text": "line", "paths": ["inner", "a b.txt"]}, [*grep, "line", "--", "inner", "a b.txt"]),
        Case("grep", {"text": "$(touch new)"}, [*grep, "$(touch new)"]),
        # No line has the text: a result without text, where git ends with status 1.
        Case("grep", {"text": "absent"}, ["true"]),
        Case("file", {"path": "a b.txt"}, ["git", "show", "HEAD:a b.txt"]),
        Case("file", {"path": "inner/c", "revision": "topic"}, ["git", "show", "topic:inner/c"]),
        Case("file", {"path": "inner/missing"}, ["git", "show", "--end-of-options", "HEAD:inner/missing"]),
    ]


def status_cases():
    def mounts(text):
        return sorted((line.split()[0], line.split()[1], line.split()[-1]) for line in text.splitlines()[1:])

    def largest(text):
        """The header, and the largest process; the other lines are only checked for their form."""
        header, *lines = text.splitlines()
        form = re.compile(r" *\d+ +\d+ (\d+-)?\d\d:\d\d:\d\d \S.*")
        # The last line may be cut.
        odd = [line for line in lines[:-1] if not form.fullmatch(line)]
        sizes = [int(line.split()[1]) for line in lines[:-1]]
        return header, lines[0].split()[0], odd, sizes == sorted(sizes, reverse=True)

    show = ["systemctl", "show", "--no-pager", "--property=Id,Description,ActiveState,SubState,ExecMainStatus,NRestarts"]
    log = ["journalctl", "--no-pager", "--output=short-iso"]
    name = "systemd-journald.service"
    return [
        Case("disks", {}, ["df", "-h", "-T", "-x", "tmpfs", "-x", "devtmpfs"], shape=mounts),
        Case("processes", {}, ["ps", "-eo", "pid,rss,time,comm", "--sort=-rss"], shape=largest),
        Case("service", {"name": name}, [*show, "--", name]),
        Case("service", {"name": "--all"}, [*show, "--", "--all"]),
        Case("service_log", {"name": name, "lines": 3}, [*log, "--lines=3", f"--unit={name}"]),
        Case("service_log", {"name": name}, [*log, "--lines=50", f"--unit={name}"]),
    ]


def board_cases():
    def degrees(text):
        return round(int(text) / 20_000) if text.strip().isdigit() else text

    temperature = "/sys/class/thermal/thermal_zone0/temp"
    cases = [
        Case("cpu_temperature", {}, ["cat", temperature], shape=degrees),
        Case("gpio_read", {"line": 4}, ["gpioget", "gpiochip0", "4"]),
        Case("gpio_write", {"line": 4, "level": 1}, None, answer="decline"),
        Case("i2c_scan", {"bus": 1}, ["i2cdetect", "-y", "1"]),
        Case("i2c_read", {"bus": 1, "device": 72, "register": 0}, ["i2cget", "-y", "1", "72", "0"]),
    ]
    if GPIO.exists():
        print(f"examples   left out: an accepted gpio_write, as {GPIO} exists and its line may be in use")
    else:
        cases.append(Case("gpio_write", {"line": 4, "level": 1}, ["gpioset", "gpiochip0", "4=1"], answer="accept"))
    return cases


TABLES = {"text.json": text_cases, "git.json": git_cases, "status.json": status_cases, "raspberry-pi.json": board_cases, "manual.json": list}
RESOURCES = {
    "raspberry-pi.json": {"board://model": "/proc/device-tree/model", "board://memory": "/proc/meminfo"},
    "manual.json": {"skill://read-temperature/SKILL.md": EXAMPLES / "skills" / "read-temperature" / "SKILL.md"},
    "status.json": {"status://load": "/proc/loadavg", "status://memory": "/proc/meminfo", "status://uptime": "/proc/uptime"},
}
PROMPTS = {"git.json": {"review": "review.md"}}
# Calls with arguments that the schema rejects, and the part of the error that names the reason.
REJECTED = {
    "text.json": [("sort", {"text": "a", "order": "size"}, "/order"), ("jq", {"filter": ".", "file": "x"}, "document")],
    "git.json": [("log", {"count": 0}, "/count"), ("grep", {"text": "a", "paths": "b"}, "/paths")],
    "status.json": [("service", {}, "name"), ("service_log", {"name": "x", "lines": 1001}, "/lines")],
    "raspberry-pi.json": [("gpio_write", {"line": 28, "level": 1}, "/line"), ("i2c_read", {"bus": 1, "device": 2, "register": 0}, "/device")],
    "manual.json": [],
}


class Example:
    """A server of one example, and the folder of its programs."""

    def __init__(self, options, name, folder, home):
        self.name, self.folder = name, folder
        self.environment = {"HOME": str(home)}
        self.command = [str((options.programs / "tinymcp").resolve()), "serve", str(folder / name)]
        self.server = Stdio(self.command, LEGACY, {"elicitation": {}}, self.environment)
        self.answer, self.questions = None, []

    def request(self, method, params):
        [(_, message)] = self.server.exchange([self.server.request(method, params)], self.heard)
        return message

    def heard(self, message):
        if message["method"] == "elicitation/create":
            self.questions.append(message["params"]["message"])
            reply = {"action": self.answer, **({"content": {}} if self.answer == "accept" else {})}
            self.server.write([{"jsonrpc": "2.0", "id": message["id"], "result": reply}])

    def listed(self, method, member, key):
        return [entry[key] for entry in self.request(method, {})["result"][member]]

    def call(self, tool, given):
        """The text of a call, and whether it is an error."""
        result = self.request("tools/call", {"name": tool, "arguments": given})["result"]
        return result["content"][0]["text"], bool(result.get("isError"))

    def outside(self, case):
        """What a call must return: the text, and whether it is an error."""
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        env = {**inherited, **self.environment, **case.env}
        program = shutil.which(case.command[0])
        if not program:
            assert case.command[0] in OPTIONAL, f"{case.command[0]} is not installed"
            return f'cannot start the program "{case.command[0]}"', True
        # Programs name themselves in their errors, and the server starts them by their paths.
        command = [program, *case.command[1:]]
        done = subprocess.run(command, input=case.stdin.encode(), capture_output=True, cwd=self.folder, env=env)
        stdout, stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if done.returncode == 0:
            return stdout, False
        tail = stderr.strip() or stdout.strip()
        return f"the program exited with status {done.returncode}" + (f":\n{tail}" if tail else ""), True

    def check(self, case):
        self.answer, self.questions = case.answer, []
        if case.command is None:
            assert self.call(case.tool, case.given) == ("the user declined", True), f"{case.tool} after a no"
        else:
            for attempt in range(ATTEMPTS):
                expected, called = self.outside(case), self.call(case.tool, case.given)
                if self.equal(case, called, expected):
                    break
                time.sleep(0.1 * attempt)
            else:
                raise AssertionError(f"{self.name}: {case.tool} {case.given}: expected {expected}, got {called}")
        asked = [f"Set GPIO line {case.given['line']} to {case.given['level']}?"] if case.answer else []
        assert self.questions == asked * max(len(self.questions), len(asked)), f"{case.tool} asked {self.questions}"

    @staticmethod
    def equal(case, called, expected):
        if called[1] != expected[1]:
            return False
        if expected[1]:
            return called[0].startswith(expected[0])
        return case.shape(called[0]) == case.shape(expected[0])

    def check_resources(self):
        resources = RESOURCES.get(self.name, {})
        uris = self.listed("resources/list", "resources", "uri")
        assert uris == list(resources), f"{self.name}: resources {uris}"
        for uri, path in resources.items():
            path = Path(path)
            message = self.request("resources/read", {"uri": uri})
            if not path.exists():
                assert message["error"]["code"] == -32002, f"{uri} without its file: {message}"
                continue
            [contents] = message["result"]["contents"]
            media = "text/markdown" if uri.startswith("skill:") else "text/plain"
            assert contents["mimeType"] == media, contents
            # The numbers change from one moment to the next.
            read, expected = (re.sub(r"\d+", "0", text) for text in (contents["text"], path.read_text(encoding="utf-8")))
            assert re.sub(" +", " ", read) == re.sub(" +", " ", expected), f"{uri}: {contents['text']}"
        return len(uris)

    def check_prompts(self):
        prompts = PROMPTS.get(self.name, {})
        listed = self.request("prompts/list", {})["result"]["prompts"]
        assert [prompt["name"] for prompt in listed] == list(prompts), f"{self.name}: prompts {listed}"
        for name, arguments in ((prompt["name"], prompt["arguments"]) for prompt in listed):
            values = {argument["name"]: f"{{{argument['name']}}} $(id)" for argument in arguments}
            expected = (self.folder / prompts[name]).read_text(encoding="utf-8")
            for argument, value in values.items():
                expected = expected.replace(f"{{{argument}}}", value)
            result = self.request("prompts/get", {"name": name, "arguments": values})["result"]
            assert [message["content"]["text"] for message in result["messages"]] == [expected], f"{name}: {result}"
        return len(prompts)

    def check_all(self):
        cases = TABLES[self.name]()
        tools = self.listed("tools/list", "tools", "name")
        assert set(tools) == {case.tool for case in cases}, f"{self.name}: tools {tools}"
        for case in cases:
            self.check(case)
        for tool, given, reason in REJECTED[self.name]:
            text, is_error = self.call(tool, given)
            assert is_error and text.startswith("Invalid arguments") and reason in text, f"{tool} {given}: {text}"
        resources, prompts = self.check_resources(), self.check_prompts()
        self.server.end()
        self.check_file()
        self.lint(len(tools))
        print(
            f"examples   {self.name}: {len(cases)} calls of {len(tools)} tools, {resources} resources, {prompts} prompts"
        )

    def check_file(self):
        """`--check` reports only what this machine lacks."""
        env = {**os.environ, **self.environment}
        done = subprocess.run([*self.command, "--check"], capture_output=True, text=True, env=env)
        lines = (done.stdout + done.stderr).splitlines()[:-1]
        for line in lines:
            program = re.search(r'program "([^"]+)" is not in PATH', line)
            lacking = program and not shutil.which(program[1])
            paths = RESOURCES.get(self.name, {}).values()
            lacking = lacking or any(path in line and not Path(path).exists() for path in paths)
            assert lacking or "sandbox: " in line, f"--check: {line}"

    def lint(self, tools):
        linter = [self.command[0], "schema-lint", "--rules", "all", "--json", "--", *self.command]
        done = subprocess.run(linter, capture_output=True, text=True)
        summary = json.loads(done.stdout.splitlines()[-1])["summary"]
        expected = {"tools_checked": tools, "schema_criticals": 0, "schema_warnings": 0, "findings": 0}
        assert done.returncode == 0 and summary == expected, f"{self.name}: {done.stdout}{done.stderr}"


def repository(folder):
    """Makes a repository with two branches, a changed and a new file, and the example."""
    def git(*command):
        subprocess.run([*GIT, *command], cwd=folder, check=True, env={**os.environ, **COMMIT, "HOME": str(folder)})

    folder.mkdir()
    for name in ("git.json", "review.md"):
        shutil.copy(EXAMPLES / name, folder)
    (folder / "inner").mkdir()
    (folder / "a b.txt").write_text("first line\nsecond line -e\n")
    (folder / "inner" / "c").write_text("zwölfte line\n")
    git("init", "--quiet", "--initial-branch=main")
    git("add", ".")
    git("commit", "--quiet", "--message=Add files")
    git("switch", "--quiet", "--create", "topic")
    (folder / "inner" / "c").write_text("zwölfte line $(touch new)\n")
    git("commit", "--quiet", "--all", "--message=Change a file")
    git("switch", "--quiet", "main")
    (folder / "a b.txt").write_text("first line\nchanged line -e $(touch new)\n")
    (folder / "untracked").write_text("no line\n")


def main():
    options, began = arguments(__doc__), time.monotonic()
    found = {path.name for path in EXAMPLES.glob("*.json")}
    assert found == set(TABLES), f"examples without a table, or the reverse: {found ^ set(TABLES)}"
    with tempfile.TemporaryDirectory(prefix="tinymcp-examples-") as scratch:
        home, tree = Path(scratch) / "home", Path(scratch) / "repository"
        home.mkdir()
        repository(tree)
        before = sorted(str(path) for path in tree.rglob("*"))
        for name in sorted(found):
            Example(options, name, tree if name == "git.json" else EXAMPLES, home).check_all()
        assert sorted(str(path) for path in tree.rglob("*")) == before, "a tool changed the repository"
    for program in sorted(program for program in OPTIONAL if not shutil.which(program)):
        print(f"examples   {program} is not installed: its calls were errors")
    print(f"examples   all results are those of the programs; {time.monotonic() - began:.0f} s")


main()
