"""A machine with an NVIDIA GPU and PyTorch: `make gpu` runs this there. It is not part of `make test`,
whose machines have none; what it promises is tested there against a library that plays NVML."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, wait_until  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
if torch is None or not torch.cuda.is_available():
    print("skipped: no PyTorch that sees a GPU on this machine")
    sys.exit(77)

# Holds its GPU for a while and says when, by one clock for all processes.
HOLD = """
import os, time, torch
begin = time.monotonic()
x = torch.randn(4096, 4096, device="cuda")
while time.monotonic() < begin + 3:
    x = (x @ x).clamp(-1, 1)
torch.cuda.synchronize()
print("held", os.environ["CUDA_VISIBLE_DEVICES"], begin, time.monotonic(), flush=True)
"""

TRAIN = """
import time, torch
from trainyard import Run
run = Run.get_context()
model = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(2048, 4096, device="cuda")
end = time.monotonic() + 20
step = 0
while time.monotonic() < end:
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if step % 50 == 0:
        run.log("loss", loss, step=step)
    step += 1
run.log_parameter("device", torch.cuda.get_device_name())
print("steps", step)
"""


class Gpu(YardTest):
    def setUp(self):
        super().setUp()
        (self.code / "hold.py").write_text(HOLD)
        (self.code / "train.py").write_text(TRAIN)
        self.python = sys.executable

    def test_two_runs_of_one_gpu_never_overlap(self):
        ids = [self.ok("submit", "--async", "--gpus", "1", "--", self.python, "hold.py").strip()
               for _ in range(2)]
        waiting = wait_until(lambda: [r for r in self.json("run", "list") if r["status"] == "Queued"],
                             "one of them waits")
        self.assertRegex(waiting[0]["reason"], r"waits for 1 GPU: 0 free of \d+")
        held = []
        for run in ids:
            self.ok("run", "wait", run, timeout=120)
            words = self.ok("run", "logs", run).split()
            self.assertEqual(words[0], "held")
            held.append((words[1], float(words[2]), float(words[3])))
        held.sort(key=lambda h: h[1])
        print("held (devices, from, to):", held)
        self.assertTrue(held[0][0] and held[0][0] == held[1][0])
        self.assertLessEqual(held[0][2], held[1][1])

    def test_who_asks_for_none_sees_none(self):
        done = self.run_cli("submit", "--", self.python, "-c",
                            "import torch; print(torch.cuda.is_available(), torch.cuda.device_count())")
        self.assertEqual(done.out, "False 0\n", done)

    def test_more_than_there_are_is_refused(self):
        count = torch.cuda.device_count() + 1
        err = self.refused(2, "submit", "--gpus", count, "--", "true")
        self.assertIn(f"{count} were asked for", err)

    def test_a_training_logs_its_utilisation(self):
        self.ok("submit", "--gpus", "1", "-e", "gpu", "--", self.python, "train.py", timeout=120)
        run = self.json("run", "list")[0]
        points = self.json("run", "metrics", run["id"], "--metric", "system/gpu_0_utilization_percentage")
        print("utilisation:", [p["value"] for p in points], run["metrics"], run["parameters"])
        self.assertGreater(max(p["value"] for p in points), 50)
        self.assertGreater(run["metrics"]["system/gpu_0_memory_usage_megabytes"], 100)
        self.assertIn("loss", run["metrics"])
        shown = self.json("run", "show", run["id"])
        self.assertEqual(len(shown["attempts"][0]["gpus"]), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
