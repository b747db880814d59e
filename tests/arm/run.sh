#!/usr/bin/env bash
# The CPU kernels' own tests under emulation of ARM processors: one with every instruction that the kernels use, one that multiplies
# no unsigned bytes (no i8mm), and one that adds up no products of bytes (no dotprod). Needs qemu-user, gcc-aarch64-linux-gnu and
# libc6-dev-arm64-cross.
set -euo pipefail
cd "$(dirname "$0")"
target=aarch64-unknown-linux-gnu
if [ ! -d "$(rustc --print target-libdir --target "$target")" ] && ! rustup target add "$target"; then
  echo "skipped: the compiler has no $target, and it cannot be installed here"
  exit 0
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
for cpu in max neoverse-n1 cortex-a72; do
  echo "as $cpu"
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu $cpu" \
    cargo test --release --target "$target" --lib
done
