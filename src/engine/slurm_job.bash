# What a Slurm job of Trainyard does on its nodes. The lines above set ty_run, ty_attempt, ty_server,
# ty_ticket and so on; engine/slurm/job_script.cc writes them. Needs bash 4.3 and coreutils.

ty_exit_no_tool=81 ty_exit_unreachable=82 ty_exit_bad_program=83 ty_exit_refused=84
ty_exit_no_folder=85 ty_exit_setup=86 ty_exit_no_srun=87 ty_exit_stopped=88
ty_exit_not_executable=89 ty_exit_unsent=90 ty_exit_shelved=91
ty_supervisor_unsent=76  # As supervisor/supervise.h has it.
ty_answer_max_s=60  # For one answer of the server, the program of some megabytes included.
ty_tell_s=20        # For the server to take what we tell it ourselves.
ty_tries_max=4      # A supervisor that died is followed by another on its folder.

ty_token=   # The attempt's, in memory only: no file, argument or environment has it.
ty_told=    # Set once Slurm wants us to stop.
ty_node=    # While no supervisor speaks for this node: its number.
ty_in_setup=
ty_child=   # What TERM is passed on to.

ty_say() {
  ty_reason="$* (node ${SLURMD_NODENAME:-${HOSTNAME:-unknown}})"
  printf 'trainyard: %s\n' "$ty_reason" >&2
}

# The batch step. With several nodes each gets this text by srun's standard input, which also carries
# the word to stop: a signal to srun or to its step would reach every process of a rank at once.
ty_main() {
  umask 077
  PATH=${PATH:-/usr/bin}:/usr/local/bin:/usr/bin:/bin
  if [ "$ty_nodes" = 1 ]; then
    ty_on_node 0
    exit
  fi
  if ! command -v srun >/dev/null; then
    ty_say "there is no srun here to start supervisors on $ty_nodes nodes"
    exit $ty_exit_no_srun
  fi
  trap ty_stop TERM
  ty_make_folder || exit $ty_exit_no_folder
  ty_take_over || { ty_code=$?; ty_clean_up; exit $ty_code; }
  ty_clean_up
  trap 'ty_told=1; [ -z "${ty_to_step-}" ] || echo stop >&"$ty_to_step"' TERM
  coproc TY_STEP {
    exec srun --nodes="$ty_nodes" --ntasks="$ty_nodes" --ntasks-per-node=1 \
      --cpus-per-task="$ty_cpus" --cpu-bind=none --mpi=none --kill-on-bad-exit=1 --wait=0 \
      bash -c 'while IFS= read -r line && [ "$line" != "#end-of-text" ]; do t+=$line$'"'\\n'"'; done
               exec 3>&1 >&2; eval "$t"'
  }
  ty_child=$TY_STEP_PID
  exec {ty_to_step}>&"${TY_STEP[1]}" {ty_from_step}<&"${TY_STEP[0]}"
  trap '' PIPE
  {
    echo 'umask 077'
    declare -p ${!ty_*}
    declare -f $(compgen -A function ty_)
    echo 'ty_told= ty_child='
    echo 'exec {ty_from_batch}<&0'
    echo 'ty_on_node "$SLURM_NODEID"'
    echo '#end-of-text'
    [ -z "$ty_told" ] || echo stop  # It came before there was somebody to tell.
  } >&"$ty_to_step"
  ty_wait
  [ -z "$ty_told" ] || exit $ty_exit_stopped
  # Of a step that is killed because of one task, srun's own code is not that task's.
  local word code
  while IFS=' ' read -r -t 1 word code <&"$ty_from_step"; do
    [ "$word" != failed ] || exit "$code"
  done
  exit "$ty_code"
}

# One node: gets all that a supervisor needs, starts it and ends with it.
ty_on_node() {
  trap ty_stop TERM
  trap 'ty_leave $?' EXIT
  ty_listen
  ty_make_folder || exit $ty_exit_no_folder
  [ -n "$ty_token" ] || ty_take_over || exit
  ty_node=$1
  [ -z "$ty_setup" ] || ty_go_apart
  ty_begin
}

ty_stop() {
  ty_told=1
  [ -z "$ty_child" ] || kill -TERM "$ty_child" 2>/dev/null
}

ty_begin() {
  local node=$ty_node
  ty_find_keep
  ty_get_program || exit
  ty_get_assignment "$node" || exit
  ty_node=
  ty_supervise "$node"
  exit
}

# A setup, and what follows in its environment, is in a shell of its own: this one has to stay awake,
# for a bash that waits for a command hears no signal before that has ended.
ty_go_apart() {
  : >"$ty_folder/in_setup"
  trap ty_stop_apart TERM
  {
    ty_listener=
    trap 'ty_told=1; exit $ty_exit_stopped' TERM
    trap 'ty_leave $?' EXIT
    ty_run_setup  # No condition: in one, its own `set -e` would do nothing.
    trap ty_stop TERM
    [ "$ty_code" = 0 ] || exit $ty_exit_setup
    rm -f "$ty_folder/in_setup"
    ty_begin
  } &
  ty_child=$!
  [ -z "$ty_told" ] || ty_stop_apart  # It came just before there was one to tell.
  ty_wait
  ty_child=
  [ -z "$ty_told" ] || exit $ty_exit_stopped
  # The other has told all there is to tell, unless it was killed.
  if [ -e "$ty_folder/in_setup" ]; then ty_in_setup=1; else ty_node=; fi
  exit "$ty_code"
}

ty_stop_apart() {
  ty_told=1
  [ -n "$ty_child" ] || return 0
  if [ ! -e "$ty_folder/in_setup" ]; then
    kill -TERM "$ty_child" 2>/dev/null
    return 0
  fi
  trap '' TERM
  local all try last=
  all=$(ty_tree "$ty_child")
  kill -TERM $all 2>/dev/null
  for ((try = 0; try < 10; ++try)); do
    [ -n "$(ty_tree $all)" ] || return 0
    sleep 0.05
  done
  # What does not heed that is killed, all at once: whoever was stopped starts nothing new.
  all=$(ty_tree $all)
  while [ "$all" != "$last" ]; do
    kill -STOP $all 2>/dev/null
    last=$all
    all=$(ty_tree $all)
  done
  kill -KILL $all 2>/dev/null
}

# Of these processes and all they have started, those that live.
ty_tree() {
  local stat line pid all=" $* " new=1
  local -A parent
  for stat in /proc/[0-9]*/stat; do
    line=
    { IFS= read -r -d '' line <"$stat"; } 2>/dev/null
    pid=${stat#/proc/} pid=${pid%/stat}
    line=${line##*) }
    case $line in '' | [ZX]*) continue ;; esac
    line=${line#* }
    parent[$pid]=${line%% *}
  done
  while [ -n "$new" ]; do
    new=
    for pid in "${!parent[@]}"; do
      case $all in *" $pid "*) continue ;; *" ${parent[$pid]} "*) all+="$pid " new=1 ;; esac
    done
  done
  for pid in $all; do [ -z "${parent[$pid]-}" ] || printf '%s ' "$pid"; done
}

# Whatever ends us. Why is told to the server; where that does not answer, our code says it to Slurm.
# Of several nodes, one that fails for good without a word to the server ends all; one that was told
# to stop must not: others may still be saving.
ty_leave() {
  local code=$1
  trap - EXIT
  set +eu
  if [ -n "$ty_in_setup" ] && [ -z "$ty_told" ]; then
    ty_setup_failed "$code"
    code=$ty_exit_setup
  fi
  if [ "$code" != 0 ] && [ -z "$ty_told" ] && [ -n "$ty_node" ] && ty_tell_end; then code=0; fi
  ty_clean_up
  if [ -n "${ty_from_batch-}" ] && [ "$code" != 0 ]; then
    [ -z "$ty_told" ] || exit 0
    echo "failed $code" >&3
    # It is done, and others may not be: a code of its own would end them.
    case $code in "$ty_exit_unsent" | "$ty_exit_shelved") exit 0 ;; esac
  fi
  exit "$code"
}

# The report of a supervisor that never was; of what another try would not make better.
ty_tell_end() {
  [ "$code" = $ty_exit_setup ] || [ "$code" = $ty_exit_not_executable ] || return 1
  local text quote='"' ty_patience=$ty_tell_s
  text=$(printf '%s' "$ty_reason" | LC_ALL=C tr -c '\n\40-\176' ' ')
  text=${text//\\/\\\\} text=${text//$quote/\\$quote} text=${text//$'\n'/\\n}
  printf '{"reports":[{"seq":1,"kind":"ended","end":{"cause":"prepare_failed","exitCode":1,' \
    >"$ty_folder/ended"
  printf '"error":"%s"}}]}' "$text" >>"$ty_folder/ended"
  ty_fetch "/api/v1/runs/$ty_run/attempts/$ty_attempt/reports?node=$ty_node" "$ty_folder/answer" \
    "$ty_folder/ended"
}

# Of several nodes, each waits for the first one's word.
ty_listen() {
  ty_listener=
  [ -n "${ty_from_batch-}" ] || return 0
  { IFS= read -r word <&"$ty_from_batch" && [ "$word" = stop ] && kill -TERM $$; } &
  ty_listener=$!
}

# Private, and removed when we end. One that a SIGKILL left is removed by the next job that sees that
# nobody of its process namespace owns it any more.
ty_make_folder() {
  local base=${ty_scratch:-${TMPDIR:-/tmp}} space owner pid old
  space=$(readlink /proc/self/ns/pid 2>/dev/null)
  for old in "$base"/trainyard-*/; do
    [ -O "$old" ] && [ ! -L "${old%/}" ] && [ -r "$old/owner" ] || continue
    read -r owner pid <"$old/owner" || continue
    [ "$owner" = "$space" ] && [ -n "$space" ] && [ -n "$pid" ] && [ ! -d "/proc/$pid" ] &&
      rm -rf "$old"
  done
  ty_folder=$base/trainyard-${SLURM_JOB_ID:-0}-$RANDOM$RANDOM
  ty_work=$ty_folder/node
  mkdir -m 700 "$ty_folder" "$ty_work" || {
    rmdir "$ty_folder" 2>/dev/null
    ty_folder=
    ty_say "cannot make a folder in $base"
    return 1
  }
  echo "$space $$" >"$ty_folder/owner"
  if [ -n "$ty_ca" ]; then
    printf '%s' "$ty_ca" >"$ty_folder/ca.pem"
    export TRAINYARD_CA_FILE=$ty_folder/ca.pem
  fi
}

ty_clean_up() {
  [ -z "${ty_listener-}" ] || kill "$ty_listener" 2>/dev/null
  cd / && [ -n "${ty_folder-}" ] && rm -rf "$ty_folder"
}

# The target's own text, for the supervisor's and its ranks' environment. `module` and the like come
# with a login. What it prints is a file of the run.
ty_run_setup() {
  if ! type module >/dev/null 2>&1 && [ -r /etc/profile ]; then . /etc/profile >&2; fi
  ty_in_setup=1
  eval "$ty_setup" >"$ty_folder/setup.txt" 2>&1
  ty_code=$?
  set +eu
  ty_in_setup=
  trap 'ty_leave $?' EXIT
  if [ "$ty_code" != 0 ]; then
    ty_setup_failed "$ty_code"
  elif [ -s "$ty_folder/setup.txt" ]; then
    ty_send_setup
  fi
}

ty_setup_failed() {
  set +eu
  ty_in_setup=
  local last
  last=$(tail -n 5 "$ty_folder/setup.txt")  # Where it ended us, we print there ourselves.
  ty_send_setup
  [ $? != $ty_exit_unreachable ] || ty_tell_s=0
  ty_say "the target's setup failed with code $1"
  [ -z "$last" ] || ty_reason+="; its last lines:"$'\n'$last
}

ty_send_setup() {
  local path=system_logs/setup.txt ty_patience=$ty_tell_s
  [ "$ty_nodes" = 1 ] || path=system_logs/setup_$ty_node.txt
  tail -c 1000000 "$ty_folder/setup.txt" >"$ty_folder/setup.tail"
  ty_fetch "/api/v1/runs/$ty_run/attempts/$ty_attempt/files?path=$path&from=0&reset=1" \
    "$ty_folder/answer" "$ty_folder/setup.tail"
}

# ---- trainyard-node ----

# Where this node keeps from job to job what is known by its hash; empty: nowhere.
ty_find_keep() {
  local keep
  ty_kept=
  for keep in ${ty_keep:-/var/tmp/trainyard-$UID /tmp/trainyard-$UID}; do
    [ -d "$keep" ] || mkdir -p -m 700 "$keep" 2>/dev/null
    [ -d "$keep" ] && [ -O "$keep" ] && [ ! -L "$keep" ] && [ -w "$keep" ] || continue
    ty_kept=$keep
    return
  done
}

ty_get_program() {
  local keep
  ty_program=$ty_path
  if [ -n "$ty_program" ] && [ -x "$ty_program" ] && ty_fits "$ty_program"; then return 0; fi
  # Kept by its hash in a folder that is ours alone: what is there was checked when it came.
  for keep in ${ty_keep:-/var/tmp/trainyard-$UID /tmp/trainyard-$UID} "$ty_folder"; do
    [ -d "$keep" ] || mkdir -p -m 700 "$keep" 2>/dev/null
    [ -d "$keep" ] && [ -O "$keep" ] && [ ! -L "$keep" ] && [ -w "$keep" ] || continue
    ty_program=$keep/node-${ty_sha256:-any}
    [ -z "$ty_sha256" ] && [ "$keep" != "$ty_folder" ] && continue
    if [ -O "$ty_program" ] && [ -x "$ty_program" ]; then return 0; fi
    ty_download || return
    [ -x "$ty_program" ] && return 0  # Not so where nothing may be executed.
    rm -f "$ty_program"
  done
  ty_say "no folder of this node may hold programs"
  return $ty_exit_not_executable
}

ty_download() {
  local got=$ty_program.$$.${SLURM_JOB_ID:-0}
  ty_fetch /api/v1/node/program "$got" || { local code=$?; rm -f "$got"; return $code; }
  if ! ty_fits "$got"; then
    ty_say "trainyard-node from $ty_server is not the one it should be"
    rm -f "$got"
    return $ty_exit_bad_program
  fi
  # Those of older servers; whoever still has such a job fetches it again.
  find "${ty_program%/*}" -maxdepth 1 -name 'node-*' -mtime +30 -delete 2>/dev/null
  chmod 700 "$got" && mv -f "$got" "$ty_program"
}

ty_fits() {
  [ -z "$ty_sha256" ] && return 0
  command -v sha256sum >/dev/null || return 0
  local sum
  sum=$(sha256sum <"$1")
  [ "${sum%% *}" = "$ty_sha256" ]
}

# ---- what the server has for us ----

# This text can be read by every job of the account, while it waits and while it runs. The ticket in
# it is good for one thing, once: to make the hash of itself and of a number that only we know the
# attempt's token (model/handover.h). A second one who shows it is refused.
ty_take_over() {
  local nonce sum
  if [ -n "${SRANDOM-}" ]; then  # The kernel's; of bash 5.1 and later.
    printf -v nonce '%08x' $SRANDOM $SRANDOM $SRANDOM $SRANDOM $SRANDOM $SRANDOM $SRANDOM $SRANDOM
  else
    nonce=$(head -c 32 /dev/urandom | sha256sum) && nonce=${nonce%% *}
  fi
  ty_token=$ty_ticket.$nonce
  sum=$(printf '%s' "$ty_token" | sha256sum) && sum=${sum%% *}
  if [ "${#nonce}" != 64 ] || [ "${#sum}" != 64 ]; then
    ty_token=
    ty_say "there is no sha256sum or /dev/urandom here"
    return $ty_exit_no_tool
  fi
  : >"$ty_folder/empty"
  ty_fetch "/api/v1/runs/$ty_run/attempts/$ty_attempt/handover" "$ty_folder/answer" \
    "$ty_folder/empty" || { local code=$?; ty_token=; return $code; }
  ty_token=tya_$sum
}

ty_get_assignment() {
  local more=${ty_says_where:+&at=$ty_server}
  ty_fetch "/api/v1/runs/$ty_run/attempts/$ty_attempt/assignment?node=$1&token=0$more" \
    "$ty_work/assignment.json"
}

# Path, file, and for a POST the file of its body. Tries for as long as we have patience; a server
# may be away for a while.
ty_fetch() {
  local from=$SECONDS pause=0.2 way
  ty_body=${3-}
  [ -n "${ty_ways-}" ] || ty_find_ways
  while :; do
    [ -z "$ty_told" ] || return $ty_exit_stopped
    ty_status='' ty_why=''
    for way in $ty_ways; do
      "ty_by_$way" "$ty_server$1" "$2"
      [ -z "$ty_status" ] || break
    done
    case $ty_status in
      200) return 0 ;;
      '' | 429 | 5??) ;;
      *)
        ty_say "the server at $ty_server answered $ty_status for $1"
        return $ty_exit_refused ;;
    esac
    [ -n "$ty_ways" ] || {
      ty_say "cannot reach $ty_server: none of curl, wget, python3 is here"
      return $ty_exit_no_tool
    }
    if [ $((SECONDS - from)) -ge "$ty_patience" ]; then
      ty_say "cannot reach the server at $ty_server$1: ${ty_status:-}${ty_why:-no answer}" \
             "(tried for $ty_patience s by" $ty_ways")"
      return $ty_exit_unreachable
    fi
    sleep $pause & wait $!
    case $pause in 0.2) pause=1 ;; 1) pause=2 ;; *) pause=5 ;; esac
  done
}

# Bash itself is the quickest, and is always there, yet speaks no TLS.
ty_find_ways() {
  local way
  ty_ways=
  case $ty_server in http://*) ty_ways=bash ;; esac
  for way in curl wget python3; do
    if command -v $way >/dev/null; then ty_ways="$ty_ways $way"; fi
  done
}

# Each sets ty_status to the answer's status, or ty_why to what kept it from coming. The token is
# never an argument.

ty_by_bash() {
  local pid clock
  ty_talk "$1" "$2" >"$ty_folder/status" 2>"$ty_folder/why" &
  pid=$!
  sleep $ty_answer_max_s &
  clock=$!
  wait -n $pid $clock
  kill $pid $clock 2>/dev/null
  wait $pid $clock 2>/dev/null
  read -r ty_status <"$ty_folder/status"
  [ -n "$ty_status" ] || ty_why=$(tail -n 1 "$ty_folder/why")
  ty_why=${ty_why##*: }
}

# One request of HTTP/1.0 over bash's own socket; prints the status once all of the answer is there.
# Each program that it starts costs a millisecond: of a short run that is the most.
ty_talk() {
  local rest=${1#http://} host port line status length=
  host=${rest%%/*}
  rest=/${rest#*/}
  port=${host##*:}
  [ "$port" = "$host" ] && port=80
  local name=${host%:*}
  name=${name#[} name=${name%]}
  exec 4<>"/dev/tcp/$name/$port" || exit
  local verb=GET body=
  [ -z "$ty_body" ] || verb=POST body="Content-Length: 0"$'\r\n'
  [ ! -s "$ty_body" ] || body="Content-Length: $(wc -c <"$ty_body")"$'\r\n'
  printf '%s %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\nAuthorization: Bearer %s\r\n%s\r\n' \
    $verb "$rest" "$host" "$ty_token" "$body" >&4
  [ ! -s "$ty_body" ] || cat "$ty_body" >&4
  IFS=' ' read -r line status line <&4
  while IFS= read -r line <&4; do
    line=${line%$'\r'}
    [ -n "$line" ] || break
    case ${line,,} in
      content-length:*) length=${line#*:} length=${length// /} ;;
      transfer-encoding:*) exit ;;
    esac
  done
  [ -n "$length" ] || exit
  if [ "$length" -lt 65536 ]; then  # Text; the program, which has zero bytes, is larger.
    LC_ALL=C IFS= read -r -N "$length" line <&4
    LC_ALL=C
    [ "${#line}" -eq "$length" ] && printf '%s' "$line" >"$2" && echo "$status"
    return
  fi
  head -c "$length" <&4 >"$2"
  [ "$(wc -c <"$2")" -eq "$length" ] && echo "$status"
}

ty_by_curl() {
  ty_why=$(printf 'header = "Authorization: Bearer %s"\n' "$ty_token" |
    curl -q -sS -K - ${ty_ca:+--cacert "$ty_folder/ca.pem"} --connect-timeout 10 \
      ${ty_body:+-H Content-Type: --data-binary "@$ty_body"} \
      -m $ty_answer_max_s -o "$2" -w '%{http_code}' "$1" 2>&1)
  ty_read_status
}

ty_by_wget() {
  # It reads no pipe; the folder is ours alone.
  printf 'header = Authorization: Bearer %s\n' "$ty_token" >"$ty_folder/wgetrc"
  ty_why=$(wget --config="$ty_folder/wgetrc" -nv -S \
      ${ty_ca:+--ca-certificate="$ty_folder/ca.pem"} ${ty_body:+--post-file="$ty_body"} \
      -t 1 -T 10 -O "$2" "$1" 2>&1)
  rm -f "$ty_folder/wgetrc"
  case $ty_why in
    *HTTP/1.[01]' '*) ty_status=${ty_why##*HTTP/1.[01] } ty_status=${ty_status:0:3} ;;
    *) ty_why=${ty_why##*$'\n'} ;;
  esac
}

ty_by_python3() {
  ty_why=$({ printf '%s\n' "$ty_token" "$1" "$2" "$ty_answer_max_s" "$ty_body"; } | python3 -c '
import shutil, sys, urllib.error, urllib.request
token, url, path, limit, body = sys.stdin.read().split("\n")[:5]
body = open(body, "rb").read() if body else None
request = urllib.request.Request(url, body, {"Authorization": "Bearer " + token})
import os, ssl
ca = os.environ.get("TRAINYARD_CA_FILE")
context = ssl.create_default_context(cafile=ca) if url.startswith("https") else None
try:
    with urllib.request.urlopen(request, timeout=float(limit), context=context) as answer:
        with open(path, "wb") as file:
            shutil.copyfileobj(answer, file)
        print(answer.status)
except urllib.error.HTTPError as error:
    print(error.code)
except Exception as error:
    print(error)
' 2>&1)
  ty_read_status
}

# The last line of what a program said is the status, or 000 if there is none.
ty_read_status() {
  local last=${ty_why##*$'\n'}
  last=${last##*[!0-9]}
  case $last in [1-5][0-9][0-9]) ty_status=$last ;; esac
  ty_why=${ty_why%%$'\n'*}
}

# ---- the supervisor ----

ty_supervise() {
  local try
  for ((try = 1; try <= ty_tries_max; ++try)); do
    [ -z "$ty_told" ] || return $ty_exit_stopped
    printf '%s\n' "$ty_token" |
      TRAINYARD_KEEP=$ty_kept "$ty_program" supervise --folder "$ty_work" --node "$1" --token-stdin \
        3>&- &
    ty_child=$!
    [ -z "$ty_told" ] || kill -TERM "$ty_child"  # It came just before there was one to tell.
    ty_wait
    ty_child=
    [ -z "$ty_told" ] || return $ty_exit_stopped
    case $ty_code in
      0) return 0 ;;
      "$ty_supervisor_unsent")
        ty_shelve "$1"
        return ;;
      126 | 127)
        ty_say "$ty_program does not run here (code $ty_code)"
        return $ty_exit_not_executable ;;
    esac
    ty_say "the supervisor ended with code $ty_code ($try of $ty_tries_max)"
  done
  return 1
}

# What the server needs to end the attempt in our place: no code, no data. The name tells whose it is;
# it is there once it is whole.
ty_shelve() {
  ty_say "the server was away when the run was done"
  [ -n "$ty_shared" ] || return $ty_exit_unsent
  local shelf=$ty_shared/trainyard-${ty_owner/\//.} name=$ty_run.$ty_attempt.$1 part what
  part=$shelf/.$name.$$
  mkdir -m 700 "$shelf" 2>/dev/null  # Others may do the same just now.
  if [ -L "$shelf" ] || [ ! -O "$shelf" ] || ! mkdir "$part"; then
    ty_say "cannot put what is unsent into $shelf"
    return $ty_exit_unsent
  fi
  (
    cd "$ty_work" || exit
    for what in journal spool preparation work/outputs work/logs note-*; do
      [ ! -e "$what" ] || cp -RP --parents "$what" "$part" || exit
    done
    sync "$part"
  ) && mv -T "$part" "$shelf/$name" && return $ty_exit_shelved
  rm -rf "$part"
  ty_say "cannot put what is unsent into $shelf"
  return $ty_exit_unsent
}

# Until ty_child has ended, however often a signal interrupts; its code is ty_code.
ty_wait() {
  while :; do
    wait "$ty_child"
    ty_code=$?
    kill -0 "$ty_child" 2>/dev/null || return 0
  done
}

ty_main
