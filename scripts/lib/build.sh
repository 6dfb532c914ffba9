# For the scripts beside this folder: say, quietly, build. They are run from anywhere and work in the
# project's root.

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() {
  printf '==> %s\n' "$*"
}

# Runs a command; its output is shown only when it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ $status -ne 0 ]; then
    cat "$log" >&2
    printf 'failed (%s): %s\n' "$status" "$*" >&2
  fi
  rm -f "$log"
  return $status
}

# build PRESET [TARGET...]: configures and builds into build/PRESET; only what has changed.
build() {
  local preset=$1
  shift
  say "building: preset $preset"
  quietly cmake --preset "$preset"
  quietly cmake --build --preset "$preset" ${1:+--target} "$@"
}
