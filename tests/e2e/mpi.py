"""Programs of MPI, here and on a real Slurm: right sums, each rank's own console and end, and nothing left.

All nodes of the lab share one machine, whose memory Open MPI would take for common: OMPI_MCA_btl in the runs'
own variables keeps it from that. On real nodes nobody sets it."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import slurm_lab
from lab_yard import LabTest
from yard import YardTest, wait_until

PROGRAM = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void save(int signal) {
  (void)signal;
  if (write(1, "saved\n", 6) == 6) _exit(0);
}

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank, size, sum;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const char* node = getenv("SLURMD_NODENAME");
  printf("rank %d of %d: sum %d on %s, %s %s\n", rank, size, sum, node ? node : "here", getenv("RANK"),
         getenv("LOCAL_RANK"));
  fprintf(stderr, "rank %d warns\n", rank);
  fflush(stdout);
  const char* what = count > 1 ? words[1] : "";
  const int who = count > 2 ? atoi(words[2]) : -1;
  if (!strcmp(what, "hold")) {
    signal(SIGTERM, save);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("up\n");
    fflush(stdout);
    for (;;) pause();
  }
  if (rank == who && !strcmp(what, "exit")) {
    printf("rank %d gives up\n", rank);
    fflush(stdout);
    exit(atoi(words[3]));
  }
  if (rank == who && !strcmp(what, "kill")) kill(getpid(), SIGKILL);
  if (rank == who && !strcmp(what, "abort")) MPI_Abort(MPI_COMM_WORLD, 9);
  if (rank == who && !strcmp(what, "leave")) exit(0);  // Without a word to MPI.
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
"""

AS_ROOT = ["--allow-run-as-root"] if os.geteuid() == 0 else []
OURS = ("mpirun", "orted", "sum", "trainyard")


def setUpModule():
    global built, program
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        raise unittest.SkipTest("skipped: no mpicc or mpirun here (packages openmpi-bin, libopenmpi-dev)")
    built = tempfile.TemporaryDirectory(prefix="yard-mpi-")
    unittest.addModuleCleanup(built.cleanup)
    program = pathlib.Path(built.name) / "sum"
    (source := program.with_suffix(".c")).write_text(PROGRAM)
    subprocess.run(["mpicc", "-o", program, source], check=True)


class MpiTest(YardTest):
    def setUp(self):
        super().setUp()
        shutil.copy(program, self.code / "sum")

    def log(self, run, rank):
        """Both of its outputs."""
        done = self.run_cli("run", "logs", run, "--rank", rank)
        self.assertEqual(done.code, 0, done)
        return done.out + done.err

    def newest(self):
        return self.show(self.json("run", "list")[0]["id"])


class Local(MpiTest):
    def submit_mpi(self, *words, ranks=4, **more):
        return self.run_cli("submit", "--distribution", "mpi", "--processes-per-node", ranks, "--", *words, **more)

    def test_four_ranks_here_are_one_world(self):
        done = self.submit_mpi("./sum")
        self.assertEqual(done.code, 0, done)
        run = self.newest()["id"]
        for rank in range(4):
            self.assertEqual(sorted(self.log(run, rank).splitlines()),
                             [f"rank {rank} of 4: sum 6 on here, {rank} {rank}", f"rank {rank} warns"])

    def test_a_rank_that_fails_names_itself(self):
        done = self.submit_mpi("./sum", "exit", 2, 7)
        self.assertEqual(done.code, 7, done)
        run = self.newest()
        self.assertIn("rank 2 exited with code 7", run["error"])
        self.assertIn("rank 2 gives up", run["error"])
        self.assertEqual(self.submit_mpi("./sum", "abort", 1).code, 9)
        self.assertIn("rank 1 exited with code 9", self.newest()["error"])

    def test_a_rank_that_leaves_its_world_without_a_word_fails_the_run(self):
        done = self.submit_mpi("./sum", "leave", 1)
        self.assertNotEqual(done.code, 0, done)
        self.assertIn("mpirun", self.newest()["error"])

    def test_a_program_that_is_not_there_is_127(self):
        done = self.submit_mpi("no-such-program")
        self.assertEqual(done.code, 127, done)
        self.assertIn("program 'no-such-program' was not found in PATH", self.newest()["error"])

    def test_a_supervisor_that_is_killed_takes_all_of_it_along(self):
        before = set(pathlib.Path("/dev/shm").iterdir())
        run = self.submit("--distribution", "mpi", "--processes-per-node", 2, "--", "./sum", "hold")
        wait_until(lambda: "up" in self.log(run, 1), "it runs")
        os.kill(self.supervisor_of(run), signal.SIGKILL)
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Failed")
        self.assertEqual(set(pathlib.Path("/dev/shm").iterdir()) - before, set())

    def test_without_mpirun_ranks_run_plainly_and_are_told_so(self):
        bin = self.scratch / "bin"
        bin.mkdir()
        (bin / "sh").symlink_to("/bin/sh")
        done = self.submit_mpi("sh", "-c", "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE", ranks=2,
                               env={"PATH": str(bin)})
        self.assertEqual(done.code, 0, done)
        run = self.newest()["id"]
        self.assertIn("mpirun was not found in PATH", self.log(run, 0))
        self.assertEqual(self.log(run, 1), "1 of 2\n")

    def test_an_mpirun_of_the_users_own_is_left_alone(self):
        done = self.submit_mpi("mpirun", *AS_ROOT, "--oversubscribe", "-np", 3, "./sum", ranks=1)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out.count("of 3: sum 3"), 3, done)


class Slots(MpiTest):
    """Several nodes on this machine, without Slurm."""

    def setUp(self):
        super().setUp()
        self.ok("compute", "create", "-n", "gpu", "--engine", "local", "--max-nodes", 3)
        self.before = set(pathlib.Path("/dev/shm").iterdir())

    def submit_mpi(self, *words, nodes=3):
        return self.run_cli("submit", "--target", "gpu", "--nodes", nodes, "--processes-per-node", 2, "--distribution",
                            "mpi", "--", *words)

    def test_ranks_of_three_slots_are_one_world(self):
        done = self.submit_mpi("./sum")
        self.assertEqual(done.code, 0, done)
        run = self.newest()
        self.assertEqual((run["nodeCount"], run["nodes"]), (3, ["gpu-0", "gpu-1", "gpu-2"]))
        for rank in range(6):
            self.assertIn(f"rank {rank} of 6: sum 15 on here, {rank} {rank % 2}", self.log(run["id"], rank))
        self.assertEqual(set(pathlib.Path("/dev/shm").iterdir()) - self.before, set())

    def test_a_rank_that_fails_ends_the_others(self):
        done = self.submit_mpi("./sum", "exit", 3, 7)
        self.assertEqual(done.code, 7, done)
        self.assertIn("rank 3 exited with code 7 on node gpu-1", self.newest()["error"])
        self.assertEqual(set(pathlib.Path("/dev/shm").iterdir()) - self.before, set())

    def test_an_mpirun_of_the_users_own_reaches_all_slots(self):
        done = self.submit_mpi("mpirun", *AS_ROOT, "./sum")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out.count("of 6: sum 15"), 6, done)


class Cluster(MpiTest, LabTest):
    LAB = {"nodes": 5, "bare": "n5"}
    TARGET = ("--max-nodes", 4, "--sbatch=--exclude=n5")

    def lab_is_as_before(self):
        super().lab_is_as_before()
        self.nothing_on_nodes()

    def nothing_on_nodes(self):
        def left(name):
            return [slurm_lab.name_of(pid) for pid in self.lab.processes_on(name)
                    if slurm_lab.name_of(pid).startswith(OURS)]
        for name in self.lab.names:
            wait_until(lambda: not left(name), f"no process left on {name}")
            files = self.lab.exec_on(name, "ls", "/dev/shm", "/tmp", check=False).stdout
            self.assertNotIn("vader", files)
            self.assertNotIn("ompi", files)

    def words(self, *words, target="lab", nodes=4):
        return ["--target", target, "--nodes", nodes, "--processes-per-node", 2, "--distribution", "mpi",
                "--env-var", "OMPI_MCA_btl=tcp,self", "--", *words]

    def test_eight_ranks_on_four_nodes_are_one_world(self):
        done = self.run_cli("submit", *self.words("./sum"))
        self.assertEqual(done.code, 0, done)
        run = self.newest()["id"]
        for rank in range(8):
            # mpirun itself may say, on a busy machine, that its child was quicker than it.
            lines = [line for line in self.log(run, rank).splitlines() if "Warning: setpgid(" not in line]
            self.assertEqual(
                sorted(lines),
                [f"rank {rank} of 8: sum 28 on n{rank // 2 + 1}, {rank} {rank % 2}", f"rank {rank} warns"])

    def test_rank_5_that_fails_is_the_runs_failure(self):
        done = self.run_cli("submit", *self.words("./sum", "exit", 5, 7))
        self.assertEqual(done.code, 7, done)
        run = self.newest()
        self.assertIn("rank 5 exited with code 7 on node n3", run["error"])
        self.assertIn("rank 5 gives up", run["error"])

    def test_rank_5_that_is_killed_is_named_by_its_signal(self):
        done = self.run_cli("submit", *self.words("./sum", "kill", 5))
        self.assertEqual(done.code, 128 + signal.SIGKILL, done)
        self.assertIn("rank 5 was killed by signal 9 (SIGKILL)", self.newest()["error"])

    def test_a_cancel_gives_every_rank_its_grace(self):
        run = self.submit(*self.words("./sum", "hold"))
        for rank in range(8):
            wait_until(lambda: "up" in self.log(run, rank), f"rank {rank} is up")
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        for rank in range(8):
            self.assertIn("saved", self.log(run, rank))

    def test_an_mpirun_of_the_users_own_reaches_all_nodes(self):
        # Its program is at the same path on every node; `-host` names nodes as Slurm does.
        for words, count in ((["mpirun"], 8), (["mpiexec", "-host", "n1:1,n2:1", "-np", 2], 2)):
            done = self.run_cli("submit", *self.words(*words, "sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK on $(hostname)"))
            self.assertEqual(done.code, 0, done)
            said = sorted(line for line in done.out.replace("[0] ", "").splitlines() if line.startswith("rank "))
            self.assertEqual(said, [f"rank {rank} on n{rank * 4 // count + 1 if count == 8 else rank + 1}"
                                    for rank in range(count)], done)

    def test_a_node_without_mpi_is_named_with_what_to_install(self):
        self.ok("compute", "create", "-n", "mixed", "--engine", "slurm", "--max-nodes", "2",
                "--sbatch=--nodelist=n1,n5")
        done = self.run_cli("submit", *self.words("./sum", target="mixed", nodes=2))
        self.assertEqual(done.code, 127, done)
        error = self.newest()["error"]
        self.assertIn("Open MPI was not found in PATH on node n5", error)
        self.assertIn("openmpi-bin", error)


if __name__ == "__main__":
    unittest.main(verbosity=2)
