# Completion of trainyard for bash. What can stand where is the binary's to say.

_trainyard() {
  local program=${1/#\~/$HOME} left=${COMP_LINE:0:COMP_POINT} trimmed word value description
  local -a words=() plain=()
  local -i i

  # Bash takes words apart at = and : too; what stands together is one word to us.
  left=${left#*"${COMP_WORDS[0]}"}
  for ((i = 1; i <= COMP_CWORD; i++)); do
    trimmed=${left#"${left%%[![:space:]]*}"}
    word=${COMP_WORDS[i]}
    ((i < COMP_CWORD)) || word=$trimmed
    if [[ ${#words[@]} -gt 0 && $trimmed == "$left" && -n $left ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    left=${trimmed#"$word"}
  done

  # Words come as they were typed, with their quotes.
  for word in "${words[@]}"; do
    word=${word#[\'\"]}
    word=${word%[\'\"]}
    plain+=("${word//\\/}")
  done

  # What bash will not replace, for it stands before the last = or :.
  local current=${words[-1]} kept="" mark
  for mark in = :; do
    [[ $COMP_WORDBREAKS == *"$mark"* && $current == *"$mark"* ]] || continue
    value=${current%"$mark"*}$mark
    ((${#value} <= ${#kept})) || kept=$value
  done

  COMPREPLY=()
  while IFS=$'\t' read -r value description; do
    case $value in
      :files) compopt -o default 2>/dev/null ;;
      :folders) compopt -o dirnames 2>/dev/null ;;
      :command*) _trainyard_command ;;
      *)
        [[ $value != *[:=] ]] || compopt -o nospace 2>/dev/null
        value=${value#"$kept"}
        [[ $value != *[!A-Za-z0-9_.:=/@%+,-]* || $current == [\'\"]* ]] ||
          printf -v value %q "$value"
        COMPREPLY+=("$value")
        ;;
    esac
  done < <("$program" __complete -- "${plain[@]}" 2>/dev/null)
}

# After "--": as if the command there were all that was typed.
_trainyard_command() {
  local -i at=1
  while [[ ${COMP_WORDS[at]} != -- ]]; do ((at++)); done
  ((at++))
  if declare -F _command_offset >/dev/null; then
    _command_offset "$at"
  elif ((COMP_CWORD == at)); then
    mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
  else
    compopt -o default 2>/dev/null
  fi
}

complete -F _trainyard trainyard
