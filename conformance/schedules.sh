#!/usr/bin/env bash
# Models of the hand-written synchronisation in thousands of schedules: worker pool, calls in flight of a server, pending
# calls and reader hand-off of a client, socket writers and event loop of the HTTP server. Shuttle runs their threads as
# coroutines in an order that a seed chooses.
#
#   conformance/schedules.sh [MODEL|all] [SCHEDULES] [SEED]     all, 300 schedules each, seed 1
#
# Compiles a copy of the library's source, which takes locks, threads and channels from schedules/model_sync.rs instead
# of the standard library, and sockets and readiness from schedules/schedules_net.rs instead of the system and mio. A
# deadlock, a panic or an endless run is a failure, and the seed repeats it. Everything is in target/schedules.
#
# The models `reader_…` and `woken_…` make calls over a source that any thread can read, like the source of a child
# process; the code for its pipes is not part of the models. They fail if no caller has read.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${CARGO_TARGET_DIR:-$PWD/target}/schedules
rm -rf "$out/src"
mkdir -p "$out"
cp -r src "$out/src"
rm -rf "$out/src/bin" "$out/src/manual"*
cp conformance/schedules/*.rs "$out/src/"
cp conformance/schedules/Cargo.toml conformance/schedules/Cargo.lock "$out/"
# The public modules of the models, and no page of the manual.
sed -i 's/^pub mod manual;$/pub mod manual {}/; s/^mod pool;$/&\n#[macro_use]\npub mod model_sync;\n#[doc(hidden)]\npub mod schedules;\nmod schedules_http;\nmod schedules_net;/' "$out/src/lib.rs"
find "$out/src" -name '*.rs' ! -name 'model_sync.rs' ! -name 'schedules*.rs' -exec sed -i \
    's/std::sync::/crate::model_sync::sync::/g; s/std::thread/crate::model_sync::thread/g
     s/crossbeam_channel/crate::model_sync::channel/g' {} +
# The HTTP server takes its listener from the models.
echo 'pub(crate) use crate::schedules_net::{Listener, Socket};' >"$(ls "$out"/src/transport/http_server/listen*.rs)"
sed -i 's/\bmio::/crate::schedules_net::mio::/g' "$out"/src/transport/http_server/*.rs
# The reader hand-off: its models are a module of the client's transports, make the connection themselves, and set the
# time of deadlines and of the pause. The model of a server's request takes the server's connection from a handle.
sed -i 's/^mod handoff;$/&\n#[path = "..\/..\/schedules_reader.rs"]\npub(crate) mod schedules_reader;/' "$out/src/transport/client/mod.rs"
sed -i 's/pub(super) fn dial/pub(crate) fn dial/' "$out/src/client/builder.rs"
sed -i 's/pub(super) fn shared/pub(crate) fn shared/' "$out/src/server/handle.rs"
sed -i 's/\bInstant::now()/crate::model_sync::now()/g' "$out/src/client/pending_call.rs"
sed -i 's/(state, pause)/(state, crate::model_sync::pause(pause))/' "$out/src/transport/client/handoff.rs"
# The watchdog waits for signals with poll, which would stop every thread; elsewhere it uses a condition variable.
sed -i 's/cfg(not(unix))/cfg(all())/; s/cfg(unix)/cfg(any())/' "$out"/src/server/serve/watchdog.rs 2>/dev/null || true
CARGO_TARGET_DIR=$out/target CARGO_INCREMENTAL=0 RUSTFLAGS=-Aunreachable_code cargo build --quiet --release --locked --manifest-path "$out/Cargo.toml"
"$out/target/release/schedules" "$@"
