"""Connections without a token that send large bodies, as many and as fast as the server takes them.

    flood.py PORT CONNECTIONS SECONDS    prints {"sent": bytes, "connected": times, "answers": {status: times}}
"""
import collections
import contextlib
import json
import os
import selectors
import socket
import sys
import time

BODY = 64 << 20  # The largest body that a route takes into memory.
PATHS = ("/api/v1/blobs/missing", "/api/v1/runs", "/api/v1/blobs", "/health")
PIECE = bytes(64 << 10)


class Connection:
    """One socket that sends a body until it is closed."""

    def __init__(self, port, number):
        self.answer = b""
        path = PATHS[number % len(PATHS)]
        self.waiting = (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                        f"Content-Length: {BODY}\r\n\r\n").encode()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.socket.connect(("127.0.0.1", port))

    def send(self):
        sent = self.socket.send(self.waiting or PIECE)
        self.waiting = self.waiting[sent:]
        return sent

    def receive(self):
        """False once the server has closed it."""
        piece = self.socket.recv(4096)
        self.answer += piece[:16 - len(self.answer)]
        return bool(piece)


def flood(port, connections, seconds):
    all_sent, connected, answers = 0, 0, collections.Counter()
    selector = selectors.DefaultSelector()

    def connect():
        nonlocal connected
        connection = Connection(port, connected)
        connected += 1
        selector.register(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)

    for _ in range(connections):
        connect()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, events in selector.select(0.1):
            connection = key.data
            try:
                open_still = True
                if events & selectors.EVENT_READ:
                    first = not connection.answer
                    open_still = connection.receive()
                    if first:  # It goes on sending, as one who does not care would.
                        answers[connection.answer[9:12].decode() or "none"] += 1
                if events & selectors.EVENT_WRITE and open_still:
                    all_sent += connection.send()
            except BlockingIOError:
                pass
            except OSError:
                open_still = False
            if not open_still:
                selector.unregister(connection.socket)
                connection.socket.close()
                connect()
    return {"sent": all_sent, "connected": connected, "answers": answers}


if __name__ == "__main__":
    os.nice(19)
    print(json.dumps(flood(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))))
