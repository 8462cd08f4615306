#!/usr/bin/env bash
# Kills a server with tasks in a file (FileTaskStore) at random moments with SIGKILL and starts it again: no accepted
# task is lost, a task that was started does not run twice unless its tool is idempotent, results stay the same, and
# the file can always be read. In a third of the rounds the last write is also torn, as a power cut leaves it.
#
#   conformance/tasks-kill.sh                     300 kills, 60 seconds at most
#   conformance/tasks-kill.sh --long              10,000 kills
#   conformance/tasks-kill.sh --seed N            repeats the random choices of a run
#   conformance/tasks-kill.sh --programs FOLDER   takes examples/task_store from there
#
# Linux with python3. See tasks-kill/kill.py.
set -euo pipefail
cd "$(dirname "$0")/.."

programs= kills=300 time=60 seed=$((RANDOM * 32768 + RANDOM))
while [ $# -gt 0 ]; do
    case $1 in
        --long) kills=10000 time=0 ;;
        --seed) seed=${2?} && shift ;;
        --programs) programs=${2?} && shift ;;
        *) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
    shift
done
if [ -z "$programs" ]; then
    cargo build --quiet --features tasks --example task_store
    programs=${CARGO_TARGET_DIR:-target}/debug
fi
echo "seed $seed"
python3 conformance/tasks-kill/kill.py --kills "$kills" --time "$time" --seed "$seed" "$programs/examples/task_store"
