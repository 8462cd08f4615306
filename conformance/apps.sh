#!/usr/bin/env bash
# Shows the page of examples/app_gauge in headless Chromium, inside a minimal host page.
#
#   conformance/apps.sh
#
# The host calls the tool, loads its page with the default Content-Security-Policy of hosts, and forwards the page's
# calls. The check passes if the gauge shows the result of the tool and then several samples.
#
# On a bare Debian machine, as root, missing packages are installed with apt-get.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=install.sh
. "$here/install.sh"
command -v python3 >/dev/null || apt_install python3
command -v chromium >/dev/null || apt_install chromium
program=$(build_example app_gauge http-server,extensions)

folder=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap finish EXIT

"$program" --http 127.0.0.1:0 2>"$folder/server" &
pids+=($!)
server=$(url_in "$folder/server" $!)
python3 "$here/apps/serve.py" "$here/apps/host.html" "$server" >"$folder/host" &
pids+=($!)
host=$(url_in "$folder/host" $!)

# Virtual time passes when nothing is loading, so four samples need no four seconds.
timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
    --user-data-dir="$folder/profile" --virtual-time-budget=5000 --dump-dom "$host" \
    >"$folder/dom" 2>"$folder/chromium" || { note "chromium failed"; tail -5 "$folder/chromium" >&2; exit 1; }
python3 - "$folder/dom" <<'CHECK'
import pathlib, re, sys

dom = pathlib.Path(sys.argv[1]).read_text()
seen = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.S)
lines = seen.group(1).splitlines() if seen else []
print("\n".join(lines) or dom)
samples = [line.split() for line in lines if line.startswith("sample ")]
wanted = ["tool load", "text true", "type text/html;profile=mcp-app", "initialize 2026-01-26 gauge", "first true"]
missing = [line for line in wanted if line not in lines]
right = len(samples) >= 3 and [n for _, n, _ in samples] == [str(n + 1) for n in range(len(samples))]
right = right and all(shown == "true" for _, _, shown in samples)
if missing or not right:
    sys.exit(f"FAIL missing: {missing}, samples: {samples}")
print(f"ok the gauge shows the result and {len(samples)} samples")
CHECK
