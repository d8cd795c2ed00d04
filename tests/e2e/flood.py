"""Clients without a token that want all of the server: its memory, its connections, its workers."""
import json
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import ROOT, YardTest, main, wait_until

FLOOD = ROOT / "tests" / "support" / "flood.py"
CONNECTIONS = 300
SECONDS = 4


class Flood(YardTest):
    def setUp(self):
        super().setUp()
        self.ok("server", "start")
        self.port = int(self.server()["url"].rsplit(":", 1)[1])

    def memory(self, pid):
        """The most that a process ever had, in MB."""
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def talk(self, text):
        """Bytes over TCP -> the first line of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(text)
            return connection.makefile("rb").readline().decode()

    def test_bodies_without_a_token_cost_no_memory_and_hold_nobody_up(self):
        pid = self.server_pid()
        generator = subprocess.Popen([sys.executable, FLOOD, str(self.port), str(CONNECTIONS), str(SECONDS)],
                                     stdout=subprocess.PIPE, text=True)
        self.addCleanup(generator.stdout.close)
        self.addCleanup(generator.kill)
        times = []
        while generator.poll() is None:
            start = time.monotonic()
            self.submit("--", "true")
            times.append(time.monotonic() - start)
        told = json.loads(generator.stdout.read())
        self.assertGreater(told["answers"].get("401", 0), 0, told)
        self.assertLessEqual(set(told["answers"]), {"401", "405", "413", "503", "none"}, told)
        self.assertLess(self.memory(pid), 128)
        # A loaded machine makes it slow; a server without reserved workers makes it minutes.
        self.assertLess(max(times), 10)
        self.assertEqual(self.server_pid(), pid)

    def test_a_body_is_not_asked_for_before_the_token_was_looked_at(self):
        head = (f"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Length: 100000\r\n"
                "Expect: 100-continue\r\n")
        self.assertEqual(self.talk(f"{head}\r\n".encode()).split()[1], "401")
        token = self.json("server", "status", "--show-token")["token"]
        self.assertEqual(self.talk(f"{head}Authorization: Bearer {token}\r\n\r\n".encode()).split()[1], "100")

    def test_a_second_host_is_refused(self):
        host = f"Host: 127.0.0.1:{self.port}\r\n"
        self.assertEqual(self.talk(f"GET /health HTTP/1.1\r\n{host}\r\n".encode()).split()[1], "200")
        for more in (host, "Host: evil.example\r\n"):
            self.assertEqual(self.talk(f"GET /health HTTP/1.1\r\n{host}{more}\r\n".encode()).split()[1], "400")

    def test_one_address_has_its_share_of_connections(self):
        self.ok("server", "stop")
        self.ok("server", "start", "--connections-per-address", "4")
        self.port = int(self.server()["url"].rsplit(":", 1)[1])
        kept = [socket.create_connection(("127.0.0.1", self.port), timeout=20) for _ in range(4)]
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as fifth:
            self.assertEqual(fifth.recv(1), b"")
        self.ok("run", "list")
        for connection in kept:
            connection.close()
        def answers():
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=20).status == 200
            except OSError:
                return False
        wait_until(answers, "a connection to be free again")


if __name__ == "__main__":
    main()
