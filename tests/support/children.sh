# For scripts that signal one process of several: `. tests/support/children.sh`.

# children_of PID: the numbers of its child processes, ascending. (A small Debian has no pgrep.)
children_of() {
    for stat in /proc/[0-9]*/stat; do
        # 2>: a process may end while the list is read
        { read -r child _ _ parent _ <"$stat"; } 2>/dev/null || continue
        [ "$parent" = "$1" ] && echo "$child"
    done | sort -n
}
