# Sourced by lint.sh and portable.sh: checks, each with a verdict. $checks is the name of the script; a check writes its
# objections to the file $out.
passed=0 failed=0 skipped=0

# verdict NAME: the check passes if nothing was written to $out
verdict() {
    if [ -s "$out" ]; then
        echo "$checks: $1:"
        sed 's/^/    /' "$out" | head -n 40
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

skip() {
    echo "skipped: $1"
    skipped=$((skipped + 1))
}
