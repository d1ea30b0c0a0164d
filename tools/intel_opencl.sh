#!/usr/bin/env bash
# Runs a command on Intel's OpenCL runtime for CPUs: on no other OpenCL driver, or with --beside also on those that the
# system has. The runtime is installed from PyPI into a cache folder, by the hash of what it is, so that every clone of
# this user finds it. QUERN_INTEL_OPENCL names another folder that holds it.
#   tools/intel_opencl.sh --install      installs it; says so where PyPI is out of reach
#   tools/intel_opencl.sh COMMAND…       exit code 77, and a reason, if it is not installed (ctest: skipped)
#   tools/intel_opencl.sh --beside COMMAND…
set -euo pipefail
wants=(intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/quern"
venv="${QUERN_INTEL_OPENCL:-$cache/intel-opencl-$(echo "${wants[*]}" | sha256sum | cut -c1-16)}"
[ $# -gt 0 ] || { sed -n 's/^# \?//p' "$0" >&2; exit 2; }

if [ "$1" = --install ]; then
  [ ! -e "$venv/lib/libintelocl.so" ] || exit 0
  mkdir -p "$cache"
  log=$(mktemp)
  if ! { /usr/bin/python3 -m venv --clear "$venv.new" &&
    "$venv.new/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 30 "${wants[@]}" &&
    mv "$venv.new" "$venv"; } > "$log" 2>&1; then
    echo "intel_opencl: PyPI is out of reach ($log says why): tests on Intel's OpenCL runtime are skipped" >&2
    rm -rf "$venv.new"
    exit 0
  fi
  rm -f "$log"
  exit 0
fi

beside=0
if [ "$1" = --beside ]; then
  beside=1
  shift
fi
if [ ! -e "$venv/lib/libintelocl.so" ]; then
  echo "intel_opencl: not installed; run tools/intel_opencl.sh --install" >&2
  exit 77
fi
# The file that comes with it names a folder of the machine where it was packed.
icd=$(mktemp -d)
trap 'rm -rf "$icd"' EXIT
echo "$venv/lib/libintelocl.so" > "$icd/intel.icd"
export OCL_ICD_VENDORS="$icd" LD_LIBRARY_PATH="$venv/lib"
if [ "$beside" = 1 ]; then
  for file in /etc/OpenCL/vendors/*.icd; do
    [ ! -e "$file" ] || cp "$file" "$icd"
  done
else
  export QUERN_TEST_PLATFORM="Intel(R) OpenCL"
fi
"$@"
