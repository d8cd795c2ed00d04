"""Compute targets and sizes as people make, change and see them, in the words of both generations.

Here Slurm is some commands that say that it is away: what is tested is what is kept and shown. Runs
that are carried to a cluster are in slurm.py.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main, wait_until

COMPUTE = """$schema: https://azuremlschemas.azureedge.net/latest/amlCompute.schema.json
name: from-file
type: amlcompute
size: STANDARD_NC6
max_instances: 4
idle_time_before_scale_down: 300
partition: gpu
sbatch: [--gres=gpu:1]
"""


class Computes(YardTest):
    def setUp(self):
        super().setUp()
        self.bin = self.scratch / "bin"
        self.bin.mkdir()
        for name in ("sbatch", "squeue", "scontrol", "scancel", "sinfo", "sacct"):
            program = self.bin / name
            program.write_text("#!/bin/sh\necho 'Slurm is away' >&2\nexit 1\n")
            program.chmod(0o755)
        self.env.pop("SLURM_CONF", None)
        self.env["PATH"] = f"{self.bin}:{self.env['PATH']}"
        self.ok("server", "start", "--listen", "0.0.0.0:0", "--insecure")

    def without_slurm(self):
        """A PATH where there is no sbatch."""
        empty = self.scratch / "empty"
        empty.mkdir(exist_ok=True)
        return {"PATH": str(empty)}

    def names(self, *group):
        return [c["name"] for c in self.json(*(group or ("compute",)), "list")]


class Silent(Computes):
    def test_a_slurm_that_does_not_answer_is_shown_within_seconds(self):
        for name, words, why in (("refuses", "echo 'error: Unable to contact slurm controller (connect failure)' >&2\nexit 1",
                                  "Unable to contact slurm controller"),
                                 ("hangs", "exec sleep 300", "Slurm does not answer")):
            for program in self.bin.iterdir():
                program.write_text(f"#!/bin/sh\n{words}\n")
            with self.subTest(name):
                done = self.run_cli("compute", "create", name, "--engine", "slurm", "--max-nodes", "2", timeout=15)
                self.assertEqual(done.code, 0, done)
                self.assertIn("warning: Slurm does not answer: ", done.err)
                for compute in (self.json("compute", "show", name, timeout=15),
                                {c["name"]: c for c in self.json("compute", "list", timeout=15)}[name]):
                    self.assertEqual(compute["state"], "unavailable")
                    self.assertIn("Slurm does not answer: ", compute["trouble"])
                run = self.submit("--target", name, "--", "true")
                wait_until(lambda: "Slurm does not answer" in self.show(run)["reason"] and why in self.show(run)["reason"],
                           "the reason", 15)
                finding = next(f for f in self.json("doctor", timeout=30) if f["name"] == f"compute {name}")
                self.assertEqual(finding["status"], "warn")
                self.ok("run", "cancel", run)


class Making(Computes):
    def test_a_partition_that_the_cluster_does_not_have_is_refused(self):
        sinfo = self.bin / "sinfo"
        sinfo.write_text("#!/bin/sh\nprintf 'cpu\\ngpu\\n'\n")
        err = self.refused(2, "compute", "create", "lab", "--engine", "slurm", "--partition", "gpus", "--max-nodes", "4")
        self.assertIn("the cluster has no partition 'gpus'\n       It has: cpu, gpu.", err)
        self.ok("compute", "create", "lab", "--engine", "slurm", "--partition", "gpu", "--max-nodes", "4")
        self.ok("compute", "create", "both", "--engine", "slurm", "--partition", "cpu,gpu", "--max-nodes", "4")
        self.assertIn("no partition 'big'", self.refused(2, "compute", "update", "-n", "lab", "--set", "partition=big"))
        self.assertEqual(self.json("compute", "show", "lab")["partition"], "gpu")

    def test_in_our_own_words(self):
        made = self.json("compute", "create", "lab", "--engine", "slurm", "--partition", "gpu", "--account", "me",
                         "--qos", "fast", "--max-nodes", "4", "--sbatch=--gres=gpu:1", "--sbatch", "--exclusive",
                         "--setup", "module load cuda", "--vm-size", "standard_nc6")
        self.assertEqual(made["type"], "amlcompute")
        self.assertEqual(made["partition"], "gpu")
        self.assertEqual(made["sbatch"], ["--gres=gpu:1", "--exclusive"])
        self.assertEqual(made["size"], "Standard_NC6")
        self.assertEqual(made["idle_time_before_scale_down"], 120)
        self.assertEqual(made["provisioning_state"], "Succeeded")
        self.assertIsNone(made["slurm_conf"])
        self.assertEqual((made["outage_limit"], made["unsent_wait"], made["shared_folder"]), (12 * 3600, 900, None))
        self.assertEqual(self.names(), ["lab", "local"])
        shown = self.json("compute", "show", "-n", "lab")
        for compute in (made, shown):
            self.assertIn("Slurm does not answer: ", compute.pop("trouble"))
        self.assertEqual(shown, made)
        changed = self.json("compute", "update", "lab", "--outage-limit", "2h", "--unsent-wait", "30",
                            "--shared-folder", "/shared")
        self.assertEqual((changed["outage_limit"], changed["unsent_wait"], changed["shared_folder"]),
                         (7200, 30, "/shared"))
        self.assertIn("1 minute", self.refused(2, "compute", "update", "lab", "--outage-limit", "5"))

    def test_in_the_first_generation_s(self):
        line = ("computetarget", "create", "amlcompute", "-n", "cpu-cluster", "--min-nodes", "0", "--max-nodes", "1",
                "-s", "STANDARD_D3_V2")
        made = self.json(*line)
        scale = made["properties"]["properties"]["scaleSettings"]
        self.assertEqual(scale, {"minNodeCount": 0, "maxNodeCount": 1, "nodeIdleTimeBeforeScaleDown": "PT1800S"})
        self.assertEqual(made["properties"]["properties"]["vmPriority"], "Dedicated")
        self.assertEqual(self.json(*line), made)  # A pipeline runs it at every push.
        other = self.json(*line[:6], "1", "--max-nodes", "2", "-s", "STANDARD_D3_V2")
        self.assertEqual(other["properties"]["properties"]["scaleSettings"],
                         {"minNodeCount": 1, "maxNodeCount": 2, "nodeIdleTimeBeforeScaleDown": "PT1800S"})
        changed = self.json("computetarget", "update", "amlcompute", "-n", "cpu-cluster", "--max-nodes", "3",
                            "--idle-seconds-before-scaledown", "60")
        self.assertEqual(changed["properties"]["properties"]["scaleSettings"]["maxNodeCount"], 3)
        self.assertEqual(self.names("computetarget"), ["cpu-cluster", "local"])
        self.ok("computetarget", "delete", "-n", "cpu-cluster")
        self.refused(4, "computetarget", "show", "-n", "cpu-cluster")

    def test_in_the_second_generation_s(self):
        made = self.json("compute", "create", "--name", "c", "--type", "amlcompute", "--size", "Standard_DS3_v2",
                         "--min-instances", "0", "--max-instances", "2", "--tier", "low_priority",
                         "--idle-time-before-scale-down", "240", "--location", "westus")
        self.assertEqual({k: made[k] for k in ("size", "tier", "max_instances", "idle_time_before_scale_down")},
                         {"size": "Standard_DS3_v2", "tier": "low_priority", "max_instances": 2,
                          "idle_time_before_scale_down": 240})

    def test_from_a_file_over_which_options_win(self):
        file = self.write("compute.yml", COMPUTE)
        made = self.json("compute", "create", "-f", file, "--set", "partition=big", "--max-instances", "8")
        self.assertEqual((made["name"], made["partition"], made["max_instances"], made["idle_time_before_scale_down"]),
                         ("from-file", "big", 8, 300))
        self.assertEqual(self.json("compute", "create", "other", "-f", file)["name"], "other")
        err = self.refused(2, "compute", "create", "-f", self.write("bad.yml", "name: x\ntype: kubernetes\n"))
        self.assertIn("bad.yml:2: type: 'kubernetes' is not made here", err)

    def test_the_same_again_is_no_error_and_another_is(self):
        self.ok("compute", "create", "lab", "--max-nodes", "2")
        self.ok("compute", "create", "lab", "--max-nodes", "2")
        err = self.refused(5, "compute", "create", "lab", "--max-nodes", "3")
        self.assertIn("maxNodes is 2, not 3", err)
        self.assertIn("trainyard compute update -n lab", err)

    def test_slurm_s_file_is_kept_as_it_is_now(self):
        made = self.json("compute", "create", "lab", env={"SLURM_CONF": "conf/slurm.conf"})
        self.assertEqual(made["slurm_conf"], str(self.code.resolve() / "conf" / "slurm.conf"))

    def test_the_engine_is_slurm_where_the_server_finds_it(self):
        made = self.json("compute", "create", "lab", "--partition", "p", env=self.without_slurm())
        self.assertEqual(made["engine"], "slurm")
        self.ok("compute", "create", "other", "--engine", "slurm", env=self.without_slurm())

    def test_what_is_wrong_is_refused(self):
        for code, says, *words in (
                (2, "size 'Standard_D3_v9' is not known", "-s", "Standard_D3_v9"),
                (2, "Did you mean 'Standard_D3_v2'?", "-s", "Standard_D3_v9"),
                (2, "max-nodes", "--max-nodes", "0"),
                (2, "min nodes must be 0 to max nodes (1)", "--min-nodes", "2"),
                (2, "'cheap' is not known", "--tier", "cheap"),
                (2, "partition 'a b'", "--partition", "a b"),
                (2, "is no option", "--sbatch", "gpu"),
                (2, "engine 'kubernetes'", "--engine", "kubernetes"),
                (2, "must be an absolute path", "--node-up", "up.sh", "--node-down", "down.sh")):
            self.assertIn(says, self.refused(code, "compute", "create", "lab", *words), words)
        self.assertIn("from the start", self.refused(2, "compute", "create", "local"))
        self.assertIn("no name", self.refused(2, "compute", "create"))
        self.assertIn("--max-nodes is missing",
                      self.refused(2, "computetarget", "create", "amlcompute", "-n", "c", "-s", "STANDARD_NC6"))
        self.assertIn("later version", self.refused(2, "computetarget", "create", "aks", "-n", "c"))
        self.assertEqual(self.names(), ["local"])

    def test_what_only_azure_has_is_warned_of(self):
        done = self.run_cli("computetarget", "create", "amlcompute", "-n", "c", "-s", "STANDARD_NC6", "--max-nodes", "1",
                            "--vnet-name", "v", "--admin-username", "a", "--no-wait")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.err.count("no effect"), 2, done)

    def test_a_server_on_loopback_makes_none(self):
        self.ok("server", "stop")
        self.ok("server", "start", "--listen", "127.0.0.1:0")
        err = self.refused(2, "compute", "create", "lab")
        self.assertIn("loopback", err)
        self.assertIn("--listen", err)

    def test_only_an_admin_makes_and_changes(self):
        self.ok("user", "create", "sam", "--role", "submitter")
        token = self.json("token", "create", "--user", "sam")["token"]
        url = self.json("server", "status")["url"].replace("0.0.0.0", "127.0.0.1")
        self.ok("compute", "create", "lab")
        sam = {"TRAINYARD_TOKEN": token, "TRAINYARD_SERVER": url}
        self.assertEqual([c["name"] for c in self.json("compute", "list", env=sam)], ["lab", "local"])
        for line in (("create", "other", "--engine", "slurm"), ("update", "lab", "--max-nodes", "2"), ("pause", "lab"),
                     ("delete", "lab", "--yes"), ("size", "set", "box", "--cpus", "1", "--memory", "1")):
            self.assertIn("admin", self.refused(3, "compute", *line, env=sam))


class Changing(Computes):
    def setUp(self):
        super().setUp()
        self.ok("compute", "create", "lab", "--max-nodes", "2", "--setup", "module load cuda")

    def test_what_is_named_changes_and_the_rest_stays(self):
        changed = self.json("compute", "update", "lab", "--max-instances", "8", "--setup", "")
        self.assertEqual((changed["max_instances"], changed["setup"]), (8, None))
        changed = self.json("compute", "update", "-n", "lab", "--set", "partition=gpu", "size=standard_nc6")
        self.assertEqual((changed["max_instances"], changed["partition"], changed["size"]), (8, "gpu", "Standard_NC6"))
        self.assertIn("nothing to change", self.refused(2, "compute", "update", "lab"))
        self.assertIn("Did you mean 'lab'?", self.refused(4, "compute", "update", "lap", "--max-nodes", "3"))
        self.assertIn("'local' is this machine", self.refused(2, "compute", "update", "local", "--max-nodes", "3"))
        self.assertIn("stays as it is", self.refused(2, "compute", "update", "lab", "--set", "name=other"))

    def test_paused_and_resumed(self):
        self.assertEqual(self.json("compute", "pause", "lab")["state"], "paused")
        self.ok("server", "stop")
        self.ok("server", "start", "--listen", "0.0.0.0:0", "--insecure")
        self.assertEqual(self.json("compute", "show", "lab")["state"], "paused")
        self.assertEqual(self.json("compute", "resume", "-n", "lab")["state"], "unavailable")

    def test_deleted_once_no_run_waits_there(self):
        self.ok("compute", "pause", "lab")
        run = self.ok("submit", "--target", "lab", "-e", "t", "--async", "--", "true").strip()
        self.assertEqual(self.json("compute", "show", "lab")["queued"], 1)
        err = self.refused(5, "compute", "delete", "lab", "--yes")
        self.assertIn("1 queued, 0 live", err)
        self.assertIn(run, err)
        self.ok("run", "cancel", run)
        self.assertIn("--yes", self.refused(2, "compute", "delete", "lab"))
        self.ok("compute", "delete", "lab", "--yes")
        self.assertEqual(self.names(), ["local"])

    def test_workspaces_have_their_own(self):
        self.ok("workspace", "create", "other")
        self.assertEqual([c["name"] for c in self.json("compute", "list", "-w", "other")], ["local"])
        self.ok("compute", "create", "lab", "--max-nodes", "5", "-w", "other")
        self.assertEqual(self.json("compute", "show", "lab")["max_instances"], 2)

    def test_for_people_a_table_and_lines(self):
        table = self.ok("compute", "list", "-o", "table").splitlines()
        self.assertEqual(table[0].split(), ["NAME", "ENGINE", "STATE", "NODES", "SIZE", "QUEUED", "LIVE"])
        self.assertTrue(table[1].startswith("lab"), table)
        self.assertIn("setup", self.ok("compute", "show", "lab", "-o", "table"))
        self.assertEqual(self.ok("compute", "list", "--query", "[].name", "-o", "tsv").split(), ["lab", "local"])


class Sizes(Computes):
    def sizes(self):
        return {s["name"]: s for s in self.json("compute", "list-sizes")}

    def test_what_scripts_name_is_there(self):
        sizes = self.sizes()
        self.assertEqual({k: sizes["Standard_NC6"][k] for k in ("vCPUs", "memoryGB", "gpus")},
                         {"vCPUs": 6, "memoryGB": 56.0, "gpus": 1})
        for size in sizes.values():
            self.assertLess(size["lowPriorityPricePerHour"], size["pricePerHour"])

    def test_an_admin_edits_them(self):
        self.ok("compute", "size", "set", "box", "--cpus", "64", "--memory", "0.5T", "--gpus", "8", "--price", "2.5")
        self.assertEqual(self.sizes()["box"], {"name": "box", "vCPUs": 64, "memoryGB": 512.0, "gpus": 8,
                                               "pricePerHour": 2.5, "lowPriorityPricePerHour": 2.5})
        self.ok("compute", "size", "set", "BOX", "--low-priority-price", "1")
        self.assertEqual(self.sizes()["box"]["lowPriorityPricePerHour"], 1)
        self.ok("compute", "create", "lab", "--vm-size", "box")
        self.assertIn("compute 'lab'", self.refused(5, "compute", "size", "delete", "box"))
        self.ok("compute", "update", "lab", "--vm-size", "")
        self.ok("compute", "size", "delete", "box")
        self.refused(4, "compute", "size", "delete", "box")

    def test_bad_ones_are_refused(self):
        for words in (["--price", "-1"], ["--cpus", "0"], ["--memory", "much"], ["--gpus", "1"], []):
            self.refused(2, "compute", "size", "set", "box", *words)
        self.assertNotIn("box", self.sizes())


if __name__ == "__main__":
    main()
