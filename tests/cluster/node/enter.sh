# The first steps inside a node: what it writes outside its own directory, and the kernel settings that a kubelet
# insists on, stay its own.  enter.sh DIRECTORY COMMAND...
set -eu

directory=$1
shift
mkdir -p "$directory/lib" "$directory/log"
mount --make-rshared /
mount -t tmpfs tmpfs /run
mount --bind "$directory/lib" /var/lib
mount --bind "$directory/log" /var/log
mkdir -p /run/netns /run/settings
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    own=/run/settings/$(echo "$setting" | tr / -)
    cat "/proc/sys/$setting" >"$own"
    mount --bind "$own" "/proc/sys/$setting"
done
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up
exec "$@"
