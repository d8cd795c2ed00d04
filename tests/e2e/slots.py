"""A cluster on one machine: `compute create` where there is no Slurm, and runs on its slots."""
import json
import os
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main, wait_until

TELL = """
import json, os
print(json.dumps({name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR",
      "MASTER_PORT", "AZ_BATCH_HOST_LIST", "OMPI_COMM_WORLD_RANK", "TF_CONFIG", "PATH")}))
"""

# Every rank sends its number to the first one, which adds them up.
MEET = """
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(where) as server:
        total = sum(int(server.accept()[0].recv(9)) for _ in range(size - 1))
    print("total", total)
while rank > 0:
    try:
        socket.create_connection(where, 1).sendall(str(rank).encode())
        break
    except OSError:
        time.sleep(0.05)
"""

WAIT = ("sh", "-c", "echo up; while :; do sleep 0.1; done")


class Slots(YardTest):
    def setUp(self):
        super().setUp()
        self.bin = self.scratch / "bin"
        self.bin.mkdir()
        for name in ("sh", "bash", "sleep", "python3", "cat", "mpirun", "orted"):
            if found := shutil.which(name):
                (self.bin / name).symlink_to(found)
        self.env["PATH"] = str(self.bin)
        self.env.pop("SLURM_CONF", None)
        self.write("tell.py", TELL)
        self.write("meet.py", MEET)

    def make(self, *words):
        return self.json("compute", "create", "-n", "gpu", "--max-nodes", 4, *words)

    def on_slots(self, nodes, *command):
        return self.submit("--target", "gpu", "--nodes", nodes, "--", *command)

    def states(self):
        return [node["state"] for node in self.json("compute", "list-nodes", "-n", "gpu")]

    def up(self, run, rank):
        wait_until(lambda: "up" in self.ok("run", "logs", run, "--rank", rank), f"rank {rank} is up")


class Making(Slots):
    def test_each_generation_makes_slots_where_there_is_no_slurm(self):
        first = self.json("computetarget", "create", "amlcompute", "-n", "first", "--max-nodes", 4, "--vm-size",
                          "STANDARD_D3_V2")
        self.assertEqual(first["properties"]["properties"]["engine"], "local")
        self.assertEqual(first["properties"]["computeType"], "AmlCompute")
        second = self.json("compute", "create", "--name", "second", "--type", "amlcompute", "--size", "STANDARD_D3_V2",
                           "--min-instances", 1, "--max-instances", 2)
        self.assertEqual((second["engine"], second["type"], second["idle_time_before_scale_down"]),
                         ("local", "amlcompute", 120))
        self.assertEqual([node["name"] for node in self.json("compute", "list-nodes", "-n", "second")],
                         ["second-0", "second-1"])
        again = self.json("compute", "create", "--name", "second", "--type", "amlcompute", "--size", "STANDARD_D3_V2",
                          "--min-instances", 1, "--max-instances", 2)
        self.assertEqual(again, second)

    def test_the_engine_is_the_one_that_is_named_else_the_servers(self):
        program = self.bin / "sbatch"
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
        self.assertEqual(self.make("--engine", "local")["engine"], "local")
        # The server has Slurm; whether the one who asks has it does not matter.
        self.assertIn("--engine local", self.refused(2, "compute", "create", "-n", "other", env={"PATH": "/none"}))

    def test_what_only_slurm_has_is_refused(self):
        self.assertIn("partition", self.refused(2, "compute", "create", "-n", "x", "--partition", "p"))
        self.assertIn("partition", self.refused(2, "compute", "create", "-n", "x", "--partition", "p", "--engine", "local"))
        self.assertIn("250 nodes", self.refused(2, "compute", "create", "-n", "x", "--max-nodes", 251))

    def test_gpus_of_a_cluster_that_has_none_are_refused_at_the_first_submit(self):
        self.make("--vm-size", "STANDARD_D3_V2")
        self.assertIn("target gpu has 0 GPUs, 1 were asked for",
                      self.refused(2, "submit", "--target", "gpu", "--gpus", 1, "--", "true"))
        self.assertIn("4 nodes, 5 were", self.refused(2, "submit", "--target", "gpu", "--nodes", 5, "--", "true"))


class Running(Slots):
    def test_nodes_of_a_run_are_slots_that_find_each_other(self):
        self.make()
        run = self.on_slots(3, "python3", "tell.py")
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Completed", ended["error"])
        told = [json.loads(self.ok("run", "logs", run, "--rank", rank)) for rank in range(3)]
        self.assertEqual([t["RANK"] for t in told], ["0", "1", "2"])
        self.assertEqual({(t["WORLD_SIZE"], t["MASTER_ADDR"], t["AZ_BATCH_HOST_LIST"]) for t in told},
                         {("3", "127.1.0.1", "127.1.0.1,127.1.0.2,127.1.0.3")})
        self.assertEqual({t["PATH"] for t in told}, {self.env["PATH"]})
        workers = json.loads(told[0]["TF_CONFIG"])["cluster"]["worker"]
        self.assertEqual(len({worker.rsplit(":", 1)[1] for worker in workers}), 3, workers)
        run = self.on_slots(4, "python3", "meet.py")
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Completed", ended["error"])
        self.assertIn("total 6", self.ok("run", "logs", run, "--rank", 0))
        wait_until(lambda: not list((self.home / "node").glob(f"{run}.*")), "nothing is left")

    def test_slots_come_for_a_run_and_go_after_the_idle_time(self):
        self.make("--idle-seconds-before-scaledown", 2)
        self.assertEqual(self.states(), ["off"] * 4)
        run = self.on_slots(2, *WAIT)
        self.up(run, 1)
        self.assertEqual(self.states(), ["running", "running", "off", "off"])
        nodes = self.json("compute", "list-nodes", "-n", "gpu")
        self.assertEqual([node["run_id"] for node in nodes], [run, run, None, None])
        shown = self.json("compute", "show", "-n", "gpu")
        self.assertEqual((shown["current_node_count"], shown["live"]), (2, 1))
        self.assertIn("1 live", self.refused(5, "compute", "delete", "-n", "gpu", "-y"))
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        self.assertEqual(self.states(), ["idle", "idle", "off", "off"])
        wait_until(lambda: self.states() == ["off"] * 4, "the slots to go")
        self.ok("compute", "update", "-n", "gpu", "--min-nodes", 1)
        self.assertEqual(self.states(), ["idle", "off", "off", "off"])
        self.ok("compute", "delete", "-n", "gpu", "-y")

    def test_a_run_waits_until_enough_slots_are_free(self):
        self.make()
        first = self.on_slots(3, *WAIT)
        second = self.on_slots(2, "sh", "-c", "echo done")
        self.up(first, 2)
        self.assertEqual(self.show(second)["reason"], "waits for 2 nodes: 1 free of 4; position 1")
        self.ok("compute", "pause", "-n", "gpu")
        self.assertIn("paused", self.show(second)["reason"])
        self.ok("compute", "resume", "-n", "gpu")
        self.ok("compute", "update", "-n", "gpu", "--max-nodes", 5)
        self.assertEqual(self.finish(second)["status"], "Completed")
        self.wait_for_status(first, "Running")
        self.ok("run", "cancel", first)
        self.finish(first)

    def test_a_failing_rank_ends_the_others_and_names_its_node(self):
        self.make()
        run = self.on_slots(2, "sh", "-c", "[ $RANK = 1 ] && exit 3; while :; do sleep 0.1; done")
        ended = self.finish(run)
        self.assertEqual((ended["status"], ended["exitCode"]), ("Failed", 3))
        self.assertIn("on node gpu-1", ended["error"])

    def test_a_server_that_was_killed_takes_the_slots_up_again(self):
        self.make()
        run = self.on_slots(2, *WAIT)
        self.up(run, 1)
        self.kill_server()
        self.wait_for_status(run, "Running")
        self.assertEqual(self.states(), ["running", "running", "off", "off"])
        waiting = self.on_slots(3, "sh", "-c", "true")
        self.assertIn("2 free of 4", self.show(waiting)["reason"])
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        self.assertEqual(self.finish(waiting)["status"], "Completed")

    def test_a_supervisor_that_is_killed_ends_its_run(self):
        self.make()
        run = self.on_slots(2, *WAIT)
        self.up(run, 1)
        for supervisor in self.live_supervisors():
            words = pathlib.Path(f"/proc/{supervisor}/cmdline").read_bytes()
            if words.rstrip(b"\0").endswith(b".1-1"):
                os.kill(supervisor, signal.SIGKILL)
                break
        ended = self.finish(run)
        self.assertIn(ended["status"], ("Failed", "Canceled"), ended)
        wait_until(lambda: not self.live_supervisors(), "its supervisors to end")

    def test_ranks_of_mpi_are_one_world(self):
        if not shutil.which("mpirun"):
            self.skipTest("skipped: there is no mpirun")
        self.make()
        run = self.submit("--target", "gpu", "--nodes", 2, "--distribution", "mpi", "--", "sh", "-c",
                          "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE")
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Completed", ended["error"])
        self.assertEqual(self.ok("run", "logs", run, "--rank", 1), "1 of 2\n")

    def test_a_job_file_names_it(self):
        self.make()
        file = self.write("job.yml", "command: echo $NODE_RANK of $WORLD_SIZE\ncompute: azureml:gpu\ncode: .\n"
                          "resources:\n  instance_count: 2\ndistribution:\n  type: pytorch\n")
        job = self.json("job", "create", "-f", file)
        self.assertEqual(self.finish(job["name"])["status"], "Completed")
        self.assertEqual(self.ok("run", "logs", job["name"], "--rank", 1), "1 of 2\n")


if __name__ == "__main__":
    main()
