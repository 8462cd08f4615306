"""Addresses of the servers that checks start. No port is chosen before it is bound.

Our programs listen on port 0 and print their address, which `printed_port` reads. Other programs need a number: `reserve`
binds a port and keeps it bound, but does not listen. All servers here set SO_REUSEADDR, so Linux lets them listen on this
port. It does not give a bound port to programs that bind port 0, nor to outgoing connections. Connections are refused
until the server listens.

Used as `python3 ports.py reserve N`, which prints N reserved ports and reserves them until its input ends, and as
`python3 ports.py wait PORT`, which waits until a server listens.
"""

import re
import socket
import sys
import time

# Seconds until a server listens.
PATIENCE = 60
ADDRESS = re.compile(r"http://[^ /]*:([0-9]+)/")
# The sockets of reserved ports. They stay open until this program ends, so servers can be started again.
reserved = []


def reserve():
    """A port for one server that needs a number, or for an address where no server listens."""
    holder = socket.socket()
    reserved.append(holder)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder.getsockname()[1]


def printed_port(read, child):
    """Waits until our program has printed its address; `read` returns the text that it printed so far."""
    return int(until(lambda: ADDRESS.search(read()), child, read)[1])


def wait_for(port, child=None):
    """Waits until a server listens on a reserved port."""
    until(lambda: accepts(port), child)


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except ConnectionRefusedError:
        return False


def until(condition, child, read=str):
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        if child and child.poll() is not None:
            raise RuntimeError(f"the server ended with {child.returncode}: {read()}")
        if time.monotonic() > end:
            raise RuntimeError(f"the server does not listen: {read()}")
        time.sleep(0.02)
    return value


if __name__ == "__main__":
    word, number = sys.argv[1], int(sys.argv[2])
    if word == "wait":
        wait_for(number)
    else:
        print(*(reserve() for _ in range(number)), flush=True)
        sys.stdin.read()
