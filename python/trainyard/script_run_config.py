"""What to run, and how: the description that ``Experiment.submit`` takes."""

import os
import shlex

from .errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping

    from .environment import Environment

_ALONG = ("PATH", "HOME", "USER", "LANG", "VIRTUAL_ENV")  # And CONDA_…


class ScriptRunConfig:
    """A script with its arguments, or a command, in a folder of code.

    ``arguments`` is a list of strings and numbers; a text is split as a shell splits it, so that
    ``"--epochs 3"`` is two arguments. ``$VARIABLE`` in them is replaced on the node.
    ``command`` is a list of words, or a text for the shell. ``compute_target`` is a name or
    something with a ``name``. ``environment`` is an ``Environment``, or the name of one:
    ``"sklearn"``, ``"mine:3"``; else the run has what its machine has. ``interpreter`` runs
    ``script``: the environment's ``python``; without one this very Python where the run's machine
    is this one, else ``python3``. ``preparation`` is a text for the shell, run once on each node
    before all else.
    """

    def __init__(self, source_directory: "str | None" = None, script: "str | None" = None,
                 arguments: "Iterable[Any] | None" = None, run_config: object = None,
                 compute_target: "Any" = None, environment: "Environment | str | None" = None,
                 distributed_job_config: object = None,
                 max_run_duration_seconds: "int | None" = None,
                 command: "str | Iterable[Any] | None" = None,
                 docker_runtime_config: object = None, *,
                 environment_variables: "Mapping[str, object] | None" = None,
                 interpreter: "str | None" = None, display_name: "str | None" = None,
                 description: "str | None" = None, cpus: int = 1, gpus: int = 0,
                 memory_bytes: int = 0, nodes: int = 1, processes_per_node: int = 1,
                 distribution: "str | None" = None, priority: str = "normal", max_retries: int = 0,
                 secrets: "Iterable[str] | None" = None,
                 parameters: "Mapping[str, object] | None" = None,
                 preparation: "str | None" = None) -> None:
        later = {"run_config": run_config, "distributed_job_config": distributed_job_config,
                 "docker_runtime_config": docker_runtime_config}
        for name, value in later.items():
            if value is not None:
                raise UserError(f"ScriptRunConfig: {name} comes with a later version",
                                "Leave it out, or submit a job file: trainyard run submit-script")
        if (script is None) == (command is None):
            raise UserError("ScriptRunConfig: give either script or command")
        self.source_directory = source_directory or "."
        self.script = script
        self.arguments = _arguments(arguments)
        self.command = command
        self.compute_target = compute_target
        self.environment = environment
        self.environment_variables = dict(environment_variables or {})
        self.max_run_duration_seconds = max_run_duration_seconds
        self.interpreter = interpreter
        self.display_name = display_name
        self.description = description
        self.cpus, self.gpus, self.memory_bytes = cpus, gpus, memory_bytes
        self.nodes, self.processes_per_node = nodes, processes_per_node
        self.distribution = distribution
        self.priority = priority
        self.max_retries = max_retries
        self.secrets = list(secrets or [])
        self.parameters = dict(parameters or {})
        self.preparation = preparation

    def __repr__(self) -> str:
        what = self.command
        if self.script:
            words = [self.script, *map(str, _arguments(self.arguments))]
            what = " ".join(map(shlex.quote, words))
        return f"ScriptRunConfig({self.source_directory!r}, {what!r})"


def target_of(config: "ScriptRunConfig") -> str:
    """The name of the target."""
    target = config.compute_target
    return str(getattr(target, "name", target) or "local")


def make_spec(config: "ScriptRunConfig", is_local: bool) -> dict:
    """The run's specification as the API takes it, all but names, environment and snapshot.
    ``is_local``: the server or the run is on this machine, so its programs and variables are
    ours."""
    words, form = _command(config, is_local)
    return {
        "target": target_of(config),
        "command": words,
        "commandForm": form,
        "displayName": config.display_name or "",
        "description": config.description or "",
        "parameters": _strings(config.parameters),
        "nodes": config.nodes,
        "processesPerNode": config.processes_per_node,
        "distribution": config.distribution or "",
        "resources": {"cpus": config.cpus, "gpus": config.gpus,
                      "memoryBytes": config.memory_bytes},
        "priority": config.priority,
        "retry": {"max": config.max_retries},
        "timeLimitSeconds": int(config.max_run_duration_seconds or 0),
        "environmentVariables": _strings(config.environment_variables),
        "submitEnvironment": _submit_environment() if is_local else {},
        "secrets": [str(name) for name in config.secrets],
        "preparation": config.preparation or "",
    }


def _command(config: "ScriptRunConfig", is_local: bool) -> "tuple[list[str], str]":
    if isinstance(config.command, str):
        return [config.command], "shell"
    if config.command is not None:
        return [_word(word) for word in config.command], "expand"
    script = config.script.replace("\\", "/") if os.name == "nt" else config.script
    if not os.path.isfile(os.path.join(config.source_directory, script)):
        raise UserError(f"there is no script '{script}' in '{config.source_directory}'")
    interpreter = config.interpreter
    if interpreter is None and config.environment is not None:
        from .environment import has_python
        interpreter = "python" if has_python(config.environment) else None
    if interpreter is None:
        import sys
        interpreter = sys.executable if is_local and sys.executable else "python3"
    return [interpreter, script, *map(_word, _arguments(config.arguments))], "expand"


def _arguments(arguments: object) -> list:
    """A list of arguments; a text is split as a shell splits it."""
    if isinstance(arguments, str):
        try:
            return shlex.split(arguments)
        except ValueError as error:
            raise UserError(f"arguments {arguments!r}: {error}",
                            "Give a list, as in: arguments=['--epochs', 3]") from error
    if arguments is None:
        return []
    if isinstance(arguments, (bytes, dict)) or not hasattr(arguments, "__iter__"):
        raise UserError(f"arguments of type {type(arguments).__name__} are not a list",
                        "Give a list, as in: arguments=['--epochs', 3]")
    return list(arguments)


def _word(word: object) -> str:
    if isinstance(word, (str, int, float)):
        return str(word)
    if hasattr(word, "__fspath__"):
        return os.fspath(word)
    raise UserError(f"an argument of type {type(word).__name__} is not known here",
                    "Arguments are strings and numbers.")


def _strings(pairs: dict) -> dict:
    return {str(key): str(value) for key, value in pairs.items()}


def _submit_environment() -> dict:
    return {key: value.encode("utf-8", "replace").decode() for key, value in os.environ.items()
            if key in _ALONG or key.startswith("CONDA_")}
