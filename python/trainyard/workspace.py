"""A workspace: the container of experiments and runs on a server."""

import json
import os

from .errors import ConfigNotFound, Conflict, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .experiment import Experiment
    from .run import Run
    from .server import Server

_PLACES = (os.path.join(".azureml", "config.json"), os.path.join("aml_config", "config.json"))


class Workspace:
    """A workspace of a server. Nothing is asked of the server before it is needed.

    The server is ``server`` with ``token``, else TRAINYARD_SERVER with TRAINYARD_TOKEN, else that
    of TRAINYARD_HOME, else that of ``trainyard login``, else the one of this machine.
    ``subscription_id`` and ``resource_group`` are kept and shown; they may be anything.
    """

    def __init__(self, subscription_id: "str | None" = None, resource_group: "str | None" = None,
                 workspace_name: str = "default", server: "str | None" = None,
                 token: "str | None" = None, **_: object) -> None:
        self._name = workspace_name
        self._subscription_id = subscription_id
        self._resource_group = resource_group
        self._address = server
        self._token = token
        self._connection: Server | None = None

    @staticmethod
    def from_config(path: "str | None" = None, server: "str | None" = None,
                    token: "str | None" = None, **_: object) -> "Workspace":
        """The workspace that a folder was attached to: by ``.azureml/config.json`` or
        ``aml_config/config.json`` in ``path`` (a folder or that file; by default the current
        folder) or above it.

        Without such a file it is the run's own workspace in a run, else the one saved by
        ``trainyard configure``, else ``default`` where a server is named, by ``trainyard login``
        too; else ``ConfigNotFound`` (a FileNotFoundError).
        """
        file = find_config(path)
        if file is not None:
            return _read_config(file, server, token)
        name = os.environ.get("AZUREML_ARM_WORKSPACE_NAME")
        if path is None and os.environ.get("TRAINYARD_RUN_ID") and name:
            return Workspace(workspace_name=name, server=server, token=token)
        if path is None:
            from .settings import find_address, saved_workspace
            name = saved_workspace()
            if name or find_address(server, token)[0]:
                return Workspace(workspace_name=name or "default", server=server, token=token)
        raise ConfigNotFound(
            f"no .azureml/config.json in {os.path.abspath(path or '.')} or above it",
            "Attach the folder with: trainyard folder attach -w NAME, or name the workspace: "
            "Workspace(workspace_name='default').write_config()")

    @staticmethod
    def get(name: str, subscription_id: "str | None" = None, resource_group: "str | None" = None,
            server: "str | None" = None, token: "str | None" = None, **_: object) -> "Workspace":
        """A workspace that exists; else ``NotFound``."""
        workspace = Workspace(subscription_id, resource_group, name, server, token)
        workspace.get_details()
        return workspace

    @staticmethod
    def create(name: str, subscription_id: "str | None" = None, resource_group: "str | None" = None,
               server: "str | None" = None, token: "str | None" = None, exist_ok: bool = False,
               **_: object) -> "Workspace":
        """Makes a workspace. One of that name is a ``Conflict``, unless ``exist_ok``."""
        workspace = Workspace(subscription_id, resource_group, name, server, token)
        try:
            workspace._server().call("POST", "/workspaces",
                                     {"name": name, "subscriptionId": subscription_id or "",
                                      "resourceGroup": resource_group or ""})
        except Conflict:
            if not exist_ok:
                raise
        return workspace

    @staticmethod
    def list(server: "str | None" = None, token: "str | None" = None,
             **_: object) -> "dict[str, Workspace]":
        """The workspaces of a server, by name."""
        asked = Workspace(server=server, token=token)._server()
        found = {}
        for item in asked.pages("/workspaces"):
            found[item["name"]] = Workspace(item.get("subscriptionId"), item.get("resourceGroup"),
                                            item["name"], server, token)
        return found

    @property
    def name(self) -> str:
        """The workspace's name."""
        return self._name

    @property
    def subscription_id(self) -> "str | None":
        """As it was given."""
        return self._subscription_id

    @property
    def resource_group(self) -> "str | None":
        """As it was given."""
        return self._resource_group

    @property
    def experiments(self) -> "dict[str, Experiment]":
        """Its experiments, by name."""
        from .experiment import Experiment
        return {experiment.name: experiment for experiment in Experiment.list(self)}

    def get_details(self) -> dict:
        """The workspace as the server has it."""
        from .server import quote_path
        return self._server().call("GET", f"/workspaces/{quote_path(self._name)}")

    def get_run(self, run_id: str) -> "Run":
        """A run by its id, or by a beginning of it that no other has."""
        from .experiment import Experiment
        from .run import Run
        from .server import quote_path
        data = self._server().call("GET", f"/runs/{quote_path(run_id)}")
        return Run(Experiment(self, data["experiment"]), data["id"], data=data)

    def get_mlflow_tracking_uri(self) -> str:
        """Not there yet: raises ``UserError``, as the server has no MLflow API to give an address
        of."""
        raise UserError("get_mlflow_tracking_uri: the server has no MLflow API yet",
                        "Log with trainyard's own Run.get_context().")

    def write_config(self, path: "str | None" = None, file_name: "str | None" = None) -> None:
        """Writes ``.azureml/config.json`` into a folder, by default the current one; then
        ``from_config()`` finds this workspace there and below. The token is never written."""
        folder = os.path.join(path or ".", ".azureml")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, file_name or "config.json"), "w", encoding="utf-8") as file:
            json.dump({"subscription_id": self._subscription_id or "",
                       "resource_group": self._resource_group or "",
                       "workspace_name": self._name}, file, indent=4)
            file.write("\n")

    def __repr__(self) -> str:
        return f"Workspace(name={self._name})"

    def _server(self) -> "Server":
        if self._connection is None:
            from .place import find_server
            self._connection = find_server(self._address, self._token)
        return self._connection


def find_config(path: "str | None") -> "str | None":
    """The config file that holds for a folder."""
    if path is not None and os.path.isfile(path):
        return path
    folder = os.path.abspath(path or ".")
    while True:
        places = [os.path.join(folder, place) for place in _PLACES]
        if path is not None and folder == os.path.abspath(path):
            places.append(os.path.join(folder, "config.json"))
        for file in places:
            if os.path.isfile(file):
                return file
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _read_config(file: str, server: "str | None", token: "str | None") -> "Workspace":
    try:
        with open(file, encoding="utf-8-sig") as text:
            config = json.load(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{file}:{error.lineno}: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}:1: not UTF-8") from error
    if not isinstance(config, dict):
        raise UserError(f"{file}:1: not a JSON object")
    # The older form of an attachment: /subscriptions/S/resourceGroups/G/…/workspaces/W
    parts = str(config.get("Scope") or "").split("/")
    scope = dict(zip(parts[1::2], parts[2::2]))
    return Workspace(config.get("subscription_id") or scope.get("subscriptions"),
                     config.get("resource_group") or scope.get("resourceGroups"),
                     config.get("workspace_name") or scope.get("workspaces") or "default",
                     server, token)
