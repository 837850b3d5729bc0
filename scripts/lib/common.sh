# Sourced by the scripts beside lib/: messages, and the system's own packages.
# shellcheck shell=bash

note() { printf '==> %s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$1" >&2
    shift
    if (($#)); then printf '       %s\n' "$@" >&2; fi
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

can_install_packages() { [ "$(id -u)" -eq 0 ] && have apt-get; }

# The lists of a fresh machine are empty or old, so they are read once per run.
refresh_package_lists() {
    [ -n "${package_lists_fresh:-}" ] && return
    note "Reading the package lists"
    # One source of many may fail: what the others gave can still be enough.
    quiet apt-get update || note "Going on with the package lists that could be read"
    package_lists_fresh=1
}

install_packages() {
    refresh_package_lists
    note "Installing: $*"
    DEBIAN_FRONTEND=noninteractive quiet apt-get install -y --no-install-recommends "$@"
}

package_is_known() {
    refresh_package_lists
    apt-cache show "$1" >/dev/null 2>&1
}

# Runs a command without its output, which is shown only if the command fails.
quiet() {
    local output status=0
    output=$("$@" 2>&1 </dev/null) || status=$?
    ((status == 0)) || printf '%s\n' "$output" >&2
    return "$status"
}
