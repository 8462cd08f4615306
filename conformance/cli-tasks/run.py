"""Runs our command of each task in tasks.txt, checks its output, and compares its length with theirs."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from ports import reserve, wait_for  # noqa: E402

WORKERS = 4
PATIENCE = 60


def tasks(path):
    """Returns the columns of each task."""
    rows = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            line = line.strip()
            if line and not line.startswith("#"):
                # A pipe of a shell has a backslash.
                columns = [column.replace("\\|", "|") for column in line.split(" | ")]
                assert len(columns) == 5, line
                rows.append(columns)
    return rows


def length(command):
    """Characters after the name of the program: names differ, and a shell can give any of them."""
    words = command.split(" ", 1)[1]
    return len(words.removeprefix("--cli "))


def started(server, *arguments):
    """Starts the server and waits until it listens. Returns it with its port."""
    port = reserve()
    process = subprocess.Popen(
        [*server, *arguments],
        env={**os.environ, "PORT": str(port), "NODE_OPTIONS": f"--require {loopback}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port, process)
    except RuntimeError:
        process.kill()
        raise
    return process, port


def check(columns, place, words):
    """Runs our command. Returns the reason of a failure."""
    task, source, theirs, ours, expected = columns
    if length(ours) > length(theirs):
        return f"longer than theirs: {length(ours)} characters and {length(theirs)}"
    command = re.sub(r"\b[SULF]\b(?!=)", lambda found: words[found[0]], ours)
    try:
        ended = subprocess.run(
            command, shell=True, cwd=place, env=environment(place), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return "it does not end"
    status = re.match(r"(\d) (?=.)", expected)
    pattern = expected[2:] if status else expected
    output = ended.stderr if pattern.startswith("E:") else ended.stdout
    if ended.returncode != (int(status[1]) if status else 0):
        return f"exit status {ended.returncode}: {ended.stderr[-300:]}"
    if not re.search(pattern.removeprefix("E:"), output, re.MULTILINE):
        return f"no {pattern!r} in {output[:300]!r}"
    return None


def environment(place):
    path = f"{os.path.dirname(program)}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": place, "XDG_CONFIG_HOME": f"{place}/.config"}


here = os.path.dirname(os.path.abspath(__file__))
loopback = os.path.join(here, "../suite/loopback.cjs")
program, everything = sys.argv[1:]
server = ["node", everything]
place = tempfile.mkdtemp()
running = []
try:
    for transport in ("streamableHttp", "sse"):
        running.append(started(server, transport))
    (_, http), (_, sse) = running
    words = {
        "S": " ".join(server),
        "U": f"http://127.0.0.1:{http}/mcp",
        "L": f"http://127.0.0.1:{sse}/sse",
        "F": "servers.json",
    }
    with open(f"{place}/servers.json", "w", encoding="utf-8") as file:
        json.dump({"mcpServers": {"c": {"command": server[0], "args": server[1:]}}}, file)
    shutil.copy(f"{place}/servers.json", f"{place}/.mcp.json")
    os.mkdir(f"{place}/sub")
    for name, text in (("sum.json", '{"a":1,"b":2}'), ("note.txt", "from a file\n")):
        with open(f"{place}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    subprocess.run([program, "ls", "c:tools", "-q", "-o", "tools.json"], cwd=place, check=True)
    rows, failed = tasks(os.path.join(here, "tasks.txt")), 0
    with ThreadPoolExecutor(WORKERS) as workers:
        reasons = list(workers.map(lambda row: check(row, place, words), rows))
    for row, why in zip(rows, reasons):
        print(f"FAIL {row[0]} ({row[3]}): {why}" if why else f"ok {row[0]}")
        failed += why is not None
    saved = sum(length(row[2]) - length(row[3]) for row in rows)
    longer = sum(len(row[3]) > len(row[2]) for row in rows)
    print(f"{len(rows)} tasks, {saved} characters less than the shortest of the others")
    print(f"{longer} are longer if the names of the programs count, too")
    print(f"{len(rows) - failed} passed, {failed} failed")
    sys.exit(failed > 0 or len(rows) < 60)
finally:
    for process, _ in running:
        process.kill()
        process.wait()
    shutil.rmtree(place)
