"""Sends this package to the executors of a cluster.

Spark puts a zip on the workers' path, but Numba caches nothing that is compiled from inside a zip: every
worker process would compile the simulator anew. So the zip that we send holds the package as data and a tiny
``vinecast`` (``executor_shim.py``) that, where it is imported, unpacks the real one into the machine's cache
folder under the digest of its sources and becomes it. Compiled code is then kept once a machine, as at home.
"""

import hashlib
import io
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import vinecast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def shipped_package(session: "SparkSession") -> Iterator[None]:
    """Give the package to every worker of a session, on a cluster or through Spark Connect.

    Executors fetch the file when they need it, also those that come late: it lies there until the end.
    """
    with tempfile.TemporaryDirectory(prefix="vinecast-ship-") as folder:
        session.addArtifacts(str(pack(Path(folder))), pyfile=True)
        yield


def pack(folder: Path) -> Path:
    """Write the zip that is sent; same sources, same bytes."""
    package = _zip_of_package()
    digest = hashlib.sha256(package).hexdigest()[:16]
    shim = Path(__file__).with_name("executor_shim.py").read_text()
    path = folder / f"vinecast-{digest}.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(_entry("vinecast/__init__.py"), f"{shim}\n\nbecome_package(globals(), {digest!r})\n")
        file.writestr(_entry("package.zip"), package)
    return path


def _zip_of_package() -> bytes:
    root = Path(vinecast.__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                file.writestr(_entry(f"vinecast/{path.relative_to(root).as_posix()}"), path.read_bytes())
    return packed.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    """A zip entry without a clock in it."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
