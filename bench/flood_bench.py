"""The server under a flood: connections without a token that send 64 MB bodies."""
import json
import pathlib
import subprocess
import sys
import time

FLOOD = pathlib.Path(__file__).resolve().parent.parent / "tests" / "support" / "flood.py"
CONNECTIONS = 1000
SECONDS = 20
MEMORY_MAX = 128 << 20
SUBMIT_S_MAX = 1.0


def flood(scratch):
    from bench import Home, memory_peak, row
    with Home(scratch, "flood") as home:
        pid = home.server_pid()
        port = int(home.json("server", "status")["url"].rsplit(":", 1)[1])
        home.run("submit", "--async", "-e", "flood", "--", "true")  # All that is read once, has been.
        generator = subprocess.Popen([sys.executable, FLOOD, str(port), str(CONNECTIONS), str(SECONDS)],
                                     stdout=subprocess.PIPE, text=True)
        times = []
        while generator.poll() is None:
            start = time.monotonic()
            home.run("submit", "--async", "-e", "flood", "--", "true")
            times.append(time.monotonic() - start)
            time.sleep(0.2)
        told = json.loads(generator.stdout.read())
        peak = memory_peak(pid)
        sent = f"{told['connected']} connections, {told['sent'] / 2**30:.1f} GB sent"
        yield row("server's memory: 1,000 connections without token send 64 MB each", f"{peak / 2**20:.0f} MB",
                  sent, None, "<= 128 MB", peak <= MEMORY_MAX)
        yield row("  submit over the socket then, longest", f"{max(times):.2f} s", f"{len(times)} times", None,
                  "<= 1 s", max(times) <= SUBMIT_S_MAX)
