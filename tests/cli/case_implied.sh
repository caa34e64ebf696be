# What a file without a spec says of its model, and what a configuration beside it says.
. "$ROOT/tests/cli/lib.sh"
other() { foreign "$1" && LC_ALL=C sed -i 's/"smoe\.spec":/"some.spec":/; s/"smoe\.version":/"some.version":/' "$1"; }
keys='model.moe.layers=none model.head=token model.registers=2 model.pre_norm=true'
status 0 smoe init tiny.yaml vit.safetensors -q $keys >/dev/null
cp vit.safetensors own.safetensors && other vit.safetensors
# The spec that the shapes imply describes the model, once its data is named.
status 2 smoe eval vit.safetensors >implied.yaml 2>err
grep -q 'vit.safetensors has no spec. Its tensors imply the one above' err && grep -q 'smoe eval vit.safetensors --spec SPEC.yaml$' err || fail "$(cat err)"
for line in 'width: 16' 'depth: 2' 'head: token' 'registers: 2' 'pre_norm: true' 'heads: 1  # a guess: not in the file' 'image_size: 16'; do
    grep -qx "  $line" implied.yaml || fail "not implied: $line: $(cat implied.yaml)"
done
sed -i '/source:/d; /path:/d; s/heads: 1 .*/heads: 2/' implied.yaml
[ "$(smoe eval vit.safetensors -q --spec implied.yaml data.limit=100 | sed -n 's/^loss *//p')" = \
    "$(smoe eval own.safetensors -q data.limit=100 | sed -n 's/^loss *//p')" ] || fail "another model: $(cat implied.yaml)"
status 0 smoe eval vit.safetensors --spec implied.yaml data.limit=100 >/dev/null 2>err
grep -q 'vit.safetensors: model.norm_eps 1e-06, model.gelu, model.heads 2 and the order of norms are the spec.s; the file' err || fail "$(cat err)"
# A configuration of transformers: what shapes do not show must agree.
mkdir saved && cp vit.safetensors saved/model.safetensors
printf '{"hidden_size": 16, "layer_norm_eps": 1e-12, "num_attention_heads": 2, "hidden_act": "gelu"}' >saved/config.json
printf '{"image_mean": [0.48, 0.46, 0.41], "image_std": [0.5, 0.5, 0.5]}' >saved/preprocessor_config.json
status 2 smoe eval saved --spec implied.yaml 2>err
grep -q 'saved/model.safetensors: config.json beside it says model.norm_eps=1e-12, and the spec has 1e-06' err || fail "$(cat err)"
status 0 smoe eval saved --spec implied.yaml model.norm_eps=1e-12 data.limit=100 >/dev/null 2>err
grep -q "its pixels had other values: preprocessor_config.json beside it says 'data.mean=\[0.48, 0.46, 0.41\]' 'data.std=" err || fail "$(cat err)"
status 2 smoe train tiny.yaml -n --init saved $keys 2>err
grep -q 'config.json beside it says model.norm_eps=1e-12' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -n --init saved --partial $keys >/dev/null
# One of timm.
printf '{"architecture": "vit_base_patch16_clip_quickgelu_224", "global_pool": "avg", "pretrained_cfg": {"crop_pct": 0.9, "interpolation": "bicubic"}}' >saved/config.json
mv saved/preprocessor_config.json .
status 2 smoe eval saved >out 2>/dev/null
grep -qx '  gelu: quick  # config.json' out && grep -qx '  registers: 3  # config.json' out && grep -qx '  norm_eps: 1e-05  # config.json' out || fail "$(cat out)"
grep -qx '  resize: bicubic  # config.json' out && grep -qx '  crop_pct: 0.9  # config.json' out || fail "$(cat out)"
# One of open_clip; and one that is not JSON is as none.
printf '{"model_cfg": {"quick_gelu": true, "vision_cfg": {"width": 16, "head_width": 8}}}' >saved/open_clip_config.json
printf '{' >saved/config.json
status 2 smoe eval saved >out 2>/dev/null
grep -qx '  heads: 2  # open_clip_config.json' out || fail "$(cat out)"
