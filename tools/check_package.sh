#!/usr/bin/env bash
# Builds sdist and wheel with the pages of `make docs` into dist/, compares what else is in them with what git tracks, and
# installs the wheel into an empty environment outside of the repository, as strangers do: not to be written to, without a home,
# without a compiler.
#
#   tools/check_package.sh [PYTHON]      PYTHON has build and hatchling (and twine, check-wheel-contents: then they judge too)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD python=${1:-python3} work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work" "$root/experiments/site"' EXIT
say() { printf '== %s\n' "$*"; }

say "the pages"
make docs
rm -rf dist experiments/site
cp -r out/docs experiments/site

say "sdist, and the wheel from it"
"$python" -m build --no-isolation . >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
wheel=$(echo "$root"/dist/*.whl) sdist=$(echo "$root"/dist/*.tar.gz)
git ls-files ctrnn discretize derivations experiments ctrnn_command.py ctrnn_experiments.py ctrnn_experiments.pyi ':!experiments/bench' | sort >"$work/tracked"
"$python" -m zipfile -l "$wheel" | awk 'NR > 1 {print $1}' | grep -vE 'dist-info/|^experiments/site/' | sort | diff "$work/tracked" -
git ls-files -- ':!.*' | sort >"$work/tracked"
tar tzf "$sdist" | sed 's|^[^/]*/||' | grep -vxE 'PKG-INFO|\.gitignore|experiments/site/.*' | sort | diff "$work/tracked" -
"$python" -m zipfile -l "$wheel" | grep -q dist-info/licenses/LICENSE
tools=$(dirname "$(command -v "$python")")
if [ -x "$tools/twine" ]; then "$tools/twine" check --strict "$wheel" "$sdist"; else echo "no twine beside $python"; fi
if [ -x "$tools/check-wheel-contents" ]; then "$tools/check-wheel-contents" "$wheel"; else echo "no check-wheel-contents"; fi

# Root may write anywhere, but not without that capability.
powerless=()
[ "$(id -u)" != 0 ] || powerless=("$(command -v setpriv)" "--bounding-set=-dac_override,-dac_read_search")
mkdir -p "$work/home" "$work/elsewhere"
chmod 555 "$work/home"
stranger() {  # a command as a stranger runs it
    (cd "$work/elsewhere" && env -i PATH="$work/venv/bin" HOME="$work/home" "${powerless[@]}" "$@")
}
install() {
    chmod -R u+w "$work/venv"
    "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$1"
    chmod -R a-w "$work/venv"
    ! stranger "$work/venv/bin/python" -c "open(__import__('ctrnn').__path__[0] + '/new', 'w')" 2>/dev/null
}

say "the core: the README's example"
"$python" -m venv "$work/venv"
install "$wheel"
"$work/venv/bin/python" -m pip list --disable-pip-version-check --format freeze | paste -sd' '
beside=$(du -sm "$work"/venv/lib/python*/site-packages --exclude={torch,functorch,nvidia,triton,pip,setuptools})
echo "${beside%%[!0-9]*} MB beside torch"
awk '/^```python/ {n++; next} /^```/ {exit_ = n} n && !exit_' README.md >"$work/example.py"
awk '/^```text/ {n++; next} n && /^```/ {exit} n' README.md >"$work/example.txt"
stranger "$work/venv/bin/python" "$work/example.py" | diff "$work/example.txt" -
{ stranger ctrnn demo 2>&1 || true; } | grep -F "ctrnn: this command needs tyro: pip install 'ctrnn-ode[all]"  # of the wheel, by its file
stranger ctrnn doctor

say "with the extra all: the command"
install "${wheel}[all]"
for words in --version doctor docs "demo --help" "train --help" "derive --source huth-2020-lecture-slides" \
    "train --task recall --field gated --integrator euler --page --out $work/elsewhere/run --set steps=20 length=10"; do
    # shellcheck disable=SC2086 # words
    stranger ctrnn $words >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
    echo "ctrnn $words: $(tail -n 1 "$work/said" | cut -c 1-100)"
done
say "all is well"
