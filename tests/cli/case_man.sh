# The help, the man pages and the README name the same commands and options, and every example of a page is a command.
. "$ROOT/tests/cli/lib.sh"
options_of_help() { sed -n '/^Options:/,$p' | sed '/^key=value/,$d' | grep -oE '^ +(-[a-zA-Z], )?--[a-z-]+' | grep -oE -e '--[a-z-]+' | sort; }
options_of_page() {
    sed -n '/^\.SH OPTIONS/,/^\.SH [^O]/p' "$1" | sed 's/\\-/-/g' | awk '/^\.TP/ { getline; print }' |
        grep -oE -e '--[a-z-]+' | sort
}
compare() {
    page=$ROOT/man/$1
    [ -f "$page" ] || fail "no page $1"
    options_of_page "$page" >page
    cmp -s help page || { diff help page; fail "the options of $1 (>) are not those of the help (<)"; }
}
commands=$(smoe --help | sed -n '/^Commands:/,/^$/p' | awk '/^  / { print $1 }')
[ "$(echo $commands | wc -w)" -ge 6 ] || fail "commands: $commands"
smoe --help | options_of_help >help
compare smoe.1
for command in $commands; do
    summary=$(smoe --help | sed -n "s/^  $command  *//p" | sed -n 1p)
    grep -qF "| \`smoe $command\` | $summary |" "$ROOT/README.md" || fail "README.md lacks: | \`smoe $command\` | $summary |"
    sed 's/\\-/-/g' "$ROOT/man/smoe.1" | grep -qF "$summary" || fail "smoe.1 lacks: $summary"
    case $command in help | version) continue ;; esac
    smoe $command --help | options_of_help >help
    compare smoe-$command.1
    sed 's/\\-/-/g' "$ROOT/man/smoe-$command.1" | grep -qF "$summary" || fail "smoe-$command.1 lacks: $summary"
    for section in NAME SYNOPSIS DESCRIPTION OPTIONS OUTPUT "EXIT STATUS" EXAMPLES "SEE ALSO"; do
        grep -qE "^\.SH \"?$section\"?$" "$ROOT/man/smoe-$command.1" || fail "smoe-$command.1 has no section $section"
    done
done
# Examples in the help are accepted, as far as a dry run checks them.
for command in $commands; do
    smoe $command --help | sed -n '/^Examples:/,/^$/p' | grep 'experiments/quickstart.yaml' | grep -v -e --extend |
        sed "s| experiments/| $ROOT/experiments/|"
done >examples
[ "$(wc -l <examples)" -ge 8 ] || fail "examples: $(cat examples)"
while read -r line; do
    case $line in *--dry-run*) ;; *) line="$line --dry-run" ;; esac
    $line >/dev/null 2>err </dev/null || fail "$line: $(cat err)"
done <examples
for page in "$ROOT"/man/smoe-*.1; do
    command=${page##*/smoe-}
    echo "$commands" | grep -qx "${command%.1}" || fail "$page is of no command"
done
for page in "$ROOT"/man/*.[57]; do
    section=${page##*.} name=${page##*/}
    name=${name%.*}
    grep -qF "$name($section)" "$ROOT/README.md" || fail "README.md does not name $name($section)"
    sed -n '/^\.SH SEE ALSO/,$p' "$ROOT/man/smoe.1" | sed 's/\\-/-/g' | grep -qE "^\.BR $name \($section\)" ||
        fail "smoe.1 does not refer to $name($section)"
done
# A quotation mark after a backslash begins a comment in a page: what follows it is not printed.
! grep -n '\\"' "$ROOT"/man/*.[157] | grep -v ':\.\\"' || fail "in pages, a quotation mark is \\(dq"
