# Sourced: git-lfs, for the tests of tasks whose repositories keep files in Git LFS.
# Without it those tests are skipped, and fail where CI says that nothing may be.
# shellcheck shell=bash

ensure_git_lfs() {
    have git-lfs && return
    can_install_packages || return 0
    install_packages git-lfs || note "No git-lfs to be had: the tests that need it are left out"
}
