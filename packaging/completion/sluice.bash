# bash completion for sluice

_sluice_ctl_words="health ready limits routes upstreams policy key reset bans ban unban exempt unexempt top reload"

_sluice_options() {
  case $1 in
    run) echo "--watch --pid-file" ;;
    reload) echo "--pid-file --socket --url --token-file" ;;
    check) echo "--strict --json --allow" ;;
    schema) echo "--tests" ;;
    test) echo "--json --junit" ;;
    replay) echo "--against --format --field --host --memory --html --json" ;;
    explain) echo "-H --from --live --json" ;;
    script) echo "-H --from" ;;
    ctl) echo "--socket --url --policy --token-file --json $_sluice_ctl_words" ;;
    "") echo "run reload check schema test replay explain script ctl echo --help --version" ;;
  esac
}

_sluice() {
  local current=${COMP_WORDS[COMP_CWORD]} command=""
  if [ "$COMP_CWORD" -gt 1 ]; then
    command=${COMP_WORDS[1]}
  fi
  COMPREPLY=()
  case $command in
    "" | ctl) mapfile -t COMPREPLY < <(compgen -W "$(_sluice_options "$command")" -- "$current") ;;
    *)
      if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_sluice_options "$command")" -- "$current")
      fi
      ;;
  esac
}

complete -o bashdefault -o default -F _sluice sluice
