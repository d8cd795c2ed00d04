"""Runs of several nodes on a real Slurm: they begin together, find each other, and end as one run."""
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from lab_yard import LabTest
from yard import ROOT, main, wait_until

PYTHON = "/usr/bin/python3"  # Debian's, which has PyTorch.

TELL = """
import json, os
words = {name: value for name, value in os.environ.items()
         if name.startswith(("AZ_BATCH", "OMPI_", "SLURM_")) or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK",
         "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG", "SLURMD_NODENAME")}
words["hosts"] = open(os.environ["AZ_BATCHAI_MPI_HOST_FILE"]).read()
print(json.dumps(words))
"""

WAIT = "while :; do sleep 0.1; done"


class Distributed(LabTest):
    LAB = {"nodes": 4, "shared": True}
    TARGET = ("--max-nodes", 4)

    def before_serving(self):
        self.write("tell.py", TELL)

    def on_lab(self, nodes, ranks, *command):
        """Submits without waiting; returns the id."""
        return self.submit("--target", "lab", "--nodes", nodes, "--processes-per-node", ranks, "--", *command)

    def printed(self, run, rank):
        return self.ok("run", "logs", run, "--rank", rank)

    def all_printed(self, run, ranks, word):
        return all(word in self.printed(run, rank) for rank in range(ranks))

    def outputs(self, run):
        folder = self.scratch / f"outputs-{run}"
        self.ok("run", "download", run, "-d", folder)
        return {str(path.relative_to(folder / "outputs")): path.read_text()
                for path in sorted((folder / "outputs").rglob("*")) if path.is_file()}

    def test_every_rank_reads_where_it_is_in_every_familys_words(self):
        run = self.on_lab(4, 2, "python3", "tell.py")
        self.assertEqual(self.finish(run)["status"], "Completed", self.show(run)["error"])
        told = [json.loads(self.printed(run, rank)) for rank in range(8)]
        nodes = [told[rank]["SLURMD_NODENAME"] for rank in (0, 2, 4, 6)]
        self.assertEqual(sorted(nodes), self.lab.names)
        addresses = [self.lab.address_of(name) for name in nodes]
        port = told[0]["MASTER_PORT"]
        workers = json.loads(told[0]["TF_CONFIG"])["cluster"]["worker"]
        self.assertEqual([worker.rsplit(":", 1)[0] for worker in workers], [a for a in addresses for _ in range(2)])
        for rank, words in enumerate(told):
            node, local = divmod(rank, 2)
            expected = {
                "RANK": f"{rank}", "WORLD_SIZE": "8", "LOCAL_RANK": f"{local}", "LOCAL_WORLD_SIZE": "2",
                "NODE_RANK": f"{node}", "MASTER_ADDR": addresses[0], "MASTER_PORT": port,
                "OMPI_COMM_WORLD_RANK": f"{rank}", "OMPI_COMM_WORLD_SIZE": "8",
                "OMPI_COMM_WORLD_LOCAL_RANK": f"{local}", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "AZ_BATCH_MASTER_NODE": f"{addresses[0]}:{port}", "AZ_BATCH_NODE_LIST": ";".join(addresses),
                "AZ_BATCH_HOST_LIST": ",".join(addresses), "AZ_BATCHAI_MPI_MASTER_NODE": addresses[0],
                "AZ_BATCHAI_TASK_INDEX": f"{rank}", "AZ_BATCHAI_WORKER_HOSTS": ",".join(workers),
                "AZ_BATCHAI_PYTORCH_INIT_METHOD": f"tcp://{addresses[0]}:{port}",
                "SLURMD_NODENAME": nodes[node], "SLURM_PROCID": f"{rank}", "SLURM_LOCALID": f"{local}",
                "SLURM_NTASKS": "8", "hosts": "".join(f"{address} slots=2\n" for address in addresses),
            }
            self.assertEqual({name: words.get(name) for name in expected}, expected)
            config = json.loads(words["TF_CONFIG"])
            self.assertEqual(config["cluster"]["worker"], workers)
            self.assertEqual(config["task"], {"type": "worker", "index": rank})

    def test_no_rank_starts_before_the_last_node_is_there(self):
        run, gate = self.all_but_one()
        for rank in range(4):
            self.assertEqual(self.printed(run, rank), "")
        gate.touch()
        self.assertEqual(self.finish(run)["status"], "Completed")
        self.assertEqual(sorted(self.printed(run, rank) for rank in range(4)),
                         [f"started on {name}\n" for name in self.lab.names])

    def all_but_one(self):
        """A run of four nodes of which one is not ready before a file is there -> the run, the file."""
        gate = self.scratch_of_nodes() / "gate"
        self.ok("compute", "update", "-n", "lab", "--setup",
                f"[ $SLURMD_NODENAME != n3 ] || until [ -e {gate} ]; do sleep 0.1; done")
        run = self.on_lab(4, 1, "sh", "-c", "echo started on $SLURMD_NODENAME")
        self.addCleanup(gate.touch)
        wait_until(lambda: "3 of 4 nodes" in self.show(run)["reason"], "three nodes wait for the last", 60)
        return run, gate

    def scratch_of_nodes(self):
        """A folder of this test that the nodes see too."""
        folder = self.lab.shared / self.id().rsplit(".", 1)[1]
        folder.mkdir()
        folder.chmod(0o777)
        return folder

    def test_a_cancel_ends_nodes_that_wait_for_the_last(self):
        run, _ = self.all_but_one()
        self.ok("run", "cancel", run)
        ended = self.finish(run)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Canceled", 1), ended)
        for rank in range(4):
            self.assertEqual(self.printed(run, rank), "")

    def test_a_rank_that_was_killed_is_named_with_its_node_and_last_lines(self):
        done = self.run_cli("submit", "--target", "lab", "--nodes", 4, "--processes-per-node", 2, "--", "sh", "-c",
                            f"echo rank $RANK on $SLURMD_NODENAME; [ $RANK = 5 ] || {WAIT}; "
                            "echo epoch 3 >&2; kill -9 $$")
        self.assertEqual(done.code, 137, done)
        run = self.show(self.json("run", "list")[0]["id"])
        node = self.printed(run["id"], 5).split()[3]
        self.assertEqual(run["status"], "Failed")
        self.assertEqual(run["exitCode"], 137)
        self.assertEqual(run["error"], f"rank 5 was killed by signal 9 (SIGKILL) on node {node}; its last lines:\n"
                                       f"rank 5 on {node}\nepoch 3")
        self.assertIn("[5] rank 5 on", done.out)
        self.assertEqual(len(run["attempts"]), 1)

    def test_the_exit_code_is_that_of_the_rank_that_failed_first(self):
        run = self.on_lab(4, 2, "sh", "-c", f"trap 'exit 7' TERM; [ $RANK != 3 ] || exit 42; {WAIT}")
        ended = self.finish(run)
        self.assertEqual((ended["status"], ended["exitCode"]), ("Failed", 42), ended)
        self.assertIn("rank 3 exited with code 42 on node", ended["error"])
        self.assertEqual(self.run_cli("run", "wait", run).code, 42)

    def test_a_program_that_is_not_there_ends_all_nodes(self):
        run = self.on_lab(3, 1, "pyhton", "train.py")
        ended = self.finish(run)
        self.assertEqual((ended["status"], ended["exitCode"]), ("Failed", 127), ended)
        self.assertIn("'pyhton' was not found", ended["error"])

    def test_a_cancel_reaches_every_rank_with_its_grace(self):
        run = self.on_lab(4, 2, "sh", "-c", "trap 'sleep 0.5; echo $RANK > outputs/saved-$RANK; exit 0' TERM; "
                                            f"echo up; {WAIT}")
        wait_until(lambda: self.all_printed(run, 8, "up"), "all ranks run", 60)
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        self.assertEqual(self.outputs(run), {f"saved-{rank}": f"{rank}\n" for rank in range(8)})

    def test_outputs_of_nodes_are_merged_and_what_differs_is_set_apart(self):
        run = self.on_lab(3, 1, "sh", "-c", "echo same > outputs/same; echo $RANK > outputs/which; "
                                            "echo $RANK > outputs/of-$RANK; echo log of $RANK > logs/log.txt")
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Completed", ended["error"])
        self.assertEqual(self.outputs(run), {
            "same": "same\n", "which": "0\n", ".node-1/which": "1\n", ".node-2/which": "2\n",
            "of-0": "0\n", "of-1": "1\n", "of-2": "2\n"})
        self.assertIn(".node-1/which", json.dumps(ended))
        for name, text in {"log.txt": "0", ".node-1/log.txt": "1", ".node-2/log.txt": "2"}.items():
            status, body = self.http("GET", f"/api/v1/runs/{run}/files/logs/{name}")[:2]
            self.assertEqual((status, body), (200, f"log of {text}\n".encode()))

    def test_a_node_that_is_taken_away_begins_the_next_attempt_by_itself(self):
        run = self.on_lab(2, 1, "sh", "-c", "cat outputs/*; echo attempt $TRAINYARD_ATTEMPT on $SLURMD_NODENAME; "
                                            f"test $TRAINYARD_ATTEMPT = 2 || {WAIT}")
        wait_until(lambda: self.all_printed(run, 2, "attempt 1"), "it runs", 60)
        before = [self.printed(run, rank).split()[-1] for rank in (0, 1)]
        self.lab.kill_node(before[1])
        self.addCleanup(self.lab.start_node, before[1])
        ended = self.finish(run, 120)
        self.assertEqual(ended["status"], "Completed", ended["reason"])
        self.assertEqual(len(ended["attempts"]), 2)
        self.assertIn(ended["attempts"][0]["status"], ("lost", "evicted"))
        for rank in (0, 1):
            self.assertNotIn(before[1], self.printed(run, rank).split("attempt 2 on ")[1])
        # Nothing of the first attempt goes on where it was not killed.
        wait_until(lambda: not self.ranks_on(before[0]), "the other node is free")

    def ranks_on(self, name):
        commands = [pathlib.Path(f"/proc/{pid}/cmdline") for pid in self.lab.processes_on(name)]
        return [path for path in commands if path.exists() and b"TRAINYARD_ATTEMPT" in path.read_bytes()]

    def test_tensorflows_workers_and_parameter_servers_find_each_other(self):
        (self.code / "job.yml").write_text("command: python3 tell.py\ncode: .\ncompute: lab\n"
                                           "resources: {instance_count: 2}\ndistribution: {type: tensorflow, "
                                           "worker_count: 4, parameter_server_count: 1}\n")
        run = self.json("job", "create", "-f", "job.yml")["name"]
        self.assertEqual(self.finish(run)["status"], "Completed", self.show(run)["error"])
        told = [json.loads(self.printed(run, rank)) for rank in range(5)]
        configs = [json.loads(words["TF_CONFIG"]) for words in told]
        # The server is on the first node, behind its workers.
        self.assertEqual([(config["task"]["type"], config["task"]["index"]) for config in configs],
                         [("worker", 0), ("worker", 1), ("ps", 0), ("worker", 2), ("worker", 3)])
        cluster = configs[0]["cluster"]
        self.assertEqual((len(set(cluster["worker"])), len(cluster["ps"])), (4, 1))
        self.assertNotIn(cluster["ps"][0], cluster["worker"])
        for words, config in zip(told, configs):
            self.assertEqual(config["cluster"], cluster)
            self.assertEqual(words["AZ_BATCHAI_PS_HOSTS"], cluster["ps"][0])
            mine = cluster[config["task"]["type"]][config["task"]["index"]]
            self.assertEqual(mine.rsplit(":", 1)[0], self.lab.address_of(words["SLURMD_NODENAME"]))

    def test_parameter_servers_that_wait_for_ever_end_with_the_workers(self):
        (self.code / "task.py").write_text("import json, os, time\n"
                                           "task = json.loads(os.environ['TF_CONFIG'])['task']\n"
                                           "print(task['type'], flush=True)\n"
                                           "while task['type'] == 'ps': time.sleep(0.1)\n"
                                           "time.sleep(task['index'])\n")
        for target, nodes, workers in (("lab", 2, 2), ("local", 1, 2)):
            with self.subTest(target=target):
                (self.code / "job.yml").write_text(
                    f"command: python3 task.py\ncode: .\ncompute: {target}\nresources: {{instance_count: {nodes}}}\n"
                    f"distribution: {{type: tensorflow, worker_count: {workers}, parameter_server_count: 2}}\n")
                run = self.json("job", "create", "-f", "job.yml")["name"]
                ended = self.finish(run)
                self.assertEqual((ended["status"], ended["exitCode"]), ("Completed", 0), ended["error"])
                told = sorted(self.printed(run, rank).strip() for rank in range(workers + 2))
                self.assertEqual(told, ["ps", "ps", *["worker"] * workers])

    def test_four_nodes_learn_the_curve_that_one_process_learns(self):
        shutil.copy(ROOT / "examples" / "ddp" / "train.py", self.code / "train.py")
        one = self.submit("--", PYTHON, "train.py")
        several = self.on_lab(4, 2, PYTHON, "train.py")
        curves = []
        for run in (one, several):
            ended = self.finish(run, 120)
            self.assertEqual(ended["status"], "Completed", ended["error"])
            points = self.json("run", "metrics", run, "--metric", "loss")
            curves.append([(point["step"], point["value"]) for point in points])
        self.assertEqual(len(curves[0]), 320)
        self.assertEqual([step for step, _ in curves[0]], [step for step, _ in curves[1]])
        apart = max(abs(a - b) for (_, a), (_, b) in zip(*curves))
        self.assertLess(apart, 1e-5)
        self.assertLess(curves[0][-1][1], curves[0][0][1] / 2)  # It learns something at all.
        self.assertIn("8 processes", self.printed(several, 0))


if __name__ == "__main__":
    main()
