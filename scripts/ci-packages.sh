#!/usr/bin/env bash
# Installs the Debian packages that some suites and deploy/check need. Without root it installs nothing, and each suite says
# what it misses.
set -euo pipefail
PATH="$PATH:/usr/sbin"

missing=()
# need COMMAND PACKAGE…: the command comes with these packages.
need() {
  command -v "$1" >/dev/null || missing+=("${@:2}")
}
need curl curl
need openssl openssl
# For the examples in Go and Python.
need go golang-go
need python3 python3
need redis-server redis-server
need pgbouncer pgbouncer
# Without a font, a browser draws no text.
need chromium chromium fonts-dejavu-core
need haproxy haproxy
need patroni patroni python3-etcd
need etcd etcd-server
[ -d /usr/lib/postgresql ] || missing+=(postgresql)
need promtool prometheus
need systemd-analyze systemd
# Debian 12 has one that is too old for the overlay.
need kubectl kubernetes-client
docker compose version >/dev/null 2>&1 || need docker-compose docker-compose

if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "ci-packages: ${missing[*]} missing; installing them takes apt-get and root" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# Debian starts a service when it installs its package. The tests start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
