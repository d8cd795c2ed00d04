"""``python -m trainyard``: the few commands one needs on a machine without the program."""

import argparse
import json
import os
import sys

from .errors import Denied, NotFound, RunFailed, TrainyardError, Unavailable, UserError, printable


def main(words: "list[str] | None" = None) -> int:
    """Runs a command; returns its exit code."""
    options = _parser().parse_args(words)
    try:
        return options.act(options) or 0
    except TrainyardError as error:
        print("error: " + printable(error, keep="\n"), file=sys.stderr)
        codes = ((UserError, 2), (Denied, 3), (NotFound, 4), (Unavailable, 6), (RunFailed, 1))
        return next((code for kind, code in codes if isinstance(error, kind)), 5)
    except OSError as error:
        print("error: " + printable(error, keep="\n"), file=sys.stderr)
        return 6
    except KeyboardInterrupt:
        return 130


def _parser() -> "argparse.ArgumentParser":
    parser = argparse.ArgumentParser(
        prog="python -m trainyard", description="Submit and read runs of a Trainyard server.",
        epilog="The server: --server or TRAINYARD_SERVER, with TRAINYARD_TOKEN; else that of "
               "TRAINYARD_HOME, of trainyard login, or this machine's own.")
    parser.add_argument("--server", help="its address: https://host")
    parser.add_argument("-w", "--workspace-name", help="else the one the folder is attached to, "
                        "else the one of trainyard configure")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="action")
    commands.required = True  # As an argument it is new in Python 3.7.

    def command(name, act, text):
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(act=act)
        return made

    submit = command("submit", _submit, "run a command with the current folder as its code")
    submit.add_argument("-e", "--experiment-name", help="else the folder's name")
    submit.add_argument("--target", help="where to run; else local")
    submit.add_argument("--name", help="what to call it")
    submit.add_argument("--tag", action="append", default=[], metavar="K=V")
    submit.add_argument("--env-var", action="append", default=[], metavar="K=V")
    submit.add_argument("--preparation", metavar="CMD",
                        help="run this in a shell once on each machine, before all else")
    submit.add_argument("--environment", metavar="NAME[:V]", help="a registered or curated one")
    submit.add_argument("--requirements", metavar="FILE", help="packages, as pip reads them")
    submit.add_argument("--conda", metavar="FILE", help="packages, as conda reads them")
    submit.add_argument("--image", help="run in a container of this image")
    submit.add_argument("--async", dest="no_wait", action="store_true",
                        help="print the id, do not wait")
    submit.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD ARG…")
    runs = command("runs", _runs, "list runs, the newest first")
    runs.add_argument("-e", "--experiment-name")
    runs.add_argument("--last", type=int, default=20, metavar="N")
    for name, act, text in (("show", _show, "print a run as JSON"),
                            ("cancel", _cancel, "ask a run to stop")):
        command(name, act, text).add_argument("run")
    logs = command("logs", _logs, "print a run's console")
    logs.add_argument("run")
    logs.add_argument("-f", "--follow", action="store_true", help="until the run is over")
    download = command("download", _download, "fetch a run's outputs")
    download.add_argument("run")
    download.add_argument("-d", "--output-dir", help="a folder; else one named after the run")
    flush = command("flush", _flush, "send what a program logged while the server was away")
    flush.add_argument("file", nargs="+")
    return parser


def _workspace(options):
    from .settings import saved_workspace
    from .workspace import Workspace, find_config
    if not options.workspace_name and find_config(None) is not None:
        return Workspace.from_config(server=options.server)
    name = options.workspace_name or saved_workspace() or "default"
    return Workspace(workspace_name=name, server=options.server)


def _submit(options) -> int:
    from .experiment import Experiment
    from .script_run_config import ScriptRunConfig
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not words:
        raise UserError("no command to run",
                        "Put it after --, as in: python -m trainyard submit -- python3 train.py")
    name = options.experiment_name or os.path.basename(os.getcwd()) or "default"
    config = ScriptRunConfig(".", command=words, compute_target=options.target,
                             display_name=options.name, environment=_environment(options),
                             environment_variables=_pairs(options.env_var, "--env-var"),
                             preparation=options.preparation)
    run = Experiment(_workspace(options), name).submit(config, tags=_pairs(options.tag, "--tag"))
    if options.no_wait:
        print(run.id)
        return 0
    return _follow(run)


def _environment(options):
    if not (options.requirements or options.conda or options.image):
        return options.environment
    from .environment import Environment
    base = None if options.environment == "system" else options.environment
    return Environment(base=base, pip_requirements=options.requirements,
                       conda_specification=options.conda, image=options.image)


def _pairs(texts: "list[str]", what: str) -> dict:
    for text in texts:
        if "=" not in text:
            raise UserError(f"{what} {text}: not KEY=VALUE")
    return dict(text.split("=", 1) for text in texts)


def _follow(run) -> int:
    from .follow import Follower
    try:
        state = Follower(run).follow()
    except KeyboardInterrupt:
        print(f"\nDetached; the run goes on. Stop it with: python -m trainyard cancel {run.id}",
              file=sys.stderr)
        raise
    code = state.get("exitCode")
    code = int(state["status"] != "Completed") if code is None else code
    if state.get("error"):
        print(f"{state['status']}: {printable(state['error'])}", file=sys.stderr)
    print(f"run {run.id}: {state['status']}, exit {code}", file=sys.stderr)
    return code


def _runs(options) -> None:
    server = _workspace(options)._server()
    query = {"workspace": _workspace(options).name}
    if options.experiment_name:
        query["experiment"] = options.experiment_name
    print(f"{'ID':<28} {'STATUS':<16} {'EXPERIMENT':<20} {'CREATED':<21} NAME")
    for number, run in enumerate(server.pages("/runs", query, page=min(options.last, 200))):
        if number == options.last:
            return
        print(printable(f"{run['id']:<28} {run['status']:<16} {run['experiment']:<20} "
                        f"{run['createdAt'][:19]:<21} {run['name']}"))


def _show(options) -> None:
    print(json.dumps(_workspace(options).get_run(options.run)._known(), indent=2,
                     ensure_ascii=False))


def _cancel(options) -> None:
    run = _workspace(options).get_run(options.run)
    run.cancel()
    print(f"run {run.id}: {run._known()['status']}", file=sys.stderr)


def _logs(options) -> int:
    from .follow import Follower
    run = _workspace(options).get_run(options.run)
    if options.follow:
        return _follow(run)
    Follower(run).show()
    return 0


def _download(options) -> None:
    run = _workspace(options).get_run(options.run)
    run.download_files(prefix="outputs/", output_directory=options.output_dir)


def _flush(options) -> None:
    from .courier import flush_spool
    from .place import find_server
    from .server import Server

    def find(kept: str):
        # A spool of this machine's own server names its socket.
        if options.server or os.environ.get("TRAINYARD_SERVER") or not kept:
            return find_server(options.server)
        if os.path.isabs(kept):
            return Server(unix_socket=kept)
        return find_server(kept)

    for path in options.file:
        print(f"{path}: {flush_spool(path, find)} bytes sent", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
