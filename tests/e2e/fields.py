"""The fields that scripts rely on: of every list and `show`, as -o json prints them."""
import json
import pathlib
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main

ENTRY = set("""id runId name experiment experimentName workspace user status target command createdAt startedAt endedAt
exitCode error reason tags properties parameters metrics parentId snapshotId environment inputs nodeCount
processCountPerNode cost studioUrl""".split())
WHOLE_ONLY = {"attempts", "timeline", "nodes", "logFiles", "warnings", "environmentVariables"}
WHOLE = ENTRY | WHOLE_ONLY
JOB = set("""name display_name experiment_name status services creation_context type command compute environment
environment_variables inputs outputs tags properties resources limits distribution description""".split())
COMPUTE = set("""id name type engine state provisioning_state size min_instances max_instances cpus memory_bytes gpus live
queued""".split())
NODE = set("name node_id state node_state runs run_id reason cpus memory_bytes gpus".split())
WORKSPACE = set("id name subscriptionId resourceGroup imageBuildCompute access retentionSeconds createdBy createdAt".split())
ENVIRONMENT = set("name version kind recipe hash curated description note workspace archived createdBy createdAt".split())
ROWS = {
    ("experiment", "list"): {"id", "name", "workspace", "runCount", "createdAt"},
    ("workspace", "list"): WORKSPACE,
    ("workspace", "show"): WORKSPACE,
    ("user", "list"): {"name", "role", "createdAt"},
    ("token", "list"): {"id", "user", "role", "kind", "label", "createdAt", "expiresAt", "revokedAt"},
    ("secret", "list"): {"name", "createdAt"},
    ("environment", "list"): ENVIRONMENT,
    ("environment", "show", "-n", "fruit"): ENVIRONMENT,
    ("environment", "show", "-n", "sklearn"): ENVIRONMENT,
    ("environment", "curated", "list"): ENVIRONMENT,
    ("compute", "list"): COMPUTE,
    ("compute", "show", "-n", "local"): COMPUTE,
    ("compute", "list-nodes", "-n", "local"): NODE,
    ("compute", "list-sizes"): {"name", "vCPUs", "memoryGB", "gpus"},
    ("computetarget", "list"): {"id", "name", "properties", "provisioningState"},
    ("server", "status"): {"pid", "url", "socket", "version"},
    ("server", "status", "--show-token"): {"pid", "url", "socket", "version", "token"},
    ("doctor",): {"name", "status", "message", "advice"},
    ("version",): {"version", "commit"},
}


class Fields(YardTest):
    def has(self, found, fields, what):
        self.assertLessEqual(fields, set(found), f"{what} lacks {sorted(fields - set(found))}")

    def test_a_run_has_them_wherever_it_is_printed(self):
        run = json.loads(self.ok("submit", "--async", "--tag", "a=b", "--env-var", "C=d", "-o", "json", "--", "true"))
        self.has(run, WHOLE, "submit --async")
        self.finish(run["id"])
        self.write("train.py", "print('trained')\n")
        self.write("job.yml", "command: echo hi\nenvironment_variables: {A: b}\ntags: {x: y}\n")
        self.ok("run", "submit-script", "-e", "test", "-t", "run.json", "train.py")
        self.has(json.loads((self.code / "run.json").read_text()), WHOLE, "-t")
        for words in (("show",), ("wait",), ("update", "--add-tag", "k=v"), ("rerun", "--async")):
            self.has(self.json("run", words[0], run["id"], *words[1:]), WHOLE, f"run {words[0]}")
        for words in (("run", "list"), ("ps",), ("run", "list", "--status", "completed", "--last", "1")):
            entries = self.json(*words)
            self.assertEqual([e["createdAt"] for e in entries], sorted((e["createdAt"] for e in entries), reverse=True))
            for entry in entries:
                self.has(entry, ENTRY, " ".join(words))
                self.assertEqual(WHOLE_ONLY & set(entry), set())
        job = self.json("job", "create", "-f", "job.yml")
        self.finish(job["name"])
        for found in (job, self.json("job", "show", "-n", job["name"]), *self.json("job", "list")):
            self.has(found, JOB, "job")
            self.assertIn("endpoint", found["services"]["Studio"])
            self.assertIn("created_at", found["creation_context"])

    def test_an_entry_of_a_list_has_at_most_a_hundred_of_each(self):
        self.write("log.py", "from trainyard import Run\nrun = Run.get_context()\n"
                   "for i in range(150):\n    run.log(f'm{i}', i)\n    run.tag(f't{i}', 'x')\n")
        run = self.finish(self.submit("--", sys.executable, "log.py"))
        self.assertEqual((run["status"], len(run["metrics"]), len(run["tags"])), ("Completed", 150, 150))
        [entry] = self.json("run", "list")
        self.assertEqual((len(entry["metrics"]), len(entry["tags"])), (100, 100))

    def test_the_other_nouns_have_theirs(self):
        self.finish(self.submit("--", "true"))
        self.ok("user", "create", "ada", "--role", "reader")
        self.ok("token", "create", "--user", "ada")
        self.ok("secret", "set", "key", stdin=None, input="the value of it")
        self.write("requirements.txt", "--no-index\n")
        self.ok("environment", "register", "-n", "fruit", "--requirements", "requirements.txt")
        for words, fields in ROWS.items():
            found = self.json(*words)
            for each in found if isinstance(found, list) else [found]:
                self.has(each, fields, " ".join(words))
            self.assertTrue(found, words)
            self.assertNotIn("the value of it", json.dumps(found))

    def test_an_error_has_its_kind_its_message_and_a_hint(self):
        self.ok("server", "start")
        status = self.json("server", "status", "--show-token")
        asked = urllib.request.Request(status["url"] + "/api/v1/runs/nobody",
                                       headers={"authorization": "Bearer " + status["token"]})
        with self.assertRaises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(asked, timeout=20)
        self.assertEqual(raised.exception.code, 404)
        error = json.loads(raised.exception.read())["error"]
        self.assertEqual(set(error), {"kind", "message", "hint"})
        self.assertEqual(error["kind"], "not_found")


if __name__ == "__main__":
    main()
