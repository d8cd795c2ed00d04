"""A server of Trainyard's API in memory, for tests of the Python package: as little as they need."""
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import socket
import socketserver
import struct
import sys
import threading
import unittest
from urllib.parse import parse_qsl, unquote, urlsplit

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "python"
sys.path.insert(0, str(PACKAGE))

TOKEN = "secret-token"


class Refusal(Exception):
    def __init__(self, status, kind, message):
        super().__init__(message)
        self.status, self.kind = status, kind


class Yard:
    """What the server knows. `asked` lists every request as "METHOD /path"."""

    def __init__(self):
        self.lock = threading.RLock()
        self.runs = {}
        self.blobs = {}
        self.records = {}  # Run -> lines.
        self.outputs = {}  # (run, path) -> bytes.
        self.console = {}  # Run -> [(kind, rank, bytes)].
        self.workspaces = {"default": {"name": "default"}}
        self.asked = []
        self.series = {}  # (run, name) -> (kind, [values]).
        self.streams = {}
        self.page = None  # A smaller page than was asked for.
        self.drop = 0  # So many requests are cut off without an answer.
        self.lose = 0  # So many requests are done, and their answers lost.
        self.taken = {}  # (run, stream) -> bytes.
        self.files = {}  # (run, path) -> (kind, bytes).
        self.environments = {}  # Name -> its versions.
        self.read = []  # What was to be read of environments' files.

    def add_run(self, run_id, **more):
        run = {"id": run_id, "runId": run_id, "name": run_id, "experiment": "exp", "status": "Completed",
               "workspace": "default", "createdAt": "2025-01-01T00:00:00Z", "tags": {}, "properties": {},
               "command": ["python3", "train.py", "--epochs", "5"], "studioUrl": f"http://x/runs/{run_id}",
               "version": 1, "parentId": None, "exitCode": 0, "error": None, "interactive": False,
               "number": len(self.runs) + 1, **more}
        self.runs[run_id] = run
        return run

    # ---- routes: (method, path, query, body) -> (status, bytes or JSON, headers) ----

    def answer(self, method, path, query, body):
        parts = [unquote(part) for part in path.split("/")[1:]]
        if parts[:2] == ["runs", parts[1] if len(parts) > 1 else None] and len(parts) >= 2:
            return self.about_run(method, parts[1], parts[2:], query, body)
        name = f"{method} {'/'.join(parts)}"
        if name == "POST runs":
            return self.submit(json.loads(body))
        if name == "GET runs":
            return self.listed(sorted((run for run in self.runs.values() if self.fits(run, query)),
                                      key=lambda run: -run["number"]), query)
        if name == "POST blobs/missing":
            return 200, {"missing": [d for d in json.loads(body)["digests"] if d not in self.blobs]}
        if name == "POST blobs":
            return self.take_pack(body)
        if parts[0] == "blobs":
            return 200, self.blobs[parts[1]]
        if name == "GET workspaces":
            return self.listed(list(self.workspaces.values()), query)
        if name == "POST workspaces":
            return self.make_workspace(json.loads(body))
        if parts[0] == "workspaces" and parts[1] not in self.workspaces:
            raise Refusal(404, "not_found", f"workspace '{parts[1]}' does not exist")
        if parts[0] == "workspaces" and len(parts) == 2:
            return 200, self.workspaces[parts[1]]
        if name == "POST environments/read":
            return 200, self.read_environment(json.loads(body))
        if parts[0] == "workspaces" and parts[2] == "environments":
            return self.about_environments(method, parts[3:], query, body)
        if parts[0] == "workspaces" and parts[2] == "experiments":
            names = dict.fromkeys(run["experiment"] for run in self.runs.values())
            return self.listed([{"name": name} for name in names], query)
        raise Refusal(404, "not_found", f"no such route: {name}")

    def fits(self, run, query):
        for key, field in (("experiment", "experiment"), ("workspace", "workspace"), ("parent", "parentId"),
                           ("status", "status")):
            if key in query and run[field] != query[key]:
                return False
        if run["parentId"] and "parent" not in query and query.get("children", "0") != "1":
            return False
        tags = json.loads(query.get("tags", "{}"))
        return all(key in run["tags"] and value in (None, run["tags"][key]) for key, value in tags.items())

    def listed(self, items, query):
        limit = min(int(query.get("limit", 100)), self.page or 1000)
        start = int(query.get("cursor", 0))
        more = start + limit < len(items)
        return 200, {"items": items[start:start + limit], "next": str(start + limit) if more else None}

    def submit(self, body):
        run_id, spec = body["id"], body["spec"]
        if run_id in self.runs:
            return 200, self.runs[run_id]
        if spec.get("snapshot") and spec["snapshot"] not in self.blobs:
            raise Refusal(404, "not_found", "snapshot " + spec["snapshot"] + " is not here")
        run = self.add_run(run_id, name=spec.get("displayName") or run_id, experiment=spec["experiment"],
                           tags=spec.get("tags", {}), properties=spec.get("properties", {}),
                           parentId=spec.get("parent") or None, snapshotId=spec.get("snapshot"),
                           interactive=spec.get("interactive", False), workspace=spec["workspace"],
                           command=spec["command"], status="Running", spec=spec)
        return 201, run

    def read_environment(self, body):
        """Lines of requirements, and of conda files all that has a version; `-r FILE` names another."""
        self.read.append(body)
        found, missing = [], []

        def lines(path):
            if path not in body["files"]:
                missing.append(path)
                return
            for line in body["files"][path].splitlines():
                if line.startswith("-r "):
                    lines(os.path.join(os.path.dirname(path), line[3:]))
                else:
                    found.append(line)
        for path in (body["conda"], body["requirements"]):
            if path:
                lines(path)
        if missing:
            return {"missing": missing}
        environment = body["environment"]
        recipe = environment.setdefault("recipe", {})
        recipe.setdefault("kind", "venv")
        recipe["requirements"] = recipe.get("requirements", []) + found
        return {"environment": environment, "warnings": ["of the test"] if "odd" in found else []}

    def about_environments(self, method, parts, query, body):
        if method == "POST":
            asked = json.loads(body)
            versions = self.environments.setdefault(asked["name"], [])
            made = dict(asked, version=str(len(versions) + 1), hash="h" * 64)
            versions.append(made)
            return 201, made
        if not parts:
            return self.listed([versions[-1] for versions in self.environments.values()], query)
        name, _, version = parts[0].partition(":")
        version = query.get("version", version)
        fitting = [one for one in self.environments.get(name, []) if version in ("", one["version"])]
        if not fitting:
            raise Refusal(404, "not_found", f"environment '{parts[0]}' does not exist")
        return 200, fitting[-1]

    def make_workspace(self, body):
        if body["name"] in self.workspaces:
            raise Refusal(409, "conflict", f"workspace '{body['name']}' exists")
        self.workspaces[body["name"]] = body
        return 201, body

    def take_pack(self, body):
        bad, at = [], 0
        while at < len(body):
            digest, size = body[at:at + 32].hex(), int.from_bytes(body[at + 32:at + 40], "little")
            data = body[at + 40:at + 40 + size]
            at += 40 + size
            if hashlib.sha256(data).hexdigest() == digest:
                self.blobs[digest] = data
            else:
                bad.append(digest)
        return 200, {"kept": len(self.blobs), "bad": bad}

    def about_run(self, method, run_id, rest, query, body):
        run = self.runs.get(run_id)
        if run is None:
            raise Refusal(404, "not_found", f"run '{run_id}' does not exist")
        what = f"{method} {rest[0] if rest else ''}".strip()
        if what in ("GET", "GET wait"):
            return 200, run
        if what == "PATCH":
            return 200, self.patch(run, json.loads(body))
        if what == "POST cancel":
            run["status"] = "Canceled"
            return 200, run
        if what == "POST end":
            asked = json.loads(body)
            run.update(status=asked["status"], error=asked["error"] or None)
            return 200, run
        if what == "POST records":
            stream, start = int(query["stream"]), int(query["from"])
            taken = self.taken.get((run_id, stream), 0)
            if start > taken or start + len(body) <= taken:
                return 200, {"size": taken}
            self.taken[run_id, stream] = start + len(body)
            lines = body[taken - start:].decode().splitlines()
            self.records.setdefault(run_id, []).extend(json.loads(line) for line in lines)
            for line in self.records[run_id][-len(lines):]:
                self.apply(run, line)
            return 200, {"size": self.taken[run_id, stream]}
        if what == "PUT outputs":
            self.outputs[run_id, "/".join(rest[1:])] = body
            return 200, {"path": "/".join(rest[1:]), "size": len(body)}
        if what == "GET follow":
            return 200, self.follow(run, query)
        if what == "GET metrics":
            metrics = [{"name": name, "kind": kind, "points": len(values), "last": values[-1]}
                       for (of, name), (kind, values) in self.series.items() if of == run_id]
            return 200, {"metrics": metrics, "streams": self.streams.get(run_id, {})}
        if what == "GET series":
            kind, values = self.series[run_id, query["name"]]
            start, limit = int(query["from"]), min(int(query["limit"]), 3)
            points = [{"number": start + i, "value": v} for i, v in enumerate(values[start:start + limit])]
            more = start + limit < len(values)
            return 200, {"name": query["name"], "kind": kind, "points": points,
                         "next": start + limit if more else None}
        if what == "GET files" and len(rest) == 1:
            return self.listed([{"path": path, "size": len(data), "kind": kind}
                                for (of, path), (kind, data) in self.files.items() if of == run_id], query)
        if what == "GET files":
            path = "/".join(rest[1:])
            if (run_id, path) not in self.files:
                raise Refusal(404, "not_found", f"the run has no file {path}")
            return 200, self.files[run_id, path][1][int(query.get("from", 0)):]
        if what == "GET blobs":
            return 200, self.blobs[rest[1]]
        if what == "GET snapshot":
            return 200, self.blobs[run["snapshotId"]]
        raise Refusal(404, "not_found", f"no such route: {what}")

    def apply(self, run, line):
        """What the server makes of a record."""
        about = line.get("r", run["id"])
        if line["k"] == "child":
            self.add_run(about, name=line["n"], parentId=line.get("p", run["id"]), status="Running",
                         interactive=True, experiment=run["experiment"])
        elif line["k"] == "end":
            self.runs[about]["status"] = line["v"]
        elif line["k"] == "tag":
            self.runs[about]["tags"][line["n"]] = line["v"]
        elif line["k"] == "metric":
            self.series.setdefault((about, line["n"]), ("scalar", []))[1].append(line["v"])

    def patch(self, run, changes):
        for key, value in changes.get("tags", {}).items():
            run["tags"].pop(key, None)
            if value is not None:
                run["tags"][key] = value
        for key, value in changes.get("properties", {}).items():
            if run["properties"].get(key, value) != value:
                raise Refusal(409, "conflict", f"property '{key}' is '{run['properties'][key]}' already")
            run["properties"][key] = value
        if "displayName" in changes:
            run["name"] = changes["displayName"]
        return run

    def follow(self, run, query):
        """One frame an answer, so that a reader has to go on."""
        offsets = [int(part) for part in query["from"].split(",")]
        frames = self.console.get(run["id"], [])
        ranks = max([rank for _, rank, _ in frames], default=0) + 1
        offsets += [0] * (ranks - len(offsets))
        seen = [0] * ranks
        out = b""
        for kind, rank, data in frames:
            seen[rank] += len(data)
            if seen[rank] > offsets[rank] and not out:
                piece = data[len(data) - (seen[rank] - offsets[rank]):]
                out = struct.pack("<cII", kind, rank, len(piece)) + piece
                offsets[rank] += len(piece)
        whole = [sum(len(d) for _, r, d in frames if r == rank) for rank in range(ranks)]
        state = json.dumps({"status": run["status"], "reason": "", "version": run["version"],
                            "final": offsets == whole and run["status"] in ("Completed", "Failed", "Canceled"),
                            "exitCode": run["exitCode"], "error": run["error"], "next": offsets}).encode()
        return out + struct.pack("<cII", b"s", 0, len(state)) + state


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # Head and body in one packet.

    def handle_one(self):
        yard = self.server.yard
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = urlsplit(self.path)
        with yard.lock:
            yard.asked.append(f"{self.command} {parts.path[len('/api/v1'):]}")
            if yard.drop > 0:
                yard.drop -= 1
                self.close_connection = True
                return
            try:
                if not self.server.is_unix and self.headers.get("authorization") != f"Bearer {TOKEN}":
                    raise Refusal(401, "denied", "a token is needed")
                status, answer = yard.answer(self.command, parts.path[len("/api/v1"):],
                                             dict(parse_qsl(parts.query)), body)
            except Refusal as refusal:
                status = refusal.status
                answer = {"error": {"kind": refusal.kind, "message": str(refusal), "hint": ""}}
            if yard.lose > 0:
                yard.lose -= 1
                self.close_connection = True
                return
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

    def log_message(self, *_):
        pass


class _Threads(socketserver.ThreadingMixIn):
    daemon_threads = True

    def process_request(self, request, client_address):
        self.__dict__.setdefault("connections", set()).add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self.connections.discard(request)
        super().shutdown_request(request)

    def cut_connections(self):
        for request in list(self.__dict__.get("connections", ())):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


class _Server(_Threads, socketserver.TCPServer):
    allow_reuse_address = True
    is_unix = False

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _UnixServer(_Threads, socketserver.UnixStreamServer):
    is_unix = True

    def get_request(self):
        request, _ = super().get_request()
        return request, ("unix", 0)


class FakeServer:
    """Serves a Yard until close(); `url`, or at `socket` of a home."""

    def __init__(self, yard, unix_socket=None, tls=None, port=0):
        self.yard = yard
        if unix_socket is None:
            self._server = _Server(("127.0.0.1", port), Handler)
        else:
            self._server = _UnixServer(unix_socket, Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._server.yard = yard
        self.port = None if unix_socket else self._server.server_address[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.cut_connections()
        self._server.server_close()


class ServedTest(unittest.TestCase):
    """setUp() makes a scratch folder as current folder and home, a Yard, its server, a Workspace."""

    maxDiff = None

    def setUp(self):
        import tempfile
        from trainyard import Workspace
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        code = self.scratch / "code"
        code.mkdir()
        os.chdir(code)
        self.set_env(TRAINYARD_HOME=str(self.scratch / "home"), TRAINYARD_SERVER=None, TRAINYARD_TOKEN=None,
                     TRAINYARD_RUN_ID=None, TRAINYARD_RECORDS=None, AZUREML_ARM_WORKSPACE_NAME=None)
        self.yard = Yard()
        self.server = FakeServer(self.yard)
        self.addCleanup(lambda: self.server.close())
        self.workspace = Workspace(server=self.server.url, token=TOKEN)

    def set_env(self, **variables):
        for name, value in variables.items():
            before = os.environ.get(name)
            self.addCleanup(_set_env, name, before)
            _set_env(name, value)

    def restart_server(self):
        """The same address again, after close()."""
        self.server = FakeServer(self.yard, port=self.server.port)


def _set_env(name, value):
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
