"""How programs of others, an admin's --node-up and --node-down, start and stop a lab's nodes."""
import concurrent.futures
import contextlib
import os
import socket
import sys
import threading
import time


class Control:
    """Where the node programs, which are processes of somebody else, reach the lab."""

    def __init__(self, lab):
        self.lab = lab
        # A child that is to end with us ends with the thread that started it: so there is one for all.
        self.starter = concurrent.futures.ThreadPoolExecutor(1)
        self.listener = socket.socket(socket.AF_UNIX)
        path = lab.folder / "control"
        self.listener.bind(str(path))
        path.chmod(0o666)
        self.listener.listen(64)
        python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        for word in ("up", "down"):
            script = lab.folder / "bin" / f"node-{word}"
            script.write_text(f"#!{python} -SE\n" + NODE_PROGRAM.format(path=str(path), word=word))
            script.chmod(0o755)
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def end(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)
        self.starter.shutdown()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                threading.Thread(target=self.answer, args=(peer,), daemon=True).start()

    def answer(self, peer):
        with peer, contextlib.suppress(OSError):
            word, name = peer.recv(4096).decode().split()
            self.lab.booted.append((word, name))
            try:
                if word == "up":
                    time.sleep(self.lab.boot_s)
                    if name in self.lab.boot_fails:
                        raise AssertionError(f"no machine for {name}")
                    self.starter.submit(self.lab.start_nodes, [name], False).result()
                else:
                    self.lab.kill_node(name)
                peer.sendall(b"ok")
            except (AssertionError, RuntimeError) as error:
                peer.sendall(str(error).encode())


NODE_PROGRAM = """import socket, sys
lab = socket.socket(socket.AF_UNIX)
lab.connect({path!r})
lab.sendall(("{word} " + sys.argv[1]).encode())
said = lab.recv(65536).decode()
sys.exit(0 if said == "ok" else said)
"""
