# For the scripts beside this file: an empty folder with tiny.yaml, which is removed at the end, and the number of failures.
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cp "$here/../cli/tiny.yaml" .
export OMP_WAIT_POLICY=passive
failed=0
