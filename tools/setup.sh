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

install() {  # by uv where it is installed, which takes seconds; its settings are not pip's, so that pip may find what it does not
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --python .venv/bin/python "$@" && return
        say "uv could not install it, see above; trying pip."
    fi
    .venv/bin/python -m pip install --disable-pip-version-check --quiet "$@"
}

fingerprint() {
    printf '%s\n' "$(pwd)" "$("$python" -VV 2>&1)"
    cat pyproject.toml constraints.txt
}

python=$(find_python)
have=''
kept=''
[ ! -x .venv/bin/python ] || [ ! -f "$stamp" ] || { read -r have; kept=$(cat); } <"$stamp"
[ "$kept" = "$(fingerprint)" ] || have=''
# Extras are added to those that are there, so that `make docs` and `make test` share one environment.
all=$have
IFS=,
for extra in $extras; do
    case ",$all," in *",$extra,"*) ;; *) all=${all:+$all,}$extra ;; esac
done
unset IFS
[ -z "$have" ] || [ "$all" != "$have" ] || exit 0

if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    say "$python has no venv module; install it (on Debian and Ubuntu: apt install python3-venv) and try again."
    exit 1
fi
say "making .venv with $("$python" -V) and the versions of constraints.txt; torch is large, so this can take minutes the first time."
rm -f "$stamp"
[ -n "$have" ] || "$python" -m venv --clear .venv
if ! install --constraint constraints.txt --editable ".[$all]"; then
    say "installing the packages failed, see above; it starts afresh the next time."
    exit 1
fi
{ printf '%s\n' "$all" && fingerprint; } >"$stamp.new"
mv "$stamp.new" "$stamp"
