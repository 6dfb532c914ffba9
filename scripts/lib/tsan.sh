# For the scripts beside this folder: how programs run that are built with ThreadSanitizer.

# That of GCC 12 needs memory where it expects it; some kernels spread it wider.
fixed_layout=()
if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
  fixed_layout=(setarch "$(uname -m)" --addr-no-randomize)
fi

# The suppressions go by the functions of both sides, of which the older one has to be remembered.
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp print_suppressions=0 history_size=7"
