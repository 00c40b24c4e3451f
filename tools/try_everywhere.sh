#!/usr/bin/env bash
# The default tests as on other processors, with other numbers of threads, under load and as a background job: a line each.
#
#   tools/try_everywhere.sh [NAME,NAME,...] [pytest's arguments]      all of NAMES and all tests if not given
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
NAMES=plain,sse,avx2,baseline,native,threads2,threads4,busy,background
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
        plain | busy | background) ;;
        *) return 1 ;;
    esac
}

pytest() {  # NAME [pytest's arguments]
    # shellcheck disable=SC2046 # one word a variable
    env $(environment "$1") .venv/bin/python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider "${@:2}"
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
[[ ${1:-} =~ ^[a-z0-9,]+$ && ! -e ${1:-} ]] && { names=$1; shift; }
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
