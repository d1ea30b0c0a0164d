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

# The clients that others wrote, from PyPI. Where it is out of reach the tests that need them say so.
make_venv() {  # /usr/bin/python3: the one whose numpy and pytest Debian installed, whatever else is in PATH
  local venv="$root/build/venv" wants="$root/tests/requirements.txt"
  cmp -s "$wants" "$venv/.requirements" && return
  say "making build/venv with clients from PyPI"
  if { /usr/bin/python3 -m venv --clear --system-site-packages "$venv" &&
    "$venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 30 -r "$wants"; } \
    > "$root/build/venv.log" 2>&1; then
    cp "$wants" "$venv/.requirements"
  else
    say "PyPI is out of reach (build/venv.log says why): tests of tritonclient are skipped"
  fi
}

run_tests() {
  local preset=dev repeat=1 long=0 names=() units=() systems=() round python=/usr/bin/python3
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
  build "$preset" all
  make_venv
  [ -x "$root/build/venv/bin/python" ] && python="$root/build/venv/bin/python"

  for name in "${names[@]}"; do
    if [ -e "$root/tests/test_$name.py" ]; then
      systems+=("$root/tests/test_$name.py")
    elif ctest --test-dir "$folder" -N -R "^$name(/|\$)" | grep -q 'Test *#'; then
      units+=("$name")
    else
      die "test $name: neither tests/test_$name.py nor a unit test of that name (ctest --test-dir build/$preset -N)"
    fi
  done
  local marks="not long" labels=(-LE long)
  [ $long = 1 ] && marks=long labels=(-L long)
  # PoCL and sanitizers do not go together: with them, executors run over hal/fake.
  local skip=()
  if [ "$preset" != dev ]; then
    marks="$marks and fake"
    skip=(-E '^(hal/opencl|tidy|tidy_test)$')
  fi

  local results="$folder/results" failed=0
  rm -rf "$results"
  for ((round = 1; round <= repeat; round++)); do
    [ "$repeat" = 1 ] || say "round $round of $repeat"
    mkdir -p "$results/$round/gtest"
    if [ ${#names[@]} = 0 ] || [ ${#units[@]} -gt 0 ]; then
      local only=()
      [ ${#units[@]} = 0 ] || only=(-R "^($(IFS='|'; echo "${units[*]}"))(/|\$)")
      GTEST_OUTPUT="xml:$results/$round/gtest/" ctest --test-dir "$folder" --output-on-failure --no-tests=ignore \
        --output-junit "$results/$round/ctest.xml" "${labels[@]}" "${only[@]}" "${skip[@]}" || failed=1
    fi
    if [ ${#names[@]} = 0 ] || [ ${#systems[@]} -gt 0 ]; then
      local status=0
      (cd "$root" && QUERN_PRESET=$preset "$python" -m pytest -q -p no:cacheprovider -m "$marks" \
        --junitxml "$results/$round/pytest.xml" "${systems[@]:-tests}") || status=$?
      # 5: none was selected, as with --long where a part has no long tests.
      [ $status = 0 ] || [ $status = 5 ] || failed=1
    fi
  done
  "$python" "$root/tools/test_report.py" "$results" $((SECONDS - began)) || failed=1
  exit $failed
}
