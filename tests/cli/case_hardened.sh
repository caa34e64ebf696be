# The program, its modules and the shared library are built as distributions expect of what reads files of strangers: at
# random addresses, tables of the loader read-only, nothing bound late, stacks not executable and with a canary, and calls of
# libc that know the sizes of buffers.
. "$ROOT/tests/cli/lib.sh"
command -v readelf >/dev/null || skip "no readelf"
program=$(readlink -f "$(command -v smoe)")
grep -q -e -fstack-protector-strong "$(dirname "$program")/flags" || skip "built by a flavour without hardening"
readelf -hW "$program" | grep -q 'Type: *DYN' || fail "smoe is not position-independent: link with -pie"
checked=0
for file in "$program" "$(dirname "$program")"/libsmoe.so.* "$(dirname "$program")"/smoe_*.so; do
    [ -f "$file" ] || continue
    checked=$((checked + 1))
    readelf -lW "$file" | grep -q GNU_RELRO || fail "$file: no read-only relocations: link with -Wl,-z,relro"
    readelf -lW "$file" | grep 'GNU_STACK' | grep -q 'RWE' && fail "$file: its stack can be executed"
    readelf -dW "$file" | grep -qE 'BIND_NOW|Flags:.*NOW' || fail "$file: symbols are bound late: link with -Wl,-z,now"
    case $file in */smoe_*.so) continue ;; esac
    readelf -sW --dyn-syms "$file" | grep -q __stack_chk_fail || fail "$file: compile with -fstack-protector-strong"
    readelf -sW --dyn-syms "$file" | grep -q '__snprintf_chk\|__memcpy_chk' || fail "$file: compile with -D_FORTIFY_SOURCE=2"
done
echo "$checked files"
[ $checked -ge 1 ]
