#!/bin/sh
# A certificate authority of your own and pairs it has signed, in the folder you name: for trying TLS out, not for use.
#
#     sh examples/tls/make-certificates.sh certificates
#
#     ca.pem                    what both sides trust
#     server.pem server.key     for localhost and 127.0.0.1
#     client.pem client.key     for callers, with the name proxy.test
set -eu
folder=${1:?name a folder for the certificates}
mkdir -p "$folder"
cd "$folder"
umask 077

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj '/CN=Trial CA' \
  -keyout ca.key -out ca.pem 2>/dev/null

issue() { # name, what its certificate is for
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" \
    -keyout "$1.key" -out "$1.request" 2>/dev/null
  printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\n' "$2" > "$1.extensions"
  openssl x509 -req -in "$1.request" -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 \
    -extfile "$1.extensions" -out "$1.pem" 2>/dev/null
  rm "$1.request" "$1.extensions"
}

issue server 'DNS:localhost,IP:127.0.0.1'
issue client 'DNS:proxy.test'
echo "ca.pem, server and client pairs are in $folder"
