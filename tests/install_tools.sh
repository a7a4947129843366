#!/bin/sh
# What the tests need and pip does not bring: a browser and a database server. Installs what is missing.
set -eu

missing=""
command -v chromium >/dev/null 2>&1 || missing="$missing chromium fonts-dejavu"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || missing="$missing postgresql"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "The tests need:$missing. Install them with this system's package manager and try again." >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo"
fi
echo "Installing$missing for the tests"
$as_root apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
