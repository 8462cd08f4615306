"""Serves the host page and forwards posts to the server under test.

    serve.py HOST_PAGE SERVER_URL

Prints its own URL. The page and the server have one origin for the browser, so no CORS is needed.
"""

import http.server
import pathlib
import sys
import urllib.request

page, server = pathlib.Path(sys.argv[1]).read_bytes(), sys.argv[2]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, "text/html; charset=utf-8", page)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        passed = ("Content-Type", "Accept", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")
        headers = {name: self.headers[name] for name in passed if self.headers[name]}
        request = urllib.request.Request(server, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                self.answer(response.status, response.headers["Content-Type"], response.read())
        except urllib.error.HTTPError as error:
            self.answer(error.code, error.headers["Content-Type"], error.read())

    def answer(self, status, media, body):
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{listener.server_port}/", flush=True)
listener.serve_forever()
