#!/bin/sh
# Writes the root file system of the sandbox's image as a tar archive: a small Debian with Python, numpy, pandas,
# requests and pytest, all from Debian's own packages. For machines without a container registry; needs root.
#
#   rootfs.sh TARGET.tar
#
# The text of this file is the recipe: the image's tag is a hash of it, so every change makes another image.
set -eu

target=$1
suite=bookworm
packages=python3,python3-numpy,python3-pandas,python3-requests,python3-pytest

if ! command -v debootstrap >/dev/null; then
  echo "debootstrap is missing. On Debian and Ubuntu: apt-get install -y debootstrap debian-archive-keyring" >&2
  exit 3
fi
if [ "$(id -u)" != 0 ]; then
  echo "debootstrap needs root: run this with sudo" >&2
  exit 3
fi

work=$(mktemp -d "$target.XXXXXX")
root=$work/root
clean() {
  # A debootstrap that was ended half-way may have left these mounted.
  umount -l "$root/proc" "$root/sys" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

# No mirror is named: debootstrap knows Debian's, and takes proxies from the environment.
debootstrap --variant=minbase --include="$packages" "$suite" "$root" >"$work/log" 2>&1 || {
  tail -n 20 "$work/log" >&2
  exit 1
}

cd "$root"
# What no program needs, and what tells of the machine that built it. File times stay as they are: Python compares
# them with those that its compiled files name.
rm -rf usr/share/doc usr/share/man usr/share/info usr/share/locale usr/share/lintian var/cache/* var/log/* \
  var/lib/apt/lists/* etc/apt/sources.list etc/apt/sources.list.d tmp/* dev/* etc/machine-id
rm -rf usr/lib/python3/dist-packages/pandas/tests usr/lib/python3/dist-packages/numpy/*/tests
: >etc/hostname
: >etc/resolv.conf
mkdir -p code
find . -xdev -perm /6000 -type f -exec chmod a-s {} +
tar --numeric-owner --sort=name -cf "$work/image.tar" .
mv "$work/image.tar" "$target"
