# Sourced: docker buildx and compose for an engine that these scripts started.
# Without them the engine's own builder is used, so a failure is only told.
# shellcheck shell=bash

plugin_folder=${HARBOR_PLUGIN_FOLDER:-/usr/local/lib/docker/cli-plugins}
# Bookworm has no buildx and an old compose; these two need no more than its libc.
plugin_release=trixie

ensure_client_plugins() {
    docker buildx version >/dev/null 2>&1 && docker compose version >/dev/null 2>&1 && return
    can_install_packages || return 0
    if package_is_known docker-buildx; then
        install_own_client_plugins
    else
        fetch_client_plugins
    fi || note "No docker buildx or compose to be had: images are built by the engine's own builder"
}

install_own_client_plugins() {
    if package_is_known docker-compose-v2; then
        install_packages docker-buildx docker-compose-v2
    else
        install_packages docker-buildx docker-compose
    fi
}

# The Debian mirror that this machine uses, as apt itself understands its sources.
debian_mirror() {
    # shellcheck disable=SC2016  # apt fills the name in
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
        "Codename: $1" 2>/dev/null | head -n 1
}

# shellcheck disable=SC1091
this_release() { (. /etc/os-release && printf '%s\n' "$VERSION_CODENAME"); }

# A folder of its own holds the newer release's lists: the machine's sources stay as they are.
fetch_client_plugins() {
    local mirror folder status=0
    mirror=$(debian_mirror "$(this_release)")
    [ -n "$mirror" ] || return
    folder=$(mktemp -d)
    note "Fetching docker buildx and compose from Debian $plugin_release"
    write_plugin_source "$mirror" "$folder/plugins.sources"
    download_client_plugins "$folder" && unpack_client_plugins "$folder" || status=$?
    rm -rf "$folder"
    return "$status"
}

write_plugin_source() {
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
        "$1" "$plugin_release" /usr/share/keyrings/debian-archive-keyring.gpg >"$2"
}

download_client_plugins() {
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial" &&
        quiet apt_in "$1" update &&
        (cd "$1" && quiet apt_in "$1" download docker-buildx docker-compose)
}

unpack_client_plugins() {
    local package
    for package in "$1"/*.deb; do dpkg-deb -x "$package" "$1/unpacked" || return; done
    install -D -t "$plugin_folder" "$1"/unpacked/usr/libexec/docker/cli-plugins/*
}

apt_in() {
    local folder=$1
    shift
    apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$folder" \
        -o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache" \
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=root "$@"
}
