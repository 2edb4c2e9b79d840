#!/bin/sh
# Makes .venv and installs the project with its development tools into it. Does nothing when that is up to date.
set -eu

cd "$(dirname "$0")/.."

VENV=.venv
STAMP=$VENV/.stamp

say() { printf 'setup: %s\n' "$*"; }

fail() {
    for line in "$@"; do say "$line" >&2; done
    exit 1
}

# Fails for a Python that is too old and for a launcher that has no Python behind it.
is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    without_venv=
    for candidate in python3.11 python3.12 python3.13 python3; do
        is_new_enough "$candidate" || continue
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            python=$candidate
            return
        fi
        without_venv=${without_venv:-$candidate}
    done
    if [ -n "$without_venv" ]; then
        version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        fail "$without_venv has no venv or ensurepip module, so no environment can be made." \
            "On Debian and Ubuntu: sudo apt-get install python$version-venv" \
            "Then run the same make command again."
    fi
    fail "Python 3.11 or newer is needed; none of python3.11, python3.12, python3.13, python3 is one." \
        "Debian 12, Ubuntu 24.04 or newer: sudo apt-get install python3 python3-venv" \
        "Fedora: sudo dnf install python3.11    macOS: brew install python@3.11" \
        "Then run the same make command again."
}

# What the environment was installed from: two files and, since scripts hold paths, the place.
fingerprint() {
    "$VENV/bin/python" - <<'PYTHON'
import hashlib, os, pathlib
parts = [os.getcwd().encode()]
parts += [pathlib.Path(name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
print(hashlib.sha256(b"\0".join(parts)).hexdigest())
PYTHON
}

has_environment() {
    is_new_enough "$VENV/bin/python" && "$VENV/bin/python" -m pip --version >/dev/null 2>&1
}

if [ -f "$STAMP" ] && is_new_enough "$VENV/bin/python" && [ "$(cat "$STAMP")" = "$(fingerprint)" ]; then
    say "$VENV is up to date"
    exit 0
fi

if has_environment; then
    say "using the environment in $VENV"
else
    find_python
    say "making $VENV with $("$python" --version)"
    "$python" -m venv --clear "$VENV"
fi
rm -f "$STAMP"

quiet=--quiet
[ ! -t 1 ] || quiet=
say "installing skewless and its tools; the first time this takes some minutes"
# shellcheck disable=SC2086  # an empty $quiet is no argument
"$VENV/bin/python" -m pip install --disable-pip-version-check $quiet \
    -c constraints.txt -e '.[dev]' ||
    fail "pip could not install the project; the lines above say why." \
        "Once that is mended, run the same make command again: it goes on from here."

fingerprint >"$STAMP"
say "done"
