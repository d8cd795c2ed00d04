"""The Python package with the real server: in scripts, from outside, and while the server is away."""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from wheels import wheel
from yard import ROOT, TRAINYARD, YardTest, main, wait_until

PACKAGE = ROOT / "python"
HEAD = "from trainyard import Environment, Experiment, Run, ScriptRunConfig, Workspace\nimport json, os\n"


class Sdk(YardTest):
    def setUp(self):
        super().setUp()
        self.env["PATH"] = f"{pathlib.Path(TRAINYARD).parent}:{self.env['PATH']}"

    def python(self, text, cwd=None, env=None, check=True):
        """A program outside of any run, with the package on its path; what it printed."""
        done = subprocess.run([sys.executable, "-c", HEAD + text], cwd=cwd or self.code, text=True, timeout=120,
                              capture_output=True, env=dict(self.env, PYTHONPATH=str(PACKAGE), **(env or {})))
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout if check else done

    def run_script(self, text, code=0):
        """A script in a run; the run."""
        self.write("train.py", HEAD + text)
        done = self.run_cli("submit", "-e", "exp", "--", sys.executable, "train.py", timeout=120)
        self.assertEqual(done.code, code, done)
        self.done = done
        return self.show(done.err.splitlines()[-1].split()[1].rstrip(":"))

    def metrics(self, run_id):
        return json.loads(self.python(f"print(json.dumps(Workspace().get_run('{run_id}').get_metrics()))"))


class InARun(Sdk):
    def test_what_a_script_logs_is_kept_and_shown(self):
        run = self.run_script("""
run = Run.get_context()
for i in range(10):
    run.log('loss', 1 / (i + 1), step=i)
run.log('nan', float('nan'))
run.log('größe', 3)
run.log_list('list', [1, 2, 3])
run.log_row('row', a=1, b='x')
run.log_row('row', a=2, b='y')
run.log_table('table', {'c': [1, 2]})
run.log_confusion_matrix('cm', {'class_labels': ['a'], 'matrix': [[1]]})
run.log_parameter('lr', 0.1)
run.tag('host', 'h')
run.tag('gone')
run.remove_tags(['gone'])
run.add_properties({'commit': 'abc'})
""")
        self.assertEqual(run["status"], "Completed")
        self.assertEqual((run["tags"], run["properties"], run["parameters"]),
                         ({"host": "h"}, {"commit": "abc"}, {"lr": "0.1"}))
        self.assertEqual(run["metrics"]["loss"], 0.1)
        self.assertEqual(run["metrics"]["größe"], 3)
        found = self.metrics(run["id"])
        self.assertEqual(found["loss"], [1 / (i + 1) for i in range(10)])
        self.assertNotEqual(found["nan"], found["nan"])
        self.assertEqual((found["list"], found["row"], found["table"]),
                         ([1, 2, 3], {"a": [1, 2], "b": ["x", "y"]}, {"c": [1, 2]}))
        self.assertEqual(found["cm"]["schema_type"], "confusion_matrix")

    def test_the_same_script_works_by_hand(self):
        text = "run = Run.get_context()\nrun.log('loss', 0.5)\nrun.complete()\n"
        self.assertEqual(self.python(text), "loss: 0.5\n")
        self.assertEqual(self.run_script(text)["metrics"], {"loss": 0.5})
        self.assertEqual(self.done.out, "")

    def test_a_script_reads_back_what_it_logged_and_knows_its_run(self):
        run = self.run_script("""
run = Run.get_context(allow_offline=False)
run.log('x', 1)
run.log('x', 2)
run.tag('a', 1)
assert run.get_metrics() == {'x': [1, 2]}, run.get_metrics()
assert run.get_tags() == {'a': '1'}
assert run.experiment.name == 'exp' and run.experiment.workspace.name == 'default'
assert run.get_status() == 'Running', run.get_status()
assert run.id == os.environ['TRAINYARD_RUN_ID']
details = run.get_details()
assert details['runId'] == run.id and details['runDefinition']['script'] == 'train.py', details
print([r.id == run.id for r in run.experiment.get_runs()])
""")
        self.assertEqual(run["status"], "Completed", self.done)
        self.assertEqual(self.done.out, "[True]\n")

    def test_children_with_metrics_files_and_ends(self):
        run = self.run_script("""
run = Run.get_context()
with run.child_run('fold 1') as child:
    child.log('loss', 1)
    child.log('loss', 2)
    child.tag('fold', 1)
    open('f.txt', 'w').write('f')
    child.upload_file('outputs/f.txt', 'f.txt')
failed = run.child_run()
failed.fail('no data')
left = run.child_run('left open')
""")
        children = {child["name"]: child for child in
                    json.loads(self.http("GET", f"/api/v1/runs?parent={run['id']}")[1])["items"]}
        self.assertEqual(len(children), 3)
        fold = children["fold 1"]
        self.assertEqual((fold["status"], fold["tags"], fold["metrics"], fold["experiment"]),
                         ("Completed", {"fold": "1"}, {"loss": 2}, "exp"))
        self.assertIn("no data", [child["error"] for child in children.values()])
        self.assertNotIn("Running", [child["status"] for child in children.values()])
        self.assertEqual(self.python(f"run = Workspace().get_run('{fold['id']}')\nrun.download_file('outputs/f.txt')\n"
                                     "print(open('f.txt').read(), run.parent.id, run.get_metrics())",
                                     cwd=self.scratch), f"f {run['id']} {{'loss': [1, 2]}}\n")
        out = self.python(f"print(Workspace().get_run('{run['id']}').get_metrics(recursive=True))")
        self.assertEqual(out, f"{{'{fold['id']}': {{'loss': [1, 2]}}}}\n")

    def test_uploads_are_outputs_and_images_too(self):
        run = self.run_script("""
run = Run.get_context()
os.mkdir('model'); open('model/w.bin', 'w').write('w')
run.upload_folder('model', 'model')
run.upload_file('logs/extra.txt', 'model/w.bin')
open('p.png', 'w').write('png')
run.log_image('photo', path='p.png')
""")
        names = json.loads(self.python(f"print(json.dumps(Workspace().get_run('{run['id']}').get_file_names()))"))
        self.assertIn("outputs/model/w.bin", names)
        self.assertIn("logs/extra.txt", names)
        self.assertIn(run["metrics"]["photo"]["path"], names)

    def test_a_hundred_thousand_metrics_while_the_server_is_away_are_all_kept(self):
        self.write("train.py", HEAD + """
run = Run.get_context()
open('ready', 'w').close()
while not os.path.exists('go'): pass
for i in range(100_000):
    run.log('loss', i)
print('trained', flush=True)
""")
        run = self.submit("--", sys.executable, "train.py")
        work = self.home / "node" / f"{run}.1" / "work"
        wait_until(lambda: (work / "ready").exists(), "the script to run")
        self.kill_server()
        (work / "go").touch()
        spool = self.home / "node" / f"{run}.1" / "spool" / "records-0"
        wait_until(lambda: spool.exists() and spool.read_bytes().count(b"\n") == 100_000, "all to be logged")
        self.assertEqual(self.finish(run)["status"], "Completed")
        self.assertEqual(self.metrics(run)["loss"], list(range(100_000)))

    def test_what_was_logged_before_a_kill_is_kept(self):
        run = self.run_script("run = Run.get_context()\nfor i in range(1000): run.log('x', i)\n"
                              "os.kill(os.getpid(), 9)\n", code=137)
        self.assertEqual(self.metrics(run["id"])["x"], list(range(1000)))

    def test_fail_fails_the_run(self):
        run = self.run_script("Run.get_context().fail('no data', error_code='E7')\n", code=1)
        self.assertEqual((run["status"], run["exitCode"], run["error"]), ("Failed", 1, "E7: no data"))
        # Also where the exit code says nothing of it.
        run = self.run_script("Run.get_context().fail('no data')\nos._exit(0)\n", code=1)
        self.assertEqual((run["status"], run["exitCode"], run["error"]), ("Failed", 1, "no data"))

    def test_numbers_keep_their_type(self):
        text = """
run.log('int', 1); run.log('float', 1.0); run.log('series', 1.0); run.log('series', 2); run.log('large', 2**62)
run.log_list('list', [1.0, 2]); run.log_row('row', a=1.0, b=2)
"""
        wanted = ("{'int': 1, 'float': 1.0, 'series': [1.0, 2], 'large': 4611686018427387904, 'list': [1.0, 2], "
                  "'row': {'a': [1.0], 'b': [2]}}\n")
        offline = self.python("run = Run.get_context()" + text + "print(run.get_metrics())").splitlines(True)[-1]
        self.assertEqual(offline, wanted)
        run = self.run_script("run = Run.get_context()" + text)
        self.assertEqual(self.python(f"print(Workspace().get_run('{run['id']}').get_metrics())"), wanted)
        self.assertIn('"last": 1.0,', self.ok("run", "metrics", run["id"], "-o", "json"))
        self.assertIn('"last": 1,', self.ok("run", "metrics", run["id"], "-o", "json"))
        out = self.python("run = Experiment(Workspace(), 'e').start_logging()" + text
                          + "run.complete()\nprint(run.get_metrics())")
        self.assertEqual(out, wanted)

    def test_a_file_is_found_by_the_name_it_was_uploaded_by(self):
        names = ["model.bin", "a b/ü.txt", " x ", "100% ?#&+.txt", "outputs/y", "logs/l.txt"]
        upload = f"for name in {names!r}: run.upload_file(name, __file__)\n"
        self.write("up.py", HEAD + "run = Experiment(Workspace(), 'e').start_logging()\n" + upload
                   + "run.complete()\nprint(run.id)")
        by_hand = self.python("exec(compile(open('up.py').read(), 'up.py', 'exec'), {'__file__': 'up.py'})").strip()
        listed = {name if name.startswith(("outputs/", "logs/")) else f"outputs/{name}" for name in names}
        for run_id in (self.run_script("run = Run.get_context()\n" + upload)["id"], by_hand):
            found = json.loads(self.python(f"""
run = Workspace().get_run('{run_id}')
for name in {names!r}:
    run.download_file(name, 'got')
    assert 'upload_file' in open('got').read()
print(json.dumps(run.get_file_names()))
"""))
            self.assertLessEqual(listed, set(found))

    def test_a_run_submits_another_from_its_script(self):
        run = self.run_script("""
ws = Run.get_context().experiment.workspace
other = Experiment(ws, 'second').submit(command=['echo', 'from inside'], source_directory='.')
print(other.id)
""")
        self.assertEqual(run["status"], "Completed", self.done)
        other = self.finish(self.done.out.strip())
        self.assertEqual((other["status"], other["experiment"]), ("Completed", "second"))


class FromOutside(Sdk):
    def test_the_snapshot_is_the_same_as_the_command_lines_bit_by_bit(self):
        self.write("train.py", "print('hi')")
        self.write("run.sh", "#!/bin/sh\n", 0o755)
        self.write("deep/er/a b\n.txt", "x")
        self.write("a-b", "")
        self.write("data/big.bin", "ignored")
        self.write("keep/data/x", "kept")
        self.write("x.log", "ignored")
        self.write("sub/y.log", "kept by a nested file")
        self.write("sub/.gitignore", "!*.log\n")
        self.write(".gitignore", "/data/\n*.log\n**/tmp\n")
        self.write("sub/tmp/z", "ignored")
        self.write("outputs/o", "never")
        self.write(".git/config", "never")
        (self.code / "empty").mkdir()
        os.symlink("train.py", self.code / "link")
        os.symlink("/nowhere/ü", self.code / "dangling")
        os.symlink("deep", self.code / "folder-link")
        with open(os.fsencode(self.code) + b"/\xff\xfe", "w"):
            pass
        theirs = self.show(self.submit("--", "true"))["snapshotId"]
        ours = self.python("run = Experiment(Workspace(), 'e').submit(command=['true'])\nprint(run.id)").strip()
        self.assertEqual(self.show(ours)["snapshotId"], theirs)
        self.write(".amlignore", "deep\n")
        theirs = self.show(self.submit("--", "true"))["snapshotId"]
        out = self.python("from trainyard.capture import capture\nprint(capture('.').id)").strip()
        self.assertEqual(out, theirs)

    def test_submit_wait_and_fetch(self):
        self.write("train.py", "import sys, os\nprint('args', *sys.argv[1:], os.environ['A'])\n"
                               "print('warned', file=sys.stderr)\nopen('outputs/m.txt', 'w').write('m')\n")
        done = self.python("""
ws = Workspace()
run = Experiment(ws, 'exp').submit(ScriptRunConfig('.', script='train.py', arguments=['--lr', 0.1, '--n', 5, '$A'],
                                   environment_variables={'A': 'b'}), tags={'k': 1})
details = run.wait_for_completion(show_output=True)
assert details['status'] == 'Completed' and run.get_tags() == {'k': '1'}
run.download_file('outputs/m.txt', 'got.txt')
print(open('got.txt').read())
assert [r.id for r in Experiment(ws, 'exp').get_runs(tags='k')] == [run.id]
assert list(ws.experiments) == ['exp']
""", check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("args --lr 0.1 --n 5 b b\n", done.stdout)
        self.assertIn("Execution Summary", done.stdout)
        self.assertTrue(done.stdout.endswith("m\n"))
        self.assertIn("warned\n", done.stderr)

    def test_a_failed_run_raises(self):
        done = self.python("from trainyard import RunFailed\n"
                           "run = Experiment(Workspace(), 'e').submit(command='exit 3')\n"
                           "try: run.wait_for_completion()\n"
                           "except RunFailed as error: print(error.details['exitCode'])")
        self.assertEqual(done, "3\n")

    def test_over_tcp_with_a_token(self):
        self.ok("server", "start")
        status = self.json("server", "status", "--show-token")
        env = {"TRAINYARD_SERVER": status["url"], "TRAINYARD_TOKEN": status["token"],
               "TRAINYARD_HOME": str(self.scratch / "elsewhere")}
        self.write("train.py", "print('hello')")
        out = self.python("run = Experiment(Workspace.from_config(), 'e').submit(script='train.py')\n"
                          "run.wait_for_completion(show_output=True)\nprint(run.id)", env=env)
        self.assertIn("hello\n", out)
        done = self.python("Workspace().get_details()", env=dict(env, TRAINYARD_TOKEN="wrong"), check=False)
        self.assertIn("trainyard.errors.Denied", done.stderr)

    def test_the_server_of_a_login_is_used(self):
        self.ok("server", "start")
        status = self.json("server", "status", "--show-token")
        url, token = status["url"], status["token"]
        user = {"HOME": str(self.scratch / "user"), "TRAINYARD_HOME": ""}
        self.ok("login", url, env=dict(user, TRAINYARD_TOKEN=token))
        where = "print(Workspace.get('default')._server().url)"
        run = self.python("run = Experiment(Workspace.from_config(), 'saved').submit(command='true')\n"
                          "run.wait_for_completion()\nprint(run.id)", env=user).strip()
        self.assertEqual(self.show(run)["status"], "Completed")
        listed = subprocess.run([sys.executable, "-m", "trainyard", "runs"], cwd=self.code, text=True, timeout=60,
                                capture_output=True, env=dict(self.env, PYTHONPATH=str(PACKAGE), **user))
        self.assertIn(run, listed.stdout, listed)
        # A token belongs to its address: a variable's to TRAINYARD_SERVER, a saved one to its own.
        self.assertEqual(self.python(where, env=dict(user, TRAINYARD_TOKEN="wrong")), url + "\n")
        self.assertEqual(self.python(where, env=dict(user, TRAINYARD_SERVER=url)), url + "\n")
        denied = "trainyard.errors.Denied"
        for wrong in ({"TRAINYARD_SERVER": url, "TRAINYARD_TOKEN": "wrong"},
                      {"TRAINYARD_SERVER": url.replace("127.0.0.1", "localhost")}):
            self.assertIn(denied, self.python(where, env=dict(user, **wrong), check=False).stderr)
            self.assertEqual(self.run_cli("experiment", "list", env=dict(user, **wrong)).code, 3)
        # A home that is named has its own server, which is not started for the user's default home.
        self.assertEqual(self.python(where), "\n")
        self.assertFalse((self.scratch / "user" / ".trainyard" / "socket").exists())
        self.ok("workspace", "create", "-n", "lab")
        self.ok("configure", "--defaults", "workspace=lab", env=user)
        self.assertEqual(self.python("print(Workspace.from_config().name)", env=user), "lab\n")
        self.ok("logout", env=user)
        done = self.python(where, env=dict(user, PATH="/nonexistent"), check=False)
        self.assertIn(".trainyard/socket does not answer", done.stderr)
        settings = self.scratch / "config/trainyard/settings.json"
        settings.write_text("nonsense")
        done = self.python(where, env=user, check=False)
        settings.unlink()
        self.assertIn("settings.json: not a JSON object", done.stderr)

    def test_the_small_command_line(self):
        self.write("train.py", "print('hello')\nraise SystemExit(4)\n")
        env = dict(self.env, PYTHONPATH=str(PACKAGE))
        done = subprocess.run([sys.executable, "-m", "trainyard", "submit", "-e", "e", "--", "python3", "train.py"],
                              cwd=self.code, env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (4, "hello\n"), done.stderr)
        self.assertRegex(done.stderr, r"run \S+: Failed, exit 4\n$")
        listed = subprocess.run([sys.executable, "-m", "trainyard", "runs"], cwd=self.code, env=env,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(len(listed.stdout.splitlines()), 2, listed)


class Environments(Sdk):
    def setUp(self):
        super().setUp()
        wheels = self.scratch / "wheels"
        for name, version in (("apple", "1.0"), ("apple", "1.1"), ("pear", "2.5")):
            wheel(wheels, name, version)
        self.write("envs/index.txt", f"--no-index\n--find-links {wheels}\n")
        self.write("requirements.txt", "-r envs/index.txt\napple==1.0  # the old one\ntrainyard\n")
        self.write("conda.yml", "dependencies:\n- pip:\n  - -r envs/index.txt\n  - pear\n")
        self.write("show.py", "import os, apple\nprint(apple.version, os.environ.get('A'))\n")

    def submitted(self, environment):
        """What a run prints that is submitted so, and its environment."""
        run = self.python(f"""
run = Experiment(Workspace(), 'exp').submit(script='show.py', environment={environment})
run.wait_for_completion()
print(run.id)
""").strip()
        status, body = self.http("GET", f"/api/v1/runs/{run}/spec")
        self.assertEqual(status, 200, body)
        return self.console(run), json.loads(body)["environment"]

    def test_packages_of_files_and_names(self):
        said, made = self.submitted(
            "Environment('mine', pip_requirements='requirements.txt', environment_variables={'A': 1})")
        self.assertEqual(said, "1.0 1\n")
        self.assertEqual((made["recipe"]["kind"], made["leftOut"]), ("venv", ["trainyard"]))
        # The same as of the command line, and so made already.
        run = self.submit("--requirements", "requirements.txt", "--", "true")
        self.assertEqual(self.show(run)["environment"]["hash"], made["hash"])
        out = self.python("""
ws = Workspace()
kept = Environment.from_pip_requirements('mine', 'requirements.txt').register(ws)
again = Environment.from_pip_requirements('mine', 'requirements.txt').register(ws)
print(kept.version, again.version, Environment.get(ws, 'mine@latest').version, list(Environment.list(ws)))
Environment('more', base='mine:1', conda_specification='conda.yml').register(ws)
""")
        self.assertEqual(out, "1 1 1 ['mine']\n")
        said, by_name = self.submitted("'mine:1'")
        self.assertEqual((said, by_name["version"], by_name["hash"]), ("1.0 None\n", "1", made["hash"]))
        said, fetched = self.submitted("Environment.get(Workspace(), 'mine')")
        self.assertEqual((said, fetched["version"]), ("1.0 None\n", "1"))
        self.assertEqual(len(self.json("environment", "show", "more")["recipe"]["requirements"]), 2)

    def test_images_and_folders(self):
        self.write("docker/Dockerfile", "FROM debian:12\n")
        out = self.python("""
ws = Workspace()
image = Environment.from_docker_image('image', 'debian:12', pip_requirements='requirements.txt')
image.docker_arguments = ['-v /a:/b', '--ipc=host']
print(json.dumps(image.register(ws).details))
print(Environment.from_docker_build_context('built', 'docker').register(ws).details['recipe']['context'])
print(Environment.from_dockerfile('text', 'docker/Dockerfile').register(ws).details['recipe']['dockerfile'])
""").splitlines()
        image = json.loads(out[0])
        self.assertEqual((image["kind"], image["arguments"]), ("container", ["-v", "/a:/b", "--ipc=host"]))
        # As the command line has it.
        made = self.json("environment", "create", "-n", "built", "--build-context", "docker")
        self.assertEqual((made["version"], made["recipe"]["context"]), ("1", out[1]))
        self.assertEqual(out[2], "FROM debian:12")

    def test_what_is_wrong_is_said_and_nothing_is_submitted(self):
        self.write("bad.txt", "apple\n==\n")
        for environment, words in (("'nobodys:3'", "environment 'nobodys"), ("'mine@newest'", "@latest"),
                                   ("Environment(pip_requirements='bad.txt')", "bad.txt:2"),
                                   ("Environment(image='x', docker_arguments=['--privileged'])", "--privileged")):
            done = self.python(f"Experiment(Workspace(), 'e').submit(script='show.py', environment={environment})",
                               check=False)
            self.assertEqual(done.returncode, 1, environment)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.json("run", "list"), [])


class Interactive(Sdk):
    def test_a_run_reported_from_outside(self):
        out = self.python("""
open('note.py', 'w').write('1')
with Experiment(Workspace(), 'exp').start_logging(snapshot_directory='.', display_name='by hand') as run:
    for i in range(5000):
        run.log('x', i)
    run.tag('a', 1)
    run.log_parameter('lr', 1)
    open('m.bin', 'w').write('m')
    run.upload_file('m.bin', 'm.bin')
    with run.child_run('child') as child:
        child.log('y', 1)
    assert run.get_metrics('x') == {'x': list(range(5000))}
    assert run.get_status() == 'Running'
print(run.id, child.id)
""")
        run_id, child_id = out.split()
        run = self.show(run_id)
        self.assertEqual((run["status"], run["name"], run["tags"], run["parameters"], run["interactive"]),
                         ("Completed", "by hand", {"a": "1"}, {"lr": "1"}, True))
        self.assertEqual(self.metrics(run_id)["x"], list(range(5000)))
        child = self.show(child_id)
        self.assertEqual((child["status"], child["parentId"], child["metrics"]), ("Completed", run_id, {"y": 1}))
        self.ok("run", "download", run_id, "-d", self.scratch / "got")
        self.assertEqual([f.read_text() for f in (self.scratch / "got").rglob("m.bin")], ["m"])
        self.assertEqual(list((self.home / "spool").iterdir()), [])

    def test_an_exception_fails_it(self):
        done = self.python("with Experiment(Workspace(), 'e').start_logging() as run:\n    1 / 0", check=False)
        self.assertEqual(done.returncode, 1)
        run = self.json("run", "list")[0]
        self.assertEqual((run["status"], run["error"]), ("Failed", "ZeroDivisionError: division by zero"))

    def test_it_ends_with_its_program(self):
        for text, status, error in (("", "Completed", None), ("1 / 0", "Failed", "ZeroDivisionError: division by zero"),
                                    ("raise SystemExit(0)", "Completed", None),
                                    ("import sys; sys.exit(2)", "Failed", "exit code 2")):
            done = self.python("run = Experiment(Workspace(), 'e').start_logging()\nrun.log('x', 1)\nprint(run.id)\n"
                               + text, check=False)
            run = self.show(done.stdout.strip())
            self.assertEqual((run["status"], run["error"], run["metrics"]), (status, error, {"x": 1}), done.stderr)

    def test_a_killed_server_loses_nothing_and_doubles_nothing(self):
        program = subprocess.Popen(
            [sys.executable, "-u", "-c", HEAD + """
run = Experiment(Workspace(), 'e').start_logging()
print(run.id)
for i in range(60_000):
    run.log('x', i)
    if i % 10_000 == 0: print(i); input()
run.complete()
"""], cwd=self.code, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(self.env, PYTHONPATH=str(PACKAGE)))
        self.addCleanup(lambda: (program.kill(), program.wait(), program.stdout.close(), program.stderr.close()))
        run = program.stdout.readline().strip()
        for i in range(6):
            self.assertEqual(program.stdout.readline().strip(), str(i * 10_000))
            if i in (1, 2, 4):
                # The package starts it again, as any command does.
                wait_until(lambda: self.run_cli("server", "status").code == 0, "a server")
                self.kill_server()
            program.stdin.write("\n")
            program.stdin.flush()
        program.stdin.close()
        self.assertEqual(program.wait(60), 0, program.stderr.read())
        self.assertEqual(self.metrics(run)["x"], list(range(60_000)))
        self.assertEqual(self.show(run)["status"], "Completed")


if __name__ == "__main__":
    main()
