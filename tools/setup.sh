#!/bin/sh
# Makes .venv with this project and the extras named in $1, in the versions of constraints.txt; does nothing if it is there.
# The stamp holds what the environment depends on: the two files, the extras, the python, and where the folder stands.
set -eu
extras=${1:-test}
stamp=.venv/.ctrnn-setup

say() { printf 'ctrnn set-up: %s\n' "$1" >&2; }

suits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        suits "$PYTHON" && { printf '%s' "$PYTHON"; return; }
        say "\$PYTHON is '$PYTHON', which is not a Python 3.11, 3.12 or 3.13."
        exit 1
    fi
    for candidate in python3 python3.13 python3.12 python3.11 python; do
        found=$(command -v "$candidate" 2>/dev/null) || continue
        # An activated .venv comes first on the path, and could not make itself anew.
        case $found in "$(pwd)"/.venv/*) continue ;; esac
        suits "$found" && { printf '%s' "$found"; return; }
    done
    say "Python 3.11, 3.12 or 3.13 is needed and none is on the path (python3 is: $(python3 -V 2>&1 || true)); install one, or name one with PYTHON=/path/to/python make ..."
    exit 1
}

fingerprint() {
    # The extras installed last stay good for fewer: "test" is served by "test,check".
    printf '%s\n' "$1" "$(pwd)" "$("$python" -VV 2>&1)"
    cat pyproject.toml constraints.txt
}

python=$(find_python)
for have in "$extras" test,check; do
    if [ -x .venv/bin/python ] && [ -f "$stamp" ] && [ "$(fingerprint "$have")" = "$(cat "$stamp")" ]; then
        exit 0
    fi
done

if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    say "$python has no venv module; install it (on Debian and Ubuntu: apt install python3-venv) and try again."
    exit 1
fi
say "making .venv with $("$python" -V) and the versions of constraints.txt; torch is large, so this can take minutes the first time."
kept=$(cat "$stamp" 2>/dev/null || true)
rm -f "$stamp"
# Only extras to add: the environment that "test" made is kept.
[ "$kept" = "$(fingerprint test)" ] || "$python" -m venv --clear .venv
if ! .venv/bin/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable ".[$extras]"; then
    say "installing the packages failed, see above; it starts afresh the next time."
    exit 1
fi
fingerprint "$extras" >"$stamp.new"
mv "$stamp.new" "$stamp"
