# What a file without a spec says of its model, and what a configuration beside it says.
. "$ROOT/tests/cli/lib.sh"
other() { foreign "$1" && LC_ALL=C sed -i 's/"smoe\.spec":/"some.spec":/; s/"smoe\.version":/"some.version":/' "$1"; }
keys='model.moe.layers=none model.head=token model.registers=2 model.pre_norm=true'
status 0 smoe init tiny.yaml vit.safetensors -q $keys >/dev/null
cp vit.safetensors own.safetensors && other vit.safetensors
# The spec that the shapes imply describes the model, once its data is named.
status 2 smoe eval vit.safetensors >implied.yaml 2>err
grep -q 'vit.safetensors has no spec. Its tensors imply the one above' err && grep -q 'smoe eval vit.safetensors --spec SPEC.yaml$' err || fail "$(cat err)"
# The command that is named can be run: with all models of a soup, and only with options that go together.
status 2 smoe soup vit.safetensors own.safetensors >/dev/null 2>err
grep -q '^smoe soup: smoe soup vit.safetensors own.safetensors --spec SPEC.yaml$' err || fail "of a soup: $(cat err)"
status 2 smoe convert vit.safetensors vit.onnx --onnx >/dev/null 2>err
grep -q '^smoe convert: smoe convert vit.safetensors vit.onnx --onnx --spec SPEC.yaml$' err || fail "of ONNX: $(cat err)"
status 2 smoe eval vit.safetensors --grid 2x8 --weights raw >/dev/null 2>err
grep -q '^smoe eval: smoe eval vit.safetensors --grid 2x8 --weights raw --spec SPEC.yaml$' err || fail "of a grid: $(cat err)"
status 2 smoe compare vit.safetensors own.safetensors --outputs >out 2>err
grep -q 'vit.safetensors has no spec; --outputs needs a file with one: smoe convert vit.safetensors FILE.safetensors --spec SPEC.yaml writes it$' err && ! grep -q . out || fail "of outputs: $(cat out err)"
# Settings that are not known are not said to be the same.
cp vit.safetensors twin.safetensors
for pair in 'vit.safetensors twin.safetensors' 'own.safetensors vit.safetensors'; do
    status 0 smoe compare $pair >out
    grep -q '^settings  *unknown: vit.safetensors has no spec$' out && grep -q ' of [0-9]* tensors are the same$' out || fail "$(cat out)"
    status 0 smoe compare $pair --json >out
    grep -q '"settings": null' out && grep -q '"environment": {' out || fail "$(cat out)"
done
status 2 smoe convert vit.safetensors few.safetensors --experts 1 >out 2>err
grep -q 'vit.safetensors has no spec; --experts needs a file with one: smoe convert vit.safetensors FILE.safetensors --spec SPEC.yaml writes it$' err && ! grep -q . out || fail "of experts: $(cat out err)"
for line in 'width: 16' 'depth: 2' 'head: token  # a guess: not in the file' 'registers: 2' 'pre_norm: true' 'heads: 1  # a guess: not in the file' 'image_size: 16'; do
    grep -qx "  $line" implied.yaml || fail "not implied: $line: $(cat implied.yaml)"
done
cp implied.yaml predicted.yaml
sed -i '/source:/d; /path:/d; s/heads: 1 .*/heads: 2/; s/norm_eps: 1e-05 .*/norm_eps: 1e-06/' implied.yaml
[ "$(smoe eval vit.safetensors -q --spec implied.yaml data.limit=100 | sed -n 's/^loss *//p')" = \
    "$(smoe eval own.safetensors -q data.limit=100 | sed -n 's/^loss *//p')" ] || fail "another model: $(cat implied.yaml)"
status 0 smoe eval vit.safetensors --spec implied.yaml data.limit=100 >/dev/null 2>err
grep -q 'vit.safetensors: taken from the spec, because the file does not contain it: model.heads, model.head, model.norm_eps, model.gelu, the order of norms, rotary positions, data.mean, data.std$' err || fail "$(cat err)"
# Another architecture with the same names: its shapes imply no spec.
LC_ALL=C sed 's/"blocks\.1\.attn\.qkv\.weight":/"blocks.1.attn.qkx.weight":/' vit.safetensors >mixed.safetensors
status 3 smoe eval mixed.safetensors >out 2>err
grep -q 'missing: blocks.1.attn.qkv.weight' err && grep -q 'its tensors imply no spec: no model of this program has them$' err && ! grep -q . out || fail "of another architecture: $(cat out err)"
LC_ALL=C sed 's/"blocks\./"stages./g' vit.safetensors >stages.safetensors
status 3 smoe eval stages.safetensors 2>err
grep -q 'no blocks under a name that is known, so no Vision Transformer that can be read' err || fail "of one without blocks: $(cat err)"
# A configuration of transformers: what shapes do not show must agree.
mkdir saved && cp vit.safetensors saved/model.safetensors
printf '{"hidden_size": 16, "layer_norm_eps": 1e-12, "num_attention_heads": 2, "hidden_act": "gelu"}' >saved/config.json
printf '{"image_mean": [0.48, 0.46, 0.41], "image_std": [0.5, 0.5, 0.5]}' >saved/preprocessor_config.json
status 2 smoe eval saved --spec implied.yaml 2>err
grep -q 'saved/model.safetensors: config.json beside it says model.norm_eps=1e-12, and the spec has 1e-06' err || fail "$(cat err)"
status 0 smoe eval saved --spec implied.yaml model.norm_eps=1e-12 data.limit=100 >/dev/null 2>err
grep -q "trained with other pixel values: preprocessor_config.json beside it says 'data.mean=\[0.48, 0.46, 0.41\]'$" err || fail "$(cat err)"
status 2 smoe train tiny.yaml -n --init saved $keys 2>err
grep -q 'config.json beside it says model.norm_eps=1e-12' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -n --init saved --partial $keys >/dev/null
# What a configuration of transformers leaves out, its class has: of 768 and 12 heads, and of the type of the model.
while IFS='|' read -r width config eps gelu; do
    status 0 smoe init tiny.yaml sparse.safetensors -q model.moe.layers=none model.head=token model.depth=1 model.width=$width >/dev/null
    mkdir sparse && mv sparse.safetensors sparse/model.safetensors && other sparse/model.safetensors
    printf '%s' "$config" >sparse/config.json
    status 2 smoe eval sparse >out 2>/dev/null
    grep -qx "  norm_eps: $eps" out && grep -qx "  gelu: $gelu" out || fail "$config: $(cat out)"
    [ "$gelu" = "erf  # a guess: not in the file" ] || grep -qx '  heads: 12  # config.json' out || fail "$config: $(cat out)"
    rm -r sparse
done <<'E'
768|{"vision_config": {"model_type": "siglip_vision_model"}, "model_type": "siglip"}|1e-06  # config.json|tanh  # config.json
768|{"vision_config": {"model_type": "clip_vision_model"}}|1e-05  # config.json|quick  # config.json
768|{"model_type": "clip", "vision_config": {}}|1e-05  # config.json|quick  # config.json
768|{"model_type": "vit"}|1e-12  # config.json|erf  # config.json
768|{"model_type": "deit", "layer_norm_eps": 1e-3, "hidden_act": "gelu_python_tanh"}|0.001  # config.json|tanh  # config.json
48|{"model_type": "dinov2", "hidden_size": 48, "hidden_act": "gelu_accurate"}|1e-06  # config.json|tanh  # config.json
48|{"model_type": "dinov2"}|1e-06  # a guess: not in the file|erf  # a guess: not in the file
48|{"hidden_size": 48, "model_type": "another"}|1e-06  # a guess: not in the file|erf  # a guess: not in the file
E
# predict takes a spec too.
png >pixel.png
status 2 smoe predict vit.safetensors pixel.png pixel.png >out 2>err
cmp out predicted.yaml && grep -q '^smoe predict: smoe predict vit.safetensors pixel.png --spec SPEC.yaml$' err || fail "of a prediction: $(cat out err)"
status 0 smoe predict own.safetensors pixel.png --top 10 >want
status 0 smoe predict vit.safetensors pixel.png --top 10 --spec implied.yaml >out 2>err
cmp want out && grep -q 'taken from the spec, because the file does not contain it: model.heads' err || fail "of a prediction: $(cat out err)"
status 2 smoe predict saved pixel.png --spec implied.yaml 2>err
grep -q 'config.json beside it says model.norm_eps=1e-12' err || fail "$(cat err)"
# convert names what it leaves behind, and writes it into the file with the spec.
status 0 smoe convert saved plain.safetensors >/dev/null 2>err
grep -q '^plain.safetensors: without what the configuration beside saved/model.safetensors says: data.mean=\[0.48, 0.46, 0.41\], data.std=\[0.5, 0.5, 0.5\], model.heads=2, model.head=token, model.norm_eps=1e-12, model.gelu=erf. To have it' err || fail "$(cat err)"
grep -q ' smoe convert saved plain.safetensors --spec SPEC.yaml$' err || fail "$(cat err)"
status 0 smoe convert plain.safetensors plain2.safetensors >/dev/null 2>err
grep -q 'without what' err && fail "nothing is left behind: $(cat err)"
cp -r saved broken && printf '{"hidden_size": 16,' >broken/config.json
status 3 smoe convert broken broken.safetensors 2>err
grep -q 'broken/config.json:1:.*: not JSON' err && [ ! -e broken.safetensors ] || fail "$(cat err)"
said='model.norm_eps=1e-12 data.mean=[0.48,0.46,0.41] data.channels=3'
sed 's/channels: 1/channels: 3/' implied.yaml >colour.yaml
status 2 smoe convert saved whole.safetensors --spec implied.yaml 2>err
grep -q 'config.json beside it says model.norm_eps=1e-12, and the spec has 1e-06' err && [ ! -e whole.safetensors ] || fail "$(cat err)"
status 0 smoe convert saved whole.safetensors --spec colour.yaml $said >/dev/null 2>err
grep -q 'without what' err && fail "the spec is there: $(cat err)"
status 0 smoe convert saved half.safetensors --spec colour.yaml $said --type f16 --only blocks -q >out
grep -q '^half.safetensors: [0-9]* tensors, [0-9]* of them now F16, ' out || fail "$(cat out)"
status 0 smoe eval saved --spec colour.yaml $said -q data.limit=100 --logits a.npy >/dev/null
status 0 smoe eval whole.safetensors -q data.limit=100 --logits b.npy >/dev/null
status 0 smoe eval half.safetensors -q data.limit=100 >/dev/null
cmp a.npy b.npy || fail "a file with its spec is another model"
status 0 smoe verify whole.safetensors >/dev/null
status 0 smoe train tiny.yaml -n --init whole.safetensors $keys $said >/dev/null
status 2 smoe train tiny.yaml -n --init whole.safetensors $keys 2>err
grep -q 'its own spec has model.norm_eps=1e-12, and the spec has 1e-06' err || fail "$(cat err)"
# Experts of V-MoE have names of their own.
status 0 smoe init tiny.yaml experts.safetensors -q >/dev/null && other experts.safetensors
LC_ALL=C sed -i 's,"blocks\.1\.mlp\.experts\.fc1\.bias","encoderblock_1/Moe/Mlp/bbbbbb",' experts.safetensors
status 3 smoe eval experts.safetensors >out 2>err
grep -q 'experts.safetensors: tensor encoderblock_1/Moe/Mlp/b*: experts of files of V-MoE are not read$' err && ! grep -q . out || fail "$(cat out err)"
# One of timm.
printf '{"architecture": "vit_base_patch16_clip_quickgelu_224", "global_pool": "avg", "pretrained_cfg": {"crop_pct": 0.9, "interpolation": "bicubic"}}' >saved/config.json
mv saved/preprocessor_config.json .
status 2 smoe eval saved >out 2>/dev/null
grep -qx '  gelu: quick  # config.json' out && grep -qx '  registers: 3  # config.json' out && grep -qx '  norm_eps: 1e-05  # config.json' out || fail "$(cat out)"
grep -qx '  resize: bicubic  # config.json' out && grep -qx '  crop_pct: 0.9  # config.json' out || fail "$(cat out)"
# One of open_clip
printf '{"model_cfg": {"quick_gelu": true, "vision_cfg": {"width": 16, "head_width": 8}}}' >saved/open_clip_config.json
rm saved/config.json
status 2 smoe eval saved >out 2>/dev/null
grep -qx '  heads: 2  # open_clip_config.json' out || fail "$(cat out)"
# What no model of this program does: refused by the name of the model, its activation, its pooling.
refused() {
    printf '%s' "$1" >saved/config.json
    status 3 smoe eval saved 2>err
    grep -q "model.safetensors: config.json beside it says $2: no model of this program has that" err || fail "$(cat err)"
    status 3 smoe train tiny.yaml -n --init saved $keys 2>err
    grep -q "$2" err || fail "$(cat err)"
}
rm saved/open_clip_config.json
refused '{"architecture": "vit_base_patch16_rpn_224"}' 'of its model: ResPostBlock: norms behind attention and MLPs'
refused '{"architecture": "vit_base_patch16_rope_ape_224"}' 'of its model: rotary positions'
refused '{"architecture": "vit_base_patch16_224", "global_pool": "max"}' 'that it pools by max'
refused '{"hidden_size": 16, "hidden_act": "relu"}' 'that its MLPs have the function relu'
refused '{"architecture": "vit_base_patch16_224", "model_args": {"act_layer": "silu"}}' 'that its MLPs have the function silu'
refused '{"architecture": "vit_base_patch16_224", "global_pool": "avg", "model_args": {"pool_include_prefix": true}}' 'that it pools registers too'
refused '{"architecture": "eva_base", "model_args": {"use_rot_pos_emb": true}}' 'that its positions are rotary'
refused '{"architecture": "vit_base_patch16_224", "model_args": {"block_fn": "ResPostBlock"}}' 'that its blocks are ResPostBlock'
# Images that are not square, whose positions may look like a square.
for config in '"architecture": "vit_base_patch16_224", "model_args": {"img_size": [32, 8]}' \
    '"architecture": "vit_base_patch16_224", "pretrained_cfg": {"input_size": [3, 32, 8]}' '"hidden_size": 16, "image_size": [32, 8]'; do
    printf '{%s}' "$config" >saved/config.json
    status 2 smoe eval saved 2>err >out
    grep -q 'model.safetensors: config.json beside it says that its images have 32 x 8 pixels, so its positions are not of a square: give --grid 8x2$' err && ! grep -q . out || fail "$config: $(cat out err)"
    status 2 smoe train tiny.yaml -n --init saved $keys model.norm_eps=1e-5 2>err
    grep -q 'give --grid 8x2' err || fail "$config: $(cat err)"
    status 0 smoe train tiny.yaml -n --init saved --grid 8x2 $keys model.heads=1 >/dev/null 2>err
done
# The arguments of a model of timm say more than its name; words that are not understood leave a guess.
while IFS='|' read -r arguments line; do
    printf '{"architecture": "vit_base_patch16_clip_224", "global_pool": "token", "model_args": %s}' "$arguments" >saved/config.json
    status 2 smoe eval saved >out 2>/dev/null
    grep -qx "  $line" out || fail "$arguments: not $line: $(cat out)"
done <<'E'
{"pool_include_prefix": true, "act_layer": null}|gelu: erf  # config.json
{"act_layer": "gelu_tanh"}|gelu: tanh  # config.json
{"act_layer": "quick_gelu"}|gelu: quick  # config.json
{"mlp_layer": "Mlp", "block_fn": "Block", "act_layer": ""}|gelu: erf  # config.json
{"mlp_layer": "OtherMlp"}|gelu: erf  # a guess: not in the file
{"norm_layer": "layernorm"}|norm_eps: 1e-06  # config.json
{"norm_layer": "LayerNorm_fp32"}|norm_eps: 1e-06  # config.json
{"norm_layer": "layernormtf"}|norm_eps: 1e-06  # a guess: not in the file
{"block_fn": "OtherBlock"}|norm_eps: 1e-05  # a guess: not in the file
{"img_size": [24, 24]}|image_size: 16
{"img_size": [24, 24]}, "pretrained_cfg": {"input_size": [3, 24, 32]}|image_size: 16
{"embed_dim": 16}|heads: 1  # a guess: not in the file
{"embed_dim": 16, "num_heads": 2}|heads: 2  # config.json
E
# The size of images, where no position embeddings show it.
status 0 smoe init tiny.yaml placeless.safetensors -q $keys model.position=none >/dev/null
mkdir placeless && mv placeless.safetensors placeless/model.safetensors && other placeless/model.safetensors
while IFS='|' read -r config size; do
    printf '%s' "$config" >placeless/config.json
    status 2 smoe eval placeless >out 2>/dev/null
    grep -qx "  image_size: $size" out || fail "$config: $(grep image_size out)"
done <<'E'
{"architecture": "vit_base_patch16_224", "model_args": {"img_size": 24}, "pretrained_cfg": {"input_size": [3, 32, 32]}}|24  # config.json
{"architecture": "vit_base_patch16_224", "model_args": {"img_size": [24, 24]}}|24  # config.json
{"architecture": "vit_base_patch16_224", "pretrained_cfg": {"input_size": [3, 32, 32]}}|32  # config.json
{"architecture": "vit_base_patch16_224", "pretrained_cfg": {"input_size": [3, 24, 32]}}|224  # a guess: not in the file
{"hidden_size": 16, "image_size": 48}|48  # config.json
E
# Of a text tower: heads, epsilon, mask and pooling, and a function other than that of images, which no model has.
pairs='train.loss=contrastive text.context=40 text.width=16 text.heads=2 text.depth=1 text.embed=12 model.moe.layers=none model.head=token model.gelu=quick'
status 0 smoe init tiny.yaml both.safetensors -q $pairs >/dev/null
mkdir both && cp both.safetensors both/model.safetensors && other both/model.safetensors
while IFS='|' read -r file code config more said; do
    rm -f both/*.json
    printf '%s' "$config" >both/$file.json
    status $code smoe train tiny.yaml -n --init both $pairs $more >out 2>err
    [ $code -eq 0 ] || grep -qF "$file.json beside it says $said" err || fail "$config: $(cat err)"
done <<'E'
config|0|{"model_type": "clip", "vision_config": {"hidden_size": 16, "num_attention_heads": 2}, "text_config": {"eos_token_id": 257, "num_attention_heads": 2}}|model.norm_eps=1e-5|
config|0|{"model_type": "clip", "vision_config": {"hidden_size": 16, "num_attention_heads": 2}, "text_config": {"eos_token_id": 2, "num_attention_heads": 2}}|model.norm_eps=1e-5|
config|2|{"model_type": "clip", "vision_config": {"hidden_size": 16, "num_attention_heads": 2}, "text_config": {"eos_token_id": 5, "num_attention_heads": 2}}|model.norm_eps=1e-5|that texts are pooled at token 5, and with text.tokenizer=bytes and text.pad_id=0 a text ends with token 257: take the tokenizer of the file
config|2|{"model_type": "clip", "vision_config": {"hidden_size": 16, "num_attention_heads": 2}, "text_config": {"num_attention_heads": 2}}|model.norm_eps=1e-5|that texts are pooled at token 49407, and with
config|2|{"model_type": "clip", "vision_config": {"hidden_size": 16, "num_attention_heads": 2}, "text_config": {"eos_token_id": 257}}|model.norm_eps=1e-5|text.heads=8, and the spec has 2
config|2|{"model_type": "clip", "vision_config": {"hidden_size": 16, "num_attention_heads": 2}, "text_config": {"eos_token_id": 257, "num_attention_heads": 4}}|model.norm_eps=1e-5 text.heads=0|text.heads=4, and the spec has 2
config|2|{"vision_config": {"hidden_size": 16}, "text_config": {"layer_norm_eps": 0.01}}||text.norm_eps=0.01, and the spec has 1e-05
config|0|{"vision_config": {"hidden_size": 16}, "text_config": {"layer_norm_eps": 0.01}}|text.norm_eps=0.01|
config|3|{"vision_config": {"hidden_size": 16, "hidden_act": "quick_gelu"}, "text_config": {"hidden_act": "gelu"}}||that the MLPs of its text tower have the function gelu, and those of images another
config|3|{"vision_config": {"hidden_size": 16}, "text_config": {"hidden_act": "relu"}}||that the MLPs of its text tower have the function relu
config|2|{"model_type": "siglip", "vision_config": {"hidden_size": 16, "num_attention_heads": 2, "hidden_act": "quick_gelu"}, "text_config": {"num_attention_heads": 2, "hidden_act": "quick_gelu"}}||text.causal=false, and the spec has true
config|0|{"model_type": "siglip", "vision_config": {"hidden_size": 16, "num_attention_heads": 2, "hidden_act": "quick_gelu"}, "text_config": {"num_attention_heads": 2, "hidden_act": "quick_gelu"}}|text.causal=false text.pool=last text.padding=attended text.norm_eps=1e-6|
config|0|{"hidden_size": 16, "num_attention_heads": 2, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-6}|text.heads=4|
open_clip_config|0|{"model_cfg": {"quick_gelu": true, "vision_cfg": {}, "text_cfg": {"heads": 2}}}|model.norm_eps=1e-5|
open_clip_config|2|{"model_cfg": {"quick_gelu": true, "vision_cfg": {}, "text_cfg": {}}}|model.norm_eps=1e-5|text.heads=8, and the spec has 2
open_clip_config|2|{"model_cfg": {"quick_gelu": true, "vision_cfg": {}, "text_cfg": {"heads": 2, "no_causal_mask": true}}}|model.norm_eps=1e-5|text.causal=false, and the spec has true
open_clip_config|2|{"model_cfg": {"quick_gelu": true, "vision_cfg": {}, "text_cfg": {"heads": 2, "pool_type": "eos"}}}|model.norm_eps=1e-5|that texts are pooled at token 2, and with
open_clip_config|0|{"model_cfg": {"quick_gelu": true, "vision_cfg": {}, "text_cfg": {"heads": 2, "pool_type": "eos", "eos_id": 257}}}|model.norm_eps=1e-5|
open_clip_config|2|{"model_cfg": {"quick_gelu": true, "vision_cfg": {}, "text_cfg": {"heads": 2, "pool_type": "last"}}}|model.norm_eps=1e-5|text.pool=last, and the spec has end
open_clip_config|2|{"model_cfg": {"quick_gelu": true, "vision_cfg": {}, "text_cfg": {"heads": 2, "norm_kwargs": {"eps": 0.01}}}}|model.norm_eps=1e-5|text.norm_eps=0.01, and the spec has 1e-05
open_clip_config|3|{"model_cfg": {"vision_cfg": {}, "text_cfg": {"heads": 2, "act_kwargs": {"approximate": "tanh"}}}}|model.norm_eps=1e-5 model.gelu=erf|that the MLPs of its text tower have the function gelu_tanh, and those of images another
E
# The token of the padding, where texts attend to it.
attended='text.causal=false text.pool=last text.padding=attended model.norm_eps=1e-5'
for config in 'config|{"vision_config": {"hidden_size": 16}, "text_config": {"pad_token_id": 1}}' 'open_clip_config|{"model_cfg": {"quick_gelu": true, "vision_cfg": {}, "text_cfg": {"heads": 2, "no_causal_mask": true, "pool_type": "last", "pad_id": 1}}}'; do
    rm -f both/*.json
    printf '%s' "${config#*|}" >both/${config%%|*}.json
    status 2 smoe train tiny.yaml -n --init both $pairs $attended 2>err
    grep -q 'beside it says text.pad_id=1, and the spec has 0' err || fail "$config: $(cat err)"
    status 0 smoe train tiny.yaml -n --init both $pairs $attended text.pad_id=1 >/dev/null 2>err
done
status 0 smoe init tiny.yaml padded.safetensors -q $pairs $attended >/dev/null
status 2 smoe train tiny.yaml -n --init padded.safetensors $pairs $attended text.pad_id=5 2>err
grep -q 'its own spec has text.pad_id=0, and the spec has 5' err || fail "$(cat err)"
# The end token is not the highest id of a text where the padding is above it.
above='text.vocabulary=300 text.pad_id=258 text.causal=false text.padding=attended model.norm_eps=1e-5'
status 0 smoe init tiny.yaml above.safetensors -q $pairs $above >/dev/null
mkdir above && mv above.safetensors above/model.safetensors && other above/model.safetensors
printf '{"model_cfg": {"quick_gelu": true, "vision_cfg": {}, "text_cfg": {"heads": 2, "no_causal_mask": true, "pad_id": 258}}}' >above/open_clip_config.json
status 2 smoe train tiny.yaml -n --init above $pairs $above 2>err
grep -q 'texts are pooled at the highest id in a text, and with text.tokenizer=bytes and text.pad_id=258 a text ends with token 257, which may not be its highest: take' err || fail "$(cat err)"
# Without a configuration, keys of the text tower are taken from the spec as well.
rm -f both/*.json
status 0 smoe train tiny.yaml $pairs train.steps=1 data.limit=20 --init both -o of-both >/dev/null 2>err
grep -q 'does not contain it: .*model.gelu, text.heads, text.causal, text.padding, text.pool, text.norm_eps, the order of norms' err || fail "keys of texts: $(cat err)"
# Its function does not matter where texts are not read, and no more does the tower where the file has none.
printf '{"vision_config": {"hidden_size": 16}, "text_config": {"hidden_act": "relu"}}' >both/config.json && rm both/open_clip_config.json
status 2 smoe eval both >out 2>/dev/null
grep -qx '  width: 16' out || fail "$(cat out)"
cp vit.safetensors both/model.safetensors
printf '{"vision_config": {"hidden_size": 16}, "text_config": {"num_attention_heads": 4}}' >both/config.json
status 0 smoe train tiny.yaml -n --init both $pairs model.pre_norm=true model.registers=2 >/dev/null 2>err
status 2 smoe train tiny.yaml -n --init both.safetensors $pairs text.heads=4 2>err
grep -q 'both.safetensors: its own spec has text.heads=2, and the spec has 4; --partial' err || fail "$(cat err)"
# Another head than the configuration says.
printf '{"architecture": "vit_base_patch16_224", "global_pool": "avg", "model_args": {"num_heads": 2}}' >saved/config.json
status 2 smoe eval saved --spec implied.yaml data.limit=100 2>err
grep -q 'config.json beside it says model.head=gap, and the spec has token' err && grep -q 'model.registers=3, and the spec has 2' err || fail "$(cat err)"
# How images become squares.
printf '{"size": {"height": 224, "width": 224}, "resample": 3}' >saved/preprocessor_config.json
status 2 smoe eval saved >out 2>/dev/null
grep -qx '  fit: squash  # preprocessor_config.json' out && grep -qx '  resize: bicubic  # preprocessor_config.json' out || fail "$(cat out)"
# ViT; DeiT; BEiT, whose crop is off; CLIP; DINOv2; the first ones also as older files have them.
while IFS='|' read -r config fit share; do
    echo "$config" >saved/preprocessor_config.json
    status 2 smoe eval saved >out 2>/dev/null
    [ "$(sed -n 's/^  fit: \([a-z]*\)  # preprocessor_config.json/\1/p' out)" = "$fit" ] || fail "fit, $config: $(cat out)"
    [ "$(sed -n 's/^  crop_pct: \([0-9.]*\)  # preprocessor_config.json/\1/p' out)" = "$share" ] || fail "crop_pct, $config: $(cat out)"
done <<'E'
{"size": 224}|squash|
{"size": {"height": 224, "width": 224}, "crop_size": null, "do_center_crop": null}|squash|
{"size": 256, "crop_size": 224, "do_center_crop": true}|squash|0.875
{"size": {"height": 256, "width": 256}, "crop_size": {"height": 224, "width": 224}, "do_center_crop": true}|squash|0.875
{"size": {"height": 224, "width": 224}, "crop_size": {"height": 192, "width": 192}, "do_center_crop": false}|squash|
{"size": 224, "crop_size": 224, "do_center_crop": true, "feature_extractor_type": "CLIPFeatureExtractor"}||
{"size": 256, "crop_size": 224, "image_processor_type": "CLIPImageProcessor"}||0.875
{"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}, "do_center_crop": true}||0.875
{"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}, "do_center_crop": false}||
{"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}}||0.8888888888888888
{"size": {"shortest_edge": 37}, "crop_size": {"height": 32, "width": 32}}||0.8648648648648649
{"size": {"shortest_edge": 93}, "crop_size": {"height": 32, "width": 32}}||0.3440860215053763
E
# All sizes come back from the share, rounded down as images are resized.
for whole in 9 36 37 93 256 330 517; do
    for side in 8 32 224; do
        [ $side -lt $whole ] && [ $((10 * side)) -gt $whole ] || continue
        printf '{"size": {"shortest_edge": %s}, "crop_size": %s}' $whole $side >saved/preprocessor_config.json
        share=$(smoe eval saved 2>/dev/null | sed -n 's/^  crop_pct: \([0-9.]*\)  # .*/\1/p')
        [ "$(awk "BEGIN { print int($side / $share) }")" = $whole ] || fail "$side of $whole: $share"
    done
done
# Filters that smoe lacks, by number in transformers and by name in timm.
while read -r number name nearest; do
    printf '{"resample": %s}' $number >saved/preprocessor_config.json
    status 2 smoe eval saved >out 2>/dev/null
    grep -qx "  resize: $nearest  # preprocessor_config.json says $name, which smoe lacks" out || fail "resample $number: $(grep resize out)"
    printf '{"architecture": "vit_base_patch16_224", "pretrained_cfg": {"interpolation": "%s"}}' $name >saved/config.json
    rm saved/preprocessor_config.json
    status 2 smoe eval saved >out 2>/dev/null
    grep -qx "  resize: $nearest  # config.json says $name, which smoe lacks" out || fail "$name: $(grep resize out)"
done <<'E'
0 nearest bilinear
1 lanczos bicubic
4 box bilinear
5 hamming bilinear
E
for none in '{}' '{"resample": 6}' '{"resample": "lanczos"}'; do
    echo "$none" >saved/preprocessor_config.json && echo '{}' >saved/config.json
    status 2 smoe eval saved >out 2>/dev/null
    ! grep -q resize out || fail "$none: $(grep resize out)"
done
# How pixels become numbers: (x f + o - mean)/std of transformers as (x/255 - m)/s.
while IFS='|' read -r config mean std; do
    printf '%s' "$config" >saved/preprocessor_config.json
    status 2 smoe eval saved >out 2>/dev/null
    grep -qxF "  mean: $mean  # preprocessor_config.json" out && grep -qxF "  std: $std  # preprocessor_config.json" out || fail "$config: $(cat out)"
done <<'END'
{"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], "rescale_factor": 0.00392156862745098}|[0.4, 0.5, 0.6]|[0.2, 0.3, 0.4]
{"image_mean": 0.4, "image_std": 0.2}|0.4|0.2
{"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], "do_normalize": false}|0|1
{"image_mean": [102, 127.5, 153], "image_std": [51, 51, 51], "do_rescale": false}|[0.4, 0.5, 0.6]|[0.2, 0.2, 0.2]
{"image_mean": [0.4, 0.4, 0.4], "image_std": [0.2, 0.2, 0.2], "rescale_factor": 0.00784313725490196}|[0.2, 0.2, 0.2]|[0.1, 0.1, 0.1]
{"image_mean": [0, 0, 0], "image_std": [1, 1, 1], "rescale_factor": 0.00784313725490196, "rescale_offset": true}|[0.5, 0.5, 0.5]|[0.5, 0.5, 0.5]
END
rm saved/preprocessor_config.json
for mode in squash:squash border:'border  # config.json, with the colour of its mean'; do
    printf '{"architecture": "vit_base_patch16_224", "pretrained_cfg": {"crop_mode": "%s", "crop_pct": 0.9}}' "${mode%%:*}" >saved/config.json
    status 2 smoe eval saved >out 2>/dev/null
    grep -q "^  fit: ${mode#*:}" out && [ "$(grep -c 'crop_pct: 0.9' out)" = "$([ "${mode%%:*}" = squash ] && echo 1 || echo 0)" ] || fail "$mode: $(cat out)"
done
# A norm behind the pooling does not say what is pooled, where there is a class token; a configuration does.
mkdir normed && cp vit.safetensors normed/model.safetensors
LC_ALL=C sed -i 's/"norm\.weight":/"fc_norm.weight":/; s/"norm\.bias":/"fc_norm.bias":/; s/"some\.spec":/"s.spec":/; s/"some\.version":/"s.version":/' normed/model.safetensors
status 2 smoe eval normed >out 2>/dev/null
grep -qx '  head: gap-norm  # a guess: not in the file' out && grep -qx '  registers: 3' out || fail "$(cat out)"
printf '{"architecture": "vit_base_patch16_224", "global_pool": "avg"}' >normed/config.json
status 2 smoe eval normed >out 2>/dev/null
grep -qx '  head: gap-norm  # config.json' out || fail "$(cat out)"
# The pixels of a single channel, as a list of one.
status 0 smoe init tiny.yaml grey.safetensors -q $keys data.channels=1 >/dev/null
mkdir grey && mv grey.safetensors grey/model.safetensors && other grey/model.safetensors
printf '{"image_mean": [0.1307], "image_std": [0.3081]}' >grey/preprocessor_config.json
status 2 smoe eval grey >out 2>/dev/null
grep -qx '  mean: 0.1307  # preprocessor_config.json' out && grep -qx '  std: 0.3081  # preprocessor_config.json' out || fail "$(cat out)"
cp grey/preprocessor_config.json saved && rm -f saved/config.json
status 2 smoe eval saved >out 2>/dev/null
! grep -q 0.1307 out || fail "$(cat out)"
# GELU and heads by the name of a model of timm.
printf '{"architecture": "vit_giantopt_patch16_siglip_256"}' >saved/config.json
status 2 smoe eval saved >out 2>/dev/null
grep -qx '  gelu: tanh  # config.json' out && grep -qx '  heads: 16  # config.json' out || fail "$(cat out)"
# A configuration that is cut off is not absent: its keys would be guessed.
for text in '' '{"hidden_act": "gelu_new",'; do
    printf '%s' "$text" >saved/config.json
    for command in "eval saved" "eval saved --spec tiny.yaml" "train tiny.yaml -n --init saved $keys"; do
        status 3 smoe $command -q >out 2>err
        grep -q 'saved/config.json:1:[0-9]*: not JSON: .* near end of file$' err && [ ! -s out ] || fail "$text: $command: $(cat out err)"
    done
    smoe train tiny.yaml -n -q --init saved --partial $keys >out 2>err || fail "--partial: $(cat err)"
done
# A pipe without a writer, which would be waited for, is no configuration, and neither is one in a run.
rm saved/config.json && mkfifo saved/config.json
status 2 timeout 60 smoe eval saved >out 2>/dev/null
status 0 smoe train tiny.yaml -q train.steps=2 -o run >/dev/null
rm run/env.json && mkfifo run/env.json
for command in "compare run run" "inspect run -q"; do status 0 timeout 60 smoe $command >/dev/null; done
# A model of this program has a spec: what its tensors do not show must be as there, if it acts in both.
status 2 smoe train tiny.yaml -n --init own.safetensors $keys model.heads=4 model.gelu=tanh 2>err
grep -q 'own.safetensors: its own spec has model.heads=2, and the spec has 4; --partial takes the weights all the same$' err || fail "$(cat err)"
grep -q 'its own spec has model.gelu=erf, and the spec has tanh' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -n --init own.safetensors --partial $keys model.heads=4 >/dev/null
status 0 smoe init tiny.yaml soft.safetensors -q >/dev/null
status 2 smoe sweep tiny.yaml --init soft.safetensors model.moe.scale_form=plain,exp -n 2>err
grep -q 'its own spec has model.moe.scale_form=plain, and the spec has exp' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -q --init soft.safetensors data.mean=0.3 train.steps=2 -o other 2>/dev/null >/dev/null
grep -q "soft.safetensors: trained with other pixel values: its own spec has 'data.mean=0.5'$" other/log.txt || fail "$(cat other/log.txt)"
status 0 smoe train tiny.yaml -q --init soft.safetensors 'data.mean=[0.5, 0.5, 0.5]' train.steps=2 -o same >/dev/null
grep -q 'other pixel values' same/log.txt && fail "$(cat same/log.txt)"
status 0 smoe eval soft.safetensors data.std=0.3 2>err >/dev/null
grep -q "^soft.safetensors: trained with other pixel values: its own spec has 'data.std=0.5'$" err || fail "$(cat err)"
status 0 smoe eval soft.safetensors data.std=0.5 2>err >/dev/null
grep -q 'other pixel values' err && fail "$(cat err)"
# So must the way of its positions, which has no tensors, and the weights of the choices; also with --spec, where the remedy is another.
for position in sincos2d none; do sed "s/^model:/model:\n  position: $position/" tiny.yaml >$position.yaml; done
status 0 smoe init sincos2d.yaml sincos.safetensors -q >/dev/null
for command in "eval sincos.safetensors" "convert sincos.safetensors x.onnx --onnx" "soup sincos.safetensors sincos.safetensors"; do
    status 2 smoe $command --spec none.yaml -q 2>err
    grep -q 'its own spec has model.position=sincos2d, and the spec has none; without --spec its own is used$' err || fail "$command: $(cat err)"
    status 0 smoe $command --spec sincos2d.yaml -q >/dev/null 2>err
done
choice="tiny.yaml -q model.moe.router=tokens-choice model.moe.k=2 model.moe.capacity=2"
status 0 smoe init $choice choice.safetensors model.moe.renormalize=true >/dev/null
status 2 smoe train $choice -n --init choice.safetensors 2>err
grep -q 'its own spec has model.moe.renormalize=true, and the spec has false; --partial' err || fail "$(cat err)"
status 0 smoe train $choice -n --init choice.safetensors model.moe.renormalize=true >/dev/null
