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
# - The lock is free when the command has ended, and not before: HUP, INT, QUIT
#   and TERM for the script with all of its processes (of a terminal, timeout,
#   or systemctl stop) are TERM for the command, which may take its time.
#
# The status is that of the command, or
#
#     75   the lock was not got: somebody else has it, or nginx does not answer;
#          curl has said why; or such a signal came first
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
    set +e

    # The end of curl is no failure.

    (set +o pipefail) 2>/dev/null && set +o pipefail

    # Signals for all processes are for with_lock_run alone, which tells the
    # command.  The script ends by INT as if the command had, but not before.

    int=
    trap '' HUP QUIT TERM
    trap 'int=1' INT

    (
        trap '' INT
        with_lock_gate 3<&- 2>/dev/null |
            with_lock_curl "$@" 3<&- 4>&2 2>/dev/null |
            with_lock_run "$@"
    ) 3<&0

    status=$?

    if [ "$int" ]; then
        trap - INT
        kill -INT "$(exec sh -c 'echo "$PPID"')"
    fi

    exit "$status"
)


# Curl does not begin before with_lock_run hears signals, which then ends this
# process, whose number is the first line.  The shells say nothing of the end of
# a process.

with_lock_gate() {
    sh -c 'echo $$; exec sleep 60'
    return 0
}


# The second line is the process of curl, which ends the lock.

with_lock_curl() {
    sh -c '
        exec 2>&4 4>&-
        read -r gate
        echo "$gate"
        echo $$
        read -r gate
        exec curl -sSfN "$@" </dev/null
    ' with_lock --connect-timeout 10 ${WITH_LOCK_CURL:-} "$1"
    return 0
}


with_lock_run() (
    shift

    read -r gate
    read -r curl
    trap with_lock_not HUP INT QUIT TERM
    kill -KILL "$gate" 2>/dev/null

    # Nothing is said before the lock is held.  The second line, as each that
    # follows, has the seconds for which that is so if nginx is heard no more.

    if ! read -r word token || [ "$word" != token ] || ! read -r line; then
        with_lock_not
    fi

    group=

    if command -v setsid >/dev/null; then
        group=-
        set -- setsid "$@"
    fi

    ETCD_LOCK_TOKEN=$token
    export ETCD_LOCK_TOKEN

    # The command gets the signals' usual effects back, and the watch ignores
    # them from its beginning on.

    stop=
    trap 'stop=1' HUP INT QUIT TERM
    exec 4<&0
    "$@" <&3 3<&- 4<&- &
    command=$!
    trap '' HUP INT QUIT TERM
    with_lock_watch "$curl" "$group" "$command" "$line" 3<&- 2>/dev/null &
    watch=$!
    exec 3<&- 4<&- </dev/null

    # The lock is held until the command has ended, whoever ends this shell.

    trap 'with_lock_kill TERM "$group" "$command"' HUP INT QUIT TERM

    if [ "$stop" ]; then
        with_lock_kill TERM "$group" "$command"
    fi

    while
        wait "$command"
        status=$?
        kill -0 "$command" 2>/dev/null
    do :; done

    trap '' HUP INT QUIT TERM

    # The watch is told first: it takes the end of curl for a loss.

    {
        kill -USR1 "$watch"
        kill -KILL "$curl"
        wait "$watch"
        lost=$?
    } 2>/dev/null

    if [ "$lost" -eq 76 ]; then
        [ "$group" ] && kill -KILL "-$command" 2>/dev/null
        echo "with_lock: the lock is lost" >&2
        status=76
    fi

    exit "$status"
)


# The lock was not got.

with_lock_not() {
    kill -KILL "$curl" 2>/dev/null
    exit 75
}


# The command may not have its own group yet.

with_lock_kill() {
    kill "-$1" "$2$3" 2>/dev/null || kill "-$1" "$3" 2>/dev/null
}


# Reads what nginx sends: each line says how long the lock is still held.  USR1
# ends this.

with_lock_watch() {
    line=$4

    while :; do

        # The signal may come before the number of the process is known.

        end=
        trap 'end=1' USR1
        with_lock_alarm "$1" "$line" >/dev/null 4<&- &
        alarm=$!
        trap 'kill -KILL $alarm; exit 0' USR1

        if [ "$end" ]; then
            kill -KILL "$alarm"
            exit 0
        fi

        read -r line <&4 && [ "$line" != lost ] || break

        kill -KILL "$alarm"

        # with_lock itself was killed, and the command has ended

        if ! kill -0 "$3"; then
            kill -KILL "$1"
            exit 0
        fi
    done

    end=
    trap 'end=1' USR1
    kill -KILL "$alarm"
    with_lock_kill TERM "$2" "$3"
    sleep "${WITH_LOCK_GRACE:-5}" >/dev/null 4<&- &
    alarm=$!
    trap 'kill -KILL $alarm; exit 76' USR1
    [ "$end" ] && exit 76
    wait "$alarm"
    with_lock_kill KILL "$2" "$3"
    exit 76
}


# Ends curl after the seconds of a line "# held SECONDS", unless it is killed
# before: a shell that has just begun may lose another signal.  What is left of
# it then sleeps for a second.

with_lock_alarm() {
    left=${2##* }
    left=$((${left%%.*} - ${WITH_LOCK_MARGIN:-0}))
    until=$(($(date +%s) + left))

    while [ "$left" -gt 0 ] && [ "$(date +%s)" -lt "$until" ]; do
        sleep 1
        left=$((left - 1))
    done

    kill -KILL "$1"
}
