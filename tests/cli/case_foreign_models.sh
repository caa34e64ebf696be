# Models of timm, transformers, torchvision and open_clip, as these save them, have the logits that they have there, or are refused.
# Needs PyTorch, NumPy and Pillow, and those libraries that are to be compared: PYTHON names an interpreter that has them.
. "$ROOT/tests/cli/lib.sh"
python=${PYTHON:-python3}
"$python" -c 'import torch, numpy, PIL' 2>/dev/null || skip "$python has no PyTorch, NumPy or Pillow: the models of other libraries"
"$python" "$ROOT/tests/interop/foreign_models.py" >out 2>err || fail "$(grep WRONG out) $(tail -n 1 err)"
grep -q 'equal\|left out' out || fail "nothing was compared: $(cat out)"
