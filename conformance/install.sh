# Functions for the scripts in this folder and for clients/run.sh: messages, installation of tools,
# builds.

conformance=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

note() { printf '%s\n' "${0##*/}: $*" >&2; }

# Prints the help text at the start of the script.
usage() {
    sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"
    exit 2
}

# Options of scripts that test one of our clients: `--only WHAT` and `--client PROGRAM`, into `only`
# and `client`.
client_options() {
    only= client=
    while [ $# -gt 0 ]; do
        case $1 in
            --only)
                [ -n "${2-}" ] || usage
                only=$2
                ;;
            --client)
                [ -x "${2-}" ] || usage
                client=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
                ;;
            *) usage ;;
        esac
        shift 2
    done
}

# Prints the sum of `passed` and `failed`; the exit code is 0 if nothing failed.
summary() {
    printf '%s passed, %s failed\n' "$passed" "$failed"
    [ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
}

# Reserves ports for servers that cannot choose one, until the script ends; see ports.py. Sets `ports`. Bash can have one
# coprocess, so a script calls it once.
reserve_ports() { # COUNT
    coproc RESERVED { exec python3 "$conformance/ports.py" reserve "$1"; }
    read -ra ports <&"${RESERVED[0]}"
}

# Waits until a server listens on a reserved port.
wait_for_port() { python3 "$conformance/ports.py" wait "$1"; }

# Waits until a program has printed its URL, at most a minute, and prints it.
url_in() { # FILE PID
    local url= end=$((SECONDS + 60))
    while url=$(sed -n 's/.*\(http:.*\)/\1/p' "$1") && [ -z "$url" ]; do
        kill -0 "$2" 2>/dev/null && [ "$SECONDS" -lt "$end" ] || { note "no URL in $1"; cat "$1" >&2; return 1; }
        sleep 0.1
    done
    printf '%s\n' "$url"
}

# Installs Debian packages if possible.
apt_install() {
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        note "missing: $* (not root, or no apt-get: install them yourself)"
        exit 1
    fi
    note "installing $*"
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >&2
}

need_node() { command -v node >/dev/null && command -v npm >/dev/null || apt_install nodejs npm; }

# Installs the locked packages of one folder, unless this lock is already installed.
npm_install() {
    local folder=$conformance/$1
    shift
    need_node
    if ! cmp -s "$folder/package-lock.json" "$folder/node_modules/.installed-lock"; then
        note "installing the packages of ${folder#"$conformance"/}"
        (cd "$folder" && npm ci --no-audit --no-fund --loglevel=error "$@" >&2)
        cp "$folder/package-lock.json" "$folder/node_modules/.installed-lock"
    fi
}

# The Inspector needs 22.19; all JavaScript clients use the same Node.
node_is_new() {
    node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 22 || (a == 22 && b >= 19) ? 0 : 1)'
}

# Installs the packages of the named folders and puts a recent Node first on the path. A folder has a package.json, a
# requirements.txt or both.
install_packages() {
    command -v python3 >/dev/null || apt_install python3
    local folder
    for folder in "$@"; do
        [ ! -e "$conformance/$folder/requirements.txt" ] || install_python "$folder"
        [ -e "$conformance/$folder/package.json" ] || continue
        need_node
        if ! node_is_new; then
            npm_install clients/node
            PATH=$conformance/clients/node/node_modules/.bin:$PATH
            export PATH
        fi
        npm_install "$folder" --ignore-scripts
    done
}

install_python() {
    local folder=$conformance/$1
    if ! cmp -s "$folder/requirements.txt" "$folder/.venv/installed.txt"; then
        python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
        note "installing the Python packages of $1"
        rm -rf "$folder/.venv"
        python3 -m venv "$folder/.venv"
        "$folder/.venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$folder/requirements.txt" >&2
        cp "$folder/requirements.txt" "$folder/.venv/installed.txt"
    fi
}

# Installs the official suite, which needs the Node of its own folder.
install_suite() {
    command -v python3 >/dev/null || apt_install python3
    npm_install suite
    PATH=$conformance/suite/node_modules/.bin:$PATH
    export PATH
}

# Builds an example with its features and prints its path.
build_example() { build "$1" --example "$1" --features "$2"; }

# Builds the program tinymcp with all commands and prints its path.
build_tinymcp() { build tinymcp --bin tinymcp --features full; }

# Builds a target and prints the path of its program. Cargo reports the path, because target folder
# and target can be set in many ways.
build() {
    local name=$1
    shift
    cargo build --manifest-path "$conformance/../Cargo.toml" --profile conformance "$@" \
        --message-format=json-render-diagnostics | python3 -c '
import json, sys
found = [json.loads(line) for line in sys.stdin]
programs = [m["executable"] for m in found if m.get("target", {}).get("name") == sys.argv[1] and m.get("executable")]
print(programs[-1])' "$name"
}
