#!/usr/bin/env bash
# Debian's packages that some suites need, installed where they are missing and this user may. Where it may not, those suites
# say themselves what they miss.
set -euo pipefail

missing=()
# What the documents ask with.
command -v curl >/dev/null || missing+=(curl)
command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
# A browser draws its page with some font or not at all.
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)

if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "ci-packages: ${missing[*]} missing, and installing takes apt-get and root" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# Debian starts a service as soon as its package is there; the tests start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
