# For a script that starts programs: children, their process ids, are told to stop and waited for when the
# script ends, or a signal ends it, however many come. Needs say of build.sh.
#
# A program that is not to have the script's Ctrl-C is started in a session of its own: setsid PROGRAM &
children=()
stopping=false

# A signal may come before any line of this, and the first that finds stopping unset does it all; or just after
# a child has begun and before it is among the children: then it is $!.
stop_children() {
  $stopping && return
  stopping=true
  [[ " ${children[*]} " == *" ${!-} "* ]] || children+=("$!")
  say "stopping" || true  # the terminal may be gone
  kill -TERM "${children[@]}" 2>/dev/null || true
  until wait; do :; done
}

trap '$stopping || { stop_children; exit 0; }' INT TERM HUP
trap stop_children EXIT
