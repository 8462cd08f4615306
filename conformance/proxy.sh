#!/usr/bin/env bash
# Runs three instances of our example server behind a proxy with TLS, configured as in
# examples/deploy, and a client of both eras.
#
#   conformance/proxy.sh                              nginx, HAProxy and Caddy from Debian, one after the other
#   conformance/proxy.sh --only nginx|haproxy|caddy
#   conformance/proxy.sh --server PROGRAM             uses this server instead of building one
#   conformance/proxy.sh --private                    unpacks the proxies next to this script, even as root
#
# The shipped configurations are tested: sed replaces names, ports and certificates, and everything
# listens on 127.0.0.1. The instances start as their socket unit would start them. Prints `ok NAME`
# or `FAIL NAME: …` per check; the exit code is 0 only if nothing failed. Configurations and logs
# stay in proxy/out until the next run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
deploy=$here/../examples/deploy
out=$here/proxy/out
proxies=(nginx haproxy caddy)
server=
private=

usage() {
    sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
        --only)
            case ${2-} in
                nginx | haproxy | caddy) proxies=("$2") ;;
                *) usage ;;
            esac
            shift 2
            ;;
        --server)
            [ -x "${2-}" ] || usage
            server=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
            shift 2
            ;;
        --private)
            private=yes
            shift
            ;;
        *) usage ;;
    esac
done

note() { printf '%s\n' "proxy.sh: $*" >&2; }

# Finds or gets the programs of Debian packages: installs them as root, else unpacks them, with
# missing libraries, into an ignored folder.
provide() {
    local program missing=() unpacked=$here/proxy/debian
    PATH=$unpacked/usr/sbin:$unpacked/usr/bin:$PATH:/usr/sbin:/sbin
    export PATH
    for program in "$@"; do
        if [ -n "$private" ]; then
            [ -x "$unpacked/usr/sbin/$program" ] || [ -x "$unpacked/usr/bin/$program" ] || missing+=("$program")
        else
            command -v "$program" >/dev/null || missing+=("$program")
        fi
    done
    if [ ${#missing[@]} -gt 0 ] && [ -z "$private" ] && [ "$(id -u)" -eq 0 ]; then
        note "installing ${missing[*]}"
        apt-get update -qq >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >&2
        # The packages start services where there is an init; the test starts its own.
        for program in "${missing[@]}"; do
            if [ -d /run/systemd/system ]; then systemctl disable --now "$program" >/dev/null 2>&1 || true; fi
        done
    elif [ ${#missing[@]} -gt 0 ]; then
        note "unpacking ${missing[*]}"
        mkdir -p "$unpacked/archives"
        (
            cd "$unpacked/archives"
            # shellcheck disable=SC2046 # one word for each package
            apt-get download -qq "${missing[@]}" $(libraries "${missing[@]}") >&2
            for archive in *.deb; do dpkg -x "$archive" "$unpacked"; done
        )
    fi
    local folders
    if [ -d "$unpacked" ]; then
        folders=$(find "$unpacked" -type d -path '*/lib/*-linux-*' -prune | paste -sd: -)
        export LD_LIBRARY_PATH=$folders
    fi
}

# The library packages that packages need directly and that are not installed.
libraries() {
    apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$@" |
        sed -n 's/^ *Depends: \(lib[^ ]*\)$/\1/p' | sort -u | while read -r package; do
        dpkg -s "$package" >/dev/null 2>&1 || printf '%s\n' "$package"
    done
}

provide "${proxies[@]}"
command -v openssl >/dev/null || { note "openssl is missing"; exit 1; }
# shellcheck source=install.sh
. "$here/install.sh"
install_packages clients/ts2
if [ -z "$server" ]; then server=$(build_example board_server http-server); fi

rm -rf "$out"
mkdir -p "$out"
children=()
# Only processes that this script has started.
finish() {
    local child
    for child in ${children[@]+"${children[@]}"}; do kill "$child" 2>/dev/null || true; done
    wait
}
trap finish EXIT

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout "$out/key.pem" -out "$out/cert.pem" 2>/dev/null
cat "$out/cert.pem" "$out/key.pem" >"$out/both.pem"
head -c 32 /dev/urandom >"$out/seal"

# The last one is that of the proxies, one after the other.
reserve_ports 4
children+=("$RESERVED_PID")
front=${ports[3]}
for n in 0 1 2; do
    mkdir -p "$out/board-$n/files"
    printf '%s\n' "$n" >"$out/board-$n/files/instance.txt"
    python3 -I -S "$here/proxy/activate.py" "${ports[$n]}" \
        "$server" --http systemd --key "$out/seal" --root "$out/board-$n" </dev/null >"$out/board-$n.log" 2>&1 &
    children+=($!)
done
for n in 0 1 2; do wait_for_port "${ports[$n]}"; done

# Prints a shipped configuration with the name, ports and certificate of this run.
render() {
    sed -e "s/mcp\.example\.com\.pem/both.pem/; s#/etc/haproxy/#$out/#" \
        -e "s#/etc/ssl/mcp\.example\.com\.crt#$out/cert.pem#; s#/etc/ssl/private/mcp\.example\.com\.key#$out/key.pem#" \
        -e "s/8081/${ports[0]}/g; s/8082/${ports[1]}/g; s/8083/${ports[2]}/g" "$deploy/$1"
}

start_nginx() {
    local config=$out/nginx.conf
    {
        [ "$(id -u)" -eq 0 ] && echo "user root;"
        printf 'worker_processes 2;\npid %s/nginx.pid;\nerror_log %s/nginx.log;\n' "$out" "$out"
        printf 'events { worker_connections 1024; }\nhttp {\naccess_log off;\n'
        for kind in client_body proxy fastcgi uwsgi scgi; do printf '%s_temp_path %s/nginx-%s;\n' $kind "$out" $kind; done
        render nginx.conf | sed -e "s/listen 443/listen 127.0.0.1:$1/; s/mcp\.example\.com/localhost/"
        printf '}\n'
    } >"$config"
    nginx -p "$out" -c "$config" -e "$out/nginx.log" -g 'daemon off;' &
}

start_haproxy() {
    render haproxy.cfg | sed -e "s/bind :443/bind 127.0.0.1:$1/; s/mcp\.example\.com/localhost/" >"$out/haproxy.cfg"
    haproxy -db -q -f "$out/haproxy.cfg" >"$out/haproxy.log" 2>&1 &
}

start_caddy() {
    {
        printf '{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n\tstorage file_system %s/caddy\n}\n' "$out"
        render Caddyfile | sed -e "s/^mcp\.example\.com/https:\/\/localhost:$1/; s/# tls/tls/"
    } >"$out/Caddyfile"
    HOME=$out caddy run --config "$out/Caddyfile" --adapter caddyfile >"$out/caddy.log" 2>&1 &
}

export NODE_EXTRA_CA_CERTS=$out/cert.pem
for proxy in "${proxies[@]}"; do
    "start_$proxy" "$front"
    children+=($!)
    wait_for_port "$front"
    {
        timeout 1300 node "$here/clients/ts2/proxy.mjs" "$proxy" "https://localhost:$front/mcp" "$out" ||
            echo "FAIL $proxy/client: exit code $?"
    } | tee -a "$out/report.txt"
done

passed=$(grep -c '^ok ' "$out/report.txt" || true)
failed=$(grep -c '^FAIL ' "$out/report.txt" || true)
echo "$passed passed, $failed failed"
# A check that is never reported counts too: seven stateless ones and ten in sessions for each
# proxy.
[ "$failed" -eq 0 ] && [ "$passed" -eq $((17 * ${#proxies[@]})) ]
