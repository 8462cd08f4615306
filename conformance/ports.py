"""Free ports for servers that cannot choose one themselves.

Used as `python3 ports.py N`, which prints N of them, and by `from ports import free_port`.

The system gives ports from 32768 on to outgoing connections and to everybody who asks for any port. One of these may be
in use again before the server binds it, when many programs run. So these are taken from below, at random.
"""

import random
import socket
import sys

PORTS = range(20_000, 32_768)


def free_port():
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


if __name__ == "__main__":
    print(*(free_port() for _ in range(int(sys.argv[1]))))
