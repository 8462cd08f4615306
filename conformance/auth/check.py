"""Checks of auth.sh: the command line signs in at server.py and calls token_server. Usage: check.py PROGRAMS"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from ports import reserve, wait_for  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(__file__).parent
#: Longer than anything takes on a loaded machine.
PATIENCE = 60
counts = {True: 0, False: 0}


def check(name, good, detail=""):
    counts[bool(good)] += 1
    print("ok  " if good else "FAIL", name, "" if good else detail)


def fetch(url):
    """Gets a page; the address after redirects, and the body."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:
        return response.geturl(), response.read().decode()


class Redirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def location(url):
    """The address that a page redirects to."""
    try:
        urllib.request.build_opener(Redirect).open(url, timeout=PATIENCE)
    except urllib.error.HTTPError as response:
        return response.headers["Location"]
    sys.exit(f"no redirect: {url}")


class Program:
    """The program tinymcp of one user."""

    def __init__(self, folder):
        browser = folder / "browser"
        browser.write_text('#!/bin/sh\nexec curl -sL -o /dev/null "$1"\n')
        browser.chmod(0o755)
        self.environment = {**os.environ, "XDG_CONFIG_HOME": str(folder), "BROWSER": str(browser)}

    def start(self, *words):
        return subprocess.Popen(
            [PROGRAMS / "tinymcp", *words], env=self.environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )

    def run(self, *words):
        child = self.start(*words)
        out, err = child.communicate(timeout=PATIENCE)
        return child.returncode, out.strip(), err.strip()

    def call(self, url, *more):
        return self.run("call", "who", "--text", "--url", url, *more)


def read_until(stream, pattern):
    """Reads lines until one matches."""
    for line in stream:
        if found := re.search(pattern, line):
            return found[0]
    sys.exit(f"no line with {pattern}")


def sign_in(program, url, issuer):
    code, _, err = program.run("login", url)
    check("login by a browser", code == 0 and f"at {issuer}" in err, err)
    code, out, err = program.call(url)
    check("a call with the token", (code, out) == (0, "alice [read]"), err)

    child = program.start("login", url, "--paste")
    page = read_until(child.stderr, r"http://\S+")
    _, err = child.communicate(location(page) + "\n", timeout=PATIENCE)
    check("login by a pasted address", child.returncode == 0, err)

    child = program.start("login", url, "--device")
    user_code = read_until(child.stderr, r"(?<=enter the code )\S+").rstrip(",")
    fetch(f"{issuer}/device?user_code={urllib.parse.quote(user_code)}")
    _, err = child.communicate(timeout=PATIENCE)
    check("login by a device code", child.returncode == 0, err)
    code, out, err = program.call(url)
    check("a call with the token of the device", (code, out) == (0, "alice [read]"), err)
    code, out, _ = program.run("auth", "list", "--text")
    check("the list of sign-ins", code == 0 and url in out and issuer in out, out)


def renew(program, url, issuer):
    fetch(f"{issuer}/control/lifetime/1")
    check("login for a short token", program.run("login", url)[0] == 0)
    tokens = pathlib.Path(program.environment["XDG_CONFIG_HOME"], "tinymcp", "tokens.json")
    before = tokens.read_text()
    time.sleep(2)
    fetch(f"{issuer}/control/lifetime/600")
    code, out, err = program.call(url)
    check("an expired token is renewed", (code, out) == (0, "alice [read]") and tokens.read_text() != before, err)
    code, _, err = program.call(url)
    check("a call after the renewal", code == 0, err)


def sign_out(program, url):
    code, _, err = program.run("logout", url)
    check("logout", code == 0 and "signed out" in err, err)
    code, _, err = program.call(url)
    check("a call after logout needs a sign-in", code == 3 and "tinymcp login" in err, err)


def without_user(program, url, issuer):
    """Signs in as a client with a secret, and with keys."""
    folder = pathlib.Path(program.environment["XDG_CONFIG_HOME"])
    secret = folder / "secret"
    secret.write_text("sensor-secret\n")
    options = {"a secret": ["--client-id", "sensor", "--client-secret-file", secret]}
    for name, generate in [
        ("P-256", ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
        ("Ed25519", ["-algorithm", "ed25519"]),
    ]:
        file = folder / f"{name}.pem"
        subprocess.run(["openssl", "genpkey", *generate, "-out", file], check=True, capture_output=True)
        public = subprocess.run(["openssl", "pkey", "-in", file, "-pubout"], check=True, capture_output=True).stdout
        urllib.request.urlopen(f"{issuer}/control/client/{name}", public, timeout=PATIENCE).read()
        options[f"a key of {name}"] = ["--client-id", name, "--client-key", file]
    for kind, client in options.items():
        fetch(f"{issuer}/control/lifetime/1")
        code, _, err = program.run("login", url, "--client-credentials", *client, "--issuer", issuer)
        check(f"login of a client with {kind}", code == 0, err)
        time.sleep(2)
        fetch(f"{issuer}/control/lifetime/600")
        for name in ("an expired token is replaced", "a call with the new token"):
            code, out, err = program.call(url)
            check(f"{name}, by {kind}", (code, out) == (0, f"{client[1]} [read]"), f"{out} {err}")
    secret.write_text("wrong")
    code, _, err = program.run("login", url, "--client-credentials", *options["a secret"])
    check("login with a wrong secret", code == 1 and "invalid_client" in err and "wrong" not in err, f"{code} {err}")


def forge(program, url, issuer):
    for kind, expected in [("good", 0), ("audience", 3), ("expired", 3), ("issuer", 3)]:
        code, _, err = program.call(url, "--bearer", forged(kind, url, issuer))
        check(f"a token with: {kind}", code == expected, f"{code} {err}")


def forged(kind, url, issuer):
    return fetch(f"{issuer}/control/forge?kind={kind}&resource={urllib.parse.quote(url)}")[1]


def main():
    port = reserve()
    issuer = f"http://127.0.0.1:{port}"
    log = tempfile.TemporaryFile()
    running = [subprocess.Popen([sys.executable, HERE / "server.py", str(port)], stdout=log, stderr=log)]
    urls = {}
    try:
        for way in ("jwt", "introspection"):
            own = reserve()
            words = [PROGRAMS / "examples" / "token_server", way, f"127.0.0.1:{own}", issuer]
            running.append(subprocess.Popen(words, stdout=log, stderr=log))
            urls[way] = f"http://127.0.0.1:{own}/mcp"
            wait_for(own, running[-1])
        wait_for(port, running[0])
        for way, url in urls.items():
            print(f"== {way}")
            with tempfile.TemporaryDirectory() as folder:
                program = Program(pathlib.Path(folder))
                sign_in(program, url, issuer)
                code, _, err = program.run("call", "open", "--url", url)
                check("a tool that needs more scopes is rejected", code != 0 and "scope" in err, f"{code} {err}")
                renew(program, url, issuer)
                forge(program, url, issuer)
                sign_out(program, url)
                without_user(program, url, issuer)
        rotate_and_revoke(urls, issuer)
        running[0].terminate()
        running[0].wait()
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = Program(pathlib.Path(folder)).call(urls["introspection"], "--bearer", "unknown")
            check("without the authorization server: 503", code == 4 and "503" in err, f"{code} {err}")
    finally:
        for child in running:
            child.kill()
    print(f"{counts[True]} passed, {counts[False]} failed")
    sys.exit(bool(counts[False]))


def rotate_and_revoke(urls, issuer):
    print("== keys and revocation")
    url = urls["jwt"]
    with tempfile.TemporaryDirectory() as folder:
        program = Program(pathlib.Path(folder))
        for kind in ("none", "key"):
            code, _, err = program.call(url, "--bearer", forged(kind, url, issuer))
            check(f"a token with another signature: {kind}", code == 3, f"{code} {err}")
        # The server requests unknown keys at most once in 10 s.
        time.sleep(10)
        fetch(f"{issuer}/control/rotate")
        code, out, err = program.call(url, "--bearer", forged("good", url, issuer))
        check("a token of a new key", (code, out) == (0, "alice [read]"), f"{code} {err}")

        url = urls["introspection"]
        token = forged("good", url, issuer)
        check("a token before its revocation", program.call(url, "--bearer", token)[0] == 0)
        form = urllib.parse.urlencode(
            {"token": token, "client_id": "resource", "client_secret": "resource-secret"}).encode()
        request = urllib.request.Request(f"{issuer}/revoke", form)
        request.add_header("Authorization", "Basic cmVzb3VyY2U6cmVzb3VyY2Utc2VjcmV0")
        urllib.request.urlopen(request, timeout=PATIENCE).read()
        time.sleep(2)
        code, _, err = program.call(url, "--bearer", token)
        check("a revoked token", code == 3, f"{code} {err}")


main()
