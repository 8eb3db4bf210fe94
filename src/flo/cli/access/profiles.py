"""The profile file: servers by name, each with its address, its token and whom it trusts.

It is ~/.config/flo/profiles.json, or what FLO_CONFIG names, and only its owner can read it.
"""

import os
from pathlib import Path

import msgspec

from flo.model.errors import Invalid, NotFound

FILE_MODE = 0o600
FOLDER_MODE = 0o700


class Profile(msgspec.Struct, omit_defaults=True):
    address: str
    token: str = ""
    ca: str | None = None
    namespace: str | None = None


class Profiles(msgspec.Struct):
    current: str | None = None
    contexts: dict[str, Profile] = {}


def profile_path() -> Path:
    if named := os.environ.get("FLO_CONFIG"):
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "flo" / "profiles.json"


def read_profiles() -> Profiles:
    path = profile_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Profiles)
    except FileNotFoundError:
        return Profiles()
    except (OSError, msgspec.DecodeError) as error:
        raise Invalid(f"cannot read the profiles in {path}", code="invalid_profile") from error


def write_profiles(profiles: Profiles) -> None:
    """Written beside, then put in its place: it is never half there, nor open to others."""
    path = profile_path()
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(profiles)))
    beside.replace(path)


def named_profile(profiles: Profiles, name: str) -> Profile:
    if name not in profiles.contexts:
        known = ", ".join(profiles.contexts) or "none"
        raise NotFound(f"there is no context {name!r}, only: {known}", code="context_not_found")
    return profiles.contexts[name]


def current_profile() -> Profile | None:
    """The one in use: FLO_CONTEXT, else the one that was chosen; None if there is none."""
    profiles = read_profiles()
    name = os.environ.get("FLO_CONTEXT") or profiles.current
    return named_profile(profiles, name) if name else None
