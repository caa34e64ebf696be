# A second signal ends the program at once, by that signal.
. "$ROOT/tests/cli/lib.sh"
# Steps too long to finish between the two signals: where one has finished, as on a busy machine, a longer one is tried.
for images in 512 1024 2048; do
    rm -rf run
    smoe train tiny.yaml -q data.limit=0 model.width=512 model.mlp=4096 train.batch_size=$images train.log_every=1 -o run &
    tries=0
    until [ -f run/STATUS ]; do
        tries=$((tries + 1)); [ $tries -lt 600 ] || fail "the run did not start"
        sleep 0.05
    done
    sleep 0.5
    kill -TERM $!
    sleep 0.2
    # A SIGTERM within three seconds is the first request again; the program stands still meanwhile.
    kill -STOP $!
    sleep 4
    kill -TERM $!
    kill -CONT $!
    wait $!
    got=$?
    [ $got -eq 75 ] || break
done
[ $got -eq 143 ] || fail "status $got after two signals, not 143"
