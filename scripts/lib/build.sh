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

# Configures and builds a preset into build/PRESET; only what has changed.
build() {
  say "building: preset $1"
  quietly cmake --preset "$1"
  quietly cmake --build --preset "$1"
}
