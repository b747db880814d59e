#!/usr/bin/env bash
# Makes a container image of the Debian package in FOLDER and of others from Debian, without a registry: packaging/image.sh FOLDER [PACKAGE...]
# It runs as root, needs buildah and mmdebstrap, and writes an archive that `podman load` and `docker load` take.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: packaging/image.sh FOLDER [PACKAGE...]" >&2; exit 2; }
out="$(cd "$1" && pwd)"
deb="$(echo "$out"/auricle_*.deb)"
[ -f "$deb" ] || { echo "no Debian package in $out; run packaging/build.sh first" >&2; exit 1; }
version="$(dpkg-deb --field "$deb" Version)"
image="$out/auricle-$version-image.tar"
work="$(mktemp -d -p "$out")"
trap 'rm -rf "$work"' EXIT

# The Vulkan loader, the libraries that NVIDIA's Vulkan driver loads, Mesa's driver for AMD and Intel, and what the package needs.
packages=(adduser ca-certificates libegl1 libgcc-s1 libvulkan1 libx11-6 libxext6 mesa-vulkan-drivers "${@:2}")
mmdebstrap --quiet --variant=minbase --include="${packages[*]}" \
  --customize-hook="copy-in $deb /tmp" --customize-hook='chroot "$1" sh -c "dpkg --install /tmp/auricle_*.deb && rm /tmp/auricle_*.deb"' \
  --customize-hook='chroot "$1" install --directory --owner auricle --group auricle --mode 700 /data' \
  --customize-hook="cp \"\$1/etc/passwd\" $work/passwd" \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  bookworm "$work/root.tar"
# By number, so that a cluster sees that it is not root.
user="$(sed -n 's/^auricle:[^:]*:\([0-9]*:[0-9]*\):.*/\1/p' "$work/passwd")"

# The format that has health checks.
export BUILDAH_FORMAT=docker
builder() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
container="$(builder from scratch)"
builder add --quiet "$container" "$work/root.tar" / >/dev/null
# Bash asks for the health, as nothing else in the image speaks HTTP. NVIDIA's container toolkit mounts its Vulkan driver for "graphics".
builder config --user "$user" --workingdir /data --volume /data --port 8080 --port 8081 --port 8082 \
  --env HOME=/data --env NVIDIA_VISIBLE_DEVICES=all --env NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics \
  --env AURICLE_LISTEN=0.0.0.0:8080 --env AURICLE_STORAGE_LISTEN=0.0.0.0:8081 --env AURICLE_DASHBOARD_LISTEN=0.0.0.0:8082 \
  --env AURICLE_PUBLIC_URL=http://localhost:8080 --env AURICLE_STORAGE_PUBLIC_URL=http://localhost:8081 \
  --env AURICLE_DASHBOARD_PUBLIC_URL=http://localhost:8082 \
  --entrypoint '["/usr/bin/auricle"]' --cmd 'serve --data /data' --stop-signal SIGTERM \
  --healthcheck-interval 10s --healthcheck-timeout 5s --healthcheck-start-period 60s --healthcheck-retries 3 \
  --healthcheck 'CMD bash -c "exec 3<>/dev/tcp/127.0.0.1/8080 && { echo GET /health/ready HTTP/1.0; echo; } >&3 && read -r _ code _ <&3 && [ $code = 200 ]"' \
  --label org.opencontainers.image.version="$version" --label org.opencontainers.image.licenses="MIT OR Apache-2.0" "$container"
builder commit --quiet "$container" "localhost/auricle:$version" >/dev/null
rm -f "$image"
builder push --quiet "localhost/auricle:$version" "docker-archive:$image:localhost/auricle:$version"
(cd "$out" && sed -i '/-image.tar$/d' SHA256SUMS && sha256sum "$(basename "$image")" >>SHA256SUMS)
