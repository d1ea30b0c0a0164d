# Sourced by ./quern: `./quern test`. Unit tests by ctest, whole-system tests by pytest, one report over both.
usage() {
  cat >&2 << 'END'
usage: ./quern test [--long] [--repeat N] [--preset asan|tsan] [--rewrite] [NAME…]
  NAME       a part: tests/test_NAME.py, or a module or test of ctest (sched, hal/fake, tidy)
  --long     the long tests instead of the others
  --repeat   all that was asked for, N times
  --preset   with a sanitizer: unit tests, and the whole-system tests that run over hal/fake
  --rewrite  scenarios take what they get as what they want; read the diff
END
  exit 2
}

# The clients that others wrote, from PyPI, in a cache folder by the hash of what they are, so that every clone of this
# user finds them. Where PyPI is out of reach the tests that need them say so. Prints the python to use.
make_venv() {  # /usr/bin/python3: the one whose numpy and pytest Debian installed, whatever else is in PATH
  local wants="$root/tests/requirements.txt" cache="${XDG_CACHE_HOME:-$HOME/.cache}/quern" venv
  venv="$cache/venv-$( { cat "$wants"; /usr/bin/python3 --version; } | sha256sum | cut -c1-16)"
  if [ ! -e "$venv/.complete" ]; then
    say "making $venv with clients from PyPI"
    mkdir -p "$cache"
    if { /usr/bin/python3 -m venv --clear --system-site-packages "$venv" &&
      "$venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 30 -r "$wants"; } \
      > "$root/build/venv.log" 2>&1; then
      touch "$venv/.complete"
    else
      say "PyPI is out of reach (build/venv.log says why): tests of tritonclient are skipped"
    fi
  fi
  if [ -x "$venv/bin/python" ]; then echo "$venv/bin/python"; else echo /usr/bin/python3; fi
}

# Prints the minutes that a phase took, for CI and for whoever waits.
phase() {
  local now=$SECONDS
  [ -z "${1:-}" ] || say "phase $1: $(( (now - phase_began) / 60 )) min $(( (now - phase_began) % 60 )) s"
  phase_began=$now
}

# tests_in FOLDER: every test of the build in FOLDER with the program that it starts, a line each.
tests_in() {
  find "$1" -name CTestTestfile.cmake -exec sed -nE 's/^add_test\(\[=\[(.*)\]=\] "([^"]*)".*/\1 \2/p' {} +
}

# pattern_of NAME…: matches the tests with these names, and those below them.
pattern_of() {
  local IFS='|'
  echo "^($*)(/|\$)"
}

# targets_of FOLDER UNFIT NAME…: what ninja must build for the tests that have these names, but for those that match
# UNFIT. A script, as tidy is, needs nothing, and a module without tests has nothing.
targets_of() {
  local folder=$1 unfit=$2 pattern test program
  shift 2
  pattern=$(pattern_of "$@")
  tests_in "$folder" | while read -r test program; do
    if [[ $test =~ $pattern && ! $test =~ $unfit && $program == "$folder"/* ]]; then basename "$program"; fi
  done | sort -u
}

# Brings the list of tests of a build up to date.
renew_tests() {
  local folder=$1 preset=$2
  configure "$folder" "$preset" QUERN_TESTS
  if ! ninja -C "$folder" build.ninja > "$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    die "cmake failed"
  fi
}

run_tests() {
  local preset=dev repeat=1 long=0 names=() units=() systems=() round python phase_began=$SECONDS
  while [ $# -gt 0 ]; do
    case $1 in
      --long) long=1 ;;
      --repeat) repeat=${2:?"--repeat needs a number"}; shift ;;
      --preset) preset=${2:?"--preset needs a name"}; shift ;;
      --rewrite) export QUERN_REWRITE=1 ;;
      -*) usage ;;
      *) names+=("$1") ;;
    esac
    shift
  done
  case $preset in dev | asan | tsan) ;; *) usage ;; esac
  [[ $repeat =~ ^[1-9][0-9]*$ ]] || usage
  local began=$SECONDS folder="$root/build/$preset"
  # PoCL and sanitizers do not go together: with them, executors run over hal/fake.
  local unfit='^(hal/opencl|hal/opencl/intel|hal/opencl/platforms|tidy|tidy_test|headers|headers_test|quern_test)$'
  [ ${#names[@]} = 0 ] || locked "$folder" renew_tests "$folder" "$preset"
  for name in "${names[@]}"; do
    if [ -e "$root/tests/test_$name.py" ]; then
      systems+=("$root/tests/test_$name.py")
    elif [ -d "$root/src/$name" ] || [[ $name =~ ^(bench|tidy|headers)$ ]] ||
      tests_in "$folder" | cut -d' ' -f1 | grep -E "$(pattern_of "$name")" > /dev/null; then
      units+=("$name")
    else
      die "test $name: neither tests/test_$name.py nor a unit test of that name (ctest --test-dir build/$preset -N)"
    fi
  done
  # With a sanitizer, only what was asked for is compiled: that takes a while.
  local targets=all
  if [ "$preset" != dev ] && [ ${#names[@]} -gt 0 ]; then
    targets=quern
    if [ ${#units[@]} -gt 0 ]; then
      targets+=$(targets_of "$folder" "$unfit" "${units[@]}" | sed 's/^/ /' | tr -d '\n')
    fi
  fi
  build "$preset" "$targets"
  python=$(make_venv)
  # Sanitizers and OpenCL drivers do not go together.
  [ "$preset" != dev ] || "$root/tools/intel_opencl.sh" --install
  phase "build of $preset"

  local marks="not long" labels=(-LE long)
  [ $long = 1 ] && marks=long labels=(-L long)
  local skip=() workers=()
  if [ "$preset" != dev ]; then
    marks="$marks and fake"
    skip=(-E "$unfit") workers=(-n "$(nproc)")
  fi

  local results="$folder/results" failed=0
  rm -rf "$results"
  for ((round = 1; round <= repeat; round++)); do
    [ "$repeat" = 1 ] || say "round $round of $repeat"
    mkdir -p "$results/$round/gtest"
    if [ ${#names[@]} = 0 ] || [ ${#units[@]} -gt 0 ]; then
      local only=()
      [ ${#units[@]} = 0 ] || only=(-R "$(pattern_of "${units[@]}")")
      GTEST_OUTPUT="xml:$results/$round/gtest/" ctest --test-dir "$folder" -j2 --output-on-failure \
        --no-tests=ignore --output-junit "$results/$round/ctest.xml" \
        "${labels[@]}" "${only[@]}" "${skip[@]}" || failed=1
      phase "unit tests of $preset"
    fi
    if [ ${#names[@]} = 0 ] || [ ${#systems[@]} -gt 0 ]; then
      local status=0
      (cd "$root" && QUERN_PRESET=$preset "$python" -m pytest -q -p no:cacheprovider "${workers[@]}" -m "$marks" \
        --junitxml "$results/$round/pytest.xml" "${systems[@]:-tests}") || status=$?
      # 5: none was selected, as with --long where a part has no long tests.
      [ $status = 0 ] || [ $status = 5 ] || failed=1
      phase "whole-system tests of $preset"
    fi
  done
  "$python" "$root/tools/test_report.py" "$results" $((SECONDS - began)) || failed=1
  exit $failed
}
