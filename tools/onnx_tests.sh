#!/usr/bin/env bash
# Prints the folder with the node tests of ONNX, recorded models with inputs and outputs, and fetches them from PyPI at
# the first time. They are a part of the package onnx 1.22.0; later ones do not have them. Ends with 1 where PyPI is out
# of reach.
set -eu
folder="${XDG_CACHE_HOME:-$HOME/.cache}/quern/onnx-tests-1.22.0"
if [ ! -e "$folder/test_abs/model.onnx" ]; then
  fetched=$(mktemp -d)
  trap 'rm -rf "$fetched"' EXIT
  if ! /usr/bin/python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --retries 1 \
    --timeout 30 --dest "$fetched" onnx==1.22.0 > "$fetched/log" 2>&1; then
    echo "onnx_tests: PyPI is out of reach: $(tail -n 1 "$fetched/log")" >&2
    exit 1
  fi
  mkdir -p "$(dirname "$folder")" "$fetched/all"
  (cd "$fetched/all" && /usr/bin/python3 -m zipfile -e "$fetched"/onnx-*.whl .)
  rm -rf "$folder"
  mv "$fetched/all/onnx/backend/test/data/node" "$folder"
fi
echo "$folder"
