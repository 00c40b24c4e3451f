#!/usr/bin/env bash
# What 15 minutes on a GPU should do, in order of worth, each part in a process of its own under a limit of seconds. Each row is in the
# result file as soon as it is measured, so that a part which is stopped, or a machine that is taken away, loses what it was at alone.
#
#   tools/on_gpu.sh [FOLDER]          FOLDER (out/gpu) gets rows.jsonl, section.md for docs/speed.md, and what tests said
#   TOY=1 tools/on_gpu.sh [FOLDER]    the same at toy sizes by Triton's interpreter, anywhere, in some minutes
#   PARTS="cells shapes" SECONDS_LEFT=300 PYTHON=.venv/bin/python tools/on_gpu.sh
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-out/gpu} python=${PYTHON:-python3} left=${SECONDS_LEFT:-870} begin=$SECONDS
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
if [ -n "${TOY:-}" ]; then export TRITON_INTERPRET=1; fi
mkdir -p "$folder"
: >"$folder/rows.jsonl"
parts=${PARTS:-"tests:150 cells:180 shapes:150 wide:90 layers:60 solves:60 starts:30 stiff:50 graphs:30 memory:30 noise:30"}
for part in $parts; do
  name=${part%:*} limit=${part#*:}
  [ "$limit" = "$name" ] && limit=180
  rest=$((left - SECONDS + begin))
  if [ "$rest" -lt 10 ]; then echo "== $name: no time left"; continue; fi
  limit=$((limit < rest ? limit : rest))
  echo "== $name, at most $limit s, $((SECONDS - begin)) s so far"
  timeout --kill-after=5 "$limit" "$python" tools/on_gpu.py "$name" "$folder" || echo "== $name: ended with status $?"
done
"$python" tools/on_gpu.py page "$folder" >"$folder/section.md" && echo "== $folder/section.md after $((SECONDS - begin)) s"
