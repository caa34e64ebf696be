"""Models of timm, transformers, torchvision and open_clip with random weights, as their libraries save them: the logits of smoe are
compared with theirs.

    foreign_models.py [all]      a row per model: equal, with the largest difference over the largest logit, or refused with the reason

Works in the current folder, with smoe on the PATH; exits with 1 if the logits of a model differ, or one of the few is refused that
LACKS does not name. `all`: every Vision Transformer that timm has, small, instead of a few. Libraries that are missing are left out,
and named.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import warnings

import numpy as np
import torch
from PIL import Image

warnings.filterwarnings("ignore")
os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")
torch.manual_seed(0)
draw = np.random.default_rng(0)
EVERY = sys.argv[1:] == ["all"]
# Of the few: what no model of smoe is.
LACKS = "distilled|rpn|silu|include_prefix|eva02|timm beit|rope|dinov3|transformers Dinov2|transformers CLIP"
CLASSES, SMALL, failures = 5, "{width: 128, depth: 2, mlp: %d, heads: 2, patch_size: 8, variant: none, moe: {layers: none}, %s}", []


def images(side):
    """A folder of one image per class, and its pixels in [-1, 1]."""
    folder = f"images{side}"
    path = [f"{folder}/test/c{c}/0.png" for c in range(CLASSES)]
    for one in path:
        if not os.path.exists(one):
            os.makedirs(os.path.dirname(one))
            Image.fromarray(draw.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(one)
    return folder, torch.stack([torch.from_numpy(np.array(Image.open(p)).transpose(2, 0, 1) / 127.5 - 1).float() for p in path])


def randomize(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim < 2 or re.search("gamma|token$|pos", name):
                p.add_(0.3 * torch.randn_like(p)) if "logit" not in name else None
            else:
                p.copy_(torch.randn_like(p) / max(1, p[0].numel()) ** 0.5)
    return model.eval()


def smoe(*arguments):
    return subprocess.run(["smoe", "eval", *arguments], capture_output=True, text=True)


def row(name, text, wrong=False):
    print(f"{name:50} {text}", flush=True)
    failures.extend([name] if wrong else [])


def refused(name, done):
    row(name, "refused: " + done.stderr.strip().splitlines()[-1].split(": ", 2)[-1][:110], not EVERY and not re.search(LACKS, name))


def compare(name, file, side, want, spec=None, keys=()):
    """With the spec that the file implies, or `spec`; its guesses are what `keys` say."""
    if spec is None:
        implied = smoe(file)
        if implied.returncode == 3:
            return refused(name, implied)
        spec = implied.stdout
        keys = (f"data.path={images(side)[0]}", "data.fit=crop", "data.crop_pct=1", "data.resize=bilinear", "data.mean=0.5", "data.std=0.5",
                *keys)
    with open("spec.yaml", "w") as out:
        out.write(spec)
    done = smoe(file, "--spec", "spec.yaml", "-q", "-f", "--logits", "logits.npy", "eval.order=file", *keys)
    if done.returncode:
        return refused(name, done)
    difference = abs(np.load("logits.npy") - want.numpy()).max() / max(1, abs(want).max().item())
    row(name, f"{'equal' if difference < 1e-5 else 'WRONG'} {difference:.1e}", not difference < 1e-5)


def of_timm():
    import timm
    from timm.models._hub import save_for_hf

    few = """vit_base_patch16_224 vit_base_patch32_clip_quickgelu_224 vit_base_patch16_siglip_224 vit_base_patch16_siglip_gap_224
        vit_small_patch14_dinov2 vit_small_patch14_reg4_dinov2 deit3_small_patch16_224 deit_base_distilled_patch16_224 vit_base_patch16_rpn_224
        vit_medium_patch16_gap_256 vit_so400m_patch16_siglip_256 vit_giantopt_patch16_siglip_256 eva02_tiny_patch14_224 beit_base_patch16_224
        vit_base_patch16_rope_224 vit_little_patch16_reg4_gap_256 vit_base_patch8_224 vit_small_patch16_dinov3""".split()
    names = [n for n in timm.list_models() if re.match("vit_|deit|flexivit|eva|beit", n)] if EVERY else few
    clip = "vit_base_patch32_clip_224"
    changed = [("vit_base_patch16_224", {"act_layer": "gelu_tanh"}), ("vit_base_patch16_224", {"act_layer": "quick_gelu"}),
               ("vit_base_patch16_224", {"act_layer": "silu"}), (clip, {"norm_layer": "layernorm"}), (clip, {"norm_layer": "layernormfp32"}),
               (clip, {"reg_tokens": 1, "global_pool": "avg", "pool_include_prefix": True})]
    for name, more in [(name, {}) for name in names] + changed:
        label = " ".join(("timm", name, *(f"{k}={v}" for k, v in more.items())))
        patch = int(re.search(r"patch(\d+)", name).group(1)) if "patch" in name else 16
        try:
            model = timm.create_model(name, img_size=2 * patch, embed_dim=128, depth=2, num_heads=2, num_classes=CLASSES, **more)
        except (AssertionError, TypeError, RuntimeError, ValueError) as error:
            row(label, f"not made: {str(error)[:80]}")
            continue
        shutil.rmtree("saved", ignore_errors=True)
        save_for_hf(randomize(model), "saved", model_args={"num_heads": 2, **more})
        with torch.no_grad():
            compare(label, "saved", 2 * patch, model(images(2 * patch)[1]))


def of_transformers():
    import transformers as hf

    hf.utils.logging.disable_progress_bar()
    size = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256, image_size=32, patch_size=8)
    for kind, more in (("ViT", {}), ("ViT", {"layer_norm_eps": 1e-6, "hidden_act": "gelu_new"}), ("ViT", {"qkv_bias": False}), ("DeiT", {}),
                       ("Dinov2", {}), ("Dinov2WithRegisters", {"num_register_tokens": 3}), ("Siglip", {}), ("CLIP", {}), ("Beit", {}),
                       ("DINOv3ViT", {}), ("ViTMSN", {}), ("IJepa", {}), ("Data2VecVision", {})):
        made = getattr(hf, kind + "Config", None)
        model = getattr(hf, kind + "ForImageClassification", None)
        label = " ".join(("transformers", kind, *(f"{k}={v}" for k, v in more.items())))
        if not made or not model:
            row(label, "not in this version")
            continue
        if kind in ("Siglip", "CLIP"):
            vision = {**size, **({} if kind == "CLIP" else {"vision_use_head": True})}
            config = made(vision_config=vision, text_config=dict(size, vocab_size=300), num_labels=CLASSES)
        else:
            config = made(**size, **more, num_labels=CLASSES, **({"mlp_ratio": 2} if "Dino" in kind else {}))
        model = randomize(model(config))
        shutil.rmtree("saved", ignore_errors=True)
        model.save_pretrained("saved")
        torch.save(model.state_dict(), "saved.pth")
        with torch.no_grad():
            want = model(images(32)[1]).logits
        compare(label, "saved", 32, want)
        if kind in ("ViT", "Siglip"):
            saved = json.load(open("saved/config.json"))
            saved = saved.get("vision_config", saved)
            gelu = "erf" if saved["hidden_act"] == "gelu" else "tanh"
            compare(label + ", .pth", "saved.pth", 32, want, keys=("model.heads=2", f"model.norm_eps={saved['layer_norm_eps']}",
                                                                  f"model.gelu={gelu}"))


def of_torchvision():
    from torchvision.models import VisionTransformer

    model = randomize(VisionTransformer(32, 8, 2, 2, 128, 256, num_classes=CLASSES))
    with torch.no_grad():
        want = model(images(32)[1])
    for form, state in (("", model.state_dict()), (" in DDP's names", {"module." + k: v for k, v in model.state_dict().items()}),
                        (" of the ImageNet example", {"epoch": 1, "state_dict": model.state_dict(), "best_acc1": torch.tensor(1.0)})):
        torch.save(state, "vision.pth")
        compare("torchvision" + form, "vision.pth", 32, want, keys=("model.heads=2",))


def of_open_clip():
    from functools import partial

    import open_clip
    import timm
    from open_clip.transformer import TextTransformer
    from safetensors.torch import save_file
    from torch import nn

    names, context, template = ["It's", "Red fox!", "a.cat", "dog", "zoo"], 40, "A {}, isn't it."
    with tarfile.open("clip-test.tar", "w") as tar:
        for i, name in enumerate(names):
            for ending, data in ("png", open(f"images32/test/c{i}/0.png", "rb").read()), ("cls", name.encode()), ("txt", b"caption"):
                with open("member", "wb") as member:
                    member.write(data)
                tar.add("member", f"{i}.{ending}")
    shutil.copy("clip-test.tar", "clip-train.tar")

    def tokens(clean, pad):
        texts = [(open_clip.tokenizer.get_clean_fn(clean) if clean else str)(template.format(name)).encode() for name in names]
        return torch.tensor([[256, *text, 257, *[pad] * (context - 2 - len(text))] for text in texts])

    def check(name, model, clean, pad, head, text):
        randomize(model)
        save_file({k: v.clone().contiguous() for k, v in model.state_dict().items()}, "clip.safetensors")
        with torch.no_grad():
            image = model.encode_image(images(32)[1], normalize=True)
            want = model.logit_scale.exp() * image @ model.encode_text(tokens(clean, pad), normalize=True).T
            want = want if model.logit_bias is None else want + model.logit_bias
        compare("open_clip " + name, "clip.safetensors", 32, want,
                "data: {source: webdataset, path: 'clip-{split}.tar', image_size: 32, mean: 0.5, std: 0.5}\neval: {batch_size: 5}\nmodel: "
                + SMALL % (512, head) + f"\ntext: {{width: 64, depth: 2, context: {context}, {text}}}\n", (f'eval.zeroshot=["{template}"]',))

    for quick in (True, False):
        model = open_clip.model.CLIP(16, dict(image_size=32, patch_size=8, width=128, layers=2),
                                     dict(context_length=context, vocab_size=258, width=64, heads=1, layers=2), quick_gelu=quick)
        check(f"CLIP{' with quick GELU' if quick else ''}", model, None, 0,
              f"head: token, pre_norm: true, norm_eps: 1e-5, gelu: {'quick' if quick else 'erf'}",
              "heads: 1, embed: 16}\ntrain: {loss: contrastive")

    class Visual(nn.Module):
        def __init__(self, gelu):
            super().__init__()
            self.trunk = timm.create_model("vit_base_patch16_siglip_224", img_size=32, patch_size=8, embed_dim=128, depth=2, num_heads=2,
                                           num_classes=0, act_layer=gelu)

        def forward(self, x):
            return self.trunk(x)

    for bias in (True, False):
        for theirs, ours in (("last", "last"), ("argmax", "end")):
            gelu = partial(nn.GELU, approximate="tanh")
            model = open_clip.model.CustomTextCLIP.__new__(open_clip.model.CustomTextCLIP)
            nn.Module.__init__(model)
            model.output_dict, model.visual = False, Visual(gelu)
            model.text = TextTransformer(context_length=context, vocab_size=258, width=64, heads=2, layers=2, output_dim=128, pad_id=1,
                                         no_causal_mask=True, proj_bias=bias, proj_type="linear", pool_type=theirs,
                                         norm_layer=partial(nn.LayerNorm, eps=1e-6), act_layer=gelu)
            model.logit_scale, model.logit_bias = nn.Parameter(torch.tensor(2.3)), nn.Parameter(torch.tensor(-10.0))
            check(f"SigLIP, pooled {ours}, {'with' if bias else 'without'} a bias", model, "canonicalize", 1, "head: map, gelu: tanh",
                  f"heads: 2, causal: false, padding: attended, pad_id: 1, pool: {ours}, norm_eps: 1e-6, embed_bias: {str(bias).lower()}, "
                  "clean: canonicalize}\ntrain: {loss: contrastive-sigmoid")


if __name__ == "__main__":
    images(32)
    for part in (of_timm, of_transformers, of_torchvision, of_open_clip):
        try:
            part()
        except ImportError as error:
            row(part.__name__[3:], f"left out: {error}")
    sys.exit(f"{len(failures)} models have other logits or are refused: {', '.join(failures)}" if failures else 0)
