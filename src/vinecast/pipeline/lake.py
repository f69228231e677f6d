"""The lake: a folder of Parquet tables that is whole at every moment.

``<lake>/<table>/v<version>/<dataset>/`` holds *generations*, each a folder of Parquet files, and
``current.json``, which names the one that counts, how many rows it has and what it was made from. A writer
fills a new generation and then replaces that small file in one step, so that a reader sees the old data or
the new and nothing between; whatever goes wrong before leaves what was there. The generation before the
current one stays until the next is published, for readers that are still at it.

``lake.json`` at the root says which format the lake is of. A lake, or a table, that a newer Vinecast wrote is
neither read nor written.

On a cluster the lake must be a folder that all machines see under the same path.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinecast.core.errors import Bug, InputError
from vinecast.pipeline.tables import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 1
"""Of the lake itself: where things lie and what the pointer says."""

_ROOT = "lake.json"
_POINTER = "current.json"
_GENERATION = "generation-"
_UNNAMED = ".unnamed-"
_WRITING = "_writing"  # Spark does not read files that begin with an underscore
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class DatasetPointer:
    """What the pointer of a dataset says."""

    table: str
    version: int
    dataset: str
    generation: str
    rows: int
    bytes: int
    made_from: dict[str, Any]
    fingerprint: str
    """Digest of ``made_from``: the same inputs and settings have the same."""
    notes: dict[str, Any]
    """What the stage counted, to be told again when it has nothing to do."""
    before: str | None = None
    """The generation that this one replaced."""
    format: int = FORMAT


@dataclass(slots=True)
class Generation:
    """A folder to fill; it counts from ``commit`` on."""

    lake: "Lake"
    table: LakeTable
    dataset: str
    folder: Path
    published: DatasetPointer | None = field(default=None, init=False)

    def write(self, frame: "DataFrame") -> None:
        """Write a frame into it, as Parquet."""
        _check_schema(frame, self.table)
        writer = frame.write.mode("append").option("compression", "zstd")
        if self.table.partition_by:
            writer = writer.partitionBy(*self.table.partition_by)
        writer.parquet(str(self.folder.absolute()))

    def count_rows(self) -> int:
        """The rows that were written so far."""
        return _count(self.folder)[0]

    def remove_unless_published(self) -> None:
        """Leave nothing behind of what never counted."""
        if self.published is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def commit(self, made_from: Mapping[str, Any], notes: Mapping[str, Any] | None = None) -> DatasetPointer:
        """Make it the current one."""
        self.published = self.lake._commit(self, dict(made_from), dict(notes or {}))
        return self.published


class Lake:
    """A folder of tables. Pointers can be read without a Spark session."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def published(self, table: LakeTable, dataset: str) -> DatasetPointer | None:
        """What is current, None when there is nothing."""
        self._check_format()
        path = self._place(table, dataset) / _POINTER
        try:
            told = json.loads(path.read_bytes())
            _refuse_newer(path, told["format"])
            return DatasetPointer(**told)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path}: the pointer cannot be read ({error})") from None

    def current(self, table: LakeTable, dataset: str) -> DatasetPointer:
        """What is current; a sentence when there is nothing that can be read."""
        if found := self.published(table, dataset):
            return found
        place = self.folder / table.name
        if versions := self._versions(table, dataset):
            raise InputError(
                f"{place}: {dataset!r} was written by an older Vinecast (version {versions[-1]} of the "
                f"table; this one needs {table.version}): make it again"
            )
        known = ", ".join(repr(name) for name in self.datasets(table)) or "none"
        raise InputError(f"{self.folder}: there is no dataset {dataset!r} of {table.name} (there: {known})")

    def _check_format(self) -> None:
        path = self.folder / _ROOT
        try:
            _refuse_newer(path, json.loads(path.read_bytes())["format"])
        except FileNotFoundError:
            return  # nothing was published here yet
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path}: cannot be read ({error})") from None

    def _versions(self, table: LakeTable, dataset: str) -> list[int]:
        """The versions in which a dataset of a table is there; InputError if one is newer than ours."""
        place = self.folder / table.name
        versions = sorted(
            int(folder.parent.name[1:])
            for folder in place.glob(f"v*/{dataset}")
            if re.fullmatch("v[0-9]+", folder.parent.name) and (folder / _POINTER).is_file()
        )
        if versions and versions[-1] > table.version:
            raise InputError(
                f"{place}: {dataset!r} was written by a newer Vinecast (version {versions[-1]} of the table; "
                f"this one knows {table.version})"
            )
        return versions

    def datasets(self, table: LakeTable) -> list[str]:
        """The names of a table's datasets."""
        pointers = (self.folder / table.name / f"v{table.version}").glob(f"*/{_POINTER}")
        return sorted(pointer.parent.name for pointer in pointers)

    def path(self, table: LakeTable, dataset: str) -> Path:
        """The folder of the current generation's Parquet files."""
        return self._place(table, dataset) / self.current(table, dataset).generation

    def read(self, spark: "SparkSession", table: LakeTable, dataset: str) -> "DataFrame":
        """The current generation as a frame with the declared schema."""
        return self.read_published(spark, table, self.current(table, dataset))

    def read_published(self, spark: "SparkSession", table: LakeTable, told: DatasetPointer) -> "DataFrame":
        """The very generation that a pointer told of, whatever has been published since."""
        folder = self._place(table, told.dataset) / told.generation
        return spark.read.schema(table.schema).parquet(str(folder.absolute()))

    def is_fresh(self, table: LakeTable, dataset: str, made_from: Mapping[str, Any]) -> bool:
        """Whether what is current was made from exactly this."""
        found = self.published(table, dataset)
        return found is not None and found.fingerprint == fingerprint_of(made_from)

    def publish(
        self, table: LakeTable, dataset: str, frame: "DataFrame", made_from: Mapping[str, Any]
    ) -> DatasetPointer:
        """Write a frame and make it current; ``made_from``: the inputs and settings, fit for JSON."""
        with self.new_generation(table, dataset) as generation:
            generation.write(frame)
            return generation.commit(made_from)

    @contextmanager
    def new_generation(self, table: LakeTable, dataset: str) -> Iterator[Generation]:
        """A folder to write Parquet files into, from anywhere; without a ``commit`` it is removed again."""
        place = self._place(table, dataset)
        self._check_format()
        self._versions(table, dataset)
        with sentences_for(place), own_folder(place, _GENERATION) as folder:
            generation = Generation(self, table, dataset, folder)
            try:
                yield generation
            finally:
                generation.remove_unless_published()

    def _place(self, table: LakeTable, dataset: str) -> Path:
        check_name(dataset)
        return self.folder / table.name / f"v{table.version}" / dataset

    def _commit(
        self, generation: Generation, made_from: dict[str, Any], notes: dict[str, Any]
    ) -> DatasetPointer:
        table, dataset, folder = generation.table, generation.dataset, generation.folder
        rows, size = _count(folder)
        before = self.published(table, dataset)
        told = DatasetPointer(
            table=table.name,
            version=table.version,
            dataset=dataset,
            generation=folder.name,
            rows=rows,
            bytes=size,
            made_from=made_from,
            fingerprint=fingerprint_of(made_from),
            notes=notes,
            before=before.generation if before else None,
        )
        if not (self.folder / _ROOT).is_file():
            _replace(self.folder / _ROOT, {"format": FORMAT}, folder)
        _replace(folder.parent / _POINTER, asdict(told), folder)
        (folder / _WRITING).unlink(missing_ok=True)
        self._sweep(table, dataset)
        return told

    def _sweep(self, table: LakeTable, dataset: str) -> None:
        """Remove generations that nobody reads or writes any more.

        The pointer is read after it is known what is being written: whatever was published meanwhile is then
        either still among those or what the pointer says.
        """
        idle = abandoned(self._place(table, dataset), _GENERATION)
        told = self.current(table, dataset)
        for folder in idle:
            if folder.name not in (told.generation, told.before):
                shutil.rmtree(folder, ignore_errors=True)


def _replace(path: Path, content: dict[str, Any], scratch: Path) -> None:
    """Write a small file, all of it or nothing. scratch: a folder of ours on the same disk"""
    partial = scratch / f"_{path.name}"
    with partial.open("w") as file:
        json.dump(content, file, indent=2, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _refuse_newer(path: Path, version: int) -> None:
    if version > FORMAT:
        raise InputError(f"{path}: the lake is of format {version}, newer than this Vinecast's {FORMAT}")


def check_name(dataset: str) -> None:
    """A dataset's name is a folder's: plain."""
    if not _NAME.fullmatch(dataset):
        raise InputError(
            f"a dataset's name has letters, digits, '-', '_' and '.', at most 100, and is not {dataset!r}"
        )


def fingerprint_of(made_from: Mapping[str, Any]) -> str:
    """A digest of inputs and settings, whatever their order."""
    text = json.dumps(made_from, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint_of_file(path: Path) -> str:
    """A digest of a file's content."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def _check_schema(frame: "DataFrame", table: LakeTable) -> None:
    """Names, types and order must be those of the table; Spark alone cannot promise what is never empty."""
    found = [(field.name, field.dataType.simpleString()) for field in frame.schema]
    declared = [(field.name, field.dataType.simpleString()) for field in table.schema]
    if found != declared:
        raise Bug(f"the frame for {table.name} has {found}, but the table is declared with {declared}")


def _count(folder: Path) -> tuple[int, int]:
    """Rows and bytes of all Parquet files, from their footers."""
    import pyarrow.parquet as pq

    rows = size = 0
    for path in folder.rglob("*.parquet"):
        rows += pq.read_metadata(path).num_rows
        size += path.stat().st_size
    return rows, size


@contextmanager
def own_folder(place: Path, prefix: str) -> Iterator[Path]:
    """A new folder that others leave alone (``abandoned``) for as long as we live, or say that it is ready.

    It takes its name when its lock is held, so that nobody ever meets it without one.
    """
    place.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        unnamed = Path(tempfile.mkdtemp(prefix=_UNNAMED, dir=place))
        held.callback(shutil.rmtree, unnamed, ignore_errors=True)
        unnamed.chmod(0o755)
        writing = held.enter_context((unnamed / _WRITING).open("wb"))
        fcntl.flock(writing, fcntl.LOCK_EX)
        yield unnamed.rename(place / f"{prefix}{unnamed.name.removeprefix(_UNNAMED)}")


def abandoned(place: Path, prefix: str) -> list[Path]:
    """Folders of ``own_folder`` that nobody is filling: ready, or left behind by a process that died."""
    return [folder for folder in place.glob(f"{prefix}*") if not _is_being_written(folder)]


def _is_being_written(folder: Path) -> bool:
    try:
        with (folder / _WRITING).open("rb") as writing:
            fcntl.flock(writing, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:  # committed
        return False
    except OSError:
        return True
    return False


@contextmanager
def sentences_for(place: Path) -> Iterator[None]:
    """Turn a full disk or a folder without rights into a sentence, wherever it was met: here or in Spark."""
    try:
        yield
    except Exception as error:
        text = str(error)
        number = error.errno if isinstance(error, OSError) else None
        if number in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in text:
            raise InputError(f"{place}: no space is left on the disk; what was there before stays") from error
        if number in (errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise InputError(f"{place}: cannot be written ({os.strerror(number)})") from error
        raise
