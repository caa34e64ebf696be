# Several machines on one: a network namespace and a host name for each, connected by a bridge. Sourced by scripts that have
# called `alone "$@"` first. Needs root, iproute2 and util-linux. Everything disappears with the script.

# Runs the script again in namespaces of its own (network, mounts, host name, processes), where it goes on.
alone() {
    [ "${ALONE:-}" = yes ] && return
    for tool in ip unshare nsenter; do
        command -v $tool >/dev/null || { echo "not run: no $tool (iproute2, util-linux)"; exit 77; }
    done
    unshare -mnpu true 2>/dev/null || { echo "not run: no rights for namespaces; run it as root"; exit 77; }
    ALONE=yes exec unshare -mnpu --fork --kill-child --mount-proc "$0" "$@"
}

# machines N: starts node1 .. nodeN with the addresses 10.77.0.1 .. N; this script is `head`, 10.77.0.254.
machines() {
    hostname head
    { echo 127.0.0.1 localhost; echo 10.77.0.254 head; } >"$work/hosts"
    ip link set lo up
    ip link add bridge type bridge
    ip addr add 10.77.0.254/24 dev bridge
    ip link set bridge up
    for i in $(seq "$1"); do
        echo "10.77.0.$i node$i" >>"$work/hosts"
        unshare -nu sleep infinity &
        eval "node$i=$!"
        until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
        ip link add link$i type veth peer name eth0 netns $!
        ip link set link$i master bridge up
        on $i hostname node$i
        on $i ip addr add 10.77.0.$i/24 dev eth0
        on $i ip link set eth0 up
        on $i ip link set lo up
    done
    mount --bind "$work/hosts" /etc/hosts
}

# on I COMMAND ...: runs it on that machine
on() {
    eval "at=\$node$1"
    shift
    nsenter -t "$at" -n -u "$@"
}
