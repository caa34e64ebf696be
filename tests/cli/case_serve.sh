# smoe serve with names that are markup or not UTF-8, runs that disappear, large records and many connections.
. "$ROOT/tests/cli/lib.sh"
command -v curl >/dev/null && command -v python3 >/dev/null || skip "no curl, or no python3"
bad='<img src=x onerror=hostile()>'
raw=$(printf 'raw\377')
mkdir runs "runs/$bad" "runs/$raw" runs/gone runs/plain
for run in "$bad" gone plain; do
    for step in 1 2 3; do echo '{"step":'$step',"epoch":0,"wall_s":'$step',"train/loss":'$step'}'; done >"runs/$run/metrics.jsonl"
done
cp runs/plain/metrics.jsonl "runs/$raw/"
for step in 1 2 3; do
    echo '{"step":'$step',"epoch":0,"wall_s":'$step',"constructor":'$step',"__proto__":'$step',"'"$bad"'":'$step'}'
done >"runs/$bad/metrics.jsonl"

# bytes that are not UTF-8 are U+FFFD in JSON
status 0 smoe watch --once --json runs >json
python3 -c 'import json; assert [r["run"] for r in json.load(open("json"))].count("runs/raw\ufffd") == 1' || fail "watch --json: $(cat json)"

port=$((20000 + $$ % 20000))
address=http://127.0.0.1:$port/
sh -c "ulimit -n 1024; exec smoe serve runs --port $port" >line 2>err &
serve=$!
trap 'kill $serve 2>/dev/null' EXIT
wait_for line 1
code() { curl -s -m 20 -o json -w '%{http_code}' "${address}$1"; }
[ "$(code runs.json)" = 200 ] && python3 -c 'import json; assert len(json.load(open("json"))) == 4' || fail "runs.json: $(cat json)"
curl -sI "$address" | grep -i '^content-security-policy:' >policy
for part in "frame-ancestors 'none'" "base-uri 'none'" "form-action 'none'"; do grep -qF "$part" policy || fail "no $part: $(cat policy)"; done
! grep -q unsafe policy || fail "$(cat policy)"

# a run that cannot be read is listed, and the others go on
echo '{' >runs/gone/metrics.jsonl
sleep 1.1
[ "$(code runs.json)" = 200 ] || fail "a damaged run: $(cat json)"
python3 -c 'import json; r = {x["run"]: x for x in json.load(open("json"))}; assert r["runs/gone"]["status"] == "lost" and "metrics.jsonl" in r["runs/gone"]["problem"] and r["runs/plain"]["step"] == 3' || fail "$(cat json)"
rm -r runs/gone
echo '{"step":4,"epoch":0,"wall_s":4,"train/loss":4}' >>runs/plain/metrics.jsonl
sleep 1.1
[ "$(code runs.json)" = 200 ] && python3 -c 'import json; r = {x["run"]: x for x in json.load(open("json"))}; assert len(r) == 3 and r["runs/plain"]["step"] == 4' || fail "$(cat json)"
mv runs aside
sleep 1.1
[ "$(code runs.json)" = 200 ] && grep -q '"status":"lost"' json || fail "a folder that is gone: $(cat json)"
mv aside runs
sleep 1.1

# connections that say nothing use up neither descriptors nor other readers' turn
python3 - $port <<'END' || fail "idle connections"
import socket, sys, time, urllib.request
port = int(sys.argv[1])
idle = []
for i in range(1000):
    s = socket.socket()
    s.settimeout(1)
    try: s.connect(('127.0.0.1', port))
    except OSError: break
    idle.append(s)
end = time.time() + 60
while True:
    try:
        urllib.request.urlopen(f'http://127.0.0.1:{port}/runs.json', timeout=20).read()
        break
    except OSError:
        if time.time() > end: raise
        time.sleep(0.5)
END

# many requests read large records once
python3 -c '
for s in range(60000): print("{\"step\":%d,\"epoch\":0,\"wall_s\":%d,%s}" % (s, s, ",".join("\"m%d\":%d" % (k, s) for k in range(10))))' >big
mkdir runs/large && mv big runs/large/metrics.jsonl
sleep 1.1
code runs.json >/dev/null
before=$(sed 's/.*) //' /proc/$serve/stat | cut -d' ' -f12)
for i in 1 2 3 4 5 6 7 8 9 10; do [ "$(code runs.json)" = 200 ] || fail "$(head -c 300 json)"; done
after=$(sed 's/.*) //' /proc/$serve/stat | cut -d' ' -f12)
[ $((after - before)) -lt 100 ] || fail "ten requests took $((after - before)) ticks of processor time"

# readers that ask and do not read share one answer, and no other reader waits for them
python3 - $port $serve <<'END' || fail "readers that do not read"
import socket, sys, urllib.request
def memory(): return int(open(f'/proc/{sys.argv[2]}/statm').read().split()[1]) * 4096
slow, before = [], memory()
for i in range(60):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(20)
    s.connect(('127.0.0.1', int(sys.argv[1])))
    s.send(b'GET /runs.json HTTP/1.1\r\nHost: localhost\r\n\r\n')
    slow.append(s)
size = len(urllib.request.urlopen(f'http://127.0.0.1:{sys.argv[1]}/runs.json', timeout=20).read())
assert memory() - before < 10 * size + 4e6, (size, memory() - before)
END
rm -r runs/large

for name in chromium chromium-browser google-chrome; do
    browser=$(command -v $name) && break
done
[ -z "$browser" ] || timeout 240 python3 "$ROOT/tests/draw/hostile_page.py" "$browser" "$address" "runs/$bad" || fail "the page in a browser"
kill -INT $serve
wait $serve || fail "serve ended with $?"
[ -n "$browser" ] || skip "no Chromium: the page with hostile names was not opened"
