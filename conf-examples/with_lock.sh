# with_lock: runs a command while nginx holds a lock for it.  A function for
# scripts of any POSIX shell, which needs curl and nothing else:
#
#     . ./with_lock.sh
#
#     with_lock http://127.0.0.1:8080/run/nightly backup --all
#
# The location of the URL has "etcd_lock_serve": see lock-serve.conf.
#
# - The command has the fencing token in $ETCD_LOCK_TOKEN, and the standard
#   input of with_lock.
# - When the lock is lost, the command gets TERM and, WITH_LOCK_GRACE seconds
#   later, KILL; where there is setsid, so does all that it has started.
# - The lock is free when the command has ended.
#
# The status is that of the command, or
#
#     75   the lock was not got: somebody else has it, or nginx does not answer;
#          curl has said why
#     76   the lock was lost: the command was stopped, or has just ended
#
# Variables, with their defaults:
#
#     WITH_LOCK_GRACE=5      seconds from TERM to KILL
#     WITH_LOCK_MARGIN=0     seconds by which the command is stopped early, if
#                            nothing is heard of nginx: with as many as for
#                            WITH_LOCK_GRACE the command has ended before etcd
#                            gives the lock to others
#     WITH_LOCK_CURL=        further options of curl, separated by spaces


with_lock() (

    # The end of curl is no failure.

    (set +o pipefail) 2>/dev/null && set +o pipefail

    # The first line is the process of curl, which ends the lock.

    {
        sh -c 'trap "" INT; echo $$; exec curl -sSfN "$@"' with_lock \
           --connect-timeout 10 ${WITH_LOCK_CURL:-} "$1" 3<&- |
            with_lock_run "$@"
    } 3<&0
)


with_lock_run() (
    set +e
    shift

    read -r curl

    # Nothing is said before the lock is held.  The second line, as each that
    # follows, has the seconds for which that is so if nginx is heard no more.

    if ! read -r word token || [ "$word" != token ] || ! read -r line; then
        kill "$curl" 2>/dev/null
        exit 75
    fi

    group=

    if command -v setsid >/dev/null; then
        group=-
        set -- setsid "$@"
    fi

    ETCD_LOCK_TOKEN=$token
    export ETCD_LOCK_TOKEN

    exec 4<&0
    "$@" <&3 3<&- 4<&- &
    command=$!
    with_lock_watch "$curl" "$group" "$command" "$line" 3<&- &
    watch=$!
    exec 3<&- 4<&- </dev/null

    # The lock is held until the command has ended, whoever ends this shell.

    trap 'kill -TERM "$group$command" 2>/dev/null' INT TERM HUP

    while
        wait "$command"
        status=$?
        kill -0 "$command" 2>/dev/null
    do :; done

    # The watch is told first: it takes the end of curl for a loss.

    kill -TERM "$watch" 2>/dev/null
    kill -TERM "$curl" 2>/dev/null
    wait "$watch"

    if [ $? -eq 76 ]; then
        [ "$group" ] && kill -KILL "-$command" 2>/dev/null
        echo "with_lock: the lock is lost" >&2
        status=76
    fi

    exit "$status"
)


# Reads what nginx sends: each line says how long the lock is still held.

with_lock_watch() {
    alarm=
    line=$4
    trap 'kill $alarm 2>/dev/null; exit 0' TERM
    trap '' INT HUP

    while :; do
        with_lock_alarm "$1" "$line" >/dev/null 2>&1 4<&- &
        alarm=$!

        read -r line <&4 && [ "$line" != lost ] || break

        kill "$alarm" 2>/dev/null

        # with_lock itself was killed, and the command has ended

        if ! kill -0 "$3" 2>/dev/null; then
            kill "$1" 2>/dev/null
            exit 0
        fi
    done

    trap 'exit 76' TERM

    kill "$alarm" 2>/dev/null
    kill -TERM "$2$3" 2>/dev/null
    sleep "${WITH_LOCK_GRACE:-5}" >/dev/null 2>&1 4<&- &
    wait $!
    kill -KILL "$2$3" 2>/dev/null
    exit 76
}


# Ends curl after the seconds of a line "# held SECONDS", unless it is ended
# itself before.

with_lock_alarm() {
    nap=
    trap 'kill $nap; exit' TERM
    left=${2##* }
    left=$((${left%%.*} - ${WITH_LOCK_MARGIN:-0}))
    sleep "$((left > 0 ? left : 0))" &
    nap=$!
    wait "$nap" && kill "$1"
}
