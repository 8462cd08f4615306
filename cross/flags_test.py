"""Calls a server under emulation over standard input and output and over HTTP; fails when an answer is wrong or late.

Usage: flags_test.py EMULATOR SERVER
"""

import http.client
import json
import re
import subprocess
import sys

DEADLINE = 60
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def call(number, text):
    params = {"name": "echo", "arguments": {"text": text}, "_meta": META}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def text_of(answer):
    return answer["result"]["content"][0]["text"]


def stdio(emulator, server):
    texts = {number: "x" * (number * 97 % 5000) for number in range(200)}
    lines = "".join(json.dumps(call(number, text)) + "\n" for number, text in texts.items())
    run = subprocess.run([emulator, server, "--stdio"], input=lines.encode(), stdout=subprocess.PIPE, timeout=DEADLINE)
    assert run.returncode == 0, f"the server ended with {run.returncode}"
    answers = {answer["id"]: text_of(answer) for answer in map(json.loads, run.stdout.splitlines())}
    assert answers == texts, "wrong or missing answers"


def over_http(emulator, server):
    program = subprocess.Popen([emulator, server, "--http", "127.0.0.1:0"], stderr=subprocess.PIPE)
    try:
        port = int(re.search(rb"127\.0\.0\.1:(\d+)", program.stderr.readline()).group(1))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "echo",
        }
        for number in range(50):
            connection.request("POST", "/mcp", json.dumps(call(number, f"text {number}")), headers)
            response = connection.getresponse()
            body = response.read().decode()
            assert response.status == 200, (response.status, body)
            if response.headers["Content-Type"].startswith("text/event-stream"):
                body = [line[5:] for line in body.splitlines() if line.startswith("data:")][-1]
            assert text_of(json.loads(body)) == f"text {number}", body
        program.terminate()
        assert program.wait(DEADLINE) == 0, "the server did not end well"
    finally:
        program.kill()


stdio(*sys.argv[1:3])
over_http(*sys.argv[1:3])
print("stdio and HTTP: every call answered")
