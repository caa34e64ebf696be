# For lint.sh and portable.sh, which source this: checks with a verdict each. $checks is the name of the script, $out the file that a
# check writes what it objects to.
passed=0 failed=0 skipped=0

# verdict NAME: passes when nothing was written to $out
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
