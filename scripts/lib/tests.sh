# For scripts/test: runs tests, and those that fail beside others once more, alone.

# If more fail than these, the machine is not the reason.
readonly AGAIN_MAX=8
# A sanitizer's report is a fault, whatever the test says the next time.
readonly REPORT='Sanitizer|runtime error:'

fixed_layout=() # see tsan.sh

# run_tests FOLDER [ARGUMENT...]: the tests that are built in FOLDER, with arguments of ctest. Many of them hold the
# program to a time, which passes too soon on a machine that does much else: what fails beside others has to hold when
# nothing else runs.
run_tests() {
  local folder=$1 output status=0 failed=$1/Testing/Temporary/LastTestsFailed.log
  shift
  output=$(mktemp)
  rm -f "$failed"
  "${fixed_layout[@]}" ctest --test-dir "$folder" --output-on-failure "$@" | tee "$output" || status=1
  if [ $status -ne 0 ] && [ -s "$failed" ] && [ "$(wc -l <"$failed")" -le $AGAIN_MAX ] &&
    ! grep -qE "$REPORT" "$output"; then
    say "again, one by one: what failed beside others"
    status=0
    "${fixed_layout[@]}" ctest --test-dir "$folder" --output-on-failure --rerun-failed || status=1
  fi
  rm -f "$output"
  return $status
}
