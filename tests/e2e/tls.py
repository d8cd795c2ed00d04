"""TLS: a server with a certificate, and clients that believe it or do not."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main

FOLLOWERS = 50


class Tls(YardTest):
    def setUp(self):
        super().setUp()
        self.keys = self.scratch / "keys"
        self.keys.mkdir()
        self.ca = self.authority("ca")

    # ---- certificates, as an admin makes them ----

    def openssl(self, *args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)

    def authority(self, name):
        """A self-made authority: NAME.crt and NAME.key."""
        crt = self.keys / f"{name}.crt"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-days", 10, "-subj", f"/CN={name}", "-keyout", crt.with_suffix(".key"), "-out", crt)
        return crt

    def certificate(self, name, ca=None, hosts="DNS:localhost,IP:127.0.0.1", days=5):
        """A server's certificate by an authority; `days` below 0 makes one that has expired."""
        ca = ca or self.ca
        crt, key, csr = (self.keys / f"{name}.{kind}" for kind in ("crt", "key", "csr"))
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-subj", f"/CN={name}", "-keyout", key, "-out", csr)
        extensions = self.keys / "ext"
        extensions.write_text(f"subjectAltName={hosts}\n")
        fresh = self.keys / f"{name}.fresh"
        self.openssl("x509", "-req", "-in", csr, "-CA", ca, "-CAkey", ca.with_suffix(".key"),
                     "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", fresh)
        fresh.rename(crt)
        key.chmod(0o600)
        return crt, key

    def start_server(self, crt, key, *more):
        done = self.run_cli("server", "start", "--tls-cert", crt, "--tls-key", key, *more)
        self.assertEqual(done.code, 0, done)
        self.url = self.server()["url"]
        self.port = int(self.url.rsplit(":", 1)[1])
        self.token = self.json("server", "status", "--show-token")["token"]
        return done

    def elsewhere(self, url=None, ca=None):
        """The environment of a client with a home of its own."""
        return {"TRAINYARD_HOME": str(self.scratch / "second"), "TRAINYARD_SERVER": url or self.url,
                "TRAINYARD_TOKEN": self.token, "TRAINYARD_CA_FILE": str(ca or self.ca)}

    # ---- it works ----

    def test_a_run_is_submitted_followed_and_fetched_over_https(self):
        self.start_server(*self.certificate("server"))
        self.assertTrue(self.url.startswith("https://127.0.0.1:"), self.url)
        env = self.elsewhere()
        self.write("a.txt", "over https\n")
        self.write("big.bin", "0123456789abcdef" * 300000)
        done = self.run_cli("submit", "-e", "t", "--", "sh", "-c",
                            "cat a.txt; echo $TRAINYARD_SERVER; cp big.bin outputs/", env=env)
        self.assertEqual((done.code, done.out), (0, f"over https\n{self.url}\n"), done)
        run = self.json("run", "list", env=env)[0]["id"]
        self.ok("run", "download", run, "-d", self.scratch / "got", env=env)
        fetched = next((self.scratch / "got").rglob("big.bin"))
        self.assertEqual(fetched.read_bytes(), (self.code / "big.bin").read_bytes())
        # On the server's own machine nobody needs the certificate.
        self.assertEqual(self.console(run), done.out)
        self.assertFalse((self.scratch / "second" / "socket").exists())

    def test_a_follower_sees_lines_as_they_come(self):
        self.start_server(*self.certificate("server"))
        gate = self.scratch / "gate"
        os.mkfifo(gate)
        here = self.env
        self.env = dict(here, **self.elsewhere())
        child = self.start("submit", "-e", "t", "--", "sh", "-c", f"echo first; cat {gate}; echo last")
        self.env = here
        self.assertEqual(child.stdout.readline(), "first\n")
        self.assertIsNone(child.poll())
        with open(gate, "w") as file:
            file.write("middle\n")
        self.assertEqual(child.stdout.read(), "middle\nlast\n")
        self.assertEqual(child.wait(timeout=30), 0)

    def test_fifty_followers_see_every_line(self):
        self.start_server(*self.certificate("server"))
        gate = self.scratch / "gate"
        os.mkfifo(gate)
        run = self.submit("--", "sh", "-c", f"echo begin; cat {gate}; seq 1 2000")
        self.wait_for_status(run, "Running")
        context = ssl.create_default_context(cafile=self.ca)
        began = threading.Barrier(FOLLOWERS + 1)
        seen = [b""] * FOLLOWERS

        def follow(i):
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
            path = f"/api/v1/runs/{run}/files/user_logs/std_log.txt"
            final = False
            while not final:
                connection.request("GET", f"{path}?from={len(seen[i])}&wait=30",
                                   headers={"Authorization": f"Bearer {self.token}"})
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    break
                if not seen[i]:
                    began.wait(60)
                seen[i] += body
                final = answer.headers["x-final"] == "1" and not body
            connection.close()

        threads = [threading.Thread(target=follow, args=(i,)) for i in range(FOLLOWERS)]
        for thread in threads:
            thread.start()
        began.wait(60)
        with open(gate, "w") as file:
            file.write("go\n")
        for thread in threads:
            thread.join(60)
        expected = ("begin\ngo\n" + "".join(f"{n}\n" for n in range(1, 2001))).encode()
        self.assertEqual([i for i in range(FOLLOWERS) if seen[i] != expected], [])

    def test_curl_works(self):
        if not shutil.which("curl"):
            self.skipTest("no curl here")
        self.start_server(*self.certificate("server"))
        def curl(*args):
            return subprocess.run(["curl", "-sS", "--max-time", "20", *args], capture_output=True, text=True)
        self.assertNotEqual(curl(f"{self.url}/health").returncode, 0)
        told = curl("--cacert", self.ca, f"{self.url}/health")
        self.assertEqual(json.loads(told.stdout)["status"], "ok", told)
        listed = curl("--cacert", self.ca, "-H", f"Authorization: Bearer {self.token}", f"{self.url}/api/v1/runs")
        self.assertEqual(json.loads(listed.stdout)["items"], [], listed)
        old = curl("--cacert", self.ca, "--tlsv1.0", "--tls-max", "1.1", f"{self.url}/health")
        self.assertNotEqual(old.returncode, 0, old)

    # ---- whom a client does not believe ----

    def test_an_unknown_authority_is_refused_with_what_to_set(self):
        self.start_server(*self.certificate("server"))
        err = self.refused(3, "run", "list", env=self.elsewhere(ca=self.authority("another")))
        self.assertIn("unknown authority", err)
        self.assertIn("TRAINYARD_CA_FILE", err)
        without = self.elsewhere()
        del without["TRAINYARD_CA_FILE"]
        self.assertIn("unknown authority", self.refused(3, "run", "list", env=without))
        without["SSL_CERT_FILE"] = str(self.ca)
        self.ok("run", "list", env=without)
        missing = self.refused(2, "run", "list", env=self.elsewhere(ca=self.keys / "none.crt"))
        self.assertIn("none.crt", missing)

    def test_a_wrong_host_is_refused_with_the_right_ones(self):
        self.start_server(*self.certificate("server", hosts="DNS:localhost,DNS:lab.example"))
        err = self.refused(3, "run", "list", env=self.elsewhere())
        self.assertIn("localhost, lab.example", err)
        self.assertIn("not for 127.0.0.1", err)
        self.ok("run", "list", env=self.elsewhere(f"https://localhost:{self.port}"))

    def test_an_expired_certificate_is_refused(self):
        crt, key = self.certificate("server", days=-1)
        err = self.refused(2, "server", "start", "--tls-cert", crt, "--tls-key", key)
        self.assertIn(str(crt), err)
        self.assertIn("expired", err)
        # And by the client, where a server shows one all the same.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(crt, key)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def serve():
                with contextlib.suppress(OSError):
                    peer, _ = listener.accept()
                    with context.wrap_socket(peer, server_side=True):
                        pass
            thread = threading.Thread(target=serve)
            thread.start()
            self.token = "tyu_x"
            err = self.refused(3, "run", "list",
                               env=self.elsewhere(f"https://127.0.0.1:{listener.getsockname()[1]}"))
            thread.join(20)
        self.assertIn("has expired", err)

    def test_http_and_https_are_told_apart(self):
        self.start_server(*self.certificate("server"))
        err = self.refused(2, "run", "list", env=self.elsewhere(f"http://127.0.0.1:{self.port}"))
        self.assertIn("TLS", err)
        self.assertIn("https://", err)
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while piece := plain.recv(4096):
                answer += piece
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as noise:
            noise.sendall(b"\0\1\2\3")
            with contextlib.suppress(ConnectionResetError):  # It left without reading it.
                self.assertEqual(noise.recv(100), b"")
        self.ok("server", "stop")
        self.ok("server", "start", "--listen", "127.0.0.1")  # By that the kept certificate is given up.
        url = self.server()["url"]
        self.assertTrue(url.startswith("http://"), url)
        err = self.refused(6, "run", "list", env=self.elsewhere(url.replace("http:", "https:")))
        self.assertIn("does not speak TLS", err)

    # ---- the server's side ----

    def test_a_renewed_certificate_needs_no_restart(self):
        self.start_server(*self.certificate("server"))
        pid = self.server_pid()
        new_ca = self.authority("new")
        self.ok("run", "list", env=self.elsewhere())
        self.assertIn("unknown authority", self.refused(3, "run", "list", env=self.elsewhere(ca=new_ca)))
        self.certificate("server", ca=new_ca)
        self.ok("run", "list", env=self.elsewhere(ca=new_ca))
        self.refused(3, "run", "list", env=self.elsewhere())
        (self.keys / "server.crt").write_text("half a certif")
        self.ok("run", "list", env=self.elsewhere(ca=new_ca))
        log = (self.home / "log" / "server.log").read_text()
        self.assertIn("certificate renewed", log)
        self.assertIn("certificate not renewed", log)
        self.assertEqual(self.server_pid(), pid)

    def test_what_is_wrong_with_the_files_is_said_at_the_start(self):
        crt, key = self.certificate("server")
        other, other_key = self.certificate("other")
        text = self.keys / "text"
        text.write_text("hello")
        for args, named in ((("--tls-cert", crt), "--tls-key"),
                            (("--tls-key", key), "--tls-cert"),
                            (("--tls-cert", self.keys / "none", "--tls-key", key), self.keys / "none"),
                            (("--tls-cert", crt, "--tls-key", self.keys / "none"), self.keys / "none"),
                            (("--tls-cert", crt, "--tls-key", other_key), other_key),
                            (("--tls-cert", text, "--tls-key", key), text),
                            (("--tls-cert", crt, "--tls-key", text), text),
                            (("--tls-cert", "", "--tls-key", ""), "")):
            for how in "start", "run":
                with self.subTest(args=args, how=how):
                    err = self.refused(2, "server", how, *args)
                    self.assertIn(str(named), err)
        self.assertEqual(self.run_cli("server", "status").code, 6)

    def test_a_key_that_others_may_read_is_warned_of(self):
        crt, key = self.certificate("server")
        key.chmod(0o644)
        done = self.start_server(crt, key)
        self.assertIn("warning:", done.err)
        self.assertIn(str(key), done.err)

    def test_beyond_loopback_a_certificate_is_needed(self):
        err = self.refused(3, "server", "start", "--listen", "0.0.0.0:0")
        self.assertIn("--tls-cert", err)
        crt, key = self.certificate("server")
        # Relative to where one is.
        shutil.copy(crt, self.code / "lab.crt")
        shutil.copy(key, self.code / "lab.key")
        done = self.start_server("lab.crt", "lab.key", "--listen", "0.0.0.0:0")
        self.assertIn("not for " + socket.gethostname(), done.err)
        port = self.server()["url"].rsplit(":", 1)[1]
        self.ok("run", "list", env=self.elsewhere(f"https://localhost:{port}"))

    def test_ctrl_c_ends_a_command_in_its_handshake(self):
        with socket.create_server(("127.0.0.1", 0)) as mute:
            self.token = "tyu_x"
            self.env.update(self.elsewhere(f"https://127.0.0.1:{mute.getsockname()[1]}"))
            child = self.start("run", "list")
            peer, _ = mute.accept()
            with peer:
                self.assertTrue(peer.recv(1))
                child.send_signal(signal.SIGINT)
                self.assertNotEqual(child.wait(timeout=20), 0)


if __name__ == "__main__":
    if not shutil.which("openssl"):
        print("no openssl here to make certificates with")
        sys.exit(77)
    main()
