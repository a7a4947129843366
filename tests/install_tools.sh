#!/bin/sh
# What the tests need and pip does not bring: a browser, a database server, the programs of a Kubernetes cluster, and
# what a node needs to run pods.
# Installs or builds what is missing.
set -eu

here=$(dirname "$0")
python=${PYTHON:-python3}

missing=""
command -v chromium >/dev/null 2>&1 || missing="$missing chromium fonts-dejavu"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || missing="$missing postgresql"
PATH="$PATH:/usr/sbin:/sbin"
for needed in buildah containerd debootstrap iptables runc socat; do
    command -v "$needed" >/dev/null 2>&1 || missing="$missing $needed"
done
command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
[ -x /usr/lib/cni/ptp ] || missing="$missing containernetworking-plugins"
[ -r /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"

if [ -n "$missing" ]; then
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
fi

exec "$python" "$here/support/cluster_tools.py"
