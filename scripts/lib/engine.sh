# Sourced: a Docker engine that answers. Where one answers already, nothing is changed.
# shellcheck shell=bash

engine_pidfile=${HARBOR_ENGINE_PIDFILE:-/var/run/docker.pid}
engine_containerd_pidfile=${HARBOR_ENGINE_CONTAINERD_PIDFILE:-/var/run/docker/containerd/containerd.pid}
engine_log=${HARBOR_ENGINE_LOG:-/var/log/pytest-harbor-dockerd.log}
engine_start_seconds=${HARBOR_ENGINE_START_SECONDS:-60}
# Further flags for dockerd, for kernels that need them.
read -r -a engine_flags <<<"${HARBOR_ENGINE_FLAGS:-}"

engine_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

ensure_engine() {
    engine_answers && return
    require_local_engine
    if ! have dockerd || ! have docker; then install_engine; fi
    # The new client may find an engine that was there, behind a mounted socket.
    engine_answers && return
    start_engine
    ensure_client_plugins
}

require_local_engine() {
    # With flags of one's own the engine may listen elsewhere, and DOCKER_HOST say where.
    [ -z "${DOCKER_HOST:-}" ] || ((${#engine_flags[@]})) ||
        die "DOCKER_HOST is $DOCKER_HOST, but no engine answers there." \
            "Start that engine, or unset DOCKER_HOST to use one on this machine."
    [ "$(id -u)" -eq 0 ] ||
        die "No Docker engine answers (docker version)." \
            "Start it, and see that this user may use it (group docker)," \
            "or run this script as root on Debian or Ubuntu to have one installed."
    have dockerd || have apt-get ||
        die "No Docker engine answers (docker version), and this is no Debian or Ubuntu." \
            "Install Docker as your system does it, start it, and run this script again."
}

install_engine() {
    local packages=(docker.io iptables)
    # Newer Debian releases ship the command line on its own.
    if package_is_known docker-cli; then packages+=(docker-cli); fi
    install_packages "${packages[@]}"
}

# A pid file outlives a killed engine, and its number may since belong to any
# other process: then dockerd refuses to start, or waits for a dead containerd.
remove_stale_pidfile() {
    local pidfile=$1 name=$2 pid
    [ -e "$pidfile" ] || return 0
    pid=$(cat "$pidfile")
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$name" ] && return
    note "Removing the stale $pidfile (no $name has the pid '$pid')"
    rm -f "$pidfile"
}

# By hand, since a container or a small machine has no init system to ask.
start_engine() {
    local pid
    remove_stale_pidfile "$engine_pidfile" dockerd
    remove_stale_pidfile "$engine_containerd_pidfile" containerd
    note "Starting dockerd (log: $engine_log)"
    setsid nohup dockerd "${engine_flags[@]}" >>"$engine_log" 2>&1 </dev/null &
    pid=$!
    wait_for_engine "$pid"
}

wait_for_engine() {
    local pid=$1 second
    for ((second = 0; second < engine_start_seconds; second++)); do
        engine_answers && return
        sleep 1
        kill -0 "$pid" 2>/dev/null || break
    done
    engine_answers || explain_engine_failure
}

explain_engine_failure() {
    tail -n 20 "$engine_log" >&2
    if tail -n 20 "$engine_log" | grep -q iptables; then
        die "dockerd did not start; its log ends as above ($engine_log)." \
            "This kernel may lack nf_tables. As root, try the older tables, then run this again:" \
            "update-alternatives --set iptables /usr/sbin/iptables-legacy"
    fi
    die "dockerd did not start; its log ends as above ($engine_log)." \
        "Flags that this machine needs can be given: HARBOR_ENGINE_FLAGS='--storage-driver=vfs'"
}
