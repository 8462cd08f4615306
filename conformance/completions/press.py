"""Presses TAB in real shells for servers with hostile names. See ../completions.sh.

Each server is a recording that `tinymcp replay` serves, with one name only, so that TAB fills in the whole word.
The completed line is then run as arguments of `printf`: a shell that interprets the name would create the file RAN.
"""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Upper bound of a wait for an event, in seconds.
WAIT = 60
SETUP = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "bind 'set completion-query-items 0'; bind 'set page-completions off'; source <(tinymcp completions bash)"),
    "zsh": (["zsh", "-f", "-i"],
            "autoload -U compinit; compinit -u -D; setopt no_beep; LISTMAX=0; source <(tinymcp completions zsh)"),
    "fish": (["fish", "--no-config", "-i"], "tinymcp completions fish | source"),
}
# Words before TAB, and the words that a plain name gives.
PLACES = {
    "tool": ("call --server one ", "{name}"),
    "info": ("info --server one ", "{name}"),
    "prompt": ("get --server one ", "{name}"),
    "resource": ("read --server one ", "{name}"),
    "argument": ("call --server two all ", "{name}="),
    "prompt argument": ("get --server two all ", "{name}="),
    "value": ("call --server three all good=", "good={name}"),
    "key": ("call --config keys.json ", "{name}:"),
}


def recording(tools, prompts, resources):
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"},
                       "capabilities": {"tools": {}, "prompts": {}, "resources": {}}},
        "tools/list": {"tools": tools}, "prompts/list": {"prompts": prompts},
        "resources/list": {"resources": resources},
    }
    lines = []
    for number, (method, result) in enumerate(results.items()):
        lines.append({"t": 0, "dir": "c2s", "frame": {"jsonrpc": "2.0", "id": number, "method": method, "params": {}}})
        lines.append({"t": 0, "dir": "s2c", "frame": {"jsonrpc": "2.0", "id": number, "result": result}})
    return "".join(json.dumps(line) + "\n" for line in lines)


def tool(name, properties):
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def prepare(folder, name):
    """Writes three servers with this name, and a configuration with it as a key."""
    write(folder, "one", recording([tool(name, {})], [{"name": name}], [{"name": name, "uri": name}]))
    prompt = {"name": "all", "arguments": [{"name": name}]}
    write(folder, "two", recording([tool("all", {name: {"type": "string"}})], [prompt], []))
    write(folder, "three", recording([tool("all", {"good": {"enum": [name]}})], [], []))
    server = {key: {"command": "tinymcp", "args": ["replay", key]} for key in ("one", "two", "three")}
    write(folder, "mcp.json", json.dumps({"mcpServers": server}))
    write(folder, "keys.json", json.dumps({"mcpServers": {name: server["one"]}}))


class Shell:
    def __init__(self, name, folder, programs):
        words, setup = SETUP[name]
        self.seen, self.count = "", 0
        environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": folder, "TERM": "xterm", "LANG": "C.UTF-8",
                       "TINYMCP_CONFIG": "mcp.json", "PS1": "$ "}
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, environment)
        self.run(setup)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, text):
        until = time.monotonic() + WAIT
        while text not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"{text!r} does not appear: {self.seen[-2000:]!r}")
            self.seen += os.read(self.terminal, 65536).decode(errors="replace")
        before, self.seen = self.seen.split(text, 1)
        return before

    def run(self, line):
        """Runs a line, and returns all that appears until its end."""
        self.type(line + "\r")
        self.count += 1
        self.type(f"printf 'E%s.' 'ND{self.count}'\r")
        return self.wait_for(f"END{self.count}.")

    def complete(self, words):
        """Presses TAB after these words, and returns the words of the completed line."""
        self.type("tinymcp " + words + "\t\t")
        # Ctrl-A: start of the line.
        seen = self.run("\x01printf '<%s>' ")
        start = seen.rfind("<tinymcp>")
        return seen[start:].split("\r")[0].split("\n")[0] if start >= 0 else seen

    def end(self):
        os.close(self.terminal)
        os.waitpid(self.child, 0)


def main():
    programs = sys.argv[1]
    with open(os.path.join(HERE, "names.txt"), encoding="utf-8", newline="\n") as file:
        names = file.read().split("\n")[:-1]
    passed = failed = 0
    folder = tempfile.mkdtemp()
    for name in SETUP:
        print(subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0])
        for place, (words, expected) in PLACES.items():
            failures = []
            shell = Shell(name, folder, programs)
            prepare(folder, "good_name")
            line = shell.complete(words)
            wanted = "".join(f"<{word}>" for word in f"tinymcp {words}".split()[:-1 if place == "value" else None])
            wanted += f"<{expected.format(name='good_name')}>"
            # A second TAB may go on behind the colon of a key.
            if not line.startswith(wanted[:-1]):
                failures.append(f"good_name: {line!r}")
            for hostile in names:
                prepare(folder, hostile)
                shell.complete(words)
                if os.path.exists(os.path.join(folder, "RAN")):
                    failures.append(f"{hostile!r} ran")
                    os.remove(os.path.join(folder, "RAN"))
            shell.end()
            for failure in failures:
                print(f"FAIL {name} {place} {failure}")
            if not failures:
                print(f"ok {name} {place}")
            passed, failed = passed + (not failures), failed + bool(failures)
    shutil.rmtree(folder)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
