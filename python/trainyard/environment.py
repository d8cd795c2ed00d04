"""What a run runs in: packages, an image, or what the machine has."""

import os

from .errors import NotFound, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from .server import Server
    from .workspace import Workspace

_ROUNDS_MAX = 16  # Of files that name files.


class Environment:
    """An environment: of files, of an image, or as a workspace keeps it.

    Make one by ``from_pip_requirements``, ``from_conda_specification``, ``from_docker_image``,
    ``from_dockerfile``, ``from_docker_build_context``, or ``get`` what is registered. Files are
    read when a run is submitted or the environment is registered, by the server, in the words of
    pip, conda and docker. A plain ``Environment(name)`` is what the machine has.
    """

    def __init__(self, name: str = "", *, base: "str | None" = None,
                 pip_requirements: "str | None" = None, conda_specification: "str | None" = None,
                 image: "str | None" = None, dockerfile: "str | None" = None,
                 build_directory: "str | None" = None, interpreter_path: "str | None" = None,
                 environment_variables: "dict | None" = None,
                 docker_arguments: "List[str] | None" = None,
                 shm_size: "str | None" = None, registry: "dict | None" = None,
                 description: str = "") -> None:
        """``base`` is another environment's name, which packages are put upon. ``registry`` has
        ``address``, ``username`` and ``secret``, the name of the secret that is the password."""
        self.name = name
        self.version: str | None = None  # Once it is registered.
        self.base = base
        self.pip_requirements = pip_requirements
        self.conda_specification = conda_specification
        self.image = image
        self.dockerfile = dockerfile  # Its text; with a build_directory its path in that.
        self.build_directory = build_directory
        self.interpreter_path = interpreter_path
        self.environment_variables = dict(environment_variables or {})
        self.docker_arguments = list(docker_arguments or [])
        self.shm_size = shm_size
        self.registry = dict(registry or {})
        self.description = description
        self.details: dict = {}  # As the server has it: recipe, hash, who made it.
        for file in (pip_requirements, conda_specification):
            if file is not None and not os.path.isfile(file):
                raise NotFound(f"there is no file '{file}'")
        if sum(1 for one in (base, image, dockerfile or build_directory) if one) > 1:
            raise UserError("Environment: give one of base, image and a Dockerfile",
                            "Packages may be put upon a base or an image.")

    # ---- made of files ----

    @staticmethod
    def from_pip_requirements(name: str, file_path: str) -> "Environment":
        """A virtual environment with the packages of a requirements file."""
        return Environment(name, pip_requirements=os.fspath(file_path))

    @staticmethod
    def from_conda_specification(name: str, file_path: str) -> "Environment":
        """An environment of conda, by its file."""
        return Environment(name, conda_specification=os.fspath(file_path))

    @staticmethod
    def from_docker_image(name: str, image: str, container_registry: "dict | None" = None,
                          conda_specification: "str | None" = None,
                          pip_requirements: "str | None" = None) -> "Environment":
        """A container of an image, with packages on top of it where some are named."""
        return Environment(name, image=image, registry=container_registry,
                           conda_specification=conda_specification,
                           pip_requirements=pip_requirements)

    @staticmethod
    def from_dockerfile(name: str, dockerfile: str) -> "Environment":
        """A container of an image that is built of a Dockerfile: its text, or its path."""
        text = os.fspath(dockerfile)
        if "\n" not in text and not text.startswith("FROM "):
            if not os.path.isfile(text):
                raise NotFound(f"there is no file '{text}'")
            with open(text, encoding="utf-8") as file:
                text = file.read()
        return Environment(name, dockerfile=text)

    @staticmethod
    def from_docker_build_context(name: str, build_directory: str,
                                  dockerfile: str = "Dockerfile") -> "Environment":
        """The same, built from a folder of files; ``dockerfile`` is a path in it."""
        if not os.path.isfile(os.path.join(build_directory, dockerfile)):
            raise NotFound(f"there is no '{dockerfile}' in '{build_directory}'")
        return Environment(name, dockerfile=dockerfile, build_directory=os.fspath(build_directory))

    # ---- kept by a workspace ----

    @staticmethod
    def get(workspace: "Workspace", name: str, version: "str | None" = None) -> "Environment":
        """What a name stands for: a registered environment, else a curated one. ``name`` may be
        ``name:version`` or ``name@latest``; else ``NotFound``."""
        from urllib.parse import quote
        query = {"version": str(version)} if version is not None else None
        path = f"{_path(workspace)}/{quote(name, safe='')}"
        return _of_server(workspace._server().call("GET", path, query=query))

    @staticmethod
    def list(workspace: "Workspace") -> "dict[str, Environment]":
        """The registered environments of a workspace by name, of each the latest version."""
        items = workspace._server().pages(_path(workspace))
        return {item["name"]: _of_server(item) for item in items}

    def register(self, workspace: "Workspace") -> "Environment":
        """Keeps it in a workspace under its name. Versions count from 1; what does the same as a
        version is that version. Returns it as it is kept."""
        if not self.name:
            raise UserError("an environment needs a name to be registered by")
        server = workspace._server()
        body = self._settled(server)
        base = body.pop("name", None)
        if base is not None:
            body["base"] = base
        body.update(name=self.name, description=self.description)
        return _of_server(server.call("POST", _path(workspace), body, again=True))

    def __repr__(self) -> str:
        version = f", version={self.version}" if self.version else ""
        return f"Environment(name={self.name}{version})"

    # ---- for the other modules ----

    def _own(self) -> dict:
        """What this object says, in the API's words."""
        recipe = dict(self.details.get("recipe", {}))
        recipe.pop("platform", None)
        recipe.pop("imageDigest", None)
        if self.image:
            recipe.update(kind="container", image=self.image)
        if self.dockerfile or self.build_directory:
            recipe.update(kind="container", dockerfile=self.dockerfile or "Dockerfile")
        variables = {str(key): str(value) for key, value in self.environment_variables.items()}
        own = {"recipe": recipe, "variables": variables, "registry": self.registry,
               "arguments": [str(word) for word in self.docker_arguments],
               "shmSize": self.shm_size, "interpreter": self.interpreter_path,
               "leftOut": self.details.get("leftOut"), "name": self.base}
        return {key: value for key, value in own.items() if value}

    def _is_kept(self) -> bool:
        """Whether it is what the workspace keeps under its name, and nothing was changed since."""
        files = self.pip_requirements or self.conda_specification or self.build_directory
        return bool(self.details) and not files and self._own() == _of_server(self.details)._own()

    def _settled(self, server: "Server") -> dict:
        """Whole, as the server takes it: its files read, its folder uploaded."""
        own = self._own()
        if self.build_directory:
            from .blobs import upload_missing
            from .capture import capture
            captured = capture(self.build_directory)
            upload_missing(server, captured)
            own["recipe"]["context"] = captured.id
        if self.pip_requirements or self.conda_specification or self.docker_arguments:
            own = _read_files(server, own, self.pip_requirements, self.conda_specification)
        return own


def settle_environment(server: "Server", environment: "Environment | str") -> dict:
    """What a run's specification has of an environment, or of a name: "mine", "mine:3"."""
    if isinstance(environment, str):
        if not environment.strip():
            raise UserError("which environment? Its name is empty")
        return {} if environment == "system" else {"name": environment}
    _check(environment)
    if environment._is_kept():
        kept = {"name": environment.name}
        return dict(kept, version=environment.version) if environment.version else kept
    return environment._settled(server)


def has_python(environment: "Environment | str") -> bool:
    """Whether scripts find a ``python`` of the environment's own."""
    if isinstance(environment, str):
        return environment != "system"
    _check(environment)
    own = environment._own()
    return bool(own.get("recipe") or own.get("name") or own.get("interpreter")
                or environment.pip_requirements or environment.conda_specification)


def _check(environment: object) -> None:
    if not isinstance(environment, Environment):
        raise UserError(f"an environment of type {type(environment).__name__} is not known here",
                        "Give a name or an Environment.")


def _path(workspace: "Workspace") -> str:
    from .server import quote_path
    return f"/workspaces/{quote_path(workspace.name)}/environments"


def _of_server(data: dict) -> "Environment":
    recipe = data.get("recipe", {})
    made = Environment(data["name"], image=recipe.get("image"),
                       interpreter_path=data.get("interpreter"),
                       environment_variables=data.get("variables"),
                       docker_arguments=data.get("arguments"), shm_size=data.get("shmSize"),
                       registry=data.get("registry"), description=data.get("description", ""))
    made.dockerfile = recipe.get("dockerfile")
    made.version = data.get("version") or None
    made.details = data
    return made


def _read_files(server: "Server", own: dict, pip: "str | None", conda: "str | None") -> dict:
    """The server reads the files, as it reads the command line's: what they say is known in one
    place. It asks for those that they name (-r, -c)."""
    body = {"environment": own, "folder": _plain(os.getcwd()), "requirements": _plain(pip or ""),
            "conda": _plain(conda or ""), "files": {}}
    missing = [path for path in (body["conda"], body["requirements"]) if path]
    for number in range(_ROUNDS_MAX):
        for path in missing:
            # What no file names is nobody's to ask for.
            name = path.rpartition("/")[2]
            if number and not any(name in text for text in body["files"].values()):
                raise UserError(f"the server asks for '{path}', which no file names")
            body["files"][path] = _read(path)
        answer = server.call("POST", "/environments/read", body, again=True)
        missing = answer.get("missing") or []
        if not missing:
            from .warn import warn
            for warning in answer.get("warnings") or []:
                warn(warning)
            return answer["environment"]
    raise UserError(f"{pip or conda}: too many files that name files")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no text in UTF-8", "Save the file as UTF-8; PowerShell's > "
                        "writes UTF-16.") from None
    except FileNotFoundError:
        raise NotFound(f"there is no file '{path}'") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def _plain(path: str) -> str:
    return os.fspath(path).replace("\\", "/") if os.name == "nt" else os.fspath(path)
