#!/bin/sh
# The snapshot's figures by themselves: bench/snapshot_bench.sh [BUILD_FOLDER] [--ignored]
# TMPDIR says on which disk. --ignored adds the row with 1,000,000 ignored files (a minute).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/release}
[ $# -gt 0 ] && shift
command -v zip >/dev/null || { echo "zip is not installed: apt-get install zip" >&2; exit 1; }
[ -f "$build/build.ninja" ] || cmake --preset release -S "$root" -B "$build" >/dev/null
ninja -C "$build" snapshot blob base >/dev/null
g++ -std=c++23 -O2 -DFMT_HEADER_ONLY -I"$root/src" -o "$build/snapshot_bench" \
  "$root/bench/snapshot_bench.cc" \
  "$build/libsnapshot.a" "$build/libblob.a" "$build/libbase.a" -l:libcrypto.a -ldl -pthread
exec "$build/snapshot_bench" "$@"
