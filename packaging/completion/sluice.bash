# bash completion for sluice

_sluice_commands="run reload check schema test replay explain script ctl cert secret echo"
_sluice_ctl_words="status ui health ready limits routes upstreams certificates policy keys key reset bans ban unban exempt unexempt tenant top reload"

_sluice_options() {
  case $1 in
    run) echo "--watch --pid-file --control" ;;
    reload) echo "--socket --url --ca --token-file --timeout" ;;
    check) echo "--strict --allow --json --print --list" ;;
    schema) echo "--included --tests" ;;
    test) echo "--json --junit" ;;
    replay) echo "--against --set --format --field --host --hashed --memory --name --html --json" ;;
    explain) echo "-H --from --scheme --sni --client-cert --ja4 --http2 --claim --via --live --tenant --json" ;;
    script) echo "-H --from --scheme --sni --client-cert --ja4 --http2 --claim --via -o" ;;
    ctl) echo "--socket --url --ca --policy --token-file --timeout --json $_sluice_ctl_words" ;;
    cert) echo "--out-cert --out-key --days --force self-signed" ;;
    help) echo "$_sluice_commands" ;;
    "") echo "$_sluice_commands help version --version" ;;
  esac
}

_sluice() {
  local current=${COMP_WORDS[COMP_CWORD]} command="" all
  if [ "$COMP_CWORD" -gt 1 ]; then
    command=${COMP_WORDS[1]}
  fi
  all=$(_sluice_options "$command")
  if [[ $command != @(help|version) ]]; then
    all+=" --help"
  fi
  if [[ $command == ctl && ${COMP_WORDS[COMP_CWORD-1]} == policy ]]; then
    all=defaults
  fi
  if [[ $command == ctl && ${COMP_WORDS[COMP_CWORD-1]} == tenant ]]; then
    all="list set unset show hash"
  fi
  COMPREPLY=()
  if [[ $command == @(|cert|ctl|help) || $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$all" -- "$current")
  fi
}

complete -o bashdefault -o default -F _sluice sluice
