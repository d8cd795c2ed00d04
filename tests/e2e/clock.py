"""The wall clock stepping back an hour changes no order and no duration."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main, wait_until


class Clock(YardTest):
    def setUp(self):
        super().setUp()
        libraries = list(pathlib.Path("/usr/lib").rglob("libfaketime.so.1"))
        if not libraries:
            self.skipTest("skipped: libfaketime is not installed")
        self.offset = self.scratch / "offset"
        self.offset.write_text("+0")
        self.env.update(LD_PRELOAD=str(libraries[0]), FAKETIME_TIMESTAMP_FILE=str(self.offset),
                        FAKETIME_NO_CACHE="1", FAKETIME_DONT_FAKE_MONOTONIC="1", DONT_FAKE_MONOTONIC="1")

    def test_an_hour_back_in_the_middle_of_a_run(self):
        run = self.submit("--", "sh", "-c", "echo up; sleep 2")
        wait_until(lambda: "up" in self.console(run), "the script to run")
        self.offset.write_text("-3600")
        year = subprocess.run(["date", "+%s"], env=self.env, capture_output=True, text=True)
        self.assertLess(abs(int(year.stdout) + 3600 - __import__("time").time()), 60, "the fake clock works")
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Completed")
        for phase in ended["timeline"]:
            self.assertGreaterEqual(phase["seconds"], 0)
            self.assertLess(phase["seconds"], 30)
        times = [ended["createdAt"], ended["startedAt"], ended["endedAt"]]
        self.assertEqual(times, sorted(times))
        # A restart in the past hands out no older time than is on record.
        self.ok("server", "stop")
        later = self.submit("--", "true")
        self.assertGreaterEqual(self.finish(later)["createdAt"], ended["endedAt"])
        self.assertEqual([r["id"] for r in self.json("run", "list")], [later, run])


if __name__ == "__main__":
    main()
