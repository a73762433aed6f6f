#!/usr/bin/env bash
# Runs steps on a machine with a CUDA device, and writes their logs and results to the archive $OUT/results.tar.gz.
#
#   OUT=results benchmarks/on_device.sh doctor tests climb:softmax,matmul bench:matmul,dispatch tune:matmul
#
# tests[:PATHS] runs the tests marked gpu in JOBS processes (1; more need pytest-xdist).
# climb:OPS times each point for BUDGET seconds (5), with the options in CLIMB.
# bench:NAMES runs benchmarks/NAME.py with the options in BENCH.
# tune:OPS tunes each point for TUNE_BUDGET seconds (1), with the options in TUNE ("--dtype bfloat16"), and writes the
# operation's own table for the GPU named by TABLE (nvidia_h200); later steps choose by it.
#
# A step that fails does not stop the later ones; the script then exits with 1.
set -uo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=src PYTHONUNBUFFERED=1 COLUMNS=${COLUMNS:-160}
PYTHON=${PYTHON:-python3}
OUT=${OUT:?expected OUT, the folder for results}
results=$(mktemp -d)
failed=0

step() {
  local name=$1
  shift
  echo "== $name"
  local start=$SECONDS
  if ! "$@" > >(tee "$results/$name.log") 2>&1; then
    echo "== $name FAILED"
    failed=1
  fi
  echo "== $name took $((SECONDS - start)) s"
}

# First, while the GPU is idle: a ceiling measured beside other processes would be too low.
step ceilings "$PYTHON" -m warpwise device --measure

for request in "$@"; do
  case $request in
    doctor) step doctor "$PYTHON" -m warpwise doctor ;;
    device) step device "$PYTHON" -m warpwise device ;;
    tests | tests:*)
      where=${request#tests}
      where=${where#:}
      # shellcheck disable=SC2086 - options and paths are words
      step tests "$PYTHON" -m pytest -q -p no:benchmark -p no:cacheprovider ${JOBS:+-n $JOBS --dist worksteal} -m gpu ${where:-tests}
      ;;
    climb:*)
      for op in $(tr ',' ' ' <<<"${request#climb:}"); do
        # shellcheck disable=SC2086 - options are words
        step "climb_$op" "$PYTHON" -m warpwise climb "$op" --no-store ${CLIMB:---size all --dtype all} --budget "${BUDGET:-5}" --json "$results/$op.json"
      done
      ;;
    bench:*)
      for name in $(tr ',' ' ' <<<"${request#bench:}"); do
        # shellcheck disable=SC2086
        step "bench_$name" "$PYTHON" "benchmarks/$name.py" ${BENCH:-} --json "$results/$name.json"
      done
      ;;
    tune:*)
      for op in $(tr ',' ' ' <<<"${request#tune:}"); do
        table=src/warpwise/ops/$op/tuned/${TABLE:-nvidia_h200}.json
        # shellcheck disable=SC2086
        step "tune_$op" "$PYTHON" -m warpwise tune "$op" ${TUNE:-} --budget "${TUNE_BUDGET:-1}" --out "$table"
        cp "$table" "$results/tuned_$op.json"
      done
      ;;
    *)
      echo "on_device.sh: no step '$request'; there are doctor, device, tests, tests:PATHS, climb:OPS, bench:NAMES, tune:OPS" >&2
      failed=1
      ;;
  esac
done
tar -C "$results" -czf "$OUT/results.tar.gz" .
exit $failed
