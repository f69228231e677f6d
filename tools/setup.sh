# Sourced by ./run and ./test: makes .venv with Vinecast and the extras named in $1. The second time it only
# looks whether pyproject.toml has changed since.
extras=$1
stamp=.venv/.installed-$extras
if [ ! -e "$stamp" ] || ! cmp -s pyproject.toml "$stamp"; then
  python=${PYTHON:-python3}
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Vinecast needs Python 3.11 or newer; $python is not (set PYTHON to one that is)." >&2
    exit 1
  fi
  echo "Setting up .venv (once; needs the network) …" >&2
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".[$extras]"
  cp pyproject.toml "$stamp"
fi
