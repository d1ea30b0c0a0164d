#!/bin/bash
# Searches for inputs that break a parser, with clang's libFuzzer:
#
#   tools/fuzz.sh function/manifest_fuzz [SECONDS]      build/fuzz/NAME holds what it found, crashes too
#
# `./quern test` runs the same targets for some seconds without clang, over fixed seeds.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
target=${1:?"name a target, as in function/manifest_fuzz"} seconds=${2:-60}
if [ ! -e "src/$target.cc" ]; then
  echo "src/$target.cc: there is none; there are:" >&2
  find src -name '*_fuzz.cc' >&2
  exit 1
fi
clang=$(command -v clang++ clang++-{19..14} | head -n 1) || true
[ -n "$clang" ] || { echo "clang is missing: apt-get install clang" >&2; exit 1; }
name=$(basename "$target") module=$(dirname "$target") out=build/fuzz/$(basename "$target")
mkdir -p "$out"
# The module and what it may include, as src/layers.txt says.
modules="$module $(awk -v m="$module" '$1 == m { for (i = 2; i <= NF && $i !~ /^#/; i++) print $i }' src/layers.txt)"
sources=()
for one in $modules; do
  mapfile -t -O ${#sources[@]} sources < <(find "src/$one" -name '*.cc' ! -name '*_test.cc' ! -name '*_fuzz.cc')
done
"$clang" -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -DQUERN_LIBFUZZER -Isrc \
  "${sources[@]}" "src/$target.cc" \
  -lfmt -lyaml-cpp -lcrypto -lboost_json -o "$out/$name"
exec "$out/$name" -max_total_time="$seconds" -artifact_prefix="$out/" "$out"
