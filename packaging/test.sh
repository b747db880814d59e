#!/usr/bin/env bash
# Installs each package of packaging/build.sh in a clean Debian without a network, tries it, and removes it: packaging/test.sh FOLDER
# It runs as root. The clean Debian is made once, by mmdebstrap, and kept in PACKAGING_ROOT, an archive. It tries the image where there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { echo "usage: packaging/test.sh FOLDER" >&2; exit 2; }
out="$(cd "$1" && pwd)"
archive="${PACKAGING_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/auricle/packaging-root.tar}"
if [ ! -f "$archive" ]; then
  mkdir -p "$(dirname "$archive")"
  mmdebstrap --quiet --variant=minbase --include=adduser,ca-certificates,curl,libgcc-s1,zstd --format=tar bookworm "$archive.part"
  mv "$archive.part" "$archive"
fi
# What is mounted, listens or connects below is this script's alone.
if [ -z "${PACKAGING_TEST:-}" ]; then
  exec unshare --mount --net --pid --fork --kill-child --mount-proc env PACKAGING_TEST=1 bash "$0" "$out"
fi
ip link set lo up

base="$(mktemp -d)"
cleanup() {
  status=$?
  umount --recursive --lazy "$base" && rmdir "$base"
  [ "$status" = 0 ] || echo "packaging/test.sh: failed in \"$step\"" >&2
}
trap cleanup EXIT
step() { step="$1" && echo "packages: $1" >&2; }
fail() { echo "$*" >&2 && exit 1; }

step "a clean root"
mount -t tmpfs -o size=3g,mode=755 packages "$base"
root="$base/root"
mkdir "$root"
tar --extract --file "$archive" --directory "$root" --exclude './dev/*' --exclude './var/cache/apt/*' --exclude './var/lib/apt/lists/*'
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp models/samples/jfk.flac "$root/sample.flac"
mkdir "$root/packages" && mount --bind -o ro "$out" "$root/packages"

user=root
inside() {
  local home=/root
  [ "$user" = root ] || home=/var/lib/auricle
  chroot --userspec="$user" "$root" env -i PATH="${path:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}" HOME="$home" "$@"
}

# refuses WORDS COMMAND...: the command fails inside with one line that has these words.
refuses() {
  local words="$1" output
  shift
  if output="$(inside "$@" 2>&1)"; then fail "'$*' should fail: $output"; fi
  grep -qF -- "$words" <<<"$output" || fail "'$*' fails without '$words': $output"
  [ "$(wc -l <<<"$output")" = 1 ] || fail "more than a line: $output"
}

# The program transcribes and has its pages, completions, licences and bill of materials below $1.
complete() {
  inside auricle transcribe --device cpu /sample.flac | grep -qi 'your country' || fail "the transcript is wrong"
  for file in "${@:2}" share/bash-completion/completions/auricle share/fish/vendor_completions.d/auricle.fish share/doc/auricle/auricle.cdx.json \
    share/doc/auricle/THIRD_PARTY_NOTICES.txt share/doc/auricle/LICENSE-MIT share/doc/auricle/catalog.toml share/doc/auricle/starters/vad.md; do
    [ -s "$root/$1/$file" ] || fail "$1/$file is missing"
  done
  [ "$(inside bash -c 'source "$1" && COMP_WORDS=(auricle tr) COMP_CWORD=1 && _auricle auricle tr auricle; echo "${COMPREPLY[*]}"' - \
    "/$1/share/bash-completion/completions/auricle")" = transcribe ] || fail "bash completes nothing"
}

version="$(sed -n "s/^version='\([^']*\)'.*/\1/p" "$out/install.sh")"

step "install.sh"
python3 -m http.server --bind 127.0.0.1 --directory "$out" 8000 >/dev/null 2>&1 &
until curl -fs http://127.0.0.1:8000/SHA256SUMS >/dev/null; do sleep 0.1; done
(cd "$out" && sha256sum --check --quiet SHA256SUMS)
# A copy, which each user may read: the folder of the packages may be root's alone.
cp "$out/install.sh" "$root/install.sh"
install="sh /install.sh"
before="$(find "$root/usr/local" | sort)"
refuses "cannot fetch" $install --from http://127.0.0.1:9
refuses "cannot read" $install --from /nowhere
refuses "with --from" $install
mkdir "$root/broken" && cp "$out"/*.tar.zst "$root/broken" && echo >>"$(echo "$root"/broken/*.tar.zst)"
refuses "SHA-256" $install --from /broken
rm -r "$root/broken"
mkdir "$root/small" && mount -t tmpfs -o size=64m small "$root/small"
refuses "MiB of free space" $install --from /packages --prefix /small
user=nobody refuses "cannot write into /usr/local" $install --from http://127.0.0.1:8000 --prefix /usr/local
mkdir "$root/other"
printf '#!/bin/sh\necho glibc 2.31\n' >"$root/other/getconf" && chmod 755 "$root/other/getconf"
path=/other:/usr/bin:/bin refuses "this system has 2.31" $install --from /packages
printf '#!/bin/sh\nexit 1\n' >"$root/other/getconf"
path=/other:/usr/bin:/bin refuses "another C library" $install --from /packages
rm "$root/other/getconf"
mkdir -p "$root/newer/bin" && printf '#!/bin/sh\necho auricle 99.0.0\n' >"$root/newer/bin/auricle" && chmod 755 "$root/newer/bin/auricle"
refuses "has auricle 99.0.0" $install --from /packages --prefix /newer
[ "$(inside /newer/bin/auricle)" = "auricle 99.0.0" ]
[ "$(find "$root/usr/local" | sort)" = "$before" ] || fail "a refused installation has left something"
inside $install --from http://127.0.0.1:8000 | grep -q "auricle $version is installed in /usr/local" || fail "not installed"
complete usr/local share/man/man1/auricle.1 share/zsh/site-functions/_auricle lib/systemd/system/auricle.service
path=/newer/bin:/usr/bin:/bin inside $install --from /packages | grep -q "another one before it: /newer/bin/auricle" || fail "two versions"
inside $install --remove >/dev/null
[ -z "$(find "$root/usr/local" -type f)" ] || fail "the removal leaves files"
[ -f "$root$(inside printenv HOME)/.local/share/auricle/models/catalog.toml" ] || fail "the removal takes the models"
refuses "not installed" $install --remove

step "the Debian package"
deb="$(cd "$out" && echo auricle_"$version"_*.deb)"
data="$root/var/lib/auricle"
inside dpkg --install "/packages/$deb" >/dev/null
complete usr share/man/man1/auricle.1.gz share/zsh/vendor-completions/_auricle share/doc/auricle/copyright
[ "$(inside stat -c '%U %G %a' /var/lib/auricle)" = "auricle auricle 700" ] || fail "the data folder is not the service's own"
[ -z "$(inside dpkg --verify auricle)" ] || fail "files differ from the package's"
if command -v systemd-analyze >/dev/null; then
  sed 's|/usr/bin/auricle|/bin/true|' "$root/lib/systemd/system/auricle.service" >"$base/auricle.service"
  systemd-analyze verify --man=no --recursive-errors=no "$base/auricle.service"
fi

# In place of systemd: what the maintainer's scripts ask of it, done as the unit says.
start() {
  (cd "$data" && user=auricle inside sh -c 'cd && exec auricle serve --config /etc/auricle/auricle.toml --device cpu' >>"$base/log" 2>&1) &
}
ready() {
  for _ in $(seq 600); do
    if curl -fs http://127.0.0.1:8080/health/ready >/dev/null; then return; fi
    sleep 0.1
  done
  fail "the service is not ready: $(cat "$base/log")"
}
service() { pgrep -f '^auricle serve'; }
migrations() { python3 -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute("SELECT version, installed_on FROM _sqlx_migrations"))' "$data/auricle.db"; }
mkdir -p "$root/run/systemd/system"
cat >"$root/usr/bin/systemctl" <<'STUB'
#!/bin/sh
echo "$*" >>/systemctl.log
case "$*" in
  *disable*) pid="$(cat /run/auricle.pid)" ;;
  try-restart*) pid="$(cat /run/auricle.pid)" && touch /run/restart ;;
  *) exit 0 ;;
esac
kill -TERM "$pid"
while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
STUB
chmod 755 "$root/usr/bin/systemctl"
start && ready && service >"$root/run/auricle.pid"
key="$(sed -n 's/^key *//p' "$base/log")"
transcripts() { curl -fs -o /dev/null http://127.0.0.1:8080/v2/transcripts -H "Authorization: Bearer $key"; }
transcripts || fail "the first key is refused"

# The same package under other versions.
dpkg-deb --raw-extract "$out/$deb" "$base/deb"
repack() {
  sed -i "s/^Version: .*/Version: $1/" "$base/deb/DEBIAN/control"
  sed -i "s/gt \"[^\"]*\"/gt \"$1\"/; s/and [^ ]* cannot/and $1 cannot/" "$base/deb/DEBIAN/preinst"
  dpkg-deb -Znone --build "$base/deb" "$root/$1.deb" >/dev/null
}
repack 99.0.0
echo "# ours" >>"$root/etc/auricle/auricle.toml"
old="$(migrations)"
inside dpkg --install /99.0.0.deb >/dev/null
grep -qx "try-restart auricle.service" "$root/systemctl.log" || fail "the upgrade does not restart the service"
start && ready && service >"$root/run/auricle.pid"
transcripts || fail "the upgrade loses the key"
[ "$(migrations)" = "$old" ] || fail "the data is migrated again"
grep -qx "# ours" "$root/etc/auricle/auricle.toml" || fail "the upgrade takes the settings"

pid="$(service)"
if inside dpkg --install "/packages/$deb" >"$base/downgrade" 2>&1; then fail "a downgrade is installed"; fi
grep -q "auricle 99.0.0 is installed, and $version cannot read its data" "$base/downgrade" || fail "$(cat "$base/downgrade")"
[ "$(inside dpkg-query --show --showformat '${Status} ${Version}' auricle)" = "install ok installed 99.0.0" ] || fail "the downgrade leaves another state"
[ "$(service)" = "$pid" ] && transcripts || fail "the downgrade disturbs the service"

inside dpkg --remove auricle >/dev/null
! service || fail "the service runs after the removal"
[ -s "$data/auricle.db" ] && [ -s "$root/etc/auricle/auricle.toml" ] || fail "the removal takes the data"
inside dpkg --purge auricle >/dev/null
[ ! -e "$data" ] && [ ! -e "$root/etc/auricle" ] || fail "the purge leaves data"

step "the wheel"
wheel="$(echo "$out"/auricle-"$version"-*.whl)"
python3 -m venv "$base/venv"
"$base/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
[ "$(env -i HOME="$base" "$base/venv/bin/auricle" --version)" = "auricle $version" ]
(cd / && env -i HOME="$base" "$base/venv/bin/auricle" transcribe --device cpu "$root/sample.flac") | grep -qi 'your country' || fail "the transcript is wrong"
[ -s "$base/venv/share/man/man1/auricle.1" ] || fail "the manual is missing"
info="$(echo "$base"/venv/lib/python*/site-packages/auricle-*.dist-info)"
[ -s "$info/sboms/auricle.cdx.json" ] && [ -s "$info/licenses/THIRD_PARTY_NOTICES.txt" ] && [ -s "$info/licenses/starters/vad.md" ] || fail "licences are missing"
"$base/venv/bin/pip" uninstall --quiet --yes auricle
[ ! -e "$base/venv/bin/auricle" ] || fail "the removal leaves the program"

step "a processor without AVX2, and a home that cannot be written"
if command -v qemu-x86_64 >/dev/null && [ "$(uname -m)" = x86_64 ]; then
  tar --extract --zstd --file "$(echo "$out"/*.tar.zst)" --directory "$base" --strip-components 1 --wildcards '*/bin/auricle'
  text="$(HOME="$base" qemu-x86_64 -cpu Nehalem "$base/bin/auricle" analyze --pii - <<<'Call Mary Smith at 555 123 4567.')"
  [[ "$text" == *PERSON_NAME* ]] || fail "without AVX2: $text"
fi
inside $install --from /packages >/dev/null
user=nobody refuses "cannot write the starter model" auricle transcribe /sample.flac
user=nobody inside env XDG_DATA_HOME=/tmp/data auricle analyze --pii - <<<'Call Mary Smith.' | grep -q PERSON_NAME || fail "another place for the starters"

image="$out/auricle-$version-image.tar"
if [ -f "$image" ]; then
  step "the image"
  layers="$base/layers"
  mkdir "$layers" "$base/image"
  tar --extract --file "$image" --directory "$layers"
  jq --raw-output '.[0].Layers[]' "$layers/manifest.json" | while read -r layer; do tar --extract --file "$layers/$layer" --directory "$base/image"; done
  setting() { jq --raw-output ".config.$1" "$layers/$(jq --raw-output '.[0].Config' "$layers/manifest.json")"; }
  mapfile -t environment < <(setting 'Env[]')
  mapfile -t command < <(setting 'Entrypoint[], .config.Cmd[]')
  mapfile -t health < <(setting 'Healthcheck.Test[1:][]')
  [[ "$(setting User)" =~ ^[1-9][0-9]*:[1-9][0-9]*$ ]] || fail "the image runs as $(setting User)"
  mount -t proc proc "$base/image/proc"
  mount --rbind /dev "$base/image/dev"
  # As a runtime does it, with what the image asks for.
  within() { chroot --userspec="$(setting User)" "$base/image" env -i --chdir="$(setting WorkingDir)" "${environment[@]}" "$@"; }
  healthy() { within "${health[@]}" >/dev/null 2>&1; }
  ! healthy || fail "healthy without a service"
  within "${command[@]}" --device cpu >"$base/log" 2>&1 &
  ready
  healthy || fail "the health check fails"
  # Mesa's own rasteriser, where there is no GPU.
  within auricle devices | grep -q vulkan || fail "no Vulkan driver: $(within auricle devices)"
  kill -TERM "$(pgrep -f '^/usr/bin/auricle serve')" && wait "$!" || fail "the service ends with a failure"
fi
