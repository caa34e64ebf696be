# `smoe help papers` and smoe-papers(7) say the same, and every command in them runs (sweeps and training dry).
. "$ROOT/tests/cli/lib.sh"
ln -s "$ROOT/experiments" experiments
status 0 smoe help papers >help
# The page of the table: an entry has its place in bold, a line, and commands without fill.
awk '
    NR < 5 { next }
    { gsub(/-/, "\\-") }
    function end() { if (text != "") print text; if (open) print ".fi\n.RE"; text = ""; open = 0 }
    /^$/ { end(); getline; gsub(/-/, "\\-"); printf ".TP\n.B %s\n", $0; next }
    /^  \$ / { if (text != "") { print text; text = "" } if (!open) print ".RS\n.nf"; open = 1; print substr($0, 5); next }
    { sub(/^  /, ""); text = text (text == "" ? "" : " ") $0 }
    END { end() }' help >wanted
# A long command is broken by \\e in the page.
sed -n '/^\.SH DESCRIPTION/,/^\.SH SEE ALSO/p' "$ROOT/man/smoe-papers.7" | sed '1,/^\.PP$/d; /^\.SH/d' |
    sed -e ':more' -e '/ \\e$/{N;s/ \\e\n */ /;b more' -e '}' >page
diff page wanted >differ || fail "man/smoe-papers.7 is not the table of cmd/papers.def (< page, > table): $(cat differ)"
cp "$ROOT/tests/cli/tiny.yaml" .
status 0 smoe train tiny.yaml -q train.steps=4 -o soft >/dev/null
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.router=tokens-choice -o sparse >/dev/null
sed -n 's/^  \$ //p' help | sort -u >commands
sed 's/ RUN/ soft/g; s/ SPARSE/ sparse/g' commands >runs
while read -r line; do
    case $line in
    "smoe train "* | "smoe ablate "*) line="$line --dry-run" ;;
    "smoe sweep "*) line="$line --dry-run --skip-invalid" ;;
    "smoe bench "*) line="$line --help" ;;
    esac
    eval "$line" >out 2>&1 </dev/null || grep -q 'was not found; tried' out || fail "$line: $(cat out)" # data that is not in the tree
done <runs
[ "$(wc -l <runs)" -gt 60 ] || fail "only $(wc -l <runs) commands"
