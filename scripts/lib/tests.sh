# For scripts/test: runs tests in parallel, and those that fail a second time, one at a time.

# If more tests fail than this, a busy machine is not the reason, and they are not run again.
readonly AGAIN_MAX=8
# Nor are they if a sanitizer has reported an error.
readonly REPORT='Sanitizer|runtime error:'

fixed_layout=() # see tsan.sh

# run_tests FOLDER [ARGUMENT...]: run the tests that are built in FOLDER, with arguments for ctest. Many have time limits,
# which a busy machine may exceed: a test that fails must pass when nothing else runs. Fails if one does not.
run_tests() {
  local folder=$1 output status=0 failed=$1/Testing/Temporary/LastTestsFailed.log
  shift
  output=$(mktemp)
  rm -f "$failed"
  "${fixed_layout[@]}" ctest --test-dir "$folder" --output-on-failure "$@" | tee "$output" || status=1
  if [ $status -ne 0 ] && [ -s "$failed" ] && [ "$(wc -l <"$failed")" -le $AGAIN_MAX ] &&
    ! grep -qE "$REPORT" "$output"; then
    say "running the failed tests again, one at a time"
    status=0
    "${fixed_layout[@]}" ctest --test-dir "$folder" --output-on-failure --rerun-failed || status=1
  fi
  rm -f "$output"
  return $status
}
