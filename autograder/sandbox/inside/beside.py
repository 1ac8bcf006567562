"""The files that were handed in beside the notebook: data to read, modules to import."""

import os
from collections.abc import Mapping


def put_beside(files: Mapping[str, bytes]) -> None:
    """Write them into the working directory, which is this process's own."""
    for name, data in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "wb") as file:
            file.write(data)


def modules_in(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the sources of the modules among them, by name; a module in a folder goes by its own name alone."""
    found: dict[str, str] = {}
    for name, data in files.items():
        if name.endswith(".py"):
            parts = name.removesuffix(".py").split("/")
            module = parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else parts[-1]
            found[module] = found.get(module, "") + data.decode(errors="replace") + "\n"
    return found
