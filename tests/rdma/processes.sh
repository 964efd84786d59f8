# processes.sh - sourced by epoch.sh and link.sh: starts processes of $headwater whose files lie in $work,
# waits for what they do, and leaves nothing of them behind.
headwater=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
pids=()
# A stopped process takes no signal but these two.
trap 'exec 2>/dev/null; kill -CONT "${pids[@]}"; kill -KILL "${pids[@]}"; rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    tail -n 20 "$work"/*.log >&2
    exit 1
}
start() { # start NAME ARGUMENT..: in the background, into NAME.out and NAME.log; its process id is in $started
    local name=$1
    shift
    "$headwater" "$@" >>"$work/$name.out" 2>>"$work/$name.log" &
    started=$!
    pids+=("$started")
}
batches() { # batches NAME: so many digests are in NAME.json
    [ -f "$work/$1.json" ] && wc -l <"$work/$1.json" || echo 0
}
until_batches() { # until_batches NAME COUNT: of the process that was started last
    for _ in $(seq 6000); do
        [ "$(batches "$1")" -ge "$2" ] && return
        kill -0 "$started" 2>/dev/null || break
        sleep 0.05
    done
    [ "$(batches "$1")" -ge "$2" ] || fail "$1: only $(batches "$1") of $2 batches came"
}
