# Sourced: a Python that is new enough, and a virtual environment with the package.
# shellcheck shell=bash
# shellcheck disable=SC2154  # root is set by the script that sources this file

venv=${HARBOR_VENV:-$root/.venv}

# A version manager's shim can be on PATH and still fail, and Debian splits
# ensurepip off: only a Python that really does both is usable.
python_is_usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Prints a usable Python of one version such as 3.13, from PATH or from pyenv.
find_python_version() {
    local candidate pyenv_root
    pyenv_root=$(pyenv root 2>/dev/null) || pyenv_root=$HOME/.pyenv
    for candidate in "python$1" "$pyenv_root/versions/$1".*/bin/python; do
        if python_is_usable "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

find_python() {
    local version
    if [ -n "${PYTHON:-}" ]; then
        python_is_usable "$PYTHON" || return 1
        printf '%s\n' "$PYTHON"
        return
    fi
    if python_is_usable python3; then
        printf 'python3\n'
        return
    fi
    for version in 3.13 3.12 3.11; do
        find_python_version "$version" && return
    done
    return 1
}

ensure_python() {
    python=$(find_python) && return
    [ -z "${PYTHON:-}" ] ||
        die "PYTHON=$PYTHON is not a Python 3.11 or newer with venv and ensurepip."
    can_install_packages ||
        die "No Python 3.11 or newer with venv was found." \
            "Install one, or name it: PYTHON=/path/to/python $0"
    install_packages python3 python3-venv
    # /usr/bin first: another python3 may stand before the one just installed.
    PYTHON=/usr/bin/python3
    python=$(find_python) ||
        die "This system's python3 is older than 3.11." \
            "Install a newer one and name it: PYTHON=/path/to/python $0"
}

# What the virtual environment was made from: a change of any makes it anew.
venv_key() {
    "$python" -VV
    printf '%s\n' "$root"
    cat "$root/pyproject.toml"
}

install_package() {
    local pip=(quiet "$venv/bin/python" -m pip --disable-pip-version-check)
    # Dependency groups are known to pip from 25.1 on.
    "${pip[@]}" install --upgrade 'pip>=25.1'
    (cd "$root" && "${pip[@]}" install --editable . --group test)
}

ensure_venv() {
    local key stamp=$venv/pytest-harbor.stamp
    ensure_python
    key=$(venv_key | sha256sum)
    [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && return
    note "Making $venv with $("$python" -V)"
    "$python" -m venv --clear "$venv"
    install_package
    printf '%s\n' "$key" >"$stamp"
}
