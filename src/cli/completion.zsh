#compdef trainyard
# Completion of trainyard for zsh. What can stand where is the binary's to say.

_trainyard() {
  local line value description
  local -a open closed
  local -a words_before=("${(@Q)words[2,CURRENT-1]}")
  for line in "${(@f)$("${(Q)words[1]/#\~/$HOME}" __complete -- "${words_before[@]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
    value=${line%%$'\t'*}
    description=${line#*$'\t'}
    [[ $line == *$'\t'* ]] || description=""
    case $value in
      "") ;;
      :files)
        compset -P '--[^=]#='
        _files
        return
        ;;
      :folders)
        compset -P '--[^=]#='
        _files -/
        return
        ;;
      :command\ *)
        local -i before=${value#:command }
        shift $((before + 1)) words
        ((CURRENT -= before + 1))
        _normal
        return
        ;;
      *[:=]) open+=("${value//:/\\:}:$description") ;;
      *) closed+=("${value//:/\\:}:$description") ;;
    esac
  done
  # -U: the binary has looked at what was typed, and may know better than its letters.
  ((! $#closed)) || _describe -V trainyard closed -U
  ((! $#open)) || _describe -V trainyard open -U -S ''
}

# Loaded by its name it is called; sourced it is made known.
if [[ $funcstack[1] == _trainyard ]]; then
  _trainyard "$@"
else
  compdef _trainyard trainyard
fi
