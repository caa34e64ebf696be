#!/bin/sh
# Too little memory for the whole program (ulimit -v), in steps that are smaller than what products pack: the program never
# ends by a signal, and a failure has a message. Below the smallest limit the system itself cannot load the program (127),
# or a library that initialises itself before the program begins (libgfortran) is terminated: then `smoe version` is
# terminated too.
. "$ROOT/tests/cli/lib.sh"

status 0 smoe train tiny.yaml -q train.steps=4 -o run >/dev/null
most=$(awk '/VmPeak/ { print $2 }' /proc/self/status)
limit=60000 ended=0
[ "$most" -lt $limit ] || skip "this shell needs $most kB by itself"
while [ $limit -lt 130000 ]; do
    (ulimit -v $limit && smoe eval run -q -j1) >out 2>err
    got=$?
    if [ $got -ge 128 ]; then
        (ulimit -v $limit && smoe version) >/dev/null 2>&1
        [ $? -lt 128 ] || got=127
    fi
    [ $got -lt 128 ] || fail "ulimit -v $limit: status $got: $(cat err)"
    [ $got -eq 0 ] || [ $got -eq 127 ] || [ -s err ] || fail "ulimit -v $limit: status $got without a message"
    [ $got -eq 0 ] || ended=$((ended + 1))
    limit=$((limit + 1000))
done
[ $ended -gt 0 ] || skip "the program needs less than 60 MB here"
