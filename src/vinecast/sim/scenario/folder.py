"""The folder of a run: all of it or nothing, and never in the place of anything else."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vinecast.core.errors import InputError

RUN_FILES = {"scenario.toml", "summary.json", "cycles.parquet", "classes.parquet", "records.parquet"}


@contextmanager
def new_folder(folder: Path, replace: bool) -> Iterator[Path]:
    """A folder to fill, which takes its name only when all is well; an earlier run stays until then."""
    _check_place(folder, replace)
    place = folder.absolute()
    made = [parent for parent in place.parents if not parent.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".partial", dir=place.parent))
    try:
        partial.chmod(0o755)
        yield partial
        _check_place(folder, replace)
        old = place.rename(partial.with_suffix(".old")) if place.exists() else None
        try:
            partial.rename(place)
        except OSError:
            if old is not None:
                old.rename(place)
            raise
        if old is not None:
            shutil.rmtree(old)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if not place.exists():
            for parent in made:
                with suppress(OSError):
                    parent.rmdir()


def _check_place(folder: Path, replace: bool) -> None:
    """Refuse a place that a run must not take."""
    if folder.is_symlink() or folder.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise InputError(f"{folder} is not a place for a run: choose a folder of its own with --out")
    if not folder.exists():
        return
    if not replace:
        raise InputError(f"{folder} exists already: choose another --out, or --force to replace it")
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if not found <= RUN_FILES or "summary.json" not in found:
        raise InputError(f"{folder} is not a run's folder, so it is not replaced: choose another --out")
