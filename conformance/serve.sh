#!/usr/bin/env bash
# Checks `tinymcp serve`: arguments reach programs byte for byte; calls leave no process, thread, descriptor or memory
# behind, whether they finish, fail or are cancelled, over stdio and HTTP; sandboxed programs stay inside their grants;
# examples/serve works with its real programs.
#
#   conformance/serve.sh                     short: 5,000 argument objects, three times 300 calls, the sandbox table
#   conformance/serve.sh --long              1,000,000 argument objects, three times 10,000 calls
#   conformance/serve.sh --only argv|processes|remote|sandbox|examples
#   conformance/serve.sh --seed N            repeats the random choices of a run
#   conformance/serve.sh --programs FOLDER   takes tinymcp and examples/argv from there
#
# Linux with python3. On Debian, as root, the programs of the examples are installed with apt-get. See serve/*.py.
set -euo pipefail
cd "$(dirname "$0")/.."

programs= only= long= seed=$((RANDOM * 32768 + RANDOM))
while [ $# -gt 0 ]; do
    case $1 in
        --long) long=--long ;;
        --only) only=${2?} && shift ;;
        --seed) seed=${2?} && shift ;;
        --programs) programs=${2?} && shift ;;
        *) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
    shift
done
if [ -z "$programs" ]; then
    cargo build --quiet --profile conformance --features full --bin tinymcp --example argv
    programs=${CARGO_TARGET_DIR:-target}/conformance
fi
# The services of status.json are those of systemd, which is not installed for this.
case ${only:-examples} in
    examples)
        PATH=$PATH:/usr/sbin:/sbin
        declare -A packages=([git]=git [jq]=jq [gpioget]=gpiod [i2cget]=i2c-tools [ps]=procps)
        missing=()
        for program in "${!packages[@]}"; do
            command -v "$program" >/dev/null || missing+=("${packages[$program]}")
        done
        # shellcheck source=install.sh
        [ ${#missing[@]} -eq 0 ] || (. conformance/install.sh && apt_install "${missing[@]}")
        ;;
esac
echo "seed $seed"
for check in ${only:-argv processes remote sandbox examples}; do
    python3 "conformance/serve/$check.py" $long --seed "$seed" "$programs"
done
