#!/bin/sh
# Makes .venv with everything that this tree needs, from the hashes in requirements/dev.txt. Run by the Makefile; running
# it again does nothing while the lock and pyproject.toml are as they were.
#   PYTHON=/path/to/python3   takes this Python instead of the newest one on PATH
set -eu
cd "$(dirname "$0")/.."

venv=.venv
ready=$venv/.ready
wanted=$(cat requirements/dev.txt pyproject.toml dev/pyproject.toml tools/bootstrap.sh | cksum)

if [ -x "$venv/bin/python" ] && [ "$(cat "$ready" 2>/dev/null || true)" = "$wanted" ]; then
  touch "$ready"
  exit 0
fi

say() { printf '%s\n' "tidegate: $*"; }

# A name on PATH may be a shim that starts nothing, so each candidate has to answer.
suits() {
  command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11, 2))' >/dev/null 2>&1
}
can_make_venv() { "$1" -c 'import venv, ensurepip' >/dev/null 2>&1; }

uv=$(command -v uv 2>/dev/null || true)
python='' lacking=''
for candidate in ${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3 python /usr/bin/python3}; do
  suits "$candidate" || continue
  if [ -n "$uv" ] || can_make_venv "$candidate"; then
    python=$(command -v "$candidate")
    break
  fi
  lacking=$candidate
done
if [ -z "$python" ]; then
  if [ -n "$lacking" ]; then
    say "$lacking has no 'venv' module. On Debian and Ubuntu it comes with the package python3-venv." >&2
  else
    say "found no Python 3.11.2 or newer${PYTHON:+ at $PYTHON}. Install one, or name it: make PYTHON=/path/to/python3 …" >&2
  fi
  exit 1
fi

say "installing into $venv with $("$python" -V) ($python); once, this takes a minute or two"
rm -rf "$venv"

with_uv() {
  say "uv is here: using it"
  "$uv" venv --quiet --python "$python" "$venv" &&
    "$uv" pip install --quiet --python "$venv/bin/python" --require-hashes -r requirements/dev.txt &&
    "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation -e . -e ./dev
}

with_pip() {
  "$python" -m venv "$venv"
  pip="$venv/bin/python -m pip --disable-pip-version-check --no-input"
  say "fetching the libraries named in requirements/dev.txt (about 700 MB, most of it Spark and a Java runtime)"
  $pip install -qq --require-hashes -r requirements/dev.txt
  say "installing this tree"
  $pip install -qq --no-deps --no-build-isolation -e . -e ./dev
}

if [ -z "$uv" ] || ! with_uv; then
  if [ -n "$uv" ]; then
    say "uv could not do it; going on with pip"
    rm -rf "$venv"
    can_make_venv "$python" || { say "$python has no 'venv' module (Debian, Ubuntu: python3-venv)." >&2; exit 1; }
  fi
  with_pip
fi

printf '%s\n' "$wanted" >"$ready"
say "installed"
