"""The settings that ``trainyard login`` and ``trainyard configure`` save for this user. Arguments
and environment variables win over them."""

import json
import os

from .errors import UserError


def settings_file() -> str:
    """``$XDG_CONFIG_HOME/trainyard/settings.json``, by default that of ``~/.config``; empty where
    HOME is not set either."""
    folder = os.environ.get("XDG_CONFIG_HOME") or ""
    if not os.path.isabs(folder):
        home = os.environ.get("HOME")
        if not home:
            return ""
        folder = os.path.join(home, ".config")
    return os.path.join(folder, "trainyard", "settings.json")


def load_settings() -> dict:
    """The settings; empty where there is no file, and in a run, whose variables name all."""
    file = settings_file()
    if os.environ.get("TRAINYARD_RUN_ID") or not os.path.isfile(file):
        return {}
    try:
        with open(file, encoding="utf-8") as text:
            settings = json.load(text)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise UserError(f"{file}: not a JSON object", "Remove the file, and set what you need "
                                                      "again: trainyard configure, login.")
    return settings


def saved_workspace() -> str:
    """The default workspace of this user; empty: none is saved."""
    return _text(load_settings(), "workspace")


def find_address(server: "str | None", token: "str | None") -> "tuple[str, str]":
    """The address and the token of the server to use, as the command line finds them; without an
    address it is the home's own server. ``TRAINYARD_TOKEN`` and a saved token are used only with
    the address they are for: that of the caller or of ``TRAINYARD_SERVER``, or the saved one."""
    url = server or os.environ.get("TRAINYARD_SERVER") or ""
    token = token or (os.environ.get("TRAINYARD_TOKEN") if url else "") or ""
    if token if url else os.environ.get("TRAINYARD_HOME"):
        return url, token
    settings = load_settings()
    url = url or _text(settings, "server")
    servers = settings.get("servers")
    saved = servers.get(url) if isinstance(servers, dict) else None
    return url, token or _text(saved, "token")


def _text(values: object, key: str) -> str:
    value = values.get(key) if isinstance(values, dict) else None
    return value if isinstance(value, str) else ""
