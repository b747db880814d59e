#!/bin/sh
# Installs auricle @VERSION@ for Linux: install.sh [--prefix DIR] [--remove] [--from URL_OR_FOLDER]
# The default prefix is /usr/local for root, else ~/.local. Nothing is changed before the archive's SHA-256 is the one below.
set -eu

version='@VERSION@' machine='@MACHINE@' glibc='@GLIBC@' kilobytes='@KILOBYTES@' sha256='@SHA256@' from='@DOWNLOADS@'
archive="auricle-$version-$machine-linux"

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

# True if version $1 is older than $2.
is_older() {
  [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

prefix='' remove=''
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix | --from)
      [ $# -ge 2 ] || fail "$1 needs a value"
      if [ "$1" = --prefix ]; then prefix=$2; else from=$2; fi
      shift 2
      ;;
    --remove) remove=yes && shift ;;
    *) fail "unknown argument $1; usage: install.sh [--prefix DIR] [--remove] [--from URL_OR_FOLDER]" ;;
  esac
done
if [ -z "$prefix" ]; then
  if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix="${HOME:?install.sh: HOME is not set; name a folder with --prefix}/.local"; fi
fi
list="$prefix/share/doc/auricle/files"

if [ -n "$remove" ]; then
  [ -f "$list" ] || fail "auricle is not installed in $prefix"
  (cd "$prefix" && xargs rm -f <share/doc/auricle/files && rm -rf share/doc/auricle)
  echo "auricle is removed from $prefix; its data and models are kept"
  exit 0
fi

[ -n "$from" ] || fail "name the folder or URL of $archive.tar.zst with --from"
[ "$(uname -s)" = Linux ] || fail "this package is for Linux; build from source with cargo install --path server"
[ "$(uname -m)" = "$machine" ] || fail "this package is for $machine, and this machine is $(uname -m); build from source"
found="$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d ' ' -f 2)"
[ -n "$found" ] || fail "this package needs glibc $glibc or newer, and this system has another C library; build from source"
if is_older "$found" "$glibc"; then fail "this package needs glibc $glibc or newer, and this system has $found; build from source"; fi
for tool in sha256sum tar zstd; do
  command -v "$tool" >/dev/null || fail "$tool is missing; install it first"
done
if [ -x "$prefix/bin/auricle" ]; then
  old="$("$prefix/bin/auricle" --version 2>/dev/null | cut -d ' ' -f 2)" || old=''
  if [ -n "$old" ] && is_older "$version" "$old"; then
    fail "$prefix has auricle $old, whose data $version cannot read; remove it first with its install.sh --remove"
  fi
fi
mkdir -p "$prefix" 2>/dev/null && [ -w "$prefix" ] || fail "cannot write into $prefix; name another folder with --prefix"
# The archive, then its files beside it.
free="$(df -Pk "$prefix" | awk 'NR == 2 { print $4 }')"
[ "$free" -ge $((2 * kilobytes)) ] || fail "$prefix has $((free / 1024)) MiB of free space, and $((2 * kilobytes / 1024)) are needed"

work="$(mktemp -d "$prefix/.auricle-XXXXXX")"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
case "$from" in
  http://* | https://*)
    url="${from%/}/$archive.tar.zst"
    if command -v curl >/dev/null; then
      reason="$(curl -fsSL --retry 2 -o "$work/archive" "$url" 2>&1)" || fail "cannot fetch $url: $reason"
    elif command -v wget >/dev/null; then
      wget -q -O "$work/archive" "$url" || fail "cannot fetch $url"
    else
      fail "curl or wget is missing; install one, or name a folder with --from"
    fi
    ;;
  *) cp "$from/$archive.tar.zst" "$work/archive" 2>/dev/null || fail "cannot read $from/$archive.tar.zst" ;;
esac
echo "$sha256  $work/archive" | sha256sum --check --status || fail "the SHA-256 of $archive.tar.zst is wrong; nothing is installed"
(cd "$work" && zstd -q -d -c archive | tar -x --no-same-owner) || fail "cannot unpack $archive.tar.zst into $prefix"
"$work/$archive/bin/auricle" --version >/dev/null || fail "the program does not start on this machine; nothing is installed"

# Each file replaces its predecessor at once, so that a running program keeps the one that it has open.
(cd "$work/$archive" && find . -type f | sort) >"$work/files"
while read -r file; do
  mkdir -p "$prefix/$(dirname "$file")"
  mv -f "$work/$archive/$file" "$prefix/$file"
done <"$work/files"
mv -f "$work/files" "$list"

echo "auricle $version is installed in $prefix"
first="$(command -v auricle || true)"
if [ -z "$first" ]; then
  echo "add it to the path: export PATH=\"$prefix/bin:\$PATH\""
elif [ "$first" != "$prefix/bin/auricle" ]; then
  echo "the path has another one before it: $first, $("$first" --version 2>/dev/null || echo 'which does not start')"
fi
if command -v systemctl >/dev/null && systemctl --quiet is-active auricle 2>/dev/null; then
  echo "the service still runs the program before; restart it with systemctl restart auricle"
fi
