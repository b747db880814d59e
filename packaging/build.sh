#!/usr/bin/env bash
# Makes all packages of one program from one tree of files: packaging/build.sh FOLDER [PROGRAM]
# Without PROGRAM it builds it. Where the packages will lie for install.sh and Homebrew: AURICLE_DOWNLOADS=https://HOST/PATH
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: packaging/build.sh FOLDER [PROGRAM]" >&2; exit 2; }
for tool in cargo python3 readelf dpkg-deb zstd libdeflate-gzip; do
  command -v "$tool" >/dev/null || { echo "$tool is missing; Debian: apt install python3 binutils dpkg zstd libdeflate-tools" >&2; exit 1; }
done
mkdir -p "$1"
out="$(cd "$1" && pwd)"
program="${2:-${CARGO_TARGET_DIR:-target}/release/auricle}"
[ $# -ge 2 ] || cargo build --release --locked --bin auricle --features webrtc

version="$("$program" --version | cut -d ' ' -f 2)"
machine="$(readelf -h "$program" | grep -q X86-64 && echo x86_64 || echo aarch64)"
debian="$([ "$machine" = x86_64 ] && echo amd64 || echo arm64)"
# The newest symbol names the oldest glibc that the program starts with.
glibc="$(readelf -V "$program" | grep -o 'Name: GLIBC_[0-9.]*' | cut -d _ -f 2 | sort -V | tail -1)"
downloads="${AURICLE_DOWNLOADS:-}"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
work="$(mktemp -d -p "$out")"
trap 'rm -rf "$work"' EXIT

# The tree below a prefix.
tree="$work/tree"
doc="$tree/share/doc/auricle"
install -D "$program" "$tree/bin/auricle"
"$program" man "$tree/share/man/man1"
mkdir -p "$tree/share/"{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d} "$doc/starters"
"$program" completions bash >"$tree/share/bash-completion/completions/auricle"
"$program" completions zsh >"$tree/share/zsh/site-functions/_auricle"
"$program" completions fish >"$tree/share/fish/vendor_completions.d/auricle.fish"
install -m 644 LICENSE-MIT LICENSE-APACHE README.md docs/settings.md docs/install.md models/catalog.toml packaging/auricle.toml "$doc"
install -m 644 engine/src/text/speech/cmudict.LICENSE "$doc"
for card in models/starter/*/README.md; do install -m 644 "$card" "$doc/starters/$(basename "$(dirname "$card")").md"; done
python3 packaging/notices.py >"$doc/THIRD_PARTY_NOTICES.txt"
python3 packaging/notices.py --sbom >"$doc/auricle.cdx.json"
mkdir -p "$tree/lib/systemd/system"
sed "s|@BIN@|/usr/local/bin|" packaging/auricle.service >"$tree/lib/systemd/system/auricle.service"
find "$work" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
kilobytes="$(du -sk --apparent-size "$tree" | cut -f 1)"

fill() {
  sed -e "s|@VERSION@|$version|g; s|@MACHINE@|$machine|g; s|@DEBIAN@|$debian|g; s|@GLIBC@|$glibc|g; s|@KILOBYTES@|$kilobytes|g" \
    -e "s|@SHA256@|${sha256:-}|g; s|@DOWNLOADS@|$downloads|g" "$1"
}

name="auricle-$version-$machine-linux"
tar --create --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime "@$SOURCE_DATE_EPOCH" \
  --transform "s|^tree|$name|" tree | zstd --quiet --force -12 --threads=0 -o "$out/$name.tar.zst"
sha256="$(sha256sum "$out/$name.tar.zst" | cut -d ' ' -f 1)"
fill packaging/install.sh >"$out/install.sh"
fill packaging/auricle.rb >"$out/auricle.rb"

python3 packaging/wheel.py "$tree" "$version" "manylinux_${glibc/./_}_$machine" "$out"

# Debian's places differ in three folders.
mkdir -p "$work/deb/DEBIAN" "$work/deb/etc/auricle"
mv "$tree" "$work/deb/usr"
mv "$work/deb/usr/share/zsh/site-functions" "$work/deb/usr/share/zsh/vendor-completions"
mkdir -p "$work/deb/lib"
mv "$work/deb/usr/lib/systemd" "$work/deb/lib/systemd"
rmdir "$work/deb/usr/lib"
sed "s|@BIN@|/usr/bin|" packaging/auricle.service >"$work/deb/lib/systemd/system/auricle.service"
gzip --best --no-name "$work"/deb/usr/share/man/man1/*.1
mv "$work/deb/usr/share/doc/auricle/auricle.toml" "$work/deb/etc/auricle/auricle.toml"
cp packaging/debian/copyright "$work/deb/usr/share/doc/auricle/copyright"
echo /etc/auricle/auricle.toml >"$work/deb/DEBIAN/conffiles"
for file in control preinst postinst prerm postrm; do
  fill "packaging/debian/$file" >"$work/deb/DEBIAN/$file"
  [ "$file" = control ] || chmod 755 "$work/deb/DEBIAN/$file"
done
(cd "$work/deb" && find usr lib etc -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
dpkg-deb --root-owner-group -Zzstd -z12 --build "$work/deb" "$out/auricle_${version}_$debian.deb" >/dev/null

(cd "$out" && sha256sum "$name.tar.zst" "auricle_${version}_$debian.deb" auricle-"$version"-*.whl >SHA256SUMS)
