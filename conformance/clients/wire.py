"""Checks the wire logs of one session after its clients have ended.

Used as `python3 wire.py board|serve SESSION FOLDER`, SESSION being a name such as `ts2/modern`; prints `ok` and
`FAIL` lines as the clients do. It checks facts that an SDK does not show to its user: exit codes, lines that are not
messages, late responses to cancelled requests, members of the other era. The clients check the contents of messages.

A log without a request, and the log of a server process that only received `server/discover` as a probe, are subject
to the checks of lines, HTTP and exit only.
"""

import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

META = "io.modelcontextprotocol/"
# Results that must carry cache hints in the modern era, and no others.
CACHED = {
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
}
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
# Messages of a cancelled request after the server has certainly read the cancellation: a worker may be writing one.
CROSSED = 1
# Default grace period of a server with a call in flight. SIGTERM ends it.
GRACE = 5.0
# An idle server must not use its grace period.
EXIT_LIMIT = 4.5
# Seconds until an event that must happen; longer than anything takes on a busy machine.
PATIENCE = 60.0
# HTTP status of a response with this error in the modern era, unless it is an event stream; 200 for other errors.
STATUS = {-32700: 400, -32600: 400, -32601: 404, -32602: 400, -32020: 400, -32021: 400, -32022: 400}
# Members of the messages that differ between servers.
SERVER = json.loads((Path(__file__).resolve().parent / "plan.json").read_text())[sys.argv[1]]
RECORD = re.compile(r"(\d+\.\d+) ([><!]) ?(.*)", re.S)


class Log:
    """One server process: `records` are (at, mark, text), `messages` (at, mark, message).

    `left` has the time at which the client closed the connection of a request over HTTP, which cancels the request in
    the modern era.
    """

    def __init__(self, path):
        self.path = path
        self.records = []
        self.messages = []
        self.faults = []
        self.left = {}
        for raw in path.read_text(encoding="utf-8").split("\n")[:-1]:
            at, mark, text = RECORD.fullmatch(raw).groups()
            self.records.append((float(at), mark, text))
            if mark in "><":
                self._message(float(at), mark, text)
            elif text.startswith("hung up on "):
                self.left.setdefault(text.removeprefix("hung up on "), float(at))
        self.http = self.event("http") is not None

    def _message(self, at, mark, text):
        try:
            message = json.loads(text)
            whole = isinstance(message, dict) and message.get("jsonrpc") == "2.0"
        except ValueError:
            whole = False
        if whole and "\r" not in text:
            self.messages.append((at, mark, message))
        elif mark == "<":
            self.faults.append(f"not one JSON-RPC message: {text!r}")

    def event(self, word):
        """The first event that starts with `word`, as (at, rest)."""
        for at, mark, text in self.records:
            if mark == "!" and text.startswith(word):
                return at, text[len(word) :].strip()
        return None

    def answers(self):
        """Heads of the responses over HTTP, as (at, head)."""
        for at, mark, text in self.records:
            if mark == "!" and text.startswith("answer "):
                yield at, json.loads(text.removeprefix("answer "))

    def requests(self):
        """Requests of the client: id to (at, message)."""
        return {key(m["id"]): (t, m) for t, mark, m in self.messages if mark == ">" and "method" in m and "id" in m}

    def busy_at(self, moment):
        """True if a call was in flight then: requested before, not cancelled, no response yet."""
        open_calls = {name for name, (at, m) in self.requests().items() if m["method"] == "tools/call" and at <= moment}
        for at, mark, message in self.messages:
            if mark == ">" and message.get("method") == "notifications/cancelled":
                open_calls.discard(key(message["params"]["requestId"]))
            if mark == "<" and "method" not in message and at <= moment:
                open_calls.discard(key(message.get("id")))
        if self.modern():
            open_calls -= {name for name, at in self.left.items() if at <= moment}
        return bool(open_calls)

    def refused_resumptions(self):
        """Number of streams that the client resumed after their events were dropped."""
        return sum(answer.get("resumes", False) and answer["status"] == 410 for _, answer in self.answers())

    def modern(self):
        """True if there was no handshake."""
        return all(message["method"] != "initialize" for _, message in self.requests().values())

    def is_probe(self):
        asked = [message["method"] for _, message in self.requests().values()]
        return asked == ["server/discover"]


def key(request_id):
    """An id with its JSON type, so that 1 and "1" differ."""
    return json.dumps(request_id)


def meta(message):
    return (message.get("params") or {}).get("_meta") or {}


def lines(log):
    """Every line from the server is one JSON-RPC message and ends with a newline."""
    yield from log.faults
    if log.event("the last line"):
        yield "the last line has no newline"


def cancellations(log):
    """Cancelled requests: id to the time at which the server has certainly read the cancellation."""
    sent, over = {}, []
    for at, mark, message in log.messages:
        if mark == ">" and message.get("method") == "notifications/cancelled":
            sent.setdefault(key(message["params"]["requestId"]), at)
    if log.http:
        # All have been read when there are as many responses as cancellations.
        done = [at for at, answer in log.answers() if answer.get("method") == "notifications/cancelled"]
        over = [at for count, at in enumerate(done, 1) if sum(began <= at for began in sent.values()) == count]
    asked = {name: at for name, (at, _) in log.requests().items()}
    answered = [(at, key(m.get("id"))) for at, mark, m in log.messages if mark == "<" and "method" not in m]
    read = {}
    for name, began in sent.items():
        if not log.http:
            # A server reads in order, so the response to a later request shows it.
            over = [at for at, other in answered if asked.get(other, 0) > began]
        read[name] = next((at for at in over if at >= began), float("inf"))
    return {**read, **log.left} if log.modern() else read


def answers(log):
    """Each request has one response with its id, a cancelled one none; there are no other responses."""
    asked = log.requests()
    cancelled = cancellations(log)
    late = Counter()
    answered = {}

    def too_late(name, at):
        late[name] += at > cancelled.get(name, at)
        return late[name] > CROSSED

    eof = log.event("eof") or log.event("signal") or (float("inf"), "")
    tokens = {}
    for name, (_, message) in asked.items():
        if "progressToken" in meta(message):
            tokens[key(meta(message)["progressToken"])] = name
    # A client that resumes the stream of a cancelled call gets an error without an id.
    refused = log.refused_resumptions()
    for at, mark, message in log.messages:
        method = message.get("method")
        if mark == "<" and method is None:
            name = key(message.get("id"))
            if message.get("id") is None and "error" in message and refused > 0:
                refused -= 1
                continue
            if name not in asked:
                yield f"a response without a request: {json.dumps(message)}"
            elif name in answered:
                yield f"a second answer: {json.dumps(message)}"
            elif too_late(name, at):
                yield f"a response to a cancelled request: {json.dumps(message)}"
            answered[name] = at
        if mark == "<" and method == "notifications/progress":
            name = tokens.get(key(message["params"]["progressToken"]))
            if name is None:
                yield f"progress for an unknown token: {json.dumps(message)}"
            elif name in answered:
                yield f"progress after the response: {json.dumps(message)}"
            elif too_late(name, at):
                yield f"progress of a cancelled request: {json.dumps(message)}"
    yield from steps(log, tokens, answered)
    for name, (at, message) in asked.items():
        held = message["method"] == "subscriptions/listen"
        if name not in answered and name not in cancelled and name not in log.left and not held and at < eof[0] - EXIT_LIMIT:
            yield f"never answered: {json.dumps(message)}"


def steps(log, tokens, answered):
    """The progress of a call counts up by one, and up to the total, if there is one, if the call has a response."""
    last = {}
    for _, mark, message in log.messages:
        if mark == "<" and message.get("method") == "notifications/progress":
            params, shown = message["params"], json.dumps(message)
            name = tokens.get(key(params["progressToken"]))
            step, total = params["progress"], params.get("total")
            if step != last.get(name, (0, 0))[0] + 1:
                yield f"progress does not count up: {shown}"
            if "progress" in SERVER and params["message"] != SERVER["progress"].format(step=step, total=total):
                yield f"message of the progress: {shown}"
            last[name] = (step, total)
    failed = {key(m["id"]) for _, mark, m in log.messages if mark == "<" and (m.get("result") or {}).get("isError")}
    for name, (step, total) in last.items():
        if name in answered and name not in failed and total is not None and step != total:
            yield f"request {name} was answered after step {step:.0f} of {total:.0f}"


def cancels(logs):
    """At least one call was cancelled after its first progress; `answers` checks the messages after that."""
    for log in logs:
        alive, asked = set(), log.requests()
        for _, mark, message in log.messages:
            if message.get("method") == "notifications/progress":
                alive.add(key(message["params"]["progressToken"]))
            if mark == ">" and message.get("method") == "notifications/cancelled":
                _, request = asked.get(key(message["params"]["requestId"]), (0, {}))
                if request.get("method") == "tools/call" and key(meta(request).get("progressToken")) in alive:
                    return
        for name in log.left if log.modern() else ():
            _, request = asked[name]
            if request["method"] == "tools/call" and key(meta(request).get("progressToken")) in alive:
                return
    yield "no running call was cancelled"


def era(log, modern):
    """No message uses the other era, and the rules of the era are met."""
    asked = log.requests()
    watched = {}
    running = {}
    for _, mark, message in log.messages:
        method = message.get("method")
        shown = json.dumps(message)
        if mark == ">":
            if method is not None and "id" in message:
                running[key(message["id"])] = message
            if method == "subscriptions/listen":
                watched[key(message["id"])] = "waiting"
            continue
        if method is not None:
            if modern:
                yield from modern_notice(message, running.values(), watched, shown)
            elif META in shown:
                yield f"modern metadata in a legacy session: {shown}"
            continue
        running.pop(key(message.get("id")), None)
        origin = asked.get(key(message.get("id")), (0, {"method": ""}))[1]["method"]
        if "error" in message:
            yield from not_found(message["error"], origin, modern, shown)
        elif modern:
            yield from modern_result(message["result"], origin, shown)
        elif {"resultType", "ttlMs", "cacheScope"} & message["result"].keys() or META in shown:
            yield f"a modern member in a legacy session: {shown}"


def wants(request, level):
    """True if a request requested log messages of this level."""
    floor = meta(request).get(META + "logLevel")
    return floor in LEVELS and level in LEVELS and LEVELS.index(level) >= LEVELS.index(floor)


def modern_notice(message, open_requests, watched, shown):
    method, params = message["method"], message.get("params") or {}
    if "id" in message:
        yield f"a request from the server: {shown}"
    if method == "notifications/message" and not any(wants(request, params["level"]) for request in open_requests):
        yield f"a log message that no running request requested: {shown}"
    subscription = key(meta(message).get(META + "subscriptionId"))
    if method == "notifications/subscriptions/acknowledged":
        if watched.get(subscription) != "waiting":
            yield f"an acknowledgement without a listen request: {shown}"
        watched[subscription] = "open"
    elif method == "notifications/resources/updated" or method.endswith("/list_changed"):
        if watched.get(subscription) != "open":
            yield f"an update outside an acknowledged subscription: {shown}"
    elif method in ("notifications/message", "notifications/progress") and subscription != "null":
        yield f"a subscription id in a message that must not have one: {shown}"
    if method == "notifications/resources/updated" and not isinstance(params.get("uri"), str):
        yield f"an update without uri: {shown}"


def modern_result(result, origin, shown):
    kind = result.get("resultType")
    if kind not in ("complete", "input_required"):
        yield f"resultType is {kind!r}: {shown}"
    hinted = {"ttlMs", "cacheScope"} & result.keys()
    if origin in CACHED and kind == "complete":
        ttl = result.get("ttlMs")
        if type(ttl) is not int or ttl < 0 or result.get("cacheScope") not in ("public", "private"):
            yield f"cache hints are missing or wrong: {shown}"
    elif hinted:
        yield f"cache hints in a result that must not have them: {shown}"
    if kind == "input_required":
        questions = result.get("inputRequests", {})
        if len(questions) != 1 or not all(re.fullmatch(SERVER["question"], name) for name in questions):
            yield f"the question's key is not {SERVER['question']}: {shown}"
        elif any({"id", "jsonrpc"} & question.keys() for question in questions.values()):
            yield f"an inner request with JSON-RPC members: {shown}"
    if result.get("_meta", {}).get(META + "serverInfo", {}).get("name") != os.environ.get("BOARD_NAME", SERVER["name"]):
        yield f"no serverInfo: {shown}"


def not_found(error, origin, modern, shown):
    if type(error.get("code")) is not int or type(error.get("message")) is not str:
        yield f"an error without code or message: {shown}"
    elif origin == "resources/read" and error["code"] != (-32602 if modern else -32002):
        yield f"wrong error code for an unknown URI: {shown}"
    elif origin == "resources/read" and "uri" not in (error.get("data") or {}):
        yield f"the error does not name the uri: {shown}"


def exits(log):
    """The server exits by itself with code 0 at the end of its input; a probed process may get SIGTERM.

    With a call in flight it may use its grace period, and SIGTERM must end that period. Over HTTP there is no input:
    the server exits after SIGTERM, with a call in flight after its grace period.
    """
    end = log.event("exit ")
    eof, told = log.event("eof"), log.event("signal ")
    if end is None:
        yield f"{log.path.name}: no exit in the log: its client killed it, or it still runs"
        return
    if log.http:
        took, limit = (end[0] - told[0], PATIENCE if log.busy_at(told[0]) else EXIT_LIMIT) if told else (0, 0)
        if told is None:
            yield f"{log.path.name}: exit {end[1]} before SIGTERM"
        elif took > limit:
            yield f"{log.path.name}: exited {took:.1f} s after SIGTERM, later than allowed"
        elif end[1] != "0":
            yield f"{log.path.name}: exit code {end[1]}"
        return
    busy = eof is not None and log.busy_at(eof[0])
    start = min(t for t in (eof and eof[0], told and told[0], end[0]) if t is not None)
    # The clients send SIGTERM two seconds after the end of the input.
    told_early = told and told[0] < start + GRACE / 2
    limit = PATIENCE if busy and not told_early else EXIT_LIMIT
    if end[0] - start > limit:
        yield f"{log.path.name}: exited {end[0] - start:.1f} s after {'eof' if eof else 'SIGTERM'}, later than allowed"
    if log.is_probe() and told:
        return
    if eof is None:
        yield f"{log.path.name}: exit {end[1]} before its input ended"
    elif told and told[0] < end[0] and not busy:
        yield f"{log.path.name}: exited only after signal {told[1]}"
    if end[1] != "0":
        yield f"{log.path.name}: exit code {end[1]}"


def http(log, modern):
    """Status, type and headers of every response match the request and the era."""
    errors = {}
    for _, mark, message in log.messages:
        if mark == "<" and "error" in message and "id" in message:
            errors[key(message["id"])] = message["error"].get("code")
    for _, mark, text in log.records:
        if mark == "!" and text.startswith("answer "):
            answer = json.loads(text.removeprefix("answer "))
            yield from (f"{fault}: {text}" for fault in answered_well(answer, errors, modern))
        elif mark == "!" and text.startswith("field ") and modern and not text.startswith("field event message"):
            yield f"an event of this era must have data only: {text}"
        elif mark == "!" and text.startswith(("the server ", "an event stream ")):
            yield text


def answered_well(answer, errors, modern):
    status, kind, method = answer["status"], answer["type"], answer.get("method")
    if answer["gives"] and method != "initialize":
        yield "a session id in a response that must not have one"
    if answer["http"] == "POST" and method is not None and "id" in answer:
        expected = 200
        if modern and kind == "application/json":
            expected = STATUS.get(errors.get(key(answer["id"])), 200)
        if status != expected:
            yield f"status {status} instead of {expected}"
        if kind not in ("application/json", "text/event-stream"):
            yield "the type is neither JSON nor an event stream"
        if method == "initialize" and not answer["gives"]:
            yield "no session id"
        if modern and method != "subscriptions/listen" and kind == "text/event-stream" and method != "tools/call":
            yield "an event stream for a request without messages before its response"
    elif answer["http"] == "POST":
        if status != 202 or kind:
            yield "the response to a notification or a response must be 202 without a body"
    elif answer["http"] == "GET" and answer.get("resumes") and status == 410:
        # The stream of a cancelled call ended without a response, so the client resumes it without success.
        pass
    elif answer["http"] == "GET":
        if status != 405 if modern else (status, kind) != (200, "text/event-stream"):
            yield "wrong status or type of the response to GET"
    elif not 200 <= status < 300:
        yield "the session was not ended"
    if kind == "text/event-stream" and (answer["cache"] != "no-cache" or answer["buffering"] != "no"):
        yield "the fields that prevent buffering by intermediaries are missing"


def settled(folder):
    """Returns all logs of the session, after the exit of all servers."""
    deadline = time.monotonic() + PATIENCE
    while True:
        logs = [Log(path) for path in sorted(folder.glob("wire-*.log"))]
        if all(log.event("exit ") for log in logs) or time.monotonic() > deadline:
            return logs
        time.sleep(0.05)


def report(session, name, faults):
    """Prints one check with all its faults, one line each."""
    faults = list(faults)
    if not faults:
        print(f"ok {session}/{name}")
        return
    print(f"FAIL {session}/{name}: {faults[0]}")
    for fault in faults[1:20]:
        print(f"    {fault}")


def main():
    session, folder = sys.argv[2], Path(sys.argv[3])
    modern = not session.endswith("/legacy")
    logs = settled(folder)
    if not any(log.messages for log in logs):
        for name in ["wire-lines", "wire-answers", "wire-cancel", "wire-era", "exit"]:
            report(session, name, ["no wire log"])
        return
    talks = [log for log in logs if not log.is_probe() and log.requests()]
    report(session, "wire-lines", (fault for log in logs for fault in lines(log)))
    report(session, "wire-answers", (fault for log in talks for fault in answers(log)))
    report(session, "wire-cancel", cancels(talks))
    report(session, "wire-era", (fault for log in talks for fault in era(log, modern)))
    if logs[0].http:
        report(session, "wire-http", (fault for log in logs for fault in http(log, modern)))
    report(session, "exit", (fault for log in logs for fault in exits(log)))


main()
