# Prints a random spec as overrides of tiny.yaml, one per line: awk -v seed=N -f random_spec.awk lib/spec/routers.def. The routers and their
# keys are those of the table; the values of each key stand below, so that a new key of a router needs a line here. Not every spec is valid.
function random() { state = 16807 * state % 2147483647; return state / 2147483647 } # Park and Miller's: the same with every awk
function pick(list,    n, a) { n = split(list, a, " "); return a[1 + int(random() * n)] }
function maybe(share, key, list) { if (random() < share) print key "=" pick(list) }
function each_layer(list,    i, all) { for (i = 1; i <= layers; i++) all = all (i > 1 ? "," : "") pick(list); return "[" all "]" }
BEGIN {
    state = seed * 7919 + 1
    for (i = 0; i < 9; i++) random()
    value["experts"] = "2 3 4 5"; value["slots_per_expert"] = "0 1 2 3"; value["total_slots"] = "-" # slots_per_expert says it
    value["capacity"] = "0.3 1 1.5 3 [0.5_1_8]"; value["k"] = "1 2 [1_2]"
    value["normalize"] = "false"; value["l2_eps"] = "vmoe"; value["soft_noise"] = "0.5"; value["phi_std"] = "0.5"
    value["scale_init"] = "sqrt_d 5"; value["scale_form"] = "exp"; value["temperature_init"] = "0.1 3"; value["combine"] = "entmax"
    value["topk"] = "before"; value["gate"] = "sigmoid"; value["renormalize"] = "true"; value["noise"] = "0 3"; value["gate_std"] = "1"
    value["balance"] = "none bias"; value["balance_rate"] = "0.1"; value["aux_weight"] = "0 1"; value["aux_over"] = "batch"
    value["z_weight"] = "0.1"; value["superclasses"] = "-" # needs a list of them
    value["capacity_rounding"] = "ceil"; value["capacity_multiple_of"] = "2 4"; value["group_images"] = "1 2 4 8 16"
    value["priority"] = "bpr bpr-sum random patch-expert learnt learnt-sigmoid"; value["skip_patch"] = "0.3"
    value["random_layers"] = "all last-1"; value["random_scores"] = "permuted"; value["experts_init"] = "shared"
    value["l1_init"] = "1e-3"; value["l1_factor"] = "3"; value["transport_steps"] = "5"
}
/^ROUTER\(/ { split($0, part, "\""); name[++routers] = part[2] }
routers && /^ *"[a-z0-9_ ]*"*\)*$/ { split($0, part, "\""); keys[routers] = keys[routers] part[2] } # the last argument
END {
    router = 1 + int(random() * routers)
    depth = 1 + int(random() * 3)
    layers = random() < 0.5 ? depth : 1
    print "model.depth=" depth
    print "model.moe.layers=" (layers == depth ? "all" : pick("last-1 [0]"))
    print "model.moe.router=" name[router]
    n = split(keys[router], key, " ")
    for (i = 1; i <= n; i++) {
        if (!(key[i] in value)) { print "random_spec.awk: give values for " key[i] >"/dev/stderr"; exit 1 }
        if (value[key[i]] == "-" || random() > (key[i] == "experts" ? 1 : 0.25)) continue
        v = pick(value[key[i]])
        if (v ~ /^\[/) { gsub(/[][]/, "", v); gsub(/_/, " ", v); v = each_layer(v) }
        print "model.moe." key[i] "=" v
    }
    maybe(0.2, "model.moe.shared_experts", "1 2"); maybe(0.2, "model.moe.universal_experts", "1")
    maybe(0.2, "model.moe.expert_mlp", "7 20"); maybe(0.2, "model.moe.mix_precision", "bf16")
    maybe(0.4, "model.head", "token map gap-norm"); maybe(0.4, "model.registers", "1 3 7 9"); maybe(0.3, "model.position", "sincos2d none")
    maybe(0.2, "model.pre_norm", "true"); maybe(0.2, "model.gelu", "tanh quick"); maybe(0.2, "model.qk_norm", "true")
    maybe(0.2, "model.dropout", "0.1"); maybe(0.2, "model.drop_path", "0.2")
    maybe(0.3, "train.optimizer.name", "sgd adafactor"); maybe(0.3, "train.ema", "0.5"); maybe(0.2, "train.pieces", "2")
    maybe(0.3, "train.precision", "bf16 bf16x3"); maybe(0.3, "train.loss", "sigmoid"); maybe(0.2, "train.shard_bytes", "4000")
    maybe(0.3, "data.augment.flip", "true"); maybe(0.3, "data.augment.mixup", "0.4"); maybe(0.2, "data.mean", "0.3")
    maybe(0.6, "eval.batch_size", "3 10 16"); maybe(0.2, "eval.order", "file"); maybe(0.2, "eval.precision", "f32 bf16")
}
