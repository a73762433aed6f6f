#!/usr/bin/env bash
# On a machine with a CUDA device: runs the steps asked for, and leaves their logs and results in one archive under $OUT.
#
#   OUT=results benchmarks/on_device.sh doctor tests climb:softmax,matmul bench:matmul,dispatch tune:matmul
#
# climb:OPS is timed for BUDGET seconds a point (5); tune:OPS for TUNE_BUDGET (1), with the options in TUNE ("--dtype bfloat16"),
# into the operation's own table for the GPU that TABLE names (nvidia_h200), which later steps then choose by;
# bench:NAMES are benchmarks/NAME.py. JOBS is the number of processes for tests, one unless given (pytest-xdist). CLIMB and BENCH hold options for the other two. A step that fails does not keep the later ones from running; the script then exits with 1.
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

# Before anything else runs on the GPU: shares of a ceiling that was measured beside other processes would be too high.
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
