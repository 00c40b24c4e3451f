#!/usr/bin/env bash
# The default tests as on other processors, with other numbers of threads, under load, as a background job, with another Python
# and the lowest torch: a line each. The last two have environments of their own, out/everywhere/NAME, made when first asked for.
#
#   tools/try_everywhere.sh [NAME,NAME,...] [pytest's arguments]      all of NAMES and all tests if not given
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
NAMES=plain,sse,avx2,baseline,native,threads2,threads4,busy,background,python3.13,lowest
LOWEST=2.11  # torch, as in pyproject.toml
BUSY=4  # processes that do nothing as fast as they can
LOGS=out/try_everywhere
case $(uname -m) in x86_64) oldest=-march=x86-64 ;; aarch64) oldest=-march=armv8-a ;; *) oldest= ;; esac

environment() {  # of a configuration, as arguments of env
    case $1 in
        sse) echo ATEN_CPU_CAPABILITY=default ;;
        avx2) echo ATEN_CPU_CAPABILITY=avx2 ;;
        # Flags after ours count, and an empty folder makes sure that these kernels are the ones that run.
        baseline) echo "CTRNN_CXXFLAGS=$oldest CTRNN_CACHE=$folder" ;;
        native) echo "CTRNN_CXXFLAGS=-march=native CTRNN_CACHE=$folder" ;;
        threads*) echo "CTRNN_TEST_THREADS=${1#threads}" ;;
        plain | busy | background | python3.13 | lowest) ;;
        *) return 1 ;;
    esac
}

python_of() {  # a configuration: its python, in an environment that is made unless it is there
    local home=out/everywhere/$1 from=.venv/bin/python packages=(--constraint constraints.txt)
    case $1 in
        python*) from=${PYTHON:-$1} ;;
        lowest)
            grep -v '^torch==' constraints.txt >"$folder/constraints.txt"
            packages=(--constraint "$folder/constraints.txt" "torch==$LOWEST.*")
            ;;
        *) echo "$from"; return ;;
    esac
    if [ ! -e "$home/made" ]; then
        { "$from" -m venv --clear "$home" && "$home/bin/python" -m pip install -q "${packages[@]}" -e '.[test]' && touch "$home/made"; } >&2
    fi
    echo "$home/bin/python"
}

pytest() {  # NAME [pytest's arguments]
    local python
    python=$(python_of "$1") || return
    # shellcheck disable=SC2046 # one word a variable
    env $(environment "$1") "$python" -m pytest -q -n 2 --dist loadfile -p no:cacheprovider "${@:2}"
}

run() {  # NAME [pytest's arguments]: its log, and 0 if all pass
    if [ "$1" = background ]; then
        # A shell without job control lets its background jobs ignore SIGINT.
        pytest "$@" >"$LOGS/$1.log" 2>&1 &
        wait $!
    else
        pytest "$@" >"$LOGS/$1.log" 2>&1
    fi
}

names=$NAMES
[[ ${1:-} =~ ^[a-z0-9.,]+$ && ! -e ${1:-} ]] && { names=$1; shift; }
folder=$(mktemp -d)
load=()
trap 'rm -rf "$folder"; [ ${#load[@]} = 0 ] || kill "${load[@]}"' EXIT
mkdir -p "$LOGS"
failed=0
for name in ${names//,/ }; do
    environment "$name" >/dev/null || { echo "no configuration $name; there are $NAMES"; exit 2; }
    if [ "$name" = busy ]; then for _ in $(seq $BUSY); do (while :; do :; done) & load+=($!); done; fi
    run "$name" "$@" || failed=1
    printf '%-11s%s\n' "$name" "$(tail -n 1 "$LOGS/$name.log")"
    grep -E '^(FAILED|ERROR)' "$LOGS/$name.log"
    [ ${#load[@]} = 0 ] || { kill "${load[@]}"; wait "${load[@]}" 2>/dev/null; load=(); }
done
exit $failed
