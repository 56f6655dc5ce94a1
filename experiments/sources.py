"""The source files that a module needs, found by reading its imports."""

import ast
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path


def sources_behind(
    modules: Iterable[str], *, packages: Iterable[str], skip: Iterable[str] = ()
) -> dict[str, Path]:
    """Return the files of ``modules`` and of all they import from ``packages``.

    Keys are module names. Imports inside functions count. What is in ``skip``, and what
    only that imports, does not.
    """
    ours, skipped = set(packages), tuple(skip)
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        known = not name or name in found or name.partition(".")[0] not in ours
        if known or any(name == s or name.startswith(f"{s}.") for s in skipped):
            continue
        file = _file_of(name)
        if file is None:  # a name in a module, not a module
            continue
        found[name] = file
        waiting += _imports(file, package=_package_of(name, file))
        waiting.append(name.rpartition(".")[0])
    return found


def _file_of(name: str) -> Path | None:
    """Return the file of a module, without importing anything."""
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    first = Path(spec.origin)
    if not rest:
        return first
    place = first.parent.joinpath(*rest)
    choices = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in choices if file.is_file()), None)


def _package_of(name: str, file: Path) -> str:
    return name if file.name == "__init__.py" else name.rpartition(".")[0]


def _imports(file: Path, *, package: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"), str(file))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
