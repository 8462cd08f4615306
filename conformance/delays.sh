#!/usr/bin/env bash
# Tests of server, HTTP server, client and hub while strace delays system calls, so that threads meet in orders that are
# rare on a quiet machine: sequences of frames over lines and HTTP; calls and cancellations on one connection of a server
# and of a client; sessions, event streams and disconnects of an HTTP server; restarts of a server of a hub.
#
#   conformance/delays.sh [MICROSECONDS] [SEQUENCES]     500 microseconds, 8,000 sequences (one in 200 over each way)
#
# strace delays every third to every eleventh call of a kind. The tests take about 20 seconds, not counting the build. On
# a bare Debian machine, as root, a missing strace is installed with apt-get. Exit code 1 if a test fails.
set -euo pipefail
cd "$(dirname "$0")/.."

delay=${1-500} sequences=${2-8000}
# shellcheck source=install.sh
. conformance/install.sh
command -v strace >/dev/null || apt_install strace

# The tests of client and hub start this server.
cargo build --quiet --features full --example strict_server
built() {
    cargo test --quiet --features full --test "$1" --no-run --message-format=json |
        sed -n "s/.*\"executable\":\"\([^\"]*\/$1-[^\"]*\)\".*/\1/p"
}
late() {
    strace -f -qq -o /dev/null \
        -e inject=futex:delay_exit="$delay":when=2+7 \
        -e inject=write,sendto,writev:delay_exit="$delay":when=3+3 \
        -e inject=read,recvfrom:delay_enter="$delay":when=5+11 \
        -e inject=epoll_wait,poll:delay_exit="$delay":when=4+5 "$@"
}

echo "== a server over lines and over HTTP"
TEST_SEQUENCES=$sequences late "$(built server)" sequence::lines:: sequence::http::
echo "== calls and cancellations on a server"
TEST_CALLS=400 late "$(built server)" race::
echo "== requests, streams and disconnects on an HTTP server"
TEST_CALLS=160 late "$(built http)" race::
echo "== calls and cancellations through a hub while a server restarts"
TEST_CALLS=80 late "$(built hub)" race::
echo "== a client"
TEST_CALLS=400 late "$(built client)" race::sixteen_threads_with_a_child
