"""Starts a server with its listening socket already open, as systemd does.

Used as `python3 activate.py PORT COMMAND ARGS…`: listens on 127.0.0.1:PORT, hands the socket over as descriptor 3
and becomes the command.
"""

import os
import socket
import sys

door = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
if door.fileno() != 3:
    os.dup2(door.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execvp(sys.argv[2], sys.argv[2:])
