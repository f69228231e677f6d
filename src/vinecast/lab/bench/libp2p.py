"""What gossipsub needs to be measured beside live nodes: where its programs are, or why not, in a sentence.

None of it is needed otherwise. py-libp2p comes with the extra ``bench-peers`` (it compiles native code);
js-libp2p is fetched by npm into this user's cache, once.
"""

import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vinecast.core.rule import cache_base
from vinecast.lab.bench.team import AbsentError, need_package

JS_PACKAGES = {
    "@chainsafe/libp2p-noise": "17.0.0",
    "@chainsafe/libp2p-yamux": "8.0.1",
    "@libp2p/gossipsub": "17.1.1",
    "@libp2p/identify": "4.1.14",
    "@libp2p/tcp": "11.0.28",
    "@multiformats/multiaddr": "13.0.3",
    "libp2p": "3.3.11",
}
"""Those that were tried together."""
JS_PROGRAM = Path(__file__).with_name("js_libp2p_member.mjs")
NPM_S = 600.0  # ours


def py_libp2p() -> list[str]:
    """The command that starts a member."""
    need_package("libp2p", "py-libp2p", "bench-peers")
    return [sys.executable, "-m", "vinecast.lab.bench.py_libp2p_member"]


def js_libp2p() -> list[str]:
    """The command that starts a member; fetches the packages the first time."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise AbsentError("js-libp2p needs node and npm")
    text = json.dumps({"private": True, "type": "module", "dependencies": JS_PACKAGES})
    try:
        folder = cache_base() / f"js-libp2p-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        if not folder.is_dir():
            _fetch(npm, text, folder)
        program = folder / JS_PROGRAM.name
        program.write_bytes(JS_PROGRAM.read_bytes())
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        raise AbsentError(f"js-libp2p has no place in the cache: {error}") from None
    return [node, str(program)]


def _fetch(npm: str, text: str, folder: Path) -> None:
    """Let npm fill a folder, which is there only when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as beside:
        (Path(beside) / "package.json").write_text(text)
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        try:
            done = subprocess.run(
                command, cwd=beside, capture_output=True, text=True, check=False, timeout=NPM_S
            )
        except subprocess.TimeoutExpired:
            raise AbsentError("npm did not fetch js-libp2p in time") from None
        if done.returncode:
            words = done.stderr.strip().splitlines() or ["it did not say why"]
            raise AbsentError(f"npm could not fetch js-libp2p: {words[0][:200]}")
        with contextlib.suppress(OSError):  # another process may have been faster
            Path(beside).rename(folder)
            Path(beside).mkdir()
