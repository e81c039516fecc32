# Sourced by the Makefile and the other scripts: where tools are, and how to become root.
PATH="$HOME/.cargo/bin:/usr/sbin:/sbin:$PATH"
export PATH
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo --preserve-env=PATH,NICFORGE_BLESS,CI "$@"; fi
}
