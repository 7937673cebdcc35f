#!/bin/sh
# Makes .venv-compiled: this tree as a compiled wheel, beside the libraries of .venv. Its Python finds the tests in the tree,
# but gateway_core and the plugins in the wheel (with PYTHONSAFEPATH=1, which the Makefile sets: else the current folder is
# searched first). Run by `make test BUILD=compiled`, again whenever a source has changed.
set -eu
cd "$(dirname "$0")/.."
venv=.venv-compiled

echo "tidegate: compiling into $venv; this takes some minutes"
.venv/bin/python -m venv --clear --without-pip "$venv"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
libraries=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# a .pth file of .venv is not read by this: so the tree's plugins are not on the path
printf '%s\n' "$libraries" "$PWD" >"$site/tidegate-tests.pth"

pip="-m pip --disable-pip-version-check --no-input"
TIDEGATE_COMPILE=1 .venv/bin/python $pip wheel -q --no-index --no-deps --no-build-isolation --wheel-dir "$venv/wheel" . ./dev
.venv/bin/python $pip --python "$venv/bin/python" install -q --no-index --no-deps --force-reinstall "$venv"/wheel/tidegate*.whl
"$venv/bin/tidegate" version | grep -q compiled
touch "$venv/.ready"
