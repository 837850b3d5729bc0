# Sourced: the one base image of the example tasks and of the tests.
# shellcheck shell=bash

base_image=${HARBOR_BASE_IMAGE:-debian:bookworm-slim}
base_release=bookworm

ensure_base_image() {
    docker image inspect "$base_image" >/dev/null 2>&1 && return
    note "Pulling $base_image"
    quiet timeout 300 docker pull "$base_image" && return
    note "No registry gave $base_image: making it from this machine's Debian mirror"
    make_base_image
}

make_base_image() {
    can_install_packages ||
        die "The image $base_image could not be pulled." \
            "Give it to the engine (docker load), or run this script as root on Debian."
    have mmdebstrap || install_packages mmdebstrap
    refresh_package_lists
    local mirror folder
    mirror=$(debian_mirror "$(this_release)")
    [ -n "$mirror" ] ||
        die "The image $base_image could not be pulled, and no Debian mirror is known to apt here." \
            "Give the image to the engine (docker load), or run this script on Debian."
    folder=$(mktemp -d)
    if bootstrap_root "$folder/root.tar" "$mirror" &&
        docker import --change 'CMD ["bash"]' "$folder/root.tar" "$base_image" >/dev/null; then
        rm -rf "$folder"
    else
        rm -rf "$folder"
        die "The image $base_image could be neither pulled nor made; the reason is above."
    fi
}

# Documentation and translations are left out, as in the image of that name.
bootstrap_root() {
    local bundle=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt} extra=()
    # A machine behind its own certificate authority must have builds trust it too.
    if [ -r "$bundle" ]; then
        extra+=("--customize-hook=upload '$bundle' /etc/ssl/certs/ca-certificates.crt")
    fi
    quiet mmdebstrap --variant=minbase --include=ca-certificates \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        "${extra[@]}" "$base_release" "$1" "$2"
}
