#!/bin/sh
# Makes the certificates of these tests, which are valid for 100 years. Needs openssl 3.
set -eu
cd "$(dirname "$0")"

authority() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.pem" -days 36500 \
        -subj "/CN=tinymcp test $1" -addext 'keyUsage=critical,keyCertSign' -addext 'basicConstraints=critical,CA:TRUE'
}

issue() { # NAME EXTENSION...
    name=$1
    shift
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$name.key" -out "$name.csr" \
        -subj "/CN=tinymcp test $name"
    printf '%s\n' "$@" | openssl x509 -req -in "$name.csr" -CA authority.pem -CAkey authority.key -days 36500 \
        -extfile /dev/stdin -out "$name.pem"
    rm "$name.csr"
}

authority authority
authority stranger
issue server 'subjectAltName=DNS:localhost,DNS:mcp.test,IP:127.0.0.1,IP:::1' 'extendedKeyUsage=serverAuth'
issue client 'subjectAltName=DNS:client' 'extendedKeyUsage=clientAuth'
rm authority.key stranger.key
