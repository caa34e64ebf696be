# SIGKILL at three moments, early, in the middle, late; resumed each time, the run ends as if it had never been killed.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q train.steps=400 -o whole
for lines in 3 150 350; do
    smoe train tiny.yaml -q train.steps=400 -o parts $([ -d parts ] && echo --resume) &
    wait_for parts/metrics.jsonl $lines
    kill -KILL $!
    wait $!
done
status 0 smoe train tiny.yaml -q train.steps=400 -o parts --resume
same_run whole parts
