"""What executors get as ``vinecast``: unpacks the package that came along, once a machine; then becomes it.

``ship.py`` sends the text of this module as the ``__init__`` of a zip, so it imports nothing of ours.
"""

import io
import os
import shutil
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

_KEPT = 8  # ours: more versions than are in use at a time


def become_package(module: dict[str, Any], digest: str) -> None:
    """Turn the module with these globals into the package that lies in the zip that it was loaded from."""
    folder = _unpack(digest, module["__loader__"].get_data("package.zip")) / "vinecast"
    module["__path__"] = [str(folder)]
    module["__file__"] = str(folder / "__init__.py")
    exec(compile((folder / "__init__.py").read_bytes(), module["__file__"], "exec"), module)


def _unpack(digest: str, archive: bytes) -> Path:
    """The folder with the unpacked archive; several processes may do this at the same time."""
    try:
        base = _cache_base()
        base.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".shipped-", dir=base))
    except (OSError, RuntimeError):  # no home, or no right to write there: then once per process
        base = partial = Path(tempfile.mkdtemp(prefix="vinecast-shipped-"))
    place = base / f"shipped-{digest}"
    try:
        if not place.is_dir():
            with zipfile.ZipFile(io.BytesIO(archive)) as file:
                file.extractall(partial / "all")
            try:
                (partial / "all").rename(place)
            except OSError:  # another process was faster
                if not place.is_dir():
                    raise
    finally:
        if partial != base:
            shutil.rmtree(partial, ignore_errors=True)
    _forget_the_oldest(place)
    return place


def _forget_the_oldest(place: Path) -> None:
    """Every change of the package leaves a folder behind: keep those that were used last."""
    with suppress(OSError):  # somebody else may be at it, or have the right to it
        os.utime(place)
        used = sorted(place.parent.glob("shipped-*"), key=lambda folder: folder.stat().st_mtime)
        for old in used[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _cache_base() -> Path:
    """As ``vinecast.core.rule.cache_base``, which is not there yet."""
    if named := os.environ.get("VINECAST_CACHE_DIR"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vinecast"
