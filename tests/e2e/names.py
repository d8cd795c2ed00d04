"""How people name runs: by id, a beginning of it, display name, or `latest`."""
import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main


class Names(YardTest):
    def test_a_run_is_named_by_id_beginning_display_name_or_latest(self):
        self.write("train.py", "open('outputs/model.txt', 'w').write('42')\n")
        first = self.submit("--name", "my first try", "--", "python3", "train.py")
        second = self.submit("--name", "second", "--", "true")
        for run in (first, second):
            self.finish(run)
        for word in (first, first[:-1], "my first try"):
            self.assertEqual(self.json("run", "show", word)["id"], first)
            self.assertEqual(self.json("job", "show", "-n", word)["name"], first)
        for word in ("second", "latest", "^"):
            self.assertEqual(self.json("run", "show", word)["id"], second)
        self.ok("run", "cp", "my first try:outputs/model.txt", "model.txt")
        self.assertEqual((self.code / "model.txt").read_text(), "42")
        self.assertEqual(self.json("run", "diff", "my first try", "latest")["a"], first)
        self.assertEqual(self.run_cli("run", "wait", "my first try").code, 0)
        # A name given later counts, and the old one no longer does.
        self.ok("job", "update", "second", "--set", "display_name=renamed")
        self.assertEqual(self.json("run", "show", "renamed")["id"], second)
        self.assertIn("does not exist", self.refused(4, "run", "show", "second"))
        self.ok("run", "delete", "-y", "renamed")
        self.assertIn("no run", self.refused(4, "run", "show", "no such run"))

    def test_a_name_that_several_runs_have_is_refused_with_the_candidates(self):
        runs = [self.submit("--name", "twin", "--", "true") for _ in range(2)]
        for run in runs:
            self.finish(run)
        error = self.refused(5, "run", "delete", "-y", "twin")
        for run in runs:
            self.assertIn(f"{run} (twin, Completed)", error)
        self.assertEqual(len(self.json("run", "list")), 2)

    def test_a_whole_id_wins_over_newer_ids_that_begin_with_it(self):
        self.ok("workspace", "create", "lab")
        for run in ("sweep-1", *(f"sweep-1{n}" for n in range(7))):
            self.write("job.yml", f"name: {run}\ncommand: 'true'\n")
            self.ok("job", "create", "-f", "job.yml")
        self.write("job.yml", "name: sweep\ncommand: 'true'\n")
        self.ok("job", "create", "-f", "job.yml", "-w", "lab")
        self.assertEqual(self.json("run", "show", "sweep-1")["id"], "sweep-1")
        self.assertEqual(self.json("run", "show", "sweep")["id"], "sweep")
        self.assertIn("several runs", self.refused(5, "run", "show", "swee"))

    def test_names_are_looked_for_in_the_workspace_first(self):
        here = self.submit("--name", "same", "--", "true")
        self.ok("workspace", "create", "lab")
        there = self.submit("-w", "lab", "--name", "same", "--", "true")
        only_there = self.submit("-w", "lab", "--name", "other", "--", "true")
        self.assertEqual(self.json("run", "show", "same")["id"], here)
        self.assertEqual(self.json("run", "show", "same", "-w", "lab")["id"], there)
        self.assertEqual(self.json("run", "show", "other")["id"], only_there)
        self.assertEqual(self.json("run", "show", "latest")["id"], here)
        self.ok("workspace", "create", "bare")
        self.assertIn("workspace bare has no runs", self.refused(4, "run", "show", "latest", "-w", "bare"))


if __name__ == "__main__":
    main()
