"""Ending a command and all that it started, from inside the container.

Nothing but a shell's builtins and ``/proc`` is used: images have no ``ps``, ``pkill`` or
``timeout``. A process belongs to the command if it started no earlier than the
command's wrapper and

- descends from the wrapper; or
- has been handed to process 1, as daemons are, in a session that no older process has.

So a server that an earlier command left running lives on, with the workers it forks,
and so do the services of an ENTRYPOINT. A command beside which others ran is killed
with its descendants only: a daemon may be another's, and nothing else may be killed.
"""

from __future__ import annotations

# Exit statuses of the script below.
ALL_DEAD = 0
SOME_LINGER = 4
EVERYTHING_KILLED = 3

# How far the script reaches.
DAEMONS_TOO = "daemons"
DESCENDANTS = "descendants"

# The status is told in a marked line (see command.py), as the engine may be late with it.
# First all are stopped, so that none can fork behind the scan's back, then killed.
# The name in a stat line may hold anything, a newline too: only what follows the last
# line's last ") " is used, which is numbers and one letter. A process that was born while
# the scan went on may be missing from it: /proc/loadavg ends with the newest process's id,
# so the scan counts only if that has not changed.
SCRIPT = """\
mark=$1 wrapper=$2 since=$3 reach=$4
finish() {
  printf '%s end %s\\n' "$mark" "$1" >&2
  exit "$1"
}
look() {
  all= old_sessions=' '
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/} last=
    while IFS= read -r line || [ -n "$line" ]; do last=$line; done 2>/dev/null <"$entry/stat"
    [ -n "$last" ] || continue
    set -- ${last##*) }
    [ $# -ge 20 ] || continue
    shift_start=${20}
    case $1 in Z|X) continue ;; esac
    eval "state_$pid=\\$1 parent_$pid=\\$2 session_$pid=\\$4"
    if [ "$shift_start" -lt "$since" ]; then
      eval "old_$pid=1"
      [ "$4" = 0 ] || old_sessions="$old_sessions$4 "
    else
      eval "old_$pid=0"
      all="$all $pid"
    fi
  done 2>/dev/null
}
belongs() {
  pid=$1
  while :; do
    [ "$pid" = "$wrapper" ] && return 0
    eval "parent=\\${parent_$pid:-gone} session=\\${session_$pid:-0}"
    case $parent in
      0) return 1 ;;
      gone) return 1 ;;
      1) [ "$reach" = daemons ] || return 1
         case $old_sessions in *" $session "*) return 1 ;; esac; return 0 ;;
    esac
    eval "older=\\${old_$parent:-0}"
    [ "$older" = 1 ] && return 1
    pid=$parent
  done
}
newest() {
  read -r _ _ _ _ "$1" </proc/loadavg
}
ours() {
  newest before
  look
  found=
  for candidate in $all; do
    if belongs "$candidate"; then found="$found $candidate"; fi
  done
  newest after
}
stop_all() {
  rounds=0
  while [ $rounds -lt 40 ]; do
    ours
    fresh=0
    for pid in $found; do
      eval "state=\\$state_$pid"
      if [ "$state" != T ]; then fresh=1; kill -STOP "$pid"; fi
    done
    [ $fresh = 0 ] && [ "$before" = "$after" ] && return 0
    rounds=$((rounds + 1))
  done
  return 1
} 2>/dev/null
stop_all
stopped=$?
for pid in $found; do kill -KILL "$pid"; done 2>/dev/null
if [ $stopped != 0 ] && [ "$reach" = daemons ]; then kill -KILL -1; finish 3; fi
rounds=0
while [ $rounds -lt 20 ]; do
  ours
  [ -z "$found" ] && [ "$before" = "$after" ] && finish 0
  for pid in $found; do kill -KILL "$pid"; done 2>/dev/null
  rounds=$((rounds + 1))
done
finish 4
"""
